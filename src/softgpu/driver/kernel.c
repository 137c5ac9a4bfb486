/* Kernels, which do nothing: their attributes, and whether they could be launched. */
#include "softgpu/driver/driver.h"

#define MOST_THREADS 1024

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

static CUresult launch(unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned x, unsigned y, unsigned z)
{
    if (!grid_x || !grid_y || !grid_z || !x || !y || !z || (uint64_t)x * y * z > MOST_THREADS)
        return CUDA_ERROR_INVALID_VALUE;
    soft_values_changed();
    return CUDA_SUCCESS;
}

static CUresult attribute(int *value, int which)
{
    CUcontext context = soft_current();
    int capability = context ? 10 * soft_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 0) +
                                   soft_attribute(CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0)
                             : 0;
    const int values[] = {[MAX_THREADS_PER_BLOCK] = MOST_THREADS,
                          [NUM_REGS] = 32,
                          [PTX_VERSION] = capability,
                          [BINARY_VERSION] = capability,
                          [MAX_DYNAMIC_SHARED] = 49152};
    *value = which >= 0 && which <= MAX_DYNAMIC_SHARED ? values[which] : 0;
    return CUDA_SUCCESS;
}

static CUresult occupancy(int *blocks, int block_size)
{
    int most = block_size > 0 ? soft_threads_per_sm() / block_size : 1;
    *blocks = most > 0 ? most : 1;
    return CUDA_SUCCESS;
}

/* Accepts any name: nobody looks at a module's code. */
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
ENTRY(cuFuncGetAttribute, attribute(pi, attrib), (int *, pi), (int, attrib), (CUfunction, hfunc))
ENTRY(cuFuncSetAttribute, CUDA_SUCCESS, (CUfunction, hfunc), (int, attrib), (int, value))
ENTRY(cuOccupancyMaxActiveBlocksPerMultiprocessor, occupancy(numBlocks, blockSize), (int *, numBlocks),
      (CUfunction, func), (int, blockSize), (size_t, dynamicSMemSize))
ENTRY(cuLaunchKernelEx,
      launch(config->gridDimX, config->gridDimY, config->gridDimZ, config->blockDimX, config->blockDimY,
             config->blockDimZ),
      (const CUlaunchConfig *, config), (CUfunction, f), (void **, kernelParams), (void **, extra))
ENTRY(cuLinkCreate_v2, link_begun(stateOut), (unsigned, numOptions), (int *, options), (void **, optionValues),
      (void **, stateOut))
ENTRY(cuLinkAddData_v2, CUDA_SUCCESS, (void *, state), (int, type), (void *, data), (size_t, size), (const char *, name),
      (unsigned, numOptions), (int *, options), (void **, optionValues))
ENTRY(cuLinkComplete, link_done(cubinOut, sizeOut), (void *, state), (void **, cubinOut), (size_t *, sizeOut))

/* More arguments than an ENTRY takes. */
EXPORTED CUresult cuTensorMapEncodeTiled(void *tensorMap, int tensorDataType, uint32_t tensorRank, void *globalAddress,
                                         const uint64_t *globalDim, const uint64_t *globalStrides,
                                         const uint32_t *boxDim, const uint32_t *elementStrides, int interleave,
                                         int swizzle, int l2Promotion, int oobFill)
{
    (void)tensorMap, (void)tensorDataType, (void)tensorRank, (void)globalAddress, (void)globalDim, (void)globalStrides;
    (void)boxDim, (void)elementStrides, (void)interleave, (void)swizzle, (void)l2Promotion, (void)oobFill;
    return CUDA_SUCCESS;
}

static CUresult launch_call(const char *name, const unsigned dims[6])
{
    struct soft_call call;
    soft_enter(&call, 0, name, NULL);
    pthread_mutex_lock(&soft_lock);
    if (soft_ready(&call)) call.result = launch(dims[0], dims[1], dims[2], dims[3], dims[4], dims[5]);
    pthread_mutex_unlock(&soft_lock);
    soft_exit(&call);
    return call.result;
}

EXPORTED CUresult cuLaunchKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,
                                 unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ, unsigned sharedMemBytes,
                                 CUstream hStream, void **kernelParams, void **extra)
{
    (void)f, (void)sharedMemBytes, (void)hStream, (void)kernelParams, (void)extra;
    return launch_call("cuLaunchKernel", (unsigned[]){gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ});
}

EXPORTED CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ,
                                            unsigned blockDimX, unsigned blockDimY, unsigned blockDimZ,
                                            unsigned sharedMemBytes, CUstream hStream, void **kernelParams)
{
    (void)f, (void)sharedMemBytes, (void)hStream, (void)kernelParams;
    return launch_call("cuLaunchCooperativeKernel",
                       (unsigned[]){gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ});
}
