/*
 * The values that a program reads from a kernel's result, chosen by the kernel's name. A test of "all" is true, a test
 * of "any" is false, and numbers are finite. A condition selects a share of the elements ($SOFTGPU_SELECTED). After
 * each launch the driver gets the value, which the same thread's next read-back returns (driver/values.c). The names
 * are those of device functions, which compiled code registers; all are PyTorch's and CUB's.
 */
#include "softgpu/runtime/answers.h"
#include "softgpu/runtime/kernels.h"
#include "softgpu/runtime/runtime.h"
#include "softgpu/runtime/truths.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "softgpu/driver_function.h"
#include "softgpu/softgpu.h"

/* The kind of a kernel's result, by its name. */
enum answer {
    OTHER = 1, /* all other kernels, comparisons too: false or zero */
    COMPARES,  /* comparison with a number: true only if the test is that nothing is negative */
    HOLDS,
    ALL, /* a reduction of booleans. If the booleans are unknown (truths.c), ALL is true and ANY is false */
    ANY,
    ADDS,          /* adds a number to a value in memory, which counts as zero */
    NEGATES,       /* the opposite of the last kernel's result on this thread */
    KEEPS,         /* keeps the last kernel's result */
    COPIES,        /* the same, unless that result has another address: PyTorch's any() of one number is a copy */
    SELECTS,       /* the number of selected elements; an argument gives the number of all */
    ADDS_SELECTED, /* the same; CUB's second pass */
    FINDS          /* a pair: a boolean, true, and a position, 0 */
};

/* A name must contain both parts. Vectorized and unrolled elementwise kernels take equal arguments. Isfinite ends with
 * a product of booleans. NonZeroOp counts elements for nonzero() and for masks. */
static const struct {
    const char *parts[2];
    enum answer answer;
    int elements; /* position of the argument that has the number of elements */
} known[] = {
    {{"reduce_kernel", "15and_kernel_cuda"}, ALL, 0},
    {{"reduce_kernel", "14or_kernel_cuda"}, ANY, 0},
    {{"Functor", "MulFunctorIbE"}, HOLDS, 0},
    {{"ed_elementwise_kernel", "compare_scalar_kernelI"}, COMPARES, 0},
    {{"ed_elementwise_kernel", "CUDAFunctorOnSelf_addI"}, ADDS, 0},
    {{"bitwise_not_kernel", ""}, NEGATES, 0},
    {{"logical_not_kernel", ""}, NEGATES, 0},
    {{"BitwiseAndFunctorIbE", ""}, KEEPS, 0},
    {{"BitwiseOrFunctorIbE", ""}, KEEPS, 0},
    {{"logical_and_kernel", ""}, KEEPS, 0},
    {{"logical_or_kernel", ""}, KEEPS, 0},
    {{"direct_copy_kernel", ""}, COPIES, 0},
    {{"educe", "__find_if"}, FINDS, 0},
    {{"DeviceReduce", "NonZeroOp"}, SELECTS, 2},
    {{"DeviceReduceByKeyKernel", "run_length_encode"}, SELECTS, 9},
    {{"DeviceReduceByKeyKernel", "3rle6encode"}, SELECTS, 9},
    {{"DeviceUniqueByKeySweepKernel", ""}, SELECTS, 7},
    {{"DeviceReduceSingleTileKernel", ""}, ADDS_SELECTED, 0},
    {{"DeviceSelectSweepKernel", ""}, SELECTS, 7},
    {{"__unique11UniqueAgent", ""}, SELECTS, 4},
};

static __typeof__(softgpu_expect) *expect;
static double share = 0.5;
/* The result of the last kernel that this thread launched. */
static __thread bool truth;
static __thread uint64_t truth_at; /* its address; 0: unknown */
static __thread uint64_t selected;

/* Derives a kernel's facts from its name. */
static void look_at_name(struct softrt_kernel *kernel)
{
    kernel->answer = OTHER;
    kernel->follow = softrt_follow_of(kernel->name);
    for (size_t i = 0; i < sizeof known / sizeof *known && kernel->answer == OTHER; i++) {
        if (!strstr(kernel->name, known[i].parts[0]) || !strstr(kernel->name, known[i].parts[1])) continue;
        kernel->answer = known[i].answer;
        kernel->elements = known[i].elements;
    }
}

static void find_driver(void)
{
    SOFT_DRIVER_FUNCTION(expect, "softgpu_expect");
    const char *text = getenv("SOFTGPU_SELECTED");
    if (text) share = strtod(text, NULL);
}

/* The number of selected elements: at least one, unless there are none or the share is 0. */
static uint64_t share_of(const void *argument)
{
    int32_t elements;
    memcpy(&elements, argument, sizeof elements);
    if (elements <= 0 || share <= 0) return 0;
    uint64_t some = (uint64_t)(elements * (share < 1 ? share : 1));
    return some ? some : 1;
}

/* True for PyTorch's compare_scalar_kernel if it tests `>= 0`. Its argument has the operation (0: >=), then the
 * number. */
static bool is_not_negative(const char *name, void *const *arguments)
{
    static const char kernel[] = "compare_scalar_kernelI", zero[8];
    const char *type = strstr(name, kernel) + sizeof kernel - 1, *closure = arguments[1];
    size_t width = *type == 'd' || *type == 'l' ? 8 : *type == 'f' || *type == 'i' ? 4 : 2;
    int operation;
    memcpy(&operation, closure, sizeof operation);
    return !operation && !memcmp(closure + (width == 8 ? 8 : 4), zero, width);
}

/* Expects the result of adding a number to one element, since sums of integers decide where slices end. PyTorch's
 * functor contains the number and a factor; the kernel's last argument begins with the result's address. */
static void expect_sum(const char *name, void *const *arguments)
{
    static const char functor[] = "CUDAFunctorOnSelf_addI";
    const char type = strstr(name, functor)[sizeof functor - 1];
    int32_t elements, narrow[2];
    int64_t wide[2];
    uint64_t result;
    memcpy(&elements, arguments[0], sizeof elements);
    if (elements != 1 || (type != 'l' && type != 'i')) return;
    memcpy(wide, arguments[1], sizeof wide);
    memcpy(narrow, arguments[1], sizeof narrow);
    memcpy(&result, arguments[2], sizeof result);
    if (type == 'l')
        expect(result, 8, (uint64_t)wide[0] * (uint64_t)wide[1]);
    else
        expect(result, 4, (uint32_t)narrow[0] * (uint32_t)narrow[1]);
}

void softrt_expect_answer(const void *function, void *const *arguments)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_driver);
    if (!expect) return;
    struct softrt_kernel kernel;
    softrt_find_kernel(function, look_at_name, &kernel);
    if (kernel.answer == SELECTS && arguments) selected = share_of(arguments[kernel.elements]);
    if (kernel.answer == SELECTS || (kernel.answer == ADDS_SELECTED && selected)) {
        expect(0, 4 | 8, selected);
        return;
    }
    selected = 0;
    if (kernel.answer == FINDS) {
        expect(0, 16, 1);
        return;
    }
    bool was_elsewhere = truth_at;
    truth_at = 0;
    enum softrt_truth followed = SOFTRT_UNKNOWN;
    if (kernel.answer == COMPARES && arguments && is_not_negative(kernel.name, arguments)) followed = SOFTRT_TRUE;
    if (kernel.follow && arguments)
        followed = softrt_follow_truths(kernel.follow, kernel.name, arguments, followed, &truth_at);
    if (arguments && (kernel.answer == ALL || kernel.answer == ANY)) {
        enum softrt_truth otherwise = kernel.answer == ALL ? SOFTRT_TRUE : SOFTRT_FALSE;
        truth = softrt_reduce_truths(arguments, otherwise, &truth_at) == SOFTRT_TRUE;
    } else if (followed)
        truth = followed == SOFTRT_TRUE;
    else if (kernel.answer == COPIES ? was_elsewhere : kernel.answer != KEEPS)
        truth = kernel.answer == HOLDS || (kernel.answer == NEGATES && !truth);
    if (kernel.answer == ADDS && arguments)
        expect_sum(kernel.name, arguments);
    else
        expect(0, 1, truth);
}
