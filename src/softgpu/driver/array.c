/* Arrays and mipmapped arrays: memory without an address, known by its handle. */
#include "softgpu/driver/array.h"
#include "softgpu/driver/call.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/device.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/ledger.h"

#include <stdlib.h>

static uint64_t element_bytes(int format)
{
    switch (format) {
    case 0x01: /* 8-bit integers */
    case 0x08:
        return 1;
    case 0x02: /* 16-bit integers, half */
    case 0x09:
    case 0x10:
        return 2;
    case 0x03: /* 32-bit integers, float */
    case 0x0a:
    case 0x20:
        return 4;
    default:
        return 0;
    }
}

static uint64_t at_least_one(uint64_t value)
{
    return value ? value : 1;
}

uint64_t soft_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels)
{
    uint64_t element = element_bytes(descriptor->Format) * descriptor->NumChannels, bytes = 0;
    bool layers = descriptor->Flags & (CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_CUBEMAP);
    for (unsigned level = 0; level < levels; level++)
        bytes += element * at_least_one(descriptor->Width >> level) * at_least_one(descriptor->Height >> level) *
                 at_least_one(layers ? descriptor->Depth : descriptor->Depth >> level);
    return bytes;
}

static CUresult create(enum soft_class class, void *to, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    uint64_t bytes = soft_array_bytes(descriptor, levels);
    if (!bytes || !descriptor->Width) return CUDA_ERROR_INVALID_VALUE;
    if (!soft_take(class, context->device, bytes, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    void *handle = malloc(16);
    if (!handle) abort();
    *(void **)to = handle;
    struct soft_block *block = soft_add(class, context->device, (uint64_t)(uintptr_t)handle, bytes, context);
    soft_report_memory(block, SOFT_MEMORY_ALLOCATION, SOFT_MEMORY_ARRAY, NULL);
    return CUDA_SUCCESS;
}

static CUresult create_2d(CUarray *to, const CUDA_ARRAY_DESCRIPTOR *descriptor)
{
    if (!to || !descriptor) return CUDA_ERROR_INVALID_VALUE;
    CUDA_ARRAY3D_DESCRIPTOR full = {.Width = descriptor->Width,
                                    .Height = descriptor->Height,
                                    .Format = descriptor->Format,
                                    .NumChannels = descriptor->NumChannels};
    return create(SOFT_array, to, &full, 1);
}

static CUresult create_3d(CUarray *to, const CUDA_ARRAY3D_DESCRIPTOR *descriptor)
{
    return to && descriptor ? create(SOFT_array, to, descriptor, 1) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult create_mipmap(CUmipmappedArray *to, const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels)
{
    return to && descriptor && levels ? create(SOFT_mipmap, to, descriptor, levels) : CUDA_ERROR_INVALID_VALUE;
}

void soft_free_array(struct soft_block *block)
{
    soft_report_memory(block, SOFT_MEMORY_RELEASE, SOFT_MEMORY_ARRAY, NULL);
    soft_give(block->device, block->bytes);
    free((void *)(uintptr_t)block->address);
    soft_remove(block);
}

static CUresult destroy(enum soft_class class, const void *handle)
{
    struct soft_block *block = soft_find(class, (uint64_t)(uintptr_t)handle);
    if (!block) return CUDA_ERROR_INVALID_HANDLE;
    soft_free_array(block);
    return CUDA_SUCCESS;
}

static CUresult destroy_mipmap(CUmipmappedArray handle)
{
    struct soft_block *mapped = soft_find(SOFT_external_mipmap, (uint64_t)(uintptr_t)handle);
    if (!mapped) return destroy(SOFT_mipmap, handle);
    free((void *)(uintptr_t)mapped->address);
    soft_remove(mapped);
    return CUDA_SUCCESS;
}

/* A level shares the mipmap's memory, so its handle is no block. */
static CUresult get_level(CUarray *to, CUmipmappedArray handle, unsigned level)
{
    if (!soft_find(SOFT_mipmap, (uint64_t)(uintptr_t)handle)) return CUDA_ERROR_INVALID_HANDLE;
    *to = (CUarray)(void *)((char *)handle + 1 + level);
    return CUDA_SUCCESS;
}

ENTRY(cuArrayCreate_v2, create_2d(pHandle, pAllocateArray), (CUarray *, pHandle),
      (const CUDA_ARRAY_DESCRIPTOR *, pAllocateArray))
ENTRY(cuArray3DCreate_v2, create_3d(pHandle, pAllocateArray), (CUarray *, pHandle),
      (const CUDA_ARRAY3D_DESCRIPTOR *, pAllocateArray))
ENTRY(cuArrayDestroy, destroy(SOFT_array, hArray), (CUarray, hArray))
ENTRY(cuMipmappedArrayCreate, create_mipmap(pHandle, pMipmappedArrayDesc, numMipmapLevels),
      (CUmipmappedArray *, pHandle), (const CUDA_ARRAY3D_DESCRIPTOR *, pMipmappedArrayDesc),
      (unsigned, numMipmapLevels))
ENTRY(cuMipmappedArrayGetLevel, get_level(pLevelArray, hMipmappedArray, level), (CUarray *, pLevelArray),
      (CUmipmappedArray, hMipmappedArray), (unsigned, level))
ENTRY(cuMipmappedArrayDestroy, destroy_mipmap(hMipmappedArray), (CUmipmappedArray, hMipmappedArray))
