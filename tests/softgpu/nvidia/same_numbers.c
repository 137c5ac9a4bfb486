/*
 * Numbers that the stand-in of the runtime hands on to the driver as they are: the runtime's enumerations have the
 * driver's values. Compiled against NVIDIA's headers; a difference does not compile.
 */
#include <cuda.h>
#include <cuda_runtime_api.h>

#define SAME(of_runtime, of_driver) _Static_assert((int)(of_runtime) == (int)(of_driver), #of_runtime);

/* cudaDeviceGetAttribute() */
SAME(cudaDevAttrMaxThreadsPerBlock, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK)
SAME(cudaDevAttrMaxSharedMemoryPerBlock, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK)
SAME(cudaDevAttrWarpSize, CU_DEVICE_ATTRIBUTE_WARP_SIZE)
SAME(cudaDevAttrMultiProcessorCount, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)
SAME(cudaDevAttrL2CacheSize, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE)
SAME(cudaDevAttrMaxThreadsPerMultiProcessor, CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR)
SAME(cudaDevAttrComputeCapabilityMajor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)
SAME(cudaDevAttrComputeCapabilityMinor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)
SAME(cudaDevAttrMaxSharedMemoryPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR)
SAME(cudaDevAttrMaxSharedMemoryPerBlockOptin, CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN)
SAME(cudaDevAttrMaxBlocksPerMultiprocessor, CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR)
/* cudaMemPoolGetAttribute() and -Set- */
SAME(cudaMemPoolAttrReleaseThreshold, CU_MEMPOOL_ATTR_RELEASE_THRESHOLD)
SAME(cudaMemPoolAttrReservedMemCurrent, CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT)
SAME(cudaMemPoolAttrReservedMemHigh, CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH)
SAME(cudaMemPoolAttrUsedMemCurrent, CU_MEMPOOL_ATTR_USED_MEM_CURRENT)
SAME(cudaMemPoolAttrUsedMemHigh, CU_MEMPOOL_ATTR_USED_MEM_HIGH)
/* flags of memory, streams, events and graphs */
SAME(cudaHostAllocPortable, CU_MEMHOSTALLOC_PORTABLE)
SAME(cudaHostAllocMapped, CU_MEMHOSTALLOC_DEVICEMAP)
SAME(cudaHostRegisterMapped, CU_MEMHOSTREGISTER_DEVICEMAP)
SAME(cudaMemAttachGlobal, CU_MEM_ATTACH_GLOBAL)
SAME(cudaIpcMemLazyEnablePeerAccess, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS)
SAME(cudaStreamNonBlocking, CU_STREAM_NON_BLOCKING)
SAME(cudaEventDisableTiming, CU_EVENT_DISABLE_TIMING)
SAME(cudaEventInterprocess, CU_EVENT_INTERPROCESS)
SAME(cudaStreamCaptureModeGlobal, CU_STREAM_CAPTURE_MODE_GLOBAL)
SAME(cudaStreamCaptureModeThreadLocal, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)
SAME(cudaStreamCaptureModeRelaxed, CU_STREAM_CAPTURE_MODE_RELAXED)
SAME(cudaStreamCaptureStatusNone, CU_STREAM_CAPTURE_STATUS_NONE)
SAME(cudaStreamCaptureStatusActive, CU_STREAM_CAPTURE_STATUS_ACTIVE)
SAME(cudaGraphInstantiateFlagAutoFreeOnLaunch, CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH)
/* errors, which the runtime's stand-in passes on, under the runtime's names for them (start.c) */
SAME(cudaErrorMemoryAllocation, CUDA_ERROR_OUT_OF_MEMORY)
SAME(cudaErrorInitializationError, CUDA_ERROR_NOT_INITIALIZED)
SAME(cudaErrorDeviceUninitialized, CUDA_ERROR_INVALID_CONTEXT)
SAME(cudaErrorInvalidResourceHandle, CUDA_ERROR_INVALID_HANDLE)
SAME(cudaErrorSymbolNotFound, CUDA_ERROR_NOT_FOUND)
SAME(cudaErrorNotReady, CUDA_ERROR_NOT_READY)
SAME(cudaErrorHostMemoryAlreadyRegistered, CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED)
SAME(cudaErrorHostMemoryNotRegistered, CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED)
SAME(cudaErrorNotSupported, CUDA_ERROR_NOT_SUPPORTED)
/* what cudaGetDriverEntryPoint() says of a name */
SAME(cudaDriverEntryPointSuccess, 0)
SAME(cudaDriverEntryPointSymbolNotFound, 1)
/* libraryPropertyType, of cublasGetProperty() and cudnnGetProperty() */
SAME(MAJOR_VERSION, 0)
SAME(MINOR_VERSION, 1)
SAME(PATCH_LEVEL, 2)
