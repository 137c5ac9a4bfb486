/*
 * The driver's own share of a device, which grows as the program loads code. It consists of the code of launched
 * kernels, local memory for the kernel that needs most, executables of graphs by their kernels, and the libraries'
 * share. All are estimates; $SOFTGPU_PROFILE's keys `kernels`, `graph_node`, `cublas` and `nccl` give their sizes
 * (`devices`). Without `kernels` the share is 0. If a share shrinks, the driver keeps the memory for later use.
 */
#include "softgpu/driver/share.h"
#include "softgpu/driver/call.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/device.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/kernel_code.h"
#include "softgpu/driver/profile.h"

#include <inttypes.h>
#include <stdio.h>

#define PAGE 4096 /* each kernel's code begins at a page */
/* A thread's local memory in NCCL's kernels: at least that of others, since after NCCL's start no other kernel took
 * more in vLLM's logs (a pipeline's last stage grew by 0.07 GiB, a server on one GPU by 0.25). */
#define NCCL_LOCAL 1024

static const char *const names[SOFT_SHARES] = {"kernels", "local memory", "graphs", "cuBLAS", "NCCL"};
static uint64_t used[SOFT_DEVICES][SOFT_SHARES], reserved[SOFT_DEVICES][SOFT_SHARES];

bool soft_share_take(int device, enum soft_share share, uint64_t bytes)
{
    uint64_t needed = soft_round(used[device][share] + bytes, SOFT_GRANULE);
    if (needed > reserved[device][share]) {
        if (!soft_take(SOFT_context, device, needed - reserved[device][share], bytes)) return false;
        reserved[device][share] = needed;
        char text[SOFT_MARK_BYTES];
        snprintf(text, sizeof text, "plan: driver %d %" PRIu64 " %s", device, needed, names[share]);
        soft_mark_later(share, text);
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
    soft_code_unload(device);
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
    struct soft_kernel *kernel = soft_kernel_of(function, true);
    if (kernel->loaded & 1u << context->device) return true;
    uint64_t code = soft_round(kernel->code.bytes, PAGE);
    if (!soft_share_take(context->device, SOFT_SHARE_KERNELS, code)) return false;
    if (!take_local(context->device, kernel->code.local)) {
        soft_share_give(context->device, SOFT_SHARE_KERNELS, code);
        return false;
    }
    kernel->loaded |= 1u << context->device;
    return true;
}

/* Memory that several GPUs share by a switch has its granularity: ranks of vLLM on H100s grew by 2.06 to 2.21 GiB in
 * ten logs, of which FlashInfer's three buffers are 1.5. */
static uint64_t communicator_bytes(void)
{
    uint64_t bytes = soft_profile_share(SOFT_PROFILE_NCCL), granule = soft_profile_share(SOFT_PROFILE_MULTICAST);
    return granule ? soft_round(bytes, granule) : bytes;
}

bool soft_share_cublas(void)
{
    CUcontext context = soft_current();
    uint64_t bytes = soft_profile_share(SOFT_PROFILE_CUBLAS);
    return !context || !bytes || reserved[context->device][SOFT_SHARE_CUBLAS] ||
           soft_share_take(context->device, SOFT_SHARE_CUBLAS, bytes);
}

bool soft_share_nccl(void)
{
    CUcontext context = soft_current();
    uint64_t bytes = communicator_bytes();
    if (!context) return true;
    if (bytes && !soft_share_take(context->device, SOFT_SHARE_NCCL, bytes)) return false;
    return !soft_profile_share(SOFT_PROFILE_KERNELS) || take_local(context->device, NCCL_LOCAL);
}
