/* Memory of another owner: opened by IPC, or imported from a graphics API. */
#include "softgpu/driver/sharing.h"
#include "softgpu/driver/array.h"
#include "softgpu/driver/call.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/device.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/ledger.h"

#include <stdlib.h>
#include <string.h>

/* The contents of the stand-in's IPC handles. */
struct shared {
    uint64_t bytes;
    int32_t device;
};

struct opened {
    uint64_t times; /* how often this handle was opened: all opens return the same address */
    struct shared of;
    uint64_t exporter;
};

static CUresult ipc_get(CUipcMemHandle *to, CUdeviceptr address)
{
    struct soft_block *block = soft_find(SOFT_linear, address);
    if (!block) return CUDA_ERROR_INVALID_VALUE;
    struct shared shared = {block->bytes, block->device};
    memset(to, 0, sizeof *to);
    memcpy(to->reserved, &shared, sizeof shared);
    memcpy(to->reserved + sizeof shared, &block->address, sizeof block->address);
    return CUDA_SUCCESS;
}

struct search {
    uint64_t exporter;
    struct soft_block *found;
};

static void find_opened(struct soft_block *block, void *context)
{
    struct search *search = context;
    if (block->class == SOFT_ipc && ((struct opened *)block->more)->exporter == search->exporter) search->found = block;
}

static CUresult ipc_open(CUdeviceptr *to, const CUipcMemHandle *handle)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    struct shared shared;
    struct search search = {0};
    memcpy(&shared, handle->reserved, sizeof shared);
    memcpy(&search.exporter, handle->reserved + sizeof shared, sizeof search.exporter);
    if (!shared.bytes || !soft_has_device(shared.device)) return CUDA_ERROR_INVALID_VALUE;
    soft_each(find_opened, &search);
    if (!search.found) {
        search.found = soft_add(SOFT_ipc, shared.device, soft_new_address(shared.bytes), shared.bytes, context);
        struct opened *opened = search.found->more = calloc(1, sizeof *opened);
        if (!opened) abort();
        opened->exporter = search.exporter;
    }
    ((struct opened *)search.found->more)->times++;
    *to = search.found->address;
    return CUDA_SUCCESS;
}

static CUresult ipc_close(CUdeviceptr address)
{
    struct soft_block *block = soft_find(SOFT_ipc, address);
    if (!block) return CUDA_ERROR_INVALID_VALUE;
    if (!--((struct opened *)block->more)->times) soft_free_external(block);
    return CUDA_SUCCESS;
}

static CUresult import(CUexternalMemory *to, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *descriptor)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!to || !descriptor || !descriptor->size) return CUDA_ERROR_INVALID_VALUE;
    void *handle = malloc(16);
    if (!handle) abort();
    soft_add(SOFT_external, context->device, (uint64_t)(uintptr_t)handle, descriptor->size, context);
    *to = handle;
    return CUDA_SUCCESS;
}

static CUresult map_buffer(CUdeviceptr *to, CUexternalMemory memory, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *descriptor)
{
    struct soft_block *block = soft_find(SOFT_external, (uint64_t)(uintptr_t)memory);
    if (!block || !to || !descriptor->size || descriptor->offset + descriptor->size > block->bytes)
        return CUDA_ERROR_INVALID_VALUE;
    *to = soft_new_address(descriptor->size);
    soft_add(SOFT_external_buffer, block->device, *to, descriptor->size, block->context);
    return CUDA_SUCCESS;
}

static CUresult map_mipmap(CUmipmappedArray *to, CUexternalMemory memory,
                           const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *descriptor)
{
    struct soft_block *block = soft_find(SOFT_external, (uint64_t)(uintptr_t)memory);
    if (!block || !to) return CUDA_ERROR_INVALID_VALUE;
    void *handle = malloc(16);
    if (!handle) abort();
    soft_add(SOFT_external_mipmap, block->device, (uint64_t)(uintptr_t)handle,
             soft_array_bytes(&descriptor->arrayDesc, descriptor->numLevels), NULL);
    *to = handle;
    return CUDA_SUCCESS;
}

void soft_free_external(struct soft_block *block)
{
    if (block->class == SOFT_ipc)
        soft_free_address(block->address, block->bytes);
    else
        free((void *)(uintptr_t)block->address);
    soft_remove(block);
}

static CUresult destroy(CUexternalMemory memory)
{
    struct soft_block *block = soft_find(SOFT_external, (uint64_t)(uintptr_t)memory);
    if (!block) return CUDA_ERROR_INVALID_HANDLE;
    soft_free_external(block);
    return CUDA_SUCCESS;
}

ENTRY(cuIpcGetMemHandle, ipc_get(pHandle, dptr), (CUipcMemHandle *, pHandle), (CUdeviceptr, dptr))
ENTRY(cuIpcOpenMemHandle, ipc_open(pdptr, &handle), (CUdeviceptr *, pdptr), (CUipcMemHandle, handle), (unsigned, Flags))
ENTRY(cuIpcOpenMemHandle_v2, ipc_open(pdptr, &handle), (CUdeviceptr *, pdptr), (CUipcMemHandle, handle),
      (unsigned, Flags))
ENTRY(cuIpcCloseMemHandle, ipc_close(dptr), (CUdeviceptr, dptr))
ENTRY(cuImportExternalMemory, import(extMem_out, memHandleDesc), (CUexternalMemory *, extMem_out),
      (const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *, memHandleDesc))
ENTRY(cuExternalMemoryGetMappedBuffer, map_buffer(devPtr, extMem, bufferDesc), (CUdeviceptr *, devPtr),
      (CUexternalMemory, extMem), (const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *, bufferDesc))
ENTRY(cuExternalMemoryGetMappedMipmappedArray, map_mipmap(mipmap, extMem, mipmapDesc), (CUmipmappedArray *, mipmap),
      (CUexternalMemory, extMem), (const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *, mipmapDesc))
ENTRY(cuDestroyExternalMemory, destroy(extMem), (CUexternalMemory, extMem))
