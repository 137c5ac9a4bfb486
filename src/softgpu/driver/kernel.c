/* Kernels, which do nothing: their attributes, and the checks at their launch. */
#include "softgpu/driver/call.h"
#include "softgpu/driver/capture.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/kernel_code.h"
#include "softgpu/driver/profile.h"
#include "softgpu/driver/share.h"
#include "softgpu/driver/values.h"

enum {
    MAX_THREADS_PER_BLOCK,
    SHARED_SIZE,
    CONST_SIZE,
    LOCAL_SIZE,
    NUM_REGS,
    PTX_VERSION,
    BINARY_VERSION,
    CACHE_MODE,
    MAX_DYNAMIC_SHARED
};

/* Any kernel ran on the stream, of the program or of a library: it is a node of a captured graph, and device memory may
 * no longer have what the program copied there. */
static void kernel_ran(CUstream stream)
{
    soft_values_changed();
    soft_capture(stream, CU_GRAPH_NODE_TYPE_KERNEL);
}

static CUresult launch(CUfunction function, CUstream stream, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                       unsigned x, unsigned y, unsigned z)
{
    if (!grid_x || !grid_y || !grid_z || !x || !y || !z || (uint64_t)x * y * z > SOFT_BLOCK_THREADS)
        return CUDA_ERROR_INVALID_VALUE;
    if (!soft_kernel_of(function, false)->code.binary) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    if (!soft_share_launch(function)) return CUDA_ERROR_OUT_OF_MEMORY;
    kernel_ran(stream);
    return CUDA_SUCCESS;
}

static CUresult attribute(int *value, int which, const void *function)
{
    if (!soft_current()) return CUDA_ERROR_INVALID_CONTEXT;
    struct soft_code code = soft_kernel_of(function, true)->code;
    if (!code.binary) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    const int values[] = {[MAX_THREADS_PER_BLOCK] = (int)code.threads,
                          [SHARED_SIZE] = (int)code.shared,
                          [CONST_SIZE] = (int)code.constants,
                          [LOCAL_SIZE] = (int)code.local,
                          [NUM_REGS] = (int)code.registers,
                          [PTX_VERSION] = code.ptx,
                          [BINARY_VERSION] = code.binary,
                          [MAX_DYNAMIC_SHARED] = 49152 - (int)code.shared};
    *value = which >= 0 && which <= MAX_DYNAMIC_SHARED ? values[which] : 0;
    return CUDA_SUCCESS;
}

static CUresult occupancy(int *blocks, const void *function, int threads, size_t shared)
{
    if (!soft_current()) return CUDA_ERROR_INVALID_CONTEXT;
    struct soft_code code = soft_kernel_of(function, true)->code;
    if (!code.binary) return CUDA_ERROR_NO_BINARY_FOR_GPU;
    *blocks = soft_occupancy(&code, threads, shared);
    return CUDA_SUCCESS;
}

/* Finds a kernel of any name, since a module's code is not read. */
static CUresult find_function(CUfunction *to, CUmodule module)
{
    *to = (CUfunction)module;
    return CUDA_SUCCESS;
}

static CUresult link_done(void **code, size_t *bytes)
{
    static char image[] = "softgpu module\n";
    *code = image;
    *bytes = sizeof image;
    return CUDA_SUCCESS;
}

static CUresult link_begun(void **to)
{
    static char state;
    *to = &state;
    return CUDA_SUCCESS;
}

ENTRY(cuModuleGetFunction, find_function(hfunc, hmod), (CUfunction *, hfunc), (CUmodule, hmod), (const char *, name))
ENTRY(cuFuncGetAttribute, attribute(pi, attrib, hfunc), (int *, pi), (int, attrib), (CUfunction, hfunc))
ENTRY(cuFuncSetAttribute, CUDA_SUCCESS, (CUfunction, hfunc), (int, attrib), (int, value))
ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor, occupancy(numBlocks, func, blockSize, dynamicSMemSize),
      (int *, numBlocks), (CUfunction, func), (int, blockSize), (size_t, dynamicSMemSize))
ENTRY(cuLaunchKernelEx,
      launch(f, config->hStream, config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX,
             config->blockDimY, config->blockDimZ),
      (const CUlaunchConfig *, config), (CUfunction, f), (void **, kernelParams), (void **, extra))
ENTRY(cuLinkCreate_v2, link_begun(stateOut), (unsigned, numOptions), (int *, options), (void **, optionValues),
      (void **, stateOut))
ENTRY(cuLinkAddData_v2, CUDA_SUCCESS, (void *, state), (int, type), (void *, data), (size_t, size),
      (const char *, name), (unsigned, numOptions), (int *, options), (void **, optionValues))
ENTRY(cuLinkComplete, link_done(cubinOut, sizeOut), (void *, state), (void **, cubinOut), (size_t *, sizeOut))

static CUresult put_name(const char **to)
{
    *to = "kernel";
    return CUDA_SUCCESS;
}

static CUresult put_number(int *to, int value)
{
    *to = value;
    return CUDA_SUCCESS;
}

static CUresult put_bytes(size_t *to, size_t value)
{
    *to = value;
    return CUDA_SUCCESS;
}

static CUresult put_priorities(int *least, int *greatest)
{
    if (least) *least = 0;
    if (greatest) *greatest = -5;
    return CUDA_SUCCESS;
}

static CUresult put_kernels(CUfunction *to, unsigned count, CUlibrary library)
{
    for (unsigned i = 0; i < count; i++)
        to[i] = (CUfunction)(void *)library;
    return CUDA_SUCCESS;
}

/* Limits of compute capability 9.0, the newest for which kernels are written. */
enum { LAZY_LOADING = 2, CLUSTERS = 16, CLUSTER_SIZE = 8, SHARED_PER_BLOCK = 232448 };

ENTRY(cuFuncSetCacheConfig, CUDA_SUCCESS, (CUfunction, hfunc), (int, config))
ENTRY(cuFuncSetSharedMemConfig, CUDA_SUCCESS, (CUfunction, hfunc), (int, config))
ENTRY(cuFuncGetName, put_name(name), (const char **, name), (CUfunction, hfunc))
ENTRY(cuFuncLoad, CUDA_SUCCESS, (CUfunction, function))
ENTRY(cuFuncGetModule, find_function((CUfunction *)hmod, (CUmodule)hfunc), (CUmodule *, hmod), (CUfunction, hfunc))
ENTRY(cuLibraryGetKernel, find_function(pKernel, (CUmodule)library), (CUfunction *, pKernel), (CUlibrary, library),
      (const char *, name))
ENTRY(cuLibraryGetModule, find_function((CUfunction *)pMod, (CUmodule)library), (CUmodule *, pMod),
      (CUlibrary, library))
ENTRY(cuLibraryGetKernelCount, put_number((int *)count, 1), (unsigned *, count), (CUlibrary, lib))
ENTRY(cuLibraryEnumerateKernels, put_kernels(kernels, numKernels, lib), (CUfunction *, kernels), (unsigned, numKernels),
      (CUlibrary, lib))
ENTRY(cuKernelGetFunction, find_function(pFunc, (CUmodule)kernel), (CUfunction *, pFunc), (CUfunction, kernel))
ENTRY(cuKernelGetAttribute, attribute(pi, attrib, kernel), (int *, pi), (int, attrib), (CUfunction, kernel),
      (CUdevice, dev))
ENTRY(cuKernelSetAttribute, CUDA_SUCCESS, (int, attrib), (int, val), (CUfunction, kernel), (CUdevice, dev))
ENTRY(cuKernelSetCacheConfig, CUDA_SUCCESS, (CUfunction, kernel), (int, config), (CUdevice, dev))
ENTRY(cuKernelGetName, put_name(name), (const char **, name), (CUfunction, hfunc))
ENTRY(cuModuleGetLoadingMode, put_number(mode, LAZY_LOADING), (int *, mode))
ENTRY(cuOccupancyMaxActiveClusters, put_number(numClusters, CLUSTERS), (int *, numClusters), (CUfunction, func),
      (const CUlaunchConfig *, config))
ENTRY(cuOccupancyMaxPotentialClusterSize, put_number(clusterSize, CLUSTER_SIZE), (int *, clusterSize),
      (CUfunction, func), (const CUlaunchConfig *, config))
ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, occupancy(numBlocks, func, blockSize, dynamicSMemSize),
      (int *, numBlocks), (CUfunction, func), (int, blockSize), (size_t, dynamicSMemSize), (unsigned, flags))
ENTRY(cuOccupancyAvailableDynamicSMemPerBlock, put_bytes(bytes, SHARED_PER_BLOCK), (size_t *, bytes),
      (CUfunction, func), (int, numBlocks), (int, blockSize))
ENTRY(cuCtxGetLimit, put_bytes(pvalue, 0), (size_t *, pvalue), (int, limit))
EXPORTED CUresult cuCtxResetPersistingL2Cache(void)
{
    return CUDA_SUCCESS;
}
ENTRY(cuCtxGetStreamPriorityRange, put_priorities(least, greatest), (int *, least), (int *, greatest))
ENTRY(cuStreamSetAttribute, CUDA_SUCCESS, (CUstream, hStream), (int, attr), (const void *, value))
ENTRY(cuTensorMapReplaceAddress, CUDA_SUCCESS, (void *, tensorMap), (void *, globalAddress))

EXPORTED CUresult cuTensorMapEncodeIm2col(void *tensorMap, int tensorDataType, uint32_t tensorRank, void *globalAddress,
                                          const uint64_t *globalDim, const uint64_t *globalStrides, const int *lower,
                                          const int *upper, uint32_t channels, uint32_t pixels,
                                          const uint32_t *elementStrides, int interleave, int swizzle, int l2Promotion,
                                          int oobFill)
{
    (void)tensorMap, (void)tensorDataType, (void)tensorRank, (void)globalAddress, (void)globalDim, (void)globalStrides;
    (void)lower, (void)upper, (void)channels, (void)pixels, (void)elementStrides, (void)interleave, (void)swizzle;
    (void)l2Promotion, (void)oobFill;
    return CUDA_SUCCESS;
}

/* Written out, because it has more arguments than an ENTRY can take. */
EXPORTED CUresult cuTensorMapEncodeTiled(void *tensorMap, int tensorDataType, uint32_t tensorRank, void *globalAddress,
                                         const uint64_t *globalDim, const uint64_t *globalStrides,
                                         const uint32_t *boxDim, const uint32_t *elementStrides, int interleave,
                                         int swizzle, int l2Promotion, int oobFill)
{
    (void)tensorMap, (void)tensorDataType, (void)tensorRank, (void)globalAddress, (void)globalDim, (void)globalStrides;
    (void)boxDim, (void)elementStrides, (void)interleave, (void)swizzle, (void)l2Promotion, (void)oobFill;
    return CUDA_SUCCESS;
}

static CUresult launch_call(const char *name, CUfunction f, CUstream stream, const unsigned dims[6])
{
    struct soft_call call;
    soft_enter(&call, 0, name, NULL);
    pthread_mutex_lock(&soft_lock);
    if (soft_ready(&call)) call.result = launch(f, stream, dims[0], dims[1], dims[2], dims[3], dims[4], dims[5]);
    pthread_mutex_unlock(&soft_lock);
    soft_exit(&call);
    return call.result;
}

EXPORTED CUresult cuLaunchKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,
                                 unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes,
                                 CUstream hStream, void **kernelParams, void **extra)
{
    (void)sharedMemBytes, (void)kernelParams, (void)extra;
    return launch_call("cuLaunchKernel", f, hStream,
                       (unsigned[]){gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ});
}

EXPORTED CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,
                                            unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ,
                                            unsigned sharedMemBytes, CUstream hStream, void **kernelParams)
{
    (void)sharedMemBytes, (void)kernelParams;
    return launch_call("cuLaunchCooperativeKernel", f, hStream,
                       (unsigned[]){gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ});
}

static CUresult cublas_launch(CUstream stream)
{
    if (!soft_share_cublas()) return CUDA_ERROR_OUT_OF_MEMORY;
    kernel_ran(stream);
    return CUDA_SUCCESS;
}

/* softgpu_received() tells what a collective wrote. */
static CUresult nccl_launch(bool connects, CUstream stream)
{
    if (connects && !soft_share_nccl()) return CUDA_ERROR_OUT_OF_MEMORY;
    soft_capture(stream, CU_GRAPH_NODE_TYPE_KERNEL);
    return CUDA_SUCCESS;
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
    LIBRARY_CALL("softgpu_cublas_launch", cublas_launch(stream));
}

EXPORTED int softgpu_nccl_launch(bool connects, void *stream)
{
    LIBRARY_CALL("softgpu_nccl_launch", nccl_launch(connects, stream));
}

EXPORTED int softgpu_launch(void *stream)
{
    LIBRARY_CALL("softgpu_launch", (kernel_ran(stream), CUDA_SUCCESS));
}
