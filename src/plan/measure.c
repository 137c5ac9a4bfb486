/*
 * All calls go to NVIDIA's own libraries, found by name at run time. Memory that the driver keeps for itself shows as
 * a fall of the free memory in cuMemGetInfo(). The driver takes memory in pages of 2 MiB, so small things are measured
 * many at once.
 */
#include "plan/measure.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NODES     4096 /* kernels of one graph */
#define GRAPHS    4
#define STACK_MIN 1024
#define STACK_MAX (256 << 10)
#define MIB       ((uint64_t)1 << 20)
#define SIDE      1024 /* rows and columns of the product that starts cuBLAS */

enum { CAPABILITY_MAJOR = 75, CAPABILITY_MINOR = 76, MULTIPROCESSORS = 16, L2 = 38, MULTICAST = 132 };

/* The driver's functions. CUDA's handles are pointers, and its device pointers have 64 bits. */
#define DRIVER(F)                                                                                                      \
    F(cuInit, (unsigned))                                                                                              \
    F(cuDriverGetVersion, (int *))                                                                                     \
    F(cuDeviceGet, (int *, int))                                                                                       \
    F(cuDeviceGetCount, (int *))                                                                                       \
    F(cuDeviceGetName, (char *, int, int))                                                                             \
    F(cuDeviceGetAttribute, (int *, int, int))                                                                         \
    F(cuDevicePrimaryCtxRetain, (void **, int))                                                                        \
    F(cuCtxSetCurrent, (void *))                                                                                       \
    F(cuCtxSynchronize, (void))                                                                                        \
    F(cuMemGetInfo_v2, (size_t *, size_t *))                                                                           \
    F(cuMemAlloc_v2, (uint64_t *, size_t))                                                                             \
    F(cuMemGetAllocationGranularity, (size_t *, const void *, int))                                                    \
    F(cuMulticastGetGranularity, (size_t *, const void *, int))                                                        \
    F(cuModuleLoadData, (void **, const void *))                                                                       \
    F(cuModuleGetFunction, (void **, void *, const char *))                                                            \
    F(cuLaunchKernel,                                                                                                  \
      (void *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void *, void **, void **))        \
    F(cuMemsetD8Async, (uint64_t, unsigned char, size_t, void *))                                                      \
    F(cuMemcpyDtoDAsync_v2, (uint64_t, uint64_t, size_t, void *))                                                      \
    F(cuStreamCreate, (void **, unsigned))                                                                             \
    F(cuStreamBeginCapture_v2, (void *, int))                                                                          \
    F(cuStreamEndCapture, (void *, void **))                                                                           \
    F(cuGraphInstantiateWithFlags, (void **, void *, unsigned long long))                                              \
    F(cuGraphLaunch, (void *, void *))
#define MEMBER(name, parameters) int(*name) parameters;
static struct {
    DRIVER(MEMBER)
} driver;
#undef MEMBER

static struct mp_buffer *out;
static struct mp_error problem;
static jmp_buf failed; /* a call that must succeed did not: `problem` says which */

static void need(const char *call, int result)
{
    if (!result) return;
    mp_fail(&problem, MP_UNSUPPORTED, "%s() failed with the driver's error %d%s", call, result,
            result == 2 ? ", out of memory: run it while nobody else uses the GPU" : "");
    longjmp(failed, 1);
}
#define CALL(name, ...) need(#name, driver.name(__VA_ARGS__))

static void load_driver(void)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        mp_fail(&problem, MP_NOT_FOUND,
                "libcuda.so.1, NVIDIA's driver, cannot be loaded (%s); install the driver, and "
                "see memprof doctor",
                dlerror());
        longjmp(failed, 1);
    }
#define FIND(name, parameters)                                                                                         \
    {                                                                                                                  \
        void *found = dlsym(library, #name);                                                                           \
        memcpy(&driver.name, &found, sizeof found);                                                                    \
        if (!found) mp_fail(&problem, MP_UNSUPPORTED, "the driver is too old for this: it has no " #name "()");        \
        if (!found) longjmp(failed, 1);                                                                                \
    }
    DRIVER(FIND)
#undef FIND
}

/* Sets a pointer to the library's function of that name; NULL if it has none. */
static void find(void *library, const char *name, void *pointer)
{
    void *found = library ? dlsym(library, name) : NULL;
    memcpy(pointer, &found, sizeof found);
}

static uint64_t free_bytes(void)
{
    size_t left, total;
    CALL(cuCtxSynchronize);
    CALL(cuMemGetInfo_v2, &left, &total);
    return left;
}

/* Bytes by which the GPU's free memory fell since `before`. It may also rise if others use the GPU. */
static uint64_t taken_since(uint64_t before)
{
    uint64_t now = free_bytes();
    return before > now ? before - now : 0;
}

/* ---- lines of the file ---- */

static void put(const char *key, uint64_t value, const char *how)
{
    mp_buffer_printf(out, "# %s: %s\n%s = %llu\n", key, how, key, (unsigned long long)value);
}

static void remark(const char *what, uint64_t bytes)
{
    mp_buffer_printf(out, "# measured: %s: %llu bytes\n", what, (unsigned long long)bytes);
}

/* ---- the measurements ---- */

/* Memory that other processes use, by NVML; 0: unknown. Also the driver's version. */
static uint64_t used_by_others(char version[96])
{
    struct {
        unsigned version;
        unsigned long long total, reserved, free, used;
    } info = {.version = (unsigned)(sizeof info | 2u << 24)};
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL), *device;
    int (*start)(void), (*get)(unsigned, void **), (*memory)(void *, void *), (*say)(char *, unsigned);
    find(library, "nvmlInit_v2", &start);
    find(library, "nvmlDeviceGetHandleByIndex_v2", &get);
    find(library, "nvmlDeviceGetMemoryInfo_v2", &memory);
    find(library, "nvmlSystemGetDriverVersion", &say);
    snprintf(version, 96, "unknown");
    if (!start || start()) return 0;
    if (say) say(version, 96);
    return get && memory && !getenv("CUDA_VISIBLE_DEVICES") && !get(0, &device) && !memory(device, &info) ? info.used
                                                                                                          : 0;
}

/* Loads a kernel with a stack of so many bytes for each thread, and parameters of so many. */
static void *make_kernel(int capability, unsigned stack, unsigned parameters)
{
    void *module, *function;
    char text[1024];
    int used = snprintf(text, sizeof text,
                        ".version %s\n.target sm_%d\n.address_size 64\n"
                        ".visible .entry measured(.param .align 8 .b8 given[%u]) {\n",
                        capability < 75 ? "6.0" : "6.3", capability < 75 ? capability : 75, parameters);
    if (stack) /* at an index that the compiler does not know, so that the stack stays */
        used += snprintf(text + used, sizeof text - (size_t)used,
                         ".local .align 8 .b8 stack[%u];\n.reg .b64 %%at, %%base;\n.reg .b32 %%value;\n"
                         "ld.param.u64 %%at, [given];\nmov.u64 %%base, stack;\ncvta.local.u64 %%base, %%base;\n"
                         "add.s64 %%base, %%base, %%at;\nld.volatile.u32 %%value, [%%base];\n"
                         "st.volatile.u32 [%%base], %%value;\n",
                         stack);
    snprintf(text + used, sizeof text - (size_t)used, "ret;\n}\n");
    CALL(cuModuleLoadData, &module, text);
    CALL(cuModuleGetFunction, &function, module, "measured");
    return function;
}

static void launch(void *function, void *stream)
{
    static uint64_t zeros[512]; /* 4 096 bytes: the most that parameters have */
    CALL(cuLaunchKernel, function, 1, 1, 1, 1, 1, 1, 0, stream, (void *[]){zeros}, NULL);
}

/* The driver keeps a kernel's stack for all threads that the GPU runs at once. Measured between two sizes of stack; a
 * multiprocessor's threads come in warps of 32. */
static void measure_stack(int capability, int multiprocessors)
{
    uint64_t least = free_bytes(), per_byte = 2048 * (uint64_t)multiprocessors, taken = 0;
    unsigned large = STACK_MAX, small;
    while (large > 2 * STACK_MIN && large * per_byte > least / 4)
        large /= 2;
    small = large / 2;
    launch(make_kernel(capability, small, 8), NULL);
    least = free_bytes();
    launch(make_kernel(capability, large, 8), NULL);
    taken = taken_since(least);
    uint64_t threads = (taken / (large - small) / (uint64_t)multiprocessors + 16) / 32 * 32;
    char how[160];
    snprintf(how, sizeof how, "measured: stacks of %u bytes in place of %u take %llu bytes more", large, small,
             (unsigned long long)taken);
    if (threads) put("local_threads", threads, how);
}

enum node { KERNEL, SET, COPY };

/* Bytes that the driver keeps for each node of launched graphs. */
static uint64_t measure_node(enum node kind, void *function)
{
    void *stream, *graph, *executable;
    uint64_t data = 0, before;
    CALL(cuStreamCreate, &stream, 1);
    CALL(cuMemAlloc_v2, &data, 2 * MIB);
    before = free_bytes();
    for (int i = 0; i < GRAPHS; i++) {
        CALL(cuStreamBeginCapture_v2, stream, 2);
        for (int j = 0; j < NODES; j++) {
            if (kind == KERNEL) launch(function, stream);
            if (kind == SET) CALL(cuMemsetD8Async, data, 0, 4096, stream);
            if (kind == COPY) CALL(cuMemcpyDtoDAsync_v2, data, data + MIB, 4096, stream);
        }
        CALL(cuStreamEndCapture, stream, &graph);
        CALL(cuGraphInstantiateWithFlags, &executable, graph, 0);
        CALL(cuGraphLaunch, executable, stream);
    }
    return taken_since(before) / (GRAPHS * NODES);
}

static void measure_graphs(int capability)
{
    static const unsigned parameters[] = {64, 512, 4096};
    char what[96];
    for (size_t i = 0; i < sizeof parameters / sizeof *parameters; i++) {
        void *function = make_kernel(capability, 0, parameters[i]);
        launch(function, NULL); /* loads its code */
        uint64_t bytes = measure_node(KERNEL, function);
        snprintf(what, sizeof what, "a graph's kernel with %u bytes of parameters", parameters[i]);
        remark(what, bytes);
        if (i == 1) put("graph_node", bytes, "measured: a kernel with 512 bytes of parameters, to 128 bytes");
    }
    remark("a graph's memset", measure_node(SET, NULL));
    remark("a graph's copy", measure_node(COPY, NULL));
}

static void *open_library(const char *name, int newest, int oldest)
{
    char path[64];
    void *library = NULL;
    for (int version = newest; !library && version >= oldest; version--) {
        snprintf(path, sizeof path, "%s.so.%d", name, version);
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    }
    if (!library)
        mp_buffer_printf(out,
                         "# estimated: %s was not found; LD_LIBRARY_PATH may name its folder, such as PyTorch's "
                         "nvidia/*/lib\n",
                         name);
    return library;
}

/* Memory that cuBLAS takes with the program's own workspace, as PyTorch gives it, and without. */
static void measure_cublas(void)
{
    void *library = open_library("libcublas", 13, 11), *handle;
    if (!library) return;
    int (*create)(void **), (*give)(void *, void *, size_t);
    int (*multiply)(void *, int, int, int, int, int, const float *, const void *, int, const void *, int, const float *,
                    void *, int);
    find(library, "cublasCreate_v2", &create);
    find(library, "cublasSetWorkspace_v2", &give);
    find(library, "cublasSgemm_v2", &multiply);
    uint64_t workspace, data, before;
    CALL(cuMemAlloc_v2, &workspace, 32 * MIB);
    CALL(cuMemAlloc_v2, &data, SIDE * SIDE * sizeof(float));
    for (int own = 0; create && give && multiply && own < 2; own++) {
        const float one = 1, zero = 0;
        void *matrix = (void *)(uintptr_t)data;
        before = free_bytes();
        if (create(&handle) || (!own && give(handle, (void *)(uintptr_t)workspace, 32 * MIB)) ||
            multiply(handle, 0, 0, SIDE, SIDE, SIDE, &one, matrix, SIDE, matrix, SIDE, &zero, matrix, SIDE)) {
            mp_buffer_printf(out, "# estimated: cuBLAS refused a product\n");
            return;
        }
        if (own)
            remark("a second cuBLAS handle, with its own workspace", taken_since(before));
        else
            put("cublas", taken_since(before), "measured: a handle and a product, beside the program's workspace");
    }
}

/* cudnnConvolutionFwdAlgoPerf_t; the types for backward have the same layout. */
struct algorithm {
    int algorithm, status;
    float time;
    size_t memory;
    int determinism, math, reserved[3];
};

/* The largest workspace that cuDNN wants for one convolution, forward and backward. */
static void measure_convolution(void *library, void *handle)
{
    enum { HALF = 2, IMAGES = 32, CHANNELS = 64, SIDE_OF_IMAGE = 56, CORRELATION = 1 };
    static const char *const creators[] = {"cudnnCreateTensorDescriptor", "cudnnCreateFilterDescriptor",
                                           "cudnnCreateConvolutionDescriptor"};
    static const char *const ways[] = {"cudnnGetConvolutionForwardAlgorithm_v7",
                                       "cudnnGetConvolutionBackwardDataAlgorithm_v7",
                                       "cudnnGetConvolutionBackwardFilterAlgorithm_v7"};
    int (*create)(void **), (*choose)(void *, void *, void *, void *, void *, int, int *, struct algorithm *);
    int (*set_tensor)(void *, int, int, int, int, int, int), (*set_filter)(void *, int, int, int, int, int, int);
    int (*set)(void *, int, int, int, int, int, int, int, int), found = 0;
    void *made[3] = {0};
    struct algorithm best = {0};
    uint64_t most = 0;
    find(library, "cudnnSetTensor4dDescriptor", &set_tensor);
    find(library, "cudnnSetFilter4dDescriptor", &set_filter);
    find(library, "cudnnSetConvolution2dDescriptor", &set);
    bool refused = !set_tensor || !set_filter || !set;
    for (int i = 0; i < 3 && !refused; i++) {
        find(library, creators[i], &create);
        refused = !create || create(&made[i]);
    }
    refused = refused || set_tensor(made[0], 0, HALF, IMAGES, CHANNELS, SIDE_OF_IMAGE, SIDE_OF_IMAGE) ||
              set_filter(made[1], HALF, 0, CHANNELS, CHANNELS, 3, 3) || set(made[2], 1, 1, 1, 1, 1, 1, CORRELATION, 0);
    for (int i = 0; i < 3 && !refused; i++) {
        /* Filter's and data's descriptors change places: what goes in, and what comes out. */
        void *in = i == 1 ? made[1] : made[0], *with = i ? made[0] : made[1], *to = i == 2 ? made[1] : made[0];
        find(library, ways[i], &choose);
        refused = !choose || choose(handle, in, with, made[2], to, 1, &found, &best) || !found;
        if (best.memory > most) most = best.memory;
    }
    if (refused)
        mp_buffer_printf(out, "# estimated: cuDNN refused a convolution\n");
    else
        put("cudnn", most,
            "measured: the largest workspace for 32 images of 56, 64 channels, 3 x 3, in half precision");
}

static void measure_cudnn(void)
{
    void *library = open_library("libcudnn", 9, 8), *handle;
    int (*create)(void **);
    find(library, "cudnnCreate", &create);
    uint64_t before = free_bytes();
    if (!create || create(&handle)) return;
    remark("a cuDNN handle", taken_since(before));
    measure_convolution(library, handle);
}

/* Memory that a communicator of two GPUs takes on the first one at its first collective. Our own context is `first`. */
static void measure_nccl(void *first)
{
    int count = 0, second, type_float = 7, sum = 0;
    if (driver.cuDeviceGetCount(&count) || count < 2) {
        mp_buffer_printf(out, "# estimated: nccl, which needs two GPUs; the table's default counts\n");
        return;
    }
    void *library = open_library("libnccl", 2, 2);
    if (!library) return;
    int (*create)(void **, int, const int *), (*begin)(void), (*end)(void);
    int (*reduce)(const void *, void *, size_t, int, int, void *, void *);
    find(library, "ncclCommInitAll", &create);
    find(library, "ncclGroupStart", &begin);
    find(library, "ncclGroupEnd", &end);
    find(library, "ncclAllReduce", &reduce);
    void *contexts[2] = {first}, *communicators[2];
    uint64_t data[2], before;
    CALL(cuDeviceGet, &second, 1);
    CALL(cuDevicePrimaryCtxRetain, &contexts[1], second);
    for (int i = 1; i >= 0; i--) {
        CALL(cuCtxSetCurrent, contexts[i]);
        CALL(cuMemAlloc_v2, &data[i], 4 * MIB);
    }
    before = free_bytes();
    bool refused = create(communicators, 2, NULL) || begin();
    for (int i = 0; i < 2 && !refused; i++) {
        void *at = (void *)(uintptr_t)data[i];
        CALL(cuCtxSetCurrent, contexts[i]);
        refused = reduce(at, at, MIB, type_float, sum, communicators[i], NULL);
    }
    refused = refused || end();
    CALL(cuCtxSetCurrent, first);
    if (refused)
        mp_buffer_printf(out, "# estimated: nccl, since NCCL refused a sum over two GPUs\n");
    else
        put("nccl", taken_since(before), "measured: a communicator of two GPUs and a sum");
}

static void measure(void)
{
    int device, version, major, minor, value;
    char name[128], said[96], today[32];
    size_t left, total, least, best;
    /* CUmemAllocationProp: pinned memory on device 0 */
    const struct {
        int type, handles, place, id;
        uint64_t rest[4];
    } where = {.type = 1, .place = 1};
    const struct {
        unsigned devices;
        size_t size, handles;
        unsigned long long flags;
    } multicast = {.devices = 2, .size = 2 * MIB, .handles = 1};
    load_driver();
    CALL(cuInit, 0);
    uint64_t others = used_by_others(said);
    CALL(cuDriverGetVersion, &version);
    CALL(cuDeviceGet, &device, 0);
    CALL(cuDeviceGetName, name, (int)sizeof name, device);
    name[strcspn(name, ";")] = '\0';
    void *context;
    CALL(cuDevicePrimaryCtxRetain, &context, device);
    CALL(cuCtxSetCurrent, context);
    CALL(cuMemGetInfo_v2, &left, &total);
    CALL(cuDeviceGetAttribute, &major, CAPABILITY_MAJOR, device);
    CALL(cuDeviceGetAttribute, &minor, CAPABILITY_MINOR, device);
    int capability = 10 * major + minor;
    time_t now = time(NULL);
    strftime(today, sizeof today, "%Y-%m-%d", localtime(&now));
    mp_buffer_printf(out, "# Written by memprof measure, for memprof plan --device FILE.\n[measured]\n");
    mp_buffer_printf(out, "name = %s\nsource = measured on %s: driver %s, CUDA %d.%d\n", name, today, said,
                     version / 1000, version % 1000 / 10);
    put("total", total, "measured: cuMemGetInfo()'s");
    uint64_t taken = total - left;
    put("context", taken > others ? taken - others : taken,
        others ? "measured: a bare context, less what others used before"
               : "measured: a bare context, with all that others use");
    put("cc", (uint64_t)capability, "read");
    CALL(cuDeviceGetAttribute, &value, MULTIPROCESSORS, device);
    int multiprocessors = value;
    put("sms", (uint64_t)value, "read");
    CALL(cuDeviceGetAttribute, &value, L2, device);
    put("l2", (uint64_t)value, "read");
    CALL(cuMemGetAllocationGranularity, &least, &where, 0);
    CALL(cuMemGetAllocationGranularity, &best, &where, 1);
    remark("granularity of virtual memory, least", least);
    remark("granularity of virtual memory, recommended", best);
    if (!driver.cuDeviceGetAttribute(&value, MULTICAST, device) && value &&
        !driver.cuMulticastGetGranularity(&best, &multicast, 1))
        put("multicast", best, "read: the recommended granularity");
    else
        put("multicast", 0, "read: the GPU has none");
    uint64_t before = free_bytes(), one;
    CALL(cuMemAlloc_v2, &one, 1);
    remark("the first cuMemAlloc() of one byte", taken_since(before));
    measure_graphs(capability);
    measure_stack(capability, multiprocessors);
    measure_cublas();
    measure_cudnn();
    measure_nccl(context);
}

/* In the child: writes the file, or the problem, to the pipe. Its exit status says which. */
static _Noreturn void work(int to)
{
    struct mp_buffer text = {0};
    out = &text;
    bool done = !setjmp(failed);
    if (done) measure();
    const char *at = done ? (const char *)text.data : problem.text;
    size_t left = done ? text.size : strlen(problem.text);
    for (ssize_t wrote; left && (wrote = write(to, at, left)) > 0; left -= (size_t)wrote)
        at += wrote;
    _exit(left ? 2 : done ? 0 : 1); /* without the libraries' own ends */
}

enum mp_status mp_measure(struct mp_buffer *file, struct mp_error *error)
{
    int ends[2], status = 0;
    char piece[4096];
    if (pipe(ends)) return mp_fail_errno(error, "a pipe to the measuring process cannot be made");
    pid_t child = fork();
    if (child < 0) return mp_fail_errno(error, "a process that measures cannot be started");
    if (!child) work(ends[1]);
    close(ends[1]);
    for (ssize_t got; (got = read(ends[0], piece, sizeof piece)) > 0;)
        mp_buffer_append(file, piece, (size_t)got);
    close(ends[0]);
    if (waitpid(child, &status, 0) != child) return mp_fail_errno(error, "the measuring process cannot be waited for");
    if (WIFEXITED(status) && !WEXITSTATUS(status)) return MP_OK;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 1)
        return mp_fail(error, MP_UNSUPPORTED, "%.*s", (int)file->size, (const char *)file->data);
    return mp_fail(error, MP_UNSUPPORTED, "the measuring process ended with status %d, in NVIDIA's libraries", status);
}
