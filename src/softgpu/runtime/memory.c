/* Memory and copies: calls of the driver in the thread's context. */
#include "softgpu/runtime/runtime.h"
#include "softgpu/runtime/start.h"
#include "softgpu/runtime/truths.h"

#include <string.h>

#define AT(pointer) ((CUdeviceptr)(uintptr_t)(pointer))

EXPORTED cudaError_t cudaMalloc(void **to, size_t bytes)
{
    cudaError_t error = softrt_ready();
    if (error) return softrt_keep(error);
    *to = NULL; /* zero bytes: NULL, and success */
    return softrt_keep(bytes ? soft_driver.cuMemAlloc_v2((CUdeviceptr *)to, bytes) : cudaSuccess);
}

FORWARD(cudaMemGetInfo, (size_t * free_bytes, size_t *total), cuMemGetInfo_v2(free_bytes, total))
FORWARD(cudaMallocPitch, (void **to, size_t *pitch, size_t width, size_t height),
        cuMemAllocPitch_v2((CUdeviceptr *)to, pitch, width, height, 4))
FORWARD(cudaMallocManaged, (void **to, size_t bytes, unsigned flags),
        cuMemAllocManaged((CUdeviceptr *)to, bytes, flags))
FORWARD(cudaFree, (void *address), cuMemFree_v2(AT(address)))
FORWARD(cudaMallocHost, (void **to, size_t bytes), cuMemHostAlloc(to, bytes, 0))
FORWARD(cudaHostAlloc, (void **to, size_t bytes, unsigned flags), cuMemHostAlloc(to, bytes, flags))
FORWARD(cudaFreeHost, (void *address), cuMemFreeHost(address))
FORWARD(cudaHostRegister, (void *address, size_t bytes, unsigned flags), cuMemHostRegister_v2(address, bytes, flags))
FORWARD(cudaHostUnregister, (void *address), cuMemHostUnregister(address))
FORWARD(cudaMallocAsync, (void **to, size_t bytes, cudaStream_t stream),
        cuMemAllocAsync((CUdeviceptr *)to, bytes, stream))
FORWARD(cudaMallocFromPoolAsync, (void **to, size_t bytes, cudaMemPool_t pool, cudaStream_t stream),
        cuMemAllocFromPoolAsync((CUdeviceptr *)to, bytes, pool, stream))
FORWARD(cudaFreeAsync, (void *address, cudaStream_t stream), cuMemFreeAsync(AT(address), stream))
FORWARD(cudaDeviceGetDefaultMemPool, (cudaMemPool_t * pool, int device), cuDeviceGetDefaultMemPool(pool, device))
FORWARD(cudaMemPoolGetAttribute, (cudaMemPool_t pool, int which, void *value),
        cuMemPoolGetAttribute(pool, which, value))
FORWARD(cudaMemPoolTrimTo, (cudaMemPool_t pool, size_t bytes), cuMemPoolTrimTo(pool, bytes))
FORWARD(cudaIpcGetMemHandle, (cudaIpcMemHandle_t * handle, void *address),
        cuIpcGetMemHandle((CUipcMemHandle *)handle, AT(address)))
FORWARD(cudaIpcCloseMemHandle, (void *address), cuIpcCloseMemHandle(AT(address)))

EXPORTED cudaError_t cudaIpcOpenMemHandle(void **to, cudaIpcMemHandle_t handle, unsigned flags)
{
    CUipcMemHandle of_driver;
    memcpy(&of_driver, &handle, sizeof of_driver);
    cudaError_t error = softrt_ready();
    return softrt_keep(error ? error : soft_driver.cuIpcOpenMemHandle_v2((CUdeviceptr *)to, of_driver, flags));
}

/* The first attributes are about the reuse of memory, which the stand-in driver does not model. */
EXPORTED cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, int which, void *value)
{
    cudaError_t error = softrt_ready();
    if (error || which < CU_MEMPOOL_ATTR_RELEASE_THRESHOLD) return softrt_keep(error);
    return softrt_keep(soft_driver.cuMemPoolSetAttribute(pool, which, value));
}

EXPORTED cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const void *descriptors, size_t count)
{
    (void)pool, (void)descriptors, (void)count;
    return softrt_keep(softrt_ready());
}

EXPORTED cudaError_t cudaHostGetDevicePointer(void **to, void *address, unsigned flags)
{
    (void)flags;
    *to = address;
    return softrt_keep(softrt_ready());
}

EXPORTED cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *to, const void *address)
{
    *to = (struct cudaPointerAttributes){.type = cudaMemoryTypeUnregistered, .device = -2};
    cudaError_t error = softrt_ready();
    int type, device;
    if (error || soft_driver.cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, AT(address)) ||
        soft_driver.cuPointerGetAttribute(&device, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, AT(address)))
        return softrt_keep(error);
    bool on_device = type == CU_MEMORYTYPE_DEVICE;
    to->type = on_device ? cudaMemoryTypeDevice : cudaMemoryTypeHost;
    to->device = device;
    to->devicePointer = (void *)(uintptr_t)address;
    to->hostPointer = on_device ? NULL : (void *)(uintptr_t)address;
    return cudaSuccess;
}

FORWARD(cudaMemcpy, (void *to, const void *from, size_t bytes, int kind), cuMemcpyAsync(AT(to), AT(from), bytes, NULL))
EXPORTED cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes, int kind, cudaStream_t stream)
{
    (void)kind;
    cudaError_t error = softrt_ready();
    if (!error) softrt_copy_truths(to, from);
    return softrt_keep(error ? error : soft_driver.cuMemcpyAsync(AT(to), AT(from), bytes, stream));
}

FORWARD(cudaMemset, (void *to, int value, size_t bytes), cuMemsetD8Async(AT(to), (unsigned char)value, bytes, NULL))
EXPORTED cudaError_t cudaMemsetAsync(void *to, int value, size_t bytes, cudaStream_t stream)
{
    cudaError_t error = softrt_ready();
    if (!error) softrt_forget_truth(to);
    return softrt_keep(error ? error : soft_driver.cuMemsetD8Async(AT(to), (unsigned char)value, bytes, stream));
}

EXPORTED cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t bytes,
                                         cudaStream_t stream)
{
    (void)to_device, (void)from_device;
    cudaError_t error = softrt_ready();
    return softrt_keep(error ? error : soft_driver.cuMemcpyAsync(AT(to), AT(from), bytes, stream));
}

/* Copies row by row. */
EXPORTED cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
                                       size_t height, int kind, cudaStream_t stream)
{
    (void)kind;
    cudaError_t error = softrt_ready();
    for (size_t row = 0; !error && row < height; row++)
        error = soft_driver.cuMemcpyAsync(AT(to) + row * to_pitch, AT(from) + row * from_pitch, width, stream);
    return softrt_keep(error);
}
