/* Compiled code registers kernels and launches them. The kernels do nothing. */
#include "softgpu/runtime/answers.h"
#include "softgpu/runtime/kernels.h"
#include "softgpu/runtime/runtime.h"
#include "softgpu/runtime/start.h"

#include <stdlib.h>

#define NESTED 16

static __thread struct {
    dim3 grid, block;
    size_t shared;
    cudaStream_t stream;
} pushed[NESTED];
static __thread int depth;

EXPORTED unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, cudaStream_t stream)
{
    if (depth == NESTED) return 1;
    pushed[depth].grid = grid;
    pushed[depth].block = block;
    pushed[depth].shared = shared;
    pushed[depth].stream = stream;
    depth++;
    return 0;
}

EXPORTED cudaError_t __cudaPopCallConfiguration(dim3 *grid, dim3 *block, size_t *shared, void *stream)
{
    if (!depth) return cudaErrorInvalidValue;
    depth--;
    *grid = pushed[depth].grid;
    *block = pushed[depth].block;
    *shared = pushed[depth].shared;
    *(cudaStream_t *)stream = pushed[depth].stream;
    return cudaSuccess;
}

EXPORTED void **__cudaRegisterFatBinary(void *binary)
{
    void **handle = malloc(sizeof *handle);
    if (handle) *handle = binary;
    return handle;
}

EXPORTED void __cudaRegisterFatBinaryEnd(void **handle)
{
    (void)handle;
}

EXPORTED void __cudaUnregisterFatBinary(void **handle)
{
    free(handle);
}

EXPORTED void __cudaRegisterFunction(void **handle, const char *function, char *device_function, const char *name,
                                     int limit, void *thread, void *block, void *block_dim, void *grid_dim, int *warp)
{
    (void)name, (void)limit, (void)thread, (void)block;
    (void)block_dim, (void)grid_dim, (void)warp;
    softrt_register_kernel(function, device_function, handle ? *handle : NULL);
}

EXPORTED void __cudaRegisterVar(void **handle, char *variable, char *address, const char *name, int external,
                                size_t bytes, int constant, int global)
{
    (void)handle, (void)variable, (void)address, (void)name, (void)external, (void)bytes, (void)constant, (void)global;
}

/* CUDA 13 looks a kernel up before it launches it. */
EXPORTED cudaError_t __cudaGetKernel(void **to, const void *function)
{
    *to = (void *)(uintptr_t)function;
    return cudaSuccess;
}

EXPORTED cudaError_t cudaGetFuncBySymbol(CUfunction *to, const void *function)
{
    return __cudaGetKernel((void **)to, function);
}

EXPORTED cudaError_t cudaLaunchKernel(const void *function, dim3 grid, dim3 block, void **arguments, size_t shared,
                                      cudaStream_t stream)
{
    cudaError_t error = softrt_ready();
    if (!error)
        error = soft_driver.cuLaunchKernel((CUfunction)(uintptr_t)function, grid.x, grid.y, grid.z, block.x, block.y,
                                           block.z, (unsigned)shared, stream, arguments, NULL);
    if (!error) softrt_expect_answer(function, arguments);
    return softrt_keep(error == CUDA_ERROR_INVALID_VALUE ? cudaErrorInvalidConfiguration : error);
}

EXPORTED cudaError_t __cudaLaunchKernel(void *kernel, dim3 grid, dim3 block, void **arguments, size_t shared,
                                        cudaStream_t stream)
{
    return cudaLaunchKernel(kernel, grid, block, arguments, shared, stream);
}

EXPORTED cudaError_t cudaLaunchCooperativeKernel(const void *function, dim3 grid, dim3 block, void **arguments,
                                                 size_t shared, cudaStream_t stream)
{
    return cudaLaunchKernel(function, grid, block, arguments, shared, stream);
}

EXPORTED cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *function, void **arguments)
{
    return cudaLaunchKernel(function, config->gridDim, config->blockDim, arguments, config->dynamicSmemBytes,
                            config->stream);
}

EXPORTED cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *to, const void *function)
{
    enum { THREADS, SHARED, CONSTANTS, LOCAL, REGISTERS, PTX, BINARY, CACHE, DYNAMIC, ATTRIBUTES }; /* the driver's */
    int values[ATTRIBUTES] = {0};
    cudaError_t error = softrt_ready();
    for (int i = 0; !error && i < ATTRIBUTES; i++)
        error = soft_driver.cuFuncGetAttribute(&values[i], i, (CUfunction)(uintptr_t)function);
    *to = (struct cudaFuncAttributes){.sharedSizeBytes = (size_t)values[SHARED],
                                      .constSizeBytes = (size_t)values[CONSTANTS],
                                      .localSizeBytes = (size_t)values[LOCAL],
                                      .maxThreadsPerBlock = values[THREADS],
                                      .numRegs = values[REGISTERS],
                                      .ptxVersion = values[PTX],
                                      .binaryVersion = values[BINARY],
                                      .maxDynamicSharedSizeBytes = values[DYNAMIC]};
    return softrt_keep(error);
}

EXPORTED cudaError_t cudaFuncSetAttribute(const void *function, int which, int value)
{
    (void)function, (void)which, (void)value;
    return softrt_keep(softrt_ready());
}

EXPORTED cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *function, int block_size,
                                                                   size_t shared)
{
    cudaError_t error = softrt_ready();
    return softrt_keep(error ? error
                             : soft_driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
                                   blocks, (CUfunction)(uintptr_t)function, block_size, shared));
}

EXPORTED cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *function,
                                                                            int block_size, size_t shared,
                                                                            unsigned flags)
{
    (void)flags;
    return cudaOccupancyMaxActiveBlocksPerMultiprocessor(blocks, function, block_size, shared);
}

EXPORTED cudaError_t cudaProfilerStart(void)
{
    return cudaSuccess;
}

EXPORTED cudaError_t cudaProfilerStop(void)
{
    return cudaSuccess;
}
