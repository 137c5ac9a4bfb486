/*
 * Stream-ordered pools: how much device memory each holds (reserved), and how much of it the program has (used). A pool
 * grows by whole granules when the used memory no longer fits. It releases memory above its threshold at a
 * synchronisation, or when trimmed. Holes inside a pool are not modelled.
 */
#include "softgpu/driver/pool.h"
#include "softgpu/driver/call.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/device.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/ledger.h"
#include "softgpu/driver/stream.h"

#include <stdlib.h>
#include <string.h>

struct CUmemPoolHandle_st {
    int device; /* -1: host memory */
    bool imported, is_default, destroyed;
    uint64_t blocks;
    uint64_t reserved, reserved_high, used, used_high, threshold;
    uint64_t base; /* an address that identifies the pool in records */
    struct CUmemPoolHandle_st *next;
};

static struct CUmemPoolHandle_st *pools;

static struct soft_pool_facts facts_of(const struct CUmemPoolHandle_st *pool)
{
    return (struct soft_pool_facts){.type = pool->imported ? 2 : 1,
                                    .address = pool->base,
                                    .threshold = pool->threshold,
                                    .size = pool->reserved,
                                    .used = pool->used,
                                    .process = pool->imported ? 1 : 0};
}

static void report_pool(const struct CUmemPoolHandle_st *pool, unsigned operation, uint64_t keep)
{
    soft_report_pool_event(&(struct soft_pool_event){
        .operation = operation, .device = (uint32_t)pool->device, .keep = keep, .pool = facts_of(pool)});
}

static void report_block(const struct soft_block *block, const struct CUmemPoolHandle_st *pool, unsigned operation,
                         CUstream stream)
{
    soft_report_memory_event(&(struct soft_memory_event){.operation = operation,
                                                         .kind = SOFT_MEMORY_DEVICE,
                                                         .address = block->address,
                                                         .bytes = block->bytes,
                                                         .device = (uint32_t)pool->device,
                                                         .context = soft_current() ? soft_current()->uid : UINT32_MAX,
                                                         .stream = soft_stream_id(stream),
                                                         .async = true,
                                                         .pool = facts_of(pool)});
}

static void set_reserved(struct CUmemPoolHandle_st *pool, uint64_t bytes)
{
    if (bytes == pool->reserved) return;
    if (pool->device >= 0 && bytes < pool->reserved) soft_give(pool->device, pool->reserved - bytes);
    pool->reserved = bytes;
    if (bytes > pool->reserved_high) pool->reserved_high = bytes;
    soft_pool_holds(SOFT_pool, pool->device, (uint64_t)(uintptr_t)pool, bytes);
}

static CUmemoryPool new_pool(int device)
{
    CUmemoryPool pool = calloc(1, sizeof *pool);
    if (!pool) abort();
    pool->device = device;
    pool->base = soft_new_address(SOFT_GRANULE);
    pool->next = pools;
    pools = pool;
    return pool;
}

static CUmemoryPool new_default_pool(int device)
{
    CUmemoryPool pool = new_pool(device);
    pool->is_default = true;
    return pool;
}

static CUmemoryPool default_pool(int device)
{
    struct soft_device *at = &soft_devices[device];
    if (!at->default_pool) at->default_pool = at->current_pool = new_default_pool(device);
    return at->default_pool;
}

static bool is_pool(CUmemoryPool pool)
{
    CUmemoryPool known = pools;
    while (known && known != pool)
        known = known->next;
    return known && !known->destroyed;
}

static CUresult create(CUmemoryPool *to, const CUmemPoolProps *props)
{
    if (!to || !props) return CUDA_ERROR_INVALID_VALUE;
    bool on_device = props->location.type == CU_MEM_LOCATION_TYPE_DEVICE;
    if (on_device && !soft_has_device(props->location.id)) return CUDA_ERROR_INVALID_VALUE;
    CUmemoryPool pool = new_pool(on_device ? props->location.id : SOFT_HOST);
    soft_add(SOFT_mempool, pool->device, (uint64_t)(uintptr_t)pool, 0, NULL);
    report_pool(pool, 1, 0);
    *to = pool;
    return CUDA_SUCCESS;
}

static void remove_pool(CUmemoryPool pool)
{
    set_reserved(pool, 0);
    for (CUmemoryPool *at = &pools; *at; at = &(*at)->next) {
        if (*at != pool) continue;
        *at = pool->next;
        break;
    }
    free(pool);
}

/* Destroys a pool. Its blocks live until they are freed; its memory is released with the last of them. */
static CUresult destroy(CUmemoryPool pool)
{
    struct soft_block *block = soft_find(SOFT_mempool, (uint64_t)(uintptr_t)pool);
    if (!block || pool->is_default) return CUDA_ERROR_INVALID_VALUE;
    pool->destroyed = true;
    for (int i = 0; i < soft_device_count; i++)
        if (soft_devices[i].current_pool == pool) soft_devices[i].current_pool = soft_devices[i].default_pool;
    report_pool(pool, 2, 0);
    soft_remove(block);
    if (!pool->blocks) remove_pool(pool);
    return CUDA_SUCCESS;
}

static CUresult alloc(CUdeviceptr *to, size_t bytes, CUmemoryPool pool, CUstream stream)
{
    if (!to || !bytes || !is_pool(pool) || pool->imported) return CUDA_ERROR_INVALID_VALUE;
    if (!soft_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (soft_capturing(stream)) return soft_capture_alloc(soft_capturing(stream), pool->device, to, bytes);
    uint64_t needed = soft_round(pool->used + bytes, SOFT_GRANULE);
    uint64_t more = needed > pool->reserved ? needed - pool->reserved : 0;
    if (pool->device >= 0 && (more || soft_refusing()) && !soft_take(SOFT_pool, pool->device, more, bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    if (more) set_reserved(pool, needed);
    *to = soft_new_address(bytes);
    pool->used += bytes;
    pool->blocks++;
    if (pool->used > pool->used_high) pool->used_high = pool->used;
    struct soft_block *block = soft_add(SOFT_pool, pool->device, *to, bytes, NULL);
    if (!(block->more = malloc(sizeof(void *)))) abort();
    *(void **)block->more = pool;
    report_block(block, pool, SOFT_MEMORY_ALLOCATION, stream);
    return CUDA_SUCCESS;
}

static CUresult alloc_on_device(CUdeviceptr *to, size_t bytes, CUstream stream)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    default_pool(context->device);
    return alloc(to, bytes, soft_devices[context->device].current_pool, stream);
}

void soft_free_pool_block(struct soft_block *block, CUstream stream)
{
    CUmemoryPool pool = *(CUmemoryPool *)block->more;
    if (block->class == SOFT_pool) {
        pool->used -= block->bytes;
        report_block(block, pool, SOFT_MEMORY_RELEASE, stream);
        soft_free_address(block->address, block->bytes);
    }
    soft_remove(block);
    if (!--pool->blocks && pool->destroyed) remove_pool(pool);
}

static void trim(struct CUmemPoolHandle_st *pool, uint64_t keep)
{
    uint64_t needed = soft_round(pool->used, SOFT_GRANULE);
    if (keep < needed) keep = needed;
    if (pool->reserved > keep) set_reserved(pool, soft_round(keep, SOFT_GRANULE));
}

void soft_pools_idle(void)
{
    for (CUmemoryPool pool = pools; pool; pool = pool->next)
        trim(pool, pool->threshold);
}

static CUresult trim_to(CUmemoryPool pool, size_t keep)
{
    if (!is_pool(pool)) return CUDA_ERROR_INVALID_VALUE;
    trim(pool, keep);
    report_pool(pool, 3, keep);
    return CUDA_SUCCESS;
}

static uint64_t *attribute(CUmemoryPool pool, int which)
{
    switch (which) {
    case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
        return &pool->threshold;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
        return &pool->reserved;
    case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
        return &pool->reserved_high;
    case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
        return &pool->used;
    case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
        return &pool->used_high;
    default:
        return NULL;
    }
}

static CUresult set_attribute(CUmemoryPool pool, int which, const void *value)
{
    uint64_t *member = is_pool(pool) ? attribute(pool, which) : NULL;
    if (!member) return CUDA_ERROR_INVALID_VALUE;
    memcpy(member, value, sizeof *member);
    return CUDA_SUCCESS;
}

static CUresult get_attribute(CUmemoryPool pool, int which, void *value)
{
    const uint64_t *member = is_pool(pool) ? attribute(pool, which) : NULL;
    if (!member) return CUDA_ERROR_INVALID_VALUE;
    memcpy(value, member, sizeof *member);
    return CUDA_SUCCESS;
}

/* Exports a pool. No memory is really shared: a handle contains only the device, and a pointer only the block's
 * size. */
static CUresult export_pool(void *handle, CUmemoryPool pool)
{
    if (!is_pool(pool)) return CUDA_ERROR_INVALID_VALUE;
    *(int *)handle = pool->device;
    return CUDA_SUCCESS;
}

static CUresult import_pool(CUmemoryPool *to, void *handle)
{
    int device = (int)(intptr_t)handle;
    if (!soft_has_device(device)) return CUDA_ERROR_INVALID_VALUE;
    *to = new_pool(device);
    (*to)->imported = true;
    soft_add(SOFT_mempool, device, (uint64_t)(uintptr_t)*to, 0, NULL);
    return CUDA_SUCCESS;
}

static CUresult export_pointer(CUmemPoolPtrExportData *data, CUdeviceptr address)
{
    struct soft_block *block = soft_find(SOFT_pool, address);
    if (!block) return CUDA_ERROR_INVALID_VALUE;
    memset(data, 0, sizeof *data);
    memcpy(data->reserved, &block->bytes, sizeof block->bytes);
    return CUDA_SUCCESS;
}

static CUresult import_pointer(CUdeviceptr *to, CUmemoryPool pool, const CUmemPoolPtrExportData *data)
{
    if (!is_pool(pool) || !pool->imported) return CUDA_ERROR_INVALID_VALUE;
    uint64_t bytes;
    memcpy(&bytes, data->reserved, sizeof bytes);
    *to = soft_new_address(bytes);
    pool->blocks++;
    struct soft_block *block = soft_add(SOFT_pool_import, pool->device, *to, bytes, NULL);
    if (!(block->more = malloc(sizeof(void *)))) abort();
    *(void **)block->more = pool;
    return CUDA_SUCCESS;
}

static CUresult get_pool(CUmemoryPool *to, CUdevice device, bool whichever_is_default)
{
    if (!soft_has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    CUmemoryPool pool = default_pool(device);
    *to = whichever_is_default ? pool : soft_devices[device].current_pool;
    return CUDA_SUCCESS;
}

static CUresult set_pool(CUdevice device, CUmemoryPool pool)
{
    if (!soft_has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    if (!is_pool(pool) || pool->device != device) return CUDA_ERROR_INVALID_VALUE;
    default_pool(device);
    soft_devices[device].current_pool = pool;
    return CUDA_SUCCESS;
}

/* The default or current pool at a location. Pools at host locations are not modelled. */
static CUresult get_pool_at(CUmemoryPool *to, const CUmemLocation *location, bool whichever_is_default)
{
    if (!location || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    return get_pool(to, location->id, whichever_is_default);
}

static CUresult set_pool_at(const CUmemLocation *location, CUmemoryPool pool)
{
    if (!location || location->type != CU_MEM_LOCATION_TYPE_DEVICE) return CUDA_ERROR_NOT_SUPPORTED;
    return set_pool(location->id, pool);
}

ENTRY_BOTH(cuMemAllocAsync, alloc_on_device(dptr, bytesize, hStream), (CUdeviceptr *, dptr), (size_t, bytesize),
           (CUstream, hStream))
ENTRY_BOTH(cuMemAllocFromPoolAsync, alloc(dptr, bytesize, pool, hStream), (CUdeviceptr *, dptr), (size_t, bytesize),
           (CUmemoryPool, pool), (CUstream, hStream))
ENTRY(cuMemPoolCreate, create(pool, poolProps), (CUmemoryPool *, pool), (const CUmemPoolProps *, poolProps))
ENTRY(cuMemPoolDestroy, destroy(pool), (CUmemoryPool, pool))
ENTRY(cuMemPoolTrimTo, trim_to(pool, minBytesToKeep), (CUmemoryPool, pool), (size_t, minBytesToKeep))
ENTRY(cuMemPoolSetAttribute, set_attribute(pool, attr, value), (CUmemoryPool, pool), (int, attr), (void *, value))
ENTRY(cuMemPoolGetAttribute, get_attribute(pool, attr, value), (CUmemoryPool, pool), (int, attr), (void *, value))
ENTRY(cuMemPoolExportToShareableHandle, export_pool(handle_out, pool), (void *, handle_out), (CUmemoryPool, pool),
      (int, handleType), (unsigned long long, flags))
ENTRY(cuMemPoolImportFromShareableHandle, import_pool(pool_out, handle), (CUmemoryPool *, pool_out), (void *, handle),
      (int, handleType), (unsigned long long, flags))
ENTRY(cuMemPoolExportPointer, export_pointer(shareData_out, ptr), (CUmemPoolPtrExportData *, shareData_out),
      (CUdeviceptr, ptr))
ENTRY(cuMemPoolImportPointer, import_pointer(ptr_out, pool, shareData), (CUdeviceptr *, ptr_out), (CUmemoryPool, pool),
      (CUmemPoolPtrExportData *, shareData))
ENTRY(cuDeviceSetMemPool, set_pool(dev, pool), (CUdevice, dev), (CUmemoryPool, pool))
ENTRY(cuDeviceGetMemPool, get_pool(pool, dev, false), (CUmemoryPool *, pool), (CUdevice, dev))
ENTRY(cuDeviceGetDefaultMemPool, get_pool(pool_out, dev, true), (CUmemoryPool *, pool_out), (CUdevice, dev))
ENTRY(cuMemGetDefaultMemPool, get_pool_at(pool_out, location, true), (CUmemoryPool *, pool_out),
      (CUmemLocation *, location), (int, type))
ENTRY(cuMemGetMemPool, get_pool_at(pool, location, false), (CUmemoryPool *, pool), (CUmemLocation *, location),
      (int, type))
ENTRY(cuMemSetMemPool, set_pool_at(location, pool), (CUmemLocation *, location), (int, type), (CUmemoryPool, pool))
