/* Linear, pitched, managed, pinned and registered memory, and copies in it. */
#include "softgpu/driver/memory.h"
#include "softgpu/driver/call.h"
#include "softgpu/driver/capture.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/device.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/ledger.h"
#include "softgpu/driver/pool.h"
#include "softgpu/driver/stream.h"
#include "softgpu/driver/values.h"
#include "softgpu/driver/vmm.h"

#include <stdlib.h>
#include <string.h>

#define PITCH 512

static CUresult hand_out(enum soft_class class, CUdeviceptr *to, uint64_t bytes, uint64_t address)
{
    CUcontext context = soft_current();
    if (!address) { /* no range of addresses of this length is left */
        soft_give(context->device, bytes);
        soft_refused(class, context->device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *to = address;
    struct soft_block *block = soft_add(class, context->device, address, bytes, context);
    soft_report_memory(block, SOFT_MEMORY_ALLOCATION, SOFT_MEMORY_DEVICE, NULL);
    return CUDA_SUCCESS;
}

static CUresult alloc(enum soft_class class, CUdeviceptr *to, uint64_t bytes)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!to || !bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!soft_take(class, context->device, bytes, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    return hand_out(class, to, bytes, soft_new_address(bytes));
}

static CUresult alloc_low(enum soft_class class, CUdeviceptr_v1 *to, uint64_t bytes)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!to || !bytes) return CUDA_ERROR_INVALID_VALUE;
    if (!soft_take(class, context->device, bytes, bytes)) return CUDA_ERROR_OUT_OF_MEMORY;
    CUdeviceptr address;
    CUresult result = hand_out(class, &address, bytes, soft_new_low_address(bytes));
    *to = (CUdeviceptr_v1)address;
    return result;
}

static CUresult alloc_pitch(CUdeviceptr *to, size_t *pitch, size_t width, size_t height)
{
    if (!pitch || !width || !height) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = alloc(SOFT_pitched, to, soft_round(width, PITCH) * height);
    if (result == CUDA_SUCCESS) *pitch = soft_round(width, PITCH);
    return result;
}

static CUresult alloc_pitch_low(CUdeviceptr_v1 *to, unsigned *pitch, unsigned width, unsigned height)
{
    if (!pitch || !width || !height) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = alloc_low(SOFT_pitched, to, soft_round(width, PITCH) * height);
    if (result == CUDA_SUCCESS) *pitch = (unsigned)soft_round(width, PITCH);
    return result;
}

void soft_free_memory(struct soft_block *block)
{
    bool on_host = block->class == SOFT_managed || block->class == SOFT_pinned;
    if (block->class != SOFT_external_buffer)
        soft_report_memory(block, SOFT_MEMORY_RELEASE,
                           block->class == SOFT_managed  ? SOFT_MEMORY_MANAGED
                           : block->class == SOFT_pinned ? SOFT_MEMORY_PINNED
                                                         : SOFT_MEMORY_DEVICE,
                           NULL);
    if (block->class == SOFT_linear || block->class == SOFT_pitched) soft_give(block->device, block->bytes);
    if (on_host)
        free((void *)(uintptr_t)block->address);
    else
        soft_free_address(block->address, block->bytes);
    soft_remove(block);
}

static CUresult free_memory(CUdeviceptr address)
{
    if (!address) return CUDA_SUCCESS;
    struct soft_block *block = soft_find_like(SOFT_linear, address);
    if (!block) return CUDA_ERROR_INVALID_VALUE;
    switch (block->class) {
    case SOFT_linear:
    case SOFT_pitched:
    case SOFT_managed:
    case SOFT_external_buffer:
        soft_free_memory(block);
        return CUDA_SUCCESS;
    case SOFT_pool:
    case SOFT_pool_import:
        soft_free_pool_block(block, NULL);
        return CUDA_SUCCESS;
    case SOFT_graph:
        soft_free_graph_block(block);
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

static CUresult free_async(CUdeviceptr address, CUstream stream)
{
    if (!soft_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (soft_capturing(stream)) return soft_capture_free(soft_capturing(stream), address);
    struct soft_block *block = soft_find_like(SOFT_pool, address);
    if (!block) return CUDA_ERROR_INVALID_VALUE;
    if (block->class == SOFT_pool || block->class == SOFT_pool_import)
        soft_free_pool_block(block, stream);
    else if (block->class == SOFT_graph)
        soft_free_graph_block(block);
    else if (block->class == SOFT_linear)
        soft_free_memory(block);
    else
        return CUDA_ERROR_INVALID_VALUE;
    return CUDA_SUCCESS;
}

/* Allocates host memory, which the program may touch. Managed memory is host memory here, too, so it takes none of a
 * device's. */
static CUresult alloc_host(enum soft_class class, unsigned kind, uint64_t *to, size_t bytes)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!to || !bytes) return CUDA_ERROR_INVALID_VALUE;
    int device = class == SOFT_managed ? context->device : SOFT_HOST;
    void *memory = NULL;
    if (soft_refusing() || bytes > (size_t)1 << 40 || posix_memalign(&memory, 512, bytes)) {
        soft_refused(class, device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *to = (uint64_t)(uintptr_t)memory;
    soft_report_memory(soft_add(class, device, *to, bytes, context), SOFT_MEMORY_ALLOCATION, kind, NULL);
    return CUDA_SUCCESS;
}

static CUresult alloc_pinned(void **to, size_t bytes)
{
    uint64_t address;
    CUresult result = alloc_host(SOFT_pinned, SOFT_MEMORY_PINNED, to ? &address : NULL, bytes);
    if (result == CUDA_SUCCESS) *to = (void *)(uintptr_t)address;
    return result;
}

static CUresult alloc_managed(CUdeviceptr *to, size_t bytes)
{
    uint64_t address;
    CUresult result = alloc_host(SOFT_managed, SOFT_MEMORY_MANAGED, to ? &address : NULL, bytes);
    if (result == CUDA_SUCCESS) *to = address;
    return result;
}

static CUresult free_pinned(void *address)
{
    struct soft_block *block = soft_find(SOFT_pinned, (uint64_t)(uintptr_t)address);
    if (!block) return CUDA_ERROR_INVALID_VALUE;
    soft_free_memory(block);
    return CUDA_SUCCESS;
}

static CUresult host_register(void *address, size_t bytes)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    if (!address || !bytes) return CUDA_ERROR_INVALID_VALUE;
    if (soft_find(SOFT_registered, (uint64_t)(uintptr_t)address)) return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    soft_add(SOFT_registered, SOFT_HOST, (uint64_t)(uintptr_t)address, bytes, context);
    return CUDA_SUCCESS;
}

static CUresult host_unregister(void *address)
{
    struct soft_block *block = soft_find(SOFT_registered, (uint64_t)(uintptr_t)address);
    if (!block) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
    soft_remove(block);
    return CUDA_SUCCESS;
}

static CUresult device_pointer(CUdeviceptr *to, void *address)
{
    *to = (uint64_t)(uintptr_t)address;
    return CUDA_SUCCESS;
}

struct inside {
    uint64_t address;
    const struct soft_block *found;
};

static void find_around(struct soft_block *block, void *context)
{
    struct inside *inside = context;
    if (soft_find_like(SOFT_linear, block->address) == block && inside->address >= block->address &&
        inside->address - block->address < block->bytes)
        inside->found = block;
}

static CUresult address_range(CUdeviceptr *base, size_t *bytes, CUdeviceptr address)
{
    struct inside inside = {address, soft_find_like(SOFT_linear, address)};
    if (!inside.found) soft_each(find_around, &inside);
    if (!inside.found) return CUDA_ERROR_NOT_FOUND;
    if (base) *base = inside.found->address;
    if (bytes) *bytes = inside.found->bytes;
    return CUDA_SUCCESS;
}

static void find_host(struct soft_block *block, void *context)
{
    struct inside *inside = context;
    bool on_host = block->class == SOFT_pinned || block->class == SOFT_registered || block->class == SOFT_managed;
    if (on_host && inside->address >= block->address && inside->address - block->address < block->bytes)
        inside->found = block;
}

/* The device of an address: if there are several devices, the one of the block that contains the address. */
static int device_of(uint64_t address)
{
    struct inside inside = {address, NULL};
    if (soft_device_count > 1) soft_each(find_around, &inside);
    if (inside.found) return inside.found->device;
    struct soft_block *mapping = soft_device_count > 1 ? soft_mapping_at(address) : NULL;
    CUcontext context = soft_current();
    return mapping ? mapping->device : context ? context->device : 0;
}

static CUresult pointer_attribute(void *data, int attribute, CUdeviceptr address)
{
    bool on_device = soft_is_device_address(address);
    struct inside inside = {address, NULL};
    if (!on_device) soft_each(find_host, &inside);
    if (!on_device && !inside.found) return CUDA_ERROR_INVALID_VALUE;
    int value;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        value = on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        value = on_device ? device_of(address) : inside.found->context ? inside.found->context->device : 0;
        break;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    case CU_POINTER_ATTRIBUTE_HOST_POINTER: /* the device pointer, too: host memory has the same address on a device */
        if (on_device && attribute == CU_POINTER_ATTRIBUTE_HOST_POINTER) return CUDA_ERROR_INVALID_VALUE;
        memcpy(data, &address, sizeof address);
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
    case CU_POINTER_ATTRIBUTE_RANGE_SIZE: {
        CUdeviceptr base = address;
        size_t bytes = 0;
        if (on_device && address_range(&base, &bytes, address)) return CUDA_ERROR_INVALID_VALUE;
        if (attribute == CU_POINTER_ATTRIBUTE_RANGE_SIZE) base = bytes;
        memcpy(data, &base, sizeof base);
        return CUDA_SUCCESS;
    }
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
        value = 0;
        break;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        value = inside.found && inside.found->class == SOFT_managed;
        break;
    case CU_POINTER_ATTRIBUTE_MAPPED:
        value = 1;
        break;
    default:
        return CUDA_ERROR_NOT_SUPPORTED;
    }
    memcpy(data, &value, sizeof value);
    return CUDA_SUCCESS;
}

/* An attribute that an address does not have is 0. */
static CUresult pointer_attributes(const int *attributes, unsigned count, void **data, CUdeviceptr address)
{
    for (unsigned i = 0; i < count; i++)
        if (pointer_attribute(data[i], attributes[i], address)) memset(data[i], 0, sizeof(int));
    return CUDA_SUCCESS;
}

ENTRY(cuPointerGetAttributes, pointer_attributes(attributes, numAttributes, data, ptr), (unsigned, numAttributes),
      (int *, attributes), (void **, data), (CUdeviceptr, ptr))
ENTRY(cuPointerGetAttribute, pointer_attribute(data, attribute, ptr), (void *, data), (int, attribute),
      (CUdeviceptr, ptr))
ENTRY(cuMemGetAddressRange_v2, address_range(pbase, psize, dptr), (CUdeviceptr *, pbase), (size_t *, psize),
      (CUdeviceptr, dptr))
ENTRY(cuMemAlloc, alloc_low(SOFT_linear, dptr, bytesize), (CUdeviceptr_v1 *, dptr), (unsigned, bytesize))
ENTRY(cuMemAlloc_v2, alloc(SOFT_linear, dptr, bytesize), (CUdeviceptr *, dptr), (size_t, bytesize))
ENTRY(cuMemAllocPitch, alloc_pitch_low(dptr, pPitch, WidthInBytes, Height), (CUdeviceptr_v1 *, dptr),
      (unsigned *, pPitch), (unsigned, WidthInBytes), (unsigned, Height), (unsigned, ElementSizeBytes))
ENTRY(cuMemAllocPitch_v2, alloc_pitch(dptr, pPitch, WidthInBytes, Height), (CUdeviceptr *, dptr), (size_t *, pPitch),
      (size_t, WidthInBytes), (size_t, Height), (unsigned, ElementSizeBytes))
ENTRY(cuMemFree, free_memory(dptr), (CUdeviceptr_v1, dptr))
ENTRY(cuMemFree_v2, free_memory(dptr), (CUdeviceptr, dptr))
ENTRY_BOTH(cuMemFreeAsync, free_async(dptr, hStream), (CUdeviceptr, dptr), (CUstream, hStream))
ENTRY(cuMemAllocManaged, alloc_managed(dptr, bytesize), (CUdeviceptr *, dptr), (size_t, bytesize), (unsigned, flags))
ENTRY(cuMemAllocHost, alloc_pinned(pp, bytesize), (void **, pp), (unsigned, bytesize))
ENTRY(cuMemAllocHost_v2, alloc_pinned(pp, bytesize), (void **, pp), (size_t, bytesize))
ENTRY(cuMemHostAlloc, alloc_pinned(pp, bytesize), (void **, pp), (size_t, bytesize), (unsigned, Flags))
ENTRY(cuMemFreeHost, free_pinned(p), (void *, p))
ENTRY(cuMemHostRegister, host_register(p, bytesize), (void *, p), (size_t, bytesize), (unsigned, Flags))
ENTRY(cuMemHostRegister_v2, host_register(p, bytesize), (void *, p), (size_t, bytesize), (unsigned, Flags))
ENTRY(cuMemHostUnregister, host_unregister(p), (void *, p))
ENTRY(cuMemHostGetDevicePointer_v2, device_pointer(pdptr, p), (CUdeviceptr *, pdptr), (void *, p), (unsigned, Flags))

static CUresult copy_in(uint64_t to, uint64_t from, uint64_t bytes, CUstream stream)
{
    soft_capture(stream, CU_GRAPH_NODE_TYPE_MEMCPY);
    return soft_copy(to, from, bytes);
}

static CUresult set_in(uint64_t to, unsigned value, unsigned width, uint64_t count, CUstream stream)
{
    soft_capture(stream, CU_GRAPH_NODE_TYPE_MEMSET);
    return soft_set(to, value, width, count);
}

#define AT(pointer) ((uint64_t)(uintptr_t)(pointer))
ENTRY(cuMemcpy, soft_copy(dst, src, ByteCount), (CUdeviceptr, dst), (CUdeviceptr, src), (size_t, ByteCount))
ENTRY(cuMemcpyAsync, copy_in(dst, src, ByteCount, hStream), (CUdeviceptr, dst), (CUdeviceptr, src), (size_t, ByteCount),
      (CUstream, hStream))
ENTRY(cuMemcpyHtoD_v2, soft_copy(dst, AT(src), ByteCount), (CUdeviceptr, dst), (const void *, src), (size_t, ByteCount))
ENTRY(cuMemcpyHtoDAsync_v2, copy_in(dst, AT(src), ByteCount, hStream), (CUdeviceptr, dst), (const void *, src),
      (size_t, ByteCount), (CUstream, hStream))
ENTRY(cuMemcpyDtoH_v2, soft_copy(AT(dst), src, ByteCount), (void *, dst), (CUdeviceptr, src), (size_t, ByteCount))
ENTRY(cuMemcpyDtoHAsync_v2, copy_in(AT(dst), src, ByteCount, hStream), (void *, dst), (CUdeviceptr, src),
      (size_t, ByteCount), (CUstream, hStream))
ENTRY(cuMemcpyDtoD_v2, soft_copy(dst, src, ByteCount), (CUdeviceptr, dst), (CUdeviceptr, src), (size_t, ByteCount))
ENTRY(cuMemcpyDtoDAsync_v2, copy_in(dst, src, ByteCount, hStream), (CUdeviceptr, dst), (CUdeviceptr, src),
      (size_t, ByteCount), (CUstream, hStream))
ENTRY(cuMemsetD8_v2, soft_set(dst, value, 1, N), (CUdeviceptr, dst), (unsigned char, value), (size_t, N))
ENTRY(cuMemsetD8Async, set_in(dst, value, 1, N, hStream), (CUdeviceptr, dst), (unsigned char, value), (size_t, N),
      (CUstream, hStream))
ENTRY(cuMemsetD32Async, set_in(dst, value, 4, N, hStream), (CUdeviceptr, dst), (unsigned, value), (size_t, N),
      (CUstream, hStream))
ENTRY(cuStreamWriteValue32, soft_set(addr, value, 4, 1), (CUstream, stream), (CUdeviceptr, addr), (unsigned, value),
      (unsigned, flags))
