/*
 * The types of NVIDIA's runtime API that the stand-in's answers use, written from its documentation and with its names.
 * If NVIDIA's headers (of CUDA 13) are installed, tests/e2e/check_cuda_nvidia.py compares these types with them.
 * Enumerations are ints.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "softgpu/cuda_types.h"

typedef int cudaError_t;
typedef CUstream cudaStream_t;
typedef CUevent cudaEvent_t;
typedef CUgraph cudaGraph_t;
typedef CUgraphExec cudaGraphExec_t;
typedef CUgraphNode cudaGraphNode_t;
typedef CUmemoryPool cudaMemPool_t;

enum {
    cudaSuccess = 0,
    cudaErrorInvalidValue = 1,
    cudaErrorInvalidConfiguration = 9,
    cudaErrorInsufficientDriver = 35,
    cudaErrorNoDevice = 100,
    cudaErrorInvalidDevice = 101,
    cudaErrorNotSupported = 801,
};

typedef struct {
    unsigned x, y, z;
} dim3;

typedef struct {
    char reserved[64];
} cudaIpcMemHandle_t;

enum { cudaMemoryTypeUnregistered, cudaMemoryTypeHost, cudaMemoryTypeDevice, cudaMemoryTypeManaged };
struct cudaPointerAttributes {
    int type, device;
    void *devicePointer, *hostPointer;
};

/* The first members, which are the same in all versions. */
struct cudaFuncAttributes {
    size_t sharedSizeBytes, constSizeBytes, localSizeBytes;
    int maxThreadsPerBlock, numRegs, ptxVersion, binaryVersion, cacheModeCA, maxDynamicSharedSizeBytes,
        preferredShmemCarveout;
};

typedef struct {
    dim3 gridDim, blockDim;
    size_t dynamicSmemBytes;
    cudaStream_t stream;
    void *attrs;
    unsigned numAttrs;
} cudaLaunchConfig_t;

/* cudaDeviceProp. CUDA 13 dropped the members marked OLD. Members after reservedSharedMemPerBlock are only in CUDA 12
 * and 13. */
#define DEVICE_PROPERTIES(OLD)                                                                                         \
    char name[256];                                                                                                    \
    CUuuid uuid;                                                                                                       \
    char luid[8];                                                                                                      \
    unsigned luidDeviceNodeMask;                                                                                       \
    size_t totalGlobalMem, sharedMemPerBlock;                                                                          \
    int regsPerBlock, warpSize;                                                                                        \
    size_t memPitch;                                                                                                   \
    int maxThreadsPerBlock, maxThreadsDim[3], maxGridSize[3];                                                          \
    OLD(int clockRate;)                                                                                                \
    size_t totalConstMem;                                                                                              \
    int major, minor;                                                                                                  \
    size_t textureAlignment, texturePitchAlignment;                                                                    \
    OLD(int deviceOverlap;)                                                                                            \
    int multiProcessorCount;                                                                                           \
    OLD(int kernelExecTimeoutEnabled;)                                                                                 \
    int integrated, canMapHostMemory;                                                                                  \
    OLD(int computeMode;)                                                                                              \
    int maxTexture1D, maxTexture1DMipmap;                                                                              \
    OLD(int maxTexture1DLinear;)                                                                                       \
    int maxTexture2D[2], maxTexture2DMipmap[2], maxTexture2DLinear[3], maxTexture2DGather[2], maxTexture3D[3],         \
        maxTexture3DAlt[3], maxTextureCubemap, maxTexture1DLayered[2], maxTexture2DLayered[3],                         \
        maxTextureCubemapLayered[2], maxSurface1D, maxSurface2D[2], maxSurface3D[3], maxSurface1DLayered[2],           \
        maxSurface2DLayered[3], maxSurfaceCubemap, maxSurfaceCubemapLayered[2];                                        \
    size_t surfaceAlignment;                                                                                           \
    int concurrentKernels, ECCEnabled, pciBusID, pciDeviceID, pciDomainID, tccDriver, asyncEngineCount,                \
        unifiedAddressing;                                                                                             \
    OLD(int memoryClockRate;)                                                                                          \
    int memoryBusWidth, l2CacheSize, persistingL2CacheMaxSize, maxThreadsPerMultiProcessor, streamPrioritiesSupported, \
        globalL1CacheSupported, localL1CacheSupported;                                                                 \
    size_t sharedMemPerMultiprocessor;                                                                                 \
    int regsPerMultiprocessor, managedMemory, isMultiGpuBoard, multiGpuBoardGroupID, hostNativeAtomicSupported;        \
    OLD(int singleToDoublePrecisionPerfRatio;)                                                                         \
    int pageableMemoryAccess, concurrentManagedAccess, computePreemptionSupported, canUseHostPointerForRegisteredMem,  \
        cooperativeLaunch;                                                                                             \
    OLD(int cooperativeMultiDeviceLaunch;)                                                                             \
    size_t sharedMemPerBlockOptin;                                                                                     \
    int pageableMemoryAccessUsesHostPageTables, directManagedMemAccessFromHost, maxBlocksPerMultiProcessor,            \
        accessPolicyMaxWindowSize;                                                                                     \
    size_t reservedSharedMemPerBlock;

#define KEPT(member) member
#define DROPPED(member)

struct device_properties_11 {
    DEVICE_PROPERTIES(KEPT)
};

#define DEVICE_PROPERTIES_SINCE_12                                                                                     \
    int hostRegisterSupported, sparseCudaArraySupported, hostRegisterReadOnlySupported,                                \
        timelineSemaphoreInteropSupported, memoryPoolsSupported, gpuDirectRDMASupported;                               \
    unsigned gpuDirectRDMAFlushWritesOptions;                                                                          \
    int gpuDirectRDMAWritesOrdering;                                                                                   \
    unsigned memoryPoolSupportedHandleTypes;                                                                           \
    int deferredMappingCudaArraySupported, ipcEventSupported, clusterLaunch, unifiedFunctionPointers;

struct device_properties_12 {
    DEVICE_PROPERTIES(KEPT)
    DEVICE_PROPERTIES_SINCE_12
    int reserved[63];
};

struct device_properties_13 {
    DEVICE_PROPERTIES(DROPPED)
    DEVICE_PROPERTIES_SINCE_12
    int deviceNumaConfig, deviceNumaId, mpsEnabled, hostNumaId;
    unsigned gpuPciDeviceID, gpuPciSubsystemID;
    int hostNumaMultinodeIpcSupported, reserved[56];
};
