/* Contexts, each thread's stack of them, and the blocks that end with a context. */
#include "softgpu/driver/array.h"
#include "softgpu/driver/call.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/device.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/ledger.h"
#include "softgpu/driver/memory.h"
#include "softgpu/driver/module.h"
#include "softgpu/driver/pool.h"
#include "softgpu/driver/share.h"
#include "softgpu/driver/sharing.h"
#include "softgpu/driver/stream.h"

#include <stdlib.h>

static uint32_t contexts;

static uint64_t context_bytes(void)
{
    const char *text = getenv("SOFTGPU_CONTEXT");
    return text && *text ? strtoull(text, NULL, 0) : (uint64_t)64 << 20;
}

static CUcontext new_context(int device, bool primary)
{
    if (!soft_take(SOFT_context, device, context_bytes(), context_bytes())) return NULL;
    CUcontext context = calloc(1, sizeof *context);
    if (!context) abort();
    *context = (struct CUctx_st){.uid = ++contexts, .device = device, .alive = true, .primary = primary};
    soft_add(SOFT_context, device, (uint64_t)(uintptr_t)context, 0, NULL);
    soft_report_context(1, context);
    return context;
}

struct belongings {
    CUcontext context;
    struct soft_block **blocks;
    size_t count, room;
};

static void collect(struct soft_block *block, void *to)
{
    struct belongings *found = to;
    if (block->context != found->context) return;
    if (found->count == found->room) {
        found->room = found->room ? 2 * found->room : 64;
        found->blocks = realloc(found->blocks, found->room * sizeof(struct soft_block *));
        if (!found->blocks) abort();
    }
    found->blocks[found->count++] = block;
}

/* Removes a block whose context ends, and frees its memory as its class requires. */
static void end(struct soft_block *block)
{
    switch (block->class) {
    case SOFT_linear:
    case SOFT_pitched:
    case SOFT_managed:
    case SOFT_pinned:
    case SOFT_external_buffer:
        soft_free_memory(block);
        return;
    case SOFT_array:
    case SOFT_mipmap:
        soft_free_array(block);
        return;
    case SOFT_ipc:
    case SOFT_external:
        soft_free_external(block);
        return;
    case SOFT_module:
    case SOFT_library:
        soft_free_module(block);
        return;
    case SOFT_event:
        free((void *)(uintptr_t)block->address);
        break;
    default: /* registered memory belongs to the program; variables end with their modules; handles of streams are never
              * used again */
        break;
    }
    soft_remove(block);
}

/* Destroys a context. The handle is never given out again, so that a test notices any further use. */
static void destroy_context(CUcontext context)
{
    soft_report_context(2, context);
    struct belongings found = {.context = context};
    soft_each(collect, &found);
    for (size_t i = 0; i < found.count; i++)
        end(found.blocks[i]);
    free(found.blocks);
    __atomic_store_n(&context->alive, false, __ATOMIC_RELEASE);
    soft_remove(soft_find(SOFT_context, (uint64_t)(uintptr_t)context));
    soft_give(context->device, context_bytes());
}

static CUresult create(CUcontext *to, CUdevice device)
{
    if (!to) return CUDA_ERROR_INVALID_VALUE;
    if (!soft_has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (soft_stack_full()) return CUDA_ERROR_INVALID_VALUE;
    CUcontext context = new_context(device, false);
    if (!context) return CUDA_ERROR_OUT_OF_MEMORY;
    soft_push(*to = context);
    return CUDA_SUCCESS;
}

static bool is_alive(CUcontext context)
{
    return soft_find(SOFT_context, (uint64_t)(uintptr_t)context) != NULL;
}

static CUresult destroy(CUcontext context)
{
    if (!context || !is_alive(context) || context->primary) return CUDA_ERROR_INVALID_CONTEXT;
    destroy_context(context);
    if (soft_top() == context) soft_pop();
    return CUDA_SUCCESS;
}

static CUresult push(CUcontext context)
{
    if (!context || !is_alive(context)) return CUDA_ERROR_INVALID_CONTEXT;
    if (soft_stack_full()) return CUDA_ERROR_INVALID_VALUE;
    soft_push(context);
    return CUDA_SUCCESS;
}

static CUresult pop(CUcontext *to)
{
    if (!soft_top()) return CUDA_ERROR_INVALID_CONTEXT;
    if (to) *to = soft_top();
    soft_pop();
    return CUDA_SUCCESS;
}

static CUresult set_current(CUcontext context)
{
    if (context && !is_alive(context)) return CUDA_ERROR_INVALID_CONTEXT;
    soft_pop();
    if (context) soft_push(context);
    return CUDA_SUCCESS;
}

static CUresult get_current(CUcontext *to)
{
    *to = soft_top();
    return CUDA_SUCCESS;
}

static CUresult get_device(CUdevice *device)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    *device = context->device;
    return CUDA_SUCCESS;
}

static CUresult synchronize(void)
{
    if (!soft_current()) return CUDA_ERROR_INVALID_CONTEXT;
    soft_pools_idle();
    return CUDA_SUCCESS;
}

static CUresult synchronize_stream(CUstream stream)
{
    if (!soft_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    soft_pools_idle();
    return CUDA_SUCCESS;
}

static CUresult primary_retain(CUcontext *to, CUdevice device)
{
    if (!soft_has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    struct soft_device *at = &soft_devices[device];
    if (!at->primary && !(at->primary = new_context(device, true))) return CUDA_ERROR_OUT_OF_MEMORY;
    at->retained++;
    *to = at->primary;
    return CUDA_SUCCESS;
}

static void reset_primary(CUdevice device)
{
    struct soft_device *at = &soft_devices[device];
    if (at->primary) {
        destroy_context(at->primary);
        soft_share_end(device);
    }
    at->primary = NULL;
    at->retained = 0;
}

static CUresult primary_release(CUdevice device)
{
    if (!soft_has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (!soft_devices[device].retained) return CUDA_ERROR_INVALID_CONTEXT;
    if (!--soft_devices[device].retained) reset_primary(device);
    return CUDA_SUCCESS;
}

static CUresult primary_reset(CUdevice device)
{
    if (!soft_has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    reset_primary(device);
    return CUDA_SUCCESS;
}

static CUresult primary_state(CUdevice device, unsigned *flags, int *active)
{
    if (!soft_has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    *flags = 0;
    *active = soft_devices[device].primary != NULL;
    return CUDA_SUCCESS;
}

ENTRY(cuCtxCreate_v2, create(pctx, dev), (CUcontext *, pctx), (unsigned, flags), (CUdevice, dev))
ENTRY(cuCtxCreate_v3, create(pctx, dev), (CUcontext *, pctx), (CUexecAffinityParam *, paramsArray), (int, numParams),
      (unsigned, flags), (CUdevice, dev))
ENTRY(cuCtxCreate_v4, create(pctx, dev), (CUcontext *, pctx), (CUctxCreateParams *, ctxCreateParams), (unsigned, flags),
      (CUdevice, dev))
ENTRY(cuCtxDestroy, destroy(ctx), (CUcontext, ctx))
ENTRY(cuCtxDestroy_v2, destroy(ctx), (CUcontext, ctx))
ENTRY(cuCtxPushCurrent_v2, push(ctx), (CUcontext, ctx))
ENTRY(cuCtxPopCurrent_v2, pop(pctx), (CUcontext *, pctx))
ENTRY(cuCtxSetCurrent, set_current(ctx), (CUcontext, ctx))
ENTRY(cuCtxGetCurrent, get_current(pctx), (CUcontext *, pctx))
ENTRY(cuCtxGetDevice, get_device(device), (CUdevice *, device))
ENTRY(cuCtxSetLimit, CUDA_SUCCESS, (int, limit), (size_t, value))
ENTRY(cuDevicePrimaryCtxRetain, primary_retain(pctx, dev), (CUcontext *, pctx), (CUdevice, dev))
ENTRY(cuDevicePrimaryCtxRelease, primary_release(dev), (CUdevice, dev))
ENTRY(cuDevicePrimaryCtxRelease_v2, primary_release(dev), (CUdevice, dev))
ENTRY(cuDevicePrimaryCtxReset, primary_reset(dev), (CUdevice, dev))
ENTRY(cuDevicePrimaryCtxReset_v2, primary_reset(dev), (CUdevice, dev))
ENTRY(cuDevicePrimaryCtxGetState, primary_state(dev, flags, active), (CUdevice, dev), (unsigned *, flags),
      (int *, active))
ENTRY_BOTH(cuStreamSynchronize, synchronize_stream(hStream), (CUstream, hStream))

EXPORTED CUresult cuCtxSynchronize(void)
{
    struct soft_call call;
    soft_enter(&call, SOFT_CBID_cuCtxSynchronize, "cuCtxSynchronize", NULL);
    pthread_mutex_lock(&soft_lock);
    if (soft_ready(&call)) call.result = synchronize();
    pthread_mutex_unlock(&soft_lock);
    soft_exit(&call);
    return call.result;
}
