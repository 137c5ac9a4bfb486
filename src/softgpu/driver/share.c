/*
 * The driver's own share of a device, which grows as the program loads code. It consists of the code of launched
 * kernels, local memory for the kernel that needs most, executables of graphs by their kernels, and the libraries'
 * share. All are estimates; $SOFTGPU_PROFILE's keys `kernels`, `graph_node`, `cublas` and `nccl` give their sizes
 * (`devices`). Without `kernels` the share is 0. If a share shrinks, the driver keeps the memory for later use.
 */
#include "softgpu/driver/driver.h"

#include <stdlib.h>

#define PAGE      4096 /* each kernel's code begins at a page */
#define DESCRIBED 4    /* number of runtimes that may describe kernels: one of each major version */

static const char *const names[SOFT_SHARES] = {"kernels", "local memory", "graphs", "cuBLAS", "NCCL"};
static uint64_t used[SOFT_DEVICES][SOFT_SHARES], reserved[SOFT_DEVICES][SOFT_SHARES];
static soft_describe *describers[DESCRIBED];
static struct {
    struct loaded {
        const void *function;
        uint64_t bytes, local; /* size of its code; local memory of each thread */
        uint32_t devices;      /* devices on which it is loaded: one bit each */
        bool described;
    } * at;
    size_t count, room;
} kernels;

const char *soft_share_name(enum soft_share share)
{
    return names[share];
}

uint64_t soft_share_reserved(int device, enum soft_share share)
{
    return reserved[device][share];
}

bool soft_share_take(int device, enum soft_share share, uint64_t bytes)
{
    uint64_t needed = soft_round(used[device][share] + bytes, SOFT_GRANULE);
    if (needed > reserved[device][share]) {
        if (!soft_take(SOFT_context, device, needed - reserved[device][share], bytes)) return false;
        reserved[device][share] = needed;
        soft_share_changed(device, share);
    }
    used[device][share] += bytes;
    return true;
}

void soft_share_give(int device, enum soft_share share, uint64_t bytes)
{
    used[device][share] -= bytes < used[device][share] ? bytes : used[device][share];
}

void soft_share_end(int device)
{
    for (int share = 0; share < SOFT_SHARES; share++) {
        if (reserved[device][share]) soft_give(device, reserved[device][share]);
        used[device][share] = reserved[device][share] = 0;
    }
    for (size_t i = 0; i < kernels.room; i++)
        kernels.at[i].devices &= ~(1u << device);
}

EXPORTED void softgpu_describe(soft_describe *describe)
{
    pthread_mutex_lock(&soft_lock);
    for (size_t i = 0; i < DESCRIBED; i++) {
        if (describers[i]) continue;
        describers[i] = describe;
        break;
    }
    pthread_mutex_unlock(&soft_lock);
}

static struct loaded *slot_of(struct loaded *at, size_t room, const void *function)
{
    size_t i = (size_t)(((uintptr_t)function * 0x9e3779b97f4a7c15) >> 20) & (room - 1);
    while (at[i].function && at[i].function != function)
        i = (i + 1) & (room - 1);
    return &at[i];
}

static struct loaded *find_loaded(const void *function)
{
    if (2 * kernels.count >= kernels.room) {
        size_t room = kernels.room ? 2 * kernels.room : 1024;
        struct loaded *larger = calloc(room, sizeof *larger);
        if (!larger) abort();
        for (size_t i = 0; i < kernels.room; i++)
            if (kernels.at[i].function) *slot_of(larger, room, kernels.at[i].function) = kernels.at[i];
        free(kernels.at);
        kernels.at = larger;
        kernels.room = room;
    }
    struct loaded *found = slot_of(kernels.at, kernels.room, function);
    kernels.count += !found->function;
    found->function = function;
    if (found->described) return found;
    found->described = true;
    found->bytes = found->local = 0;
    if (soft_module_code(function, &found->bytes, &found->local)) return found;
    for (size_t i = 0; i < DESCRIBED && describers[i]; i++)
        if (describers[i](function, soft_capability(), &found->bytes, &found->local)) break;
    return found;
}

void soft_share_forget(const void *function)
{
    struct loaded *found = kernels.room ? slot_of(kernels.at, kernels.room, function) : NULL;
    if (found) found->described = false, found->devices = 0;
}

/* Takes local memory: `bytes` for every thread that the device can run at once. */
static bool take_local(int device, uint64_t bytes)
{
    uint64_t needed = bytes * soft_profile_share(SOFT_PROFILE_LOCAL_THREADS);
    return needed <= used[device][SOFT_SHARE_LOCAL] ||
           soft_share_take(device, SOFT_SHARE_LOCAL, needed - used[device][SOFT_SHARE_LOCAL]);
}

bool soft_share_launch(const void *function)
{
    CUcontext context = soft_current();
    if (!context || !soft_profile_share(SOFT_PROFILE_KERNELS)) return true;
    struct loaded *kernel = find_loaded(function);
    if (kernel->devices & 1u << context->device) return true;
    kernel->devices |= 1u << context->device;
    return soft_share_take(context->device, SOFT_SHARE_KERNELS, soft_round(kernel->bytes, PAGE)) &&
           take_local(context->device, kernel->local);
}

static CUresult library_launch(enum soft_share share, enum soft_profile_share size, bool takes, CUstream stream)
{
    CUcontext context = soft_current();
    uint64_t bytes = soft_profile_share(size);
    if (context && bytes && takes && !soft_share_take(context->device, share, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    soft_capture(stream, CU_GRAPH_NODE_TYPE_KERNEL);
    return CUDA_SUCCESS;
}

static bool lacks_cublas(void)
{
    CUcontext context = soft_current();
    return context && !reserved[context->device][SOFT_SHARE_CUBLAS];
}

#define LIBRARY_CALL(name, answer)                                                                                     \
    struct soft_call call;                                                                                             \
    soft_enter(&call, 0, name, NULL);                                                                                  \
    pthread_mutex_lock(&soft_lock);                                                                                    \
    if (soft_ready(&call)) call.result = (answer);                                                                     \
    pthread_mutex_unlock(&soft_lock);                                                                                  \
    soft_exit(&call);                                                                                                  \
    return call.result

EXPORTED int softgpu_cublas_launch(void *stream)
{
    LIBRARY_CALL("softgpu_cublas_launch",
                 library_launch(SOFT_SHARE_CUBLAS, SOFT_PROFILE_CUBLAS, lacks_cublas(), stream));
}

EXPORTED int softgpu_nccl_launch(bool connects, void *stream)
{
    LIBRARY_CALL("softgpu_nccl_launch", library_launch(SOFT_SHARE_NCCL, SOFT_PROFILE_NCCL, connects, stream));
}

EXPORTED int softgpu_launch(void *stream)
{
    LIBRARY_CALL("softgpu_launch", (soft_capture(stream, CU_GRAPH_NODE_TYPE_KERNEL), CUDA_SUCCESS));
}
