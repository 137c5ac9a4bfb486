/*
 * The contents of boolean tensors, as far as the kernels that made them show. Programs that generate text use `done =
 * zeros(bool)`, `done |= token == 2` and `if done.all(): break`. They would end at once if all() were always true, as
 * it is for checks of arguments (answers.c). A tensor is known by the address that a kernel writes to, per thread. All
 * its elements are assumed to be equal. An integer is assumed to differ from the number that it is compared with,
 * unless that number is 0 or 1, as in masks. Names are PyTorch's, as in answers.c.
 */
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#include "softgpu/driver_function.h"
#include "softgpu/runtime/runtime.h"
#include "softgpu/runtime/truths.h"
#include "softgpu/softgpu.h"

enum follow { NOT_LOOKED_AT, NOTHING, WRITES, FILLS, COPIES, EQUALS, SAME, ORS, ANDS, NOTS };

/* Vectorized and unrolled kernels take (count, functor, addresses); others take (count, closure). */
#define ELEMENTWISE "ed_elementwise_kernel"

/* A name must contain both parts. The first row that fits counts. */
static const struct {
    const char *parts[2];
    enum follow follow;
    int made_of; /* number of source tensors */
} known[] = {
    {{"FillFunctorIbE", ""}, FILLS, 0},
    {{"direct_copy_kernel", ""}, COPIES, 1},
    {{"AUnaryFunctor", "CompareEqFunctorIlE"}, EQUALS, 1},
    {{"AUnaryFunctor", "CompareEqFunctorIiE"}, EQUALS, 1},
    {{"BinaryFunctorIbbb", "CompareEqFunctorIbE"}, SAME, 2},
    {{"BitwiseOrFunctorIbE", ""}, ORS, 2},
    {{"logical_or_kernel", ""}, ORS, 2},
    {{"BitwiseAndFunctorIbE", ""}, ANDS, 2},
    {{"logical_and_kernel", ""}, ANDS, 2},
    {{"bitwise_not_kernel", ""}, NOTS, 1},
    {{"logical_not_kernel", ""}, NOTS, 1},
    {{"masked_fill_kernel", ""}, NOTHING, 0},
    {{"BinaryFunctor", ""}, WRITES, 2},
    {{"UnaryFunctor", ""}, WRITES, 1},
    {{"compare_scalar_kernel", ""}, WRITES, 1},
    {{ELEMENTWISE, ""}, WRITES, 0},
};

#define REMEMBERED 64

static __thread struct {
    uint64_t address;
    enum softrt_truth truth;
} made[REMEMBERED];
static __thread unsigned made_count, made_next;

/* Returns a row's number plus one. Only elementwise kernels are followed. */
int softrt_follow_of(const char *name)
{
    for (size_t i = 0; strstr(name, "elementwise_kernel") && i < sizeof known / sizeof *known; i++)
        if (strstr(name, known[i].parts[0]) && strstr(name, known[i].parts[1]))
            return known[i].follow == NOTHING ? 0 : (int)i + 1;
    return 0;
}

static __typeof__(softgpu_is_device_address) *is_device_address;

static void find_driver(void)
{
    SOFT_DRIVER_FUNCTION(is_device_address, "softgpu_is_device_address");
}

/* Finds the first `wanted` device addresses in a row between bytes `from` and `to` of an argument. */
static const char *addresses_in(const void *argument, size_t from, size_t to, size_t wanted)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_driver);
    size_t found = 0;
    for (size_t i = from; i < to; i += sizeof(uint64_t)) {
        uint64_t word;
        memcpy(&word, (const char *)argument + i, sizeof word);
        found = is_device_address && is_device_address(word) ? found + 1 : 0;
        if (found == wanted) return (const char *)argument + i - (wanted - 1) * sizeof word;
    }
    return NULL;
}

/* A closure begins with the offsets: for each of 25 dimensions a divisor (12 bytes) and a stride of each tensor (4
 * bytes). Unused dimensions may hold anything. The addresses and the functor follow. */
static const char *addresses_in_closure(const void *closure, size_t tensors)
{
    size_t at = (4 + 25 * 12 + 25 * 4 * tensors + 7) / 8 * 8;
    return addresses_in(closure, at, at + tensors * sizeof(uint64_t), tensors);
}

static enum softrt_truth truth_at(uint64_t address)
{
    for (unsigned i = 0; i < made_count; i++)
        if (made[i].address == address) return made[i].truth;
    return SOFTRT_UNKNOWN;
}

static void remember(uint64_t address, enum softrt_truth truth)
{
    unsigned at = 0;
    while (at < made_count && made[at].address != address)
        at++;
    if (at == made_count) {
        if (!truth) return;
        at = made_count < REMEMBERED ? made_count++ : made_next++ % REMEMBERED;
    }
    made[at].address = address;
    made[at].truth = truth;
}

/* The result of AUnaryFunctor<integer, integer, bool, CompareEqFunctor>. The functor has: equal (0) or not, then the
 * number. */
static enum softrt_truth compared(const char *name, const char *functor)
{
    int differs;
    int32_t narrow;
    int64_t number;
    memcpy(&differs, functor, sizeof differs);
    memcpy(&narrow, functor + 4, sizeof narrow);
    memcpy(&number, functor + 8, sizeof number);
    if (!strstr(name, "CompareEqFunctorIlE")) number = narrow;
    return number == 0 || number == 1 ? SOFTRT_UNKNOWN : differs ? SOFTRT_TRUE : SOFTRT_FALSE;
}

static enum softrt_truth joined(enum softrt_truth a, enum softrt_truth b, enum softrt_truth decides)
{
    return a == decides || b == decides ? decides : a ? a : b;
}

enum softrt_truth softrt_follow_truths(int row, const char *name, void *const *arguments, enum softrt_truth written,
                                       uint64_t *result)
{
    enum follow follow = known[row - 1].follow;
    if (follow == WRITES && !written && !made_count) return SOFTRT_UNKNOWN;
    bool apart = strstr(name, ELEMENTWISE);
    size_t tensors = 1 + (size_t)known[row - 1].made_of, bytes = tensors * sizeof(uint64_t);
    const char *addresses = apart ? arguments[2] : addresses_in_closure(arguments[1], tensors);
    if (!addresses) return SOFTRT_UNKNOWN;
    const char *functor = apart ? arguments[1] : addresses + bytes;
    uint64_t at[3] = {0}; /* addresses of the result and of its sources */
    memcpy(at, addresses, bytes);
    enum softrt_truth first = truth_at(at[1]), second = truth_at(at[2]), truth = written;
    if (follow == FILLS)
        truth = *(const bool *)functor ? SOFTRT_TRUE : SOFTRT_FALSE;
    else if (follow == COPIES)
        truth = first;
    else if (follow == EQUALS)
        truth = compared(name, functor);
    else if (follow == SAME && first && second)
        truth = first == second ? SOFTRT_TRUE : SOFTRT_FALSE;
    else if (follow == ORS)
        truth = joined(first, second, SOFTRT_TRUE);
    else if (follow == ANDS)
        truth = joined(first, second, SOFTRT_FALSE);
    else if (follow == NOTS && first)
        truth = first == SOFTRT_TRUE ? SOFTRT_FALSE : SOFTRT_TRUE;
    remember(at[0], truth);
    *result = at[0];
    return truth;
}

void softrt_forget_truth(const void *at)
{
    if (made_count) remember((uint64_t)(uintptr_t)at, SOFTRT_UNKNOWN);
}

void softrt_copy_truths(const void *to, const void *from)
{
    if (made_count) remember((uint64_t)(uintptr_t)to, truth_at((uint64_t)(uintptr_t)from));
}

/* In a ReduceOp, the addresses of the source and of the result follow the offsets. */
enum softrt_truth softrt_reduce_truths(void *const *arguments, enum softrt_truth otherwise, uint64_t *result)
{
    uint64_t at[2];
    const char *addresses = addresses_in(arguments[0], 904, 1024, 2);
    if (!addresses) return otherwise;
    memcpy(at, addresses, sizeof at);
    *result = at[1];
    enum softrt_truth truth = truth_at(at[0]);
    remember(at[1], truth ? truth : otherwise);
    return truth ? truth : otherwise;
}
