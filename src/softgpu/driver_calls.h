/*
 * Every function of the stand-in driver, once:
 *
 *     F(name, version, mode, symbol, cbid, signature)
 *
 * `name` and `version` are the arguments of cuGetProcAddress() (cudaTypedefs.h); `mode` is PLAIN, or THREAD for the
 * _ptsz form of per-thread default streams; `symbol` is the export of libcuda.so.1; `cbid` is CUPTI's number of the
 * function (cupti_driver_cbid.h), or 0 if the stand-in of CUPTI makes no callback for it.
 */
#pragma once

#include "softgpu/cuda_types.h"

#define DRIVER_DEVICE_CALLS(F)                                                                                         \
    F(cuInit, 2000, PLAIN, cuInit, 1, (unsigned Flags))                                                                \
    F(cuDriverGetVersion, 2020, PLAIN, cuDriverGetVersion, 2, (int *driverVersion))                                    \
    F(cuGetErrorString, 6000, PLAIN, cuGetErrorString, 0, (CUresult error, const char **text))                         \
    F(cuGetErrorName, 6000, PLAIN, cuGetErrorName, 0, (CUresult error, const char **text))                             \
    F(cuGetProcAddress, 11030, PLAIN, cuGetProcAddress, 626,                                                           \
      (const char *symbol, void **pfn, int cudaVersion, uint64_t flags))                                               \
    F(cuGetProcAddress, 12000, PLAIN, cuGetProcAddress_v2, 677,                                                        \
      (const char *symbol, void **pfn, int cudaVersion, uint64_t flags, CUdriverProcAddressQueryResult *symbolStatus)) \
    F(cuGetExportTable, 3000, PLAIN, cuGetExportTable, 0, (const void **table, const CUuuid *id))                      \
    F(cuDeviceGet, 2000, PLAIN, cuDeviceGet, 3, (CUdevice * device, int ordinal))                                      \
    F(cuDeviceGetCount, 2000, PLAIN, cuDeviceGetCount, 4, (int *count))                                                \
    F(cuDeviceGetName, 2000, PLAIN, cuDeviceGetName, 5, (char *name, int len, CUdevice dev))                           \
    F(cuDeviceGetUuid, 9020, PLAIN, cuDeviceGetUuid, 482, (CUuuid * uuid, CUdevice dev))                               \
    F(cuDeviceGetUuid, 11040, PLAIN, cuDeviceGetUuid_v2, 647, (CUuuid * uuid, CUdevice dev))                           \
    F(cuDeviceTotalMem, 3020, PLAIN, cuDeviceTotalMem_v2, 259, (size_t * bytes, CUdevice dev))                         \
    F(cuDeviceGetAttribute, 2000, PLAIN, cuDeviceGetAttribute, 9, (int *pi, int attrib, CUdevice dev))                 \
    F(cuDeviceGetPCIBusId, 4010, PLAIN, cuDeviceGetPCIBusId, 0, (char *text, int len, CUdevice dev))

#define DRIVER_CONTEXT_CALLS(F)                                                                                        \
    F(cuCtxCreate, 3020, PLAIN, cuCtxCreate_v2, 235, (CUcontext * pctx, unsigned flags, CUdevice dev))                 \
    F(cuCtxCreate, 11040, PLAIN, cuCtxCreate_v3, 645,                                                                  \
      (CUcontext * pctx, CUexecAffinityParam * paramsArray, int numParams, unsigned flags, CUdevice dev))              \
    F(cuCtxCreate, 12050, PLAIN, cuCtxCreate_v4, 757,                                                                  \
      (CUcontext * pctx, CUctxCreateParams * ctxCreateParams, unsigned flags, CUdevice dev))                           \
    F(cuCtxDestroy, 2000, PLAIN, cuCtxDestroy, 11, (CUcontext ctx))                                                    \
    F(cuCtxDestroy, 4000, PLAIN, cuCtxDestroy_v2, 322, (CUcontext ctx))                                                \
    F(cuCtxPushCurrent, 4000, PLAIN, cuCtxPushCurrent_v2, 323, (CUcontext ctx))                                        \
    F(cuCtxPopCurrent, 4000, PLAIN, cuCtxPopCurrent_v2, 324, (CUcontext * pctx))                                       \
    F(cuCtxSetCurrent, 4000, PLAIN, cuCtxSetCurrent, 303, (CUcontext ctx))                                             \
    F(cuCtxGetCurrent, 4000, PLAIN, cuCtxGetCurrent, 304, (CUcontext * pctx))                                          \
    F(cuCtxGetDevice, 2000, PLAIN, cuCtxGetDevice, 16, (CUdevice * device))                                            \
    F(cuCtxSynchronize, 2000, PLAIN, cuCtxSynchronize, 17, (void))                                                     \
    F(cuCtxSetLimit, 3010, PLAIN, cuCtxSetLimit, 136, (int limit, size_t value))                                       \
    F(cuDevicePrimaryCtxRetain, 7000, PLAIN, cuDevicePrimaryCtxRetain, 386, (CUcontext * pctx, CUdevice dev))          \
    F(cuDevicePrimaryCtxRelease, 7000, PLAIN, cuDevicePrimaryCtxRelease, 387, (CUdevice dev))                          \
    F(cuDevicePrimaryCtxRelease, 11000, PLAIN, cuDevicePrimaryCtxRelease_v2, 544, (CUdevice dev))                      \
    F(cuDevicePrimaryCtxReset, 7000, PLAIN, cuDevicePrimaryCtxReset, 389, (CUdevice dev))                              \
    F(cuDevicePrimaryCtxReset, 11000, PLAIN, cuDevicePrimaryCtxReset_v2, 545, (CUdevice dev))                          \
    F(cuDevicePrimaryCtxGetState, 7000, PLAIN, cuDevicePrimaryCtxGetState, 392,                                        \
      (CUdevice dev, unsigned *flags, int *active))                                                                    \
    F(cuStreamCreate, 2000, PLAIN, cuStreamCreate, 124, (CUstream * phStream, unsigned Flags))                         \
    F(cuStreamCreateWithPriority, 5050, PLAIN, cuStreamCreateWithPriority, 367,                                        \
      (CUstream * phStream, unsigned flags, int priority))                                                             \
    F(cuStreamDestroy, 2000, PLAIN, cuStreamDestroy, 127, (CUstream hStream))                                          \
    F(cuStreamDestroy, 4000, PLAIN, cuStreamDestroy_v2, 326, (CUstream hStream))                                       \
    F(cuStreamSynchronize, 2000, PLAIN, cuStreamSynchronize, 126, (CUstream hStream))                                  \
    F(cuStreamSynchronize, 7000, THREAD, cuStreamSynchronize_ptsz, 440, (CUstream hStream))                            \
    F(cuStreamBeginCapture, 10000, PLAIN, cuStreamBeginCapture, 495, (CUstream hStream))                               \
    F(cuStreamBeginCaptureToGraph, 12030, PLAIN, cuStreamBeginCaptureToGraph, 720,                                     \
      (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const void *dependencyData,                  \
       size_t numDependencies, int mode))                                                                              \
    F(cuStreamBeginCaptureToGraph, 12030, THREAD, cuStreamBeginCaptureToGraph_ptsz, 721,                               \
      (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies, const void *dependencyData,                  \
       size_t numDependencies, int mode))                                                                              \
    F(cuStreamBeginCapture, 10010, PLAIN, cuStreamBeginCapture_v2, 539, (CUstream hStream, int mode))                  \
    F(cuStreamBeginCapture, 10010, THREAD, cuStreamBeginCapture_v2_ptsz, 540, (CUstream hStream, int mode))            \
    F(cuStreamEndCapture, 10000, PLAIN, cuStreamEndCapture, 497, (CUstream hStream, CUgraph * phGraph))                \
    F(cuStreamEndCapture, 10000, THREAD, cuStreamEndCapture_ptsz, 498, (CUstream hStream, CUgraph * phGraph))          \
    F(cuStreamIsCapturing, 10000, PLAIN, cuStreamIsCapturing, 499, (CUstream hStream, int *captureStatus))             \
    F(cuStreamIsCapturing, 10000, THREAD, cuStreamIsCapturing_ptsz, 500, (CUstream hStream, int *captureStatus))       \
    F(cuEventCreate, 2000, PLAIN, cuEventCreate, 118, (CUevent * phEvent, unsigned Flags))                             \
    F(cuEventDestroy, 2000, PLAIN, cuEventDestroy, 122, (CUevent hEvent))                                              \
    F(cuEventDestroy, 4000, PLAIN, cuEventDestroy_v2, 325, (CUevent hEvent))

#define DRIVER_MEMORY_CALLS(F)                                                                                         \
    F(cuMemGetInfo, 3020, PLAIN, cuMemGetInfo_v2, 242, (size_t * free, size_t * total))                                \
    F(cuMemGetAddressRange, 3020, PLAIN, cuMemGetAddressRange_v2, 246,                                                 \
      (CUdeviceptr * pbase, size_t * psize, CUdeviceptr dptr))                                                         \
    F(cuMemAlloc, 2000, PLAIN, cuMemAlloc, 29, (CUdeviceptr_v1 * dptr, unsigned bytesize))                             \
    F(cuMemAlloc, 3020, PLAIN, cuMemAlloc_v2, 243, (CUdeviceptr * dptr, size_t bytesize))                              \
    F(cuMemAllocPitch, 2000, PLAIN, cuMemAllocPitch, 31,                                                               \
      (CUdeviceptr_v1 * dptr, unsigned *pPitch, unsigned WidthInBytes, unsigned Height, unsigned ElementSizeBytes))    \
    F(cuMemAllocPitch, 3020, PLAIN, cuMemAllocPitch_v2, 244,                                                           \
      (CUdeviceptr * dptr, size_t * pPitch, size_t WidthInBytes, size_t Height, unsigned ElementSizeBytes))            \
    F(cuMemFree, 2000, PLAIN, cuMemFree, 33, (CUdeviceptr_v1 dptr))                                                    \
    F(cuMemFree, 3020, PLAIN, cuMemFree_v2, 245, (CUdeviceptr dptr))                                                   \
    F(cuMemAllocManaged, 6000, PLAIN, cuMemAllocManaged, 371, (CUdeviceptr * dptr, size_t bytesize, unsigned flags))   \
    F(cuMemAllocHost, 2000, PLAIN, cuMemAllocHost, 37, (void **pp, unsigned bytesize))                                 \
    F(cuMemAllocHost, 3020, PLAIN, cuMemAllocHost_v2, 294, (void **pp, size_t bytesize))                               \
    F(cuMemHostAlloc, 2020, PLAIN, cuMemHostAlloc, 39, (void **pp, size_t bytesize, unsigned Flags))                   \
    F(cuMemFreeHost, 2000, PLAIN, cuMemFreeHost, 38, (void *p))                                                        \
    F(cuMemHostRegister, 4000, PLAIN, cuMemHostRegister, 301, (void *p, size_t bytesize, unsigned Flags))              \
    F(cuMemHostRegister, 6050, PLAIN, cuMemHostRegister_v2, 379, (void *p, size_t bytesize, unsigned Flags))           \
    F(cuMemHostUnregister, 4000, PLAIN, cuMemHostUnregister, 302, (void *p))                                           \
    F(cuMemHostGetDevicePointer, 3020, PLAIN, cuMemHostGetDevicePointer_v2, 247,                                       \
      (CUdeviceptr * pdptr, void *p, unsigned Flags))                                                                  \
    F(cuArrayCreate, 3020, PLAIN, cuArrayCreate_v2, 272,                                                               \
      (CUarray * pHandle, const CUDA_ARRAY_DESCRIPTOR *pAllocateArray))                                                \
    F(cuArray3DCreate, 3020, PLAIN, cuArray3DCreate_v2, 274,                                                           \
      (CUarray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pAllocateArray))                                              \
    F(cuArrayDestroy, 2000, PLAIN, cuArrayDestroy, 89, (CUarray hArray))                                               \
    F(cuMipmappedArrayCreate, 5000, PLAIN, cuMipmappedArrayCreate, 347,                                                \
      (CUmipmappedArray * pHandle, const CUDA_ARRAY3D_DESCRIPTOR *pMipmappedArrayDesc, unsigned numMipmapLevels))      \
    F(cuMipmappedArrayGetLevel, 5000, PLAIN, cuMipmappedArrayGetLevel, 348,                                            \
      (CUarray * pLevelArray, CUmipmappedArray hMipmappedArray, unsigned level))                                       \
    F(cuMipmappedArrayDestroy, 5000, PLAIN, cuMipmappedArrayDestroy, 349, (CUmipmappedArray hMipmappedArray))          \
    F(cuModuleLoad, 2000, PLAIN, cuModuleLoad, 18, (CUmodule * module, const char *fname))                             \
    F(cuModuleLoadData, 2000, PLAIN, cuModuleLoadData, 19, (CUmodule * module, const void *image))                     \
    F(cuModuleLoadDataEx, 2010, PLAIN, cuModuleLoadDataEx, 20,                                                         \
      (CUmodule * module, const void *image, unsigned numOptions, int *options, void **optionValues))                  \
    F(cuModuleLoadFatBinary, 2000, PLAIN, cuModuleLoadFatBinary, 21, (CUmodule * module, const void *fatCubin))        \
    F(cuModuleUnload, 2000, PLAIN, cuModuleUnload, 22, (CUmodule hmod))                                                \
    F(cuModuleGetGlobal, 3020, PLAIN, cuModuleGetGlobal_v2, 241,                                                       \
      (CUdeviceptr * dptr, size_t * bytes, CUmodule hmod, const char *name))                                           \
    F(cuLibraryLoadData, 12000, PLAIN, cuLibraryLoadData, 678,                                                         \
      (CUlibrary * library, const void *code, int *jitOptions, void **jitOptionsValues, unsigned numJitOptions,        \
       int *libraryOptions, void **libraryOptionValues, unsigned numLibraryOptions))                                   \
    F(cuLibraryLoadFromFile, 12000, PLAIN, cuLibraryLoadFromFile, 679,                                                 \
      (CUlibrary * library, const char *fileName, int *jitOptions, void **jitOptionsValues, unsigned numJitOptions,    \
       int *libraryOptions, void **libraryOptionValues, unsigned numLibraryOptions))                                   \
    F(cuLibraryUnload, 12000, PLAIN, cuLibraryUnload, 680, (CUlibrary library))                                        \
    F(cuLibraryGetGlobal, 12000, PLAIN, cuLibraryGetGlobal, 684,                                                       \
      (CUdeviceptr * dptr, size_t * bytes, CUlibrary library, const char *name))                                       \
    F(cuLibraryGetManaged, 12000, PLAIN, cuLibraryGetManaged, 685,                                                     \
      (CUdeviceptr * dptr, size_t * bytes, CUlibrary library, const char *name))

#define DRIVER_POOL_CALLS(F)                                                                                           \
    F(cuMemAllocAsync, 11020, PLAIN, cuMemAllocAsync, 598, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream))    \
    F(cuMemAllocAsync, 11020, THREAD, cuMemAllocAsync_ptsz, 599,                                                       \
      (CUdeviceptr * dptr, size_t bytesize, CUstream hStream))                                                         \
    F(cuMemFreeAsync, 11020, PLAIN, cuMemFreeAsync, 600, (CUdeviceptr dptr, CUstream hStream))                         \
    F(cuMemFreeAsync, 11020, THREAD, cuMemFreeAsync_ptsz, 601, (CUdeviceptr dptr, CUstream hStream))                   \
    F(cuMemAllocFromPoolAsync, 11020, PLAIN, cuMemAllocFromPoolAsync, 611,                                             \
      (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream))                                      \
    F(cuMemAllocFromPoolAsync, 11020, THREAD, cuMemAllocFromPoolAsync_ptsz, 612,                                       \
      (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream))                                      \
    F(cuMemPoolCreate, 11020, PLAIN, cuMemPoolCreate, 607, (CUmemoryPool * pool, const CUmemPoolProps *poolProps))     \
    F(cuMemPoolDestroy, 11020, PLAIN, cuMemPoolDestroy, 608, (CUmemoryPool pool))                                      \
    F(cuMemPoolTrimTo, 11020, PLAIN, cuMemPoolTrimTo, 602, (CUmemoryPool pool, size_t minBytesToKeep))                 \
    F(cuMemPoolSetAttribute, 11020, PLAIN, cuMemPoolSetAttribute, 603, (CUmemoryPool pool, int attr, void *value))     \
    F(cuMemPoolGetAttribute, 11020, PLAIN, cuMemPoolGetAttribute, 604, (CUmemoryPool pool, int attr, void *value))     \
    F(cuMemPoolExportToShareableHandle, 11020, PLAIN, cuMemPoolExportToShareableHandle, 613,                           \
      (void *handle_out, CUmemoryPool pool, int handleType, unsigned long long flags))                                 \
    F(cuMemPoolImportFromShareableHandle, 11020, PLAIN, cuMemPoolImportFromShareableHandle, 614,                       \
      (CUmemoryPool * pool_out, void *handle, int handleType, unsigned long long flags))                               \
    F(cuMemPoolExportPointer, 11020, PLAIN, cuMemPoolExportPointer, 615,                                               \
      (CUmemPoolPtrExportData * shareData_out, CUdeviceptr ptr))                                                       \
    F(cuMemPoolImportPointer, 11020, PLAIN, cuMemPoolImportPointer, 616,                                               \
      (CUdeviceptr * ptr_out, CUmemoryPool pool, CUmemPoolPtrExportData * shareData))                                  \
    F(cuDeviceSetMemPool, 11020, PLAIN, cuDeviceSetMemPool, 609, (CUdevice dev, CUmemoryPool pool))                    \
    F(cuDeviceGetMemPool, 11020, PLAIN, cuDeviceGetMemPool, 610, (CUmemoryPool * pool, CUdevice dev))                  \
    F(cuDeviceGetDefaultMemPool, 11020, PLAIN, cuDeviceGetDefaultMemPool, 606,                                         \
      (CUmemoryPool * pool_out, CUdevice dev))                                                                         \
    F(cuMemGetDefaultMemPool, 13000, PLAIN, cuMemGetDefaultMemPool, 801,                                               \
      (CUmemoryPool * pool_out, CUmemLocation * location, int type))                                                   \
    F(cuMemGetMemPool, 13000, PLAIN, cuMemGetMemPool, 802, (CUmemoryPool * pool, CUmemLocation * location, int type))  \
    F(cuMemSetMemPool, 13000, PLAIN, cuMemSetMemPool, 803, (CUmemLocation * location, int type, CUmemoryPool pool))

#define DRIVER_SHARING_CALLS(F)                                                                                        \
    F(cuMemAddressReserve, 10020, PLAIN, cuMemAddressReserve, 547,                                                     \
      (CUdeviceptr * ptr, size_t size, size_t alignment, CUdeviceptr addr, unsigned long long flags))                  \
    F(cuMemAddressFree, 10020, PLAIN, cuMemAddressFree, 548, (CUdeviceptr ptr, size_t size))                           \
    F(cuMemCreate, 10020, PLAIN, cuMemCreate, 549,                                                                     \
      (CUmemGenericAllocationHandle * handle, size_t size, const CUmemAllocationProp *prop, unsigned long long flags)) \
    F(cuMemRelease, 10020, PLAIN, cuMemRelease, 550, (CUmemGenericAllocationHandle handle))                            \
    F(cuMemMap, 10020, PLAIN, cuMemMap, 551,                                                                           \
      (CUdeviceptr ptr, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags))    \
    F(cuMemUnmap, 10020, PLAIN, cuMemUnmap, 552, (CUdeviceptr ptr, size_t size))                                       \
    F(cuMemSetAccess, 10020, PLAIN, cuMemSetAccess, 553,                                                               \
      (CUdeviceptr ptr, size_t size, const CUmemAccessDesc *desc, size_t count))                                       \
    F(cuMemExportToShareableHandle, 10020, PLAIN, cuMemExportToShareableHandle, 554,                                   \
      (void *shareableHandle, CUmemGenericAllocationHandle handle, int handleType, unsigned long long flags))          \
    F(cuMemImportFromShareableHandle, 10020, PLAIN, cuMemImportFromShareableHandle, 555,                               \
      (CUmemGenericAllocationHandle * handle, void *osHandle, int shHandleType))                                       \
    F(cuMemRetainAllocationHandle, 11000, PLAIN, cuMemRetainAllocationHandle, 565,                                     \
      (CUmemGenericAllocationHandle * handle, void *addr))                                                             \
    F(cuMemGetAllocationGranularity, 10020, PLAIN, cuMemGetAllocationGranularity, 556,                                 \
      (size_t * granularity, const CUmemAllocationProp *prop, int option))                                             \
    F(cuMemGetAllocationPropertiesFromHandle, 10020, PLAIN, cuMemGetAllocationPropertiesFromHandle, 0,                 \
      (CUmemAllocationProp * prop, CUmemGenericAllocationHandle handle))                                               \
    F(cuMulticastCreate, 12010, PLAIN, cuMulticastCreate, 706,                                                         \
      (CUmemGenericAllocationHandle * mcHandle, const CUmulticastObjectProp *prop))                                    \
    F(cuMulticastAddDevice, 12010, PLAIN, cuMulticastAddDevice, 707,                                                   \
      (CUmemGenericAllocationHandle mcHandle, CUdevice dev))                                                           \
    F(cuMulticastBindMem, 12010, PLAIN, cuMulticastBindMem, 708,                                                       \
      (CUmemGenericAllocationHandle mcHandle, size_t mcOffset, CUmemGenericAllocationHandle memHandle,                 \
       size_t memOffset, size_t size, unsigned long long flags))                                                       \
    F(cuMulticastUnbind, 12010, PLAIN, cuMulticastUnbind, 710,                                                         \
      (CUmemGenericAllocationHandle mcHandle, CUdevice dev, size_t mcOffset, size_t size))                             \
    F(cuIpcGetMemHandle, 4010, PLAIN, cuIpcGetMemHandle, 328, (CUipcMemHandle * pHandle, CUdeviceptr dptr))            \
    F(cuIpcOpenMemHandle, 4010, PLAIN, cuIpcOpenMemHandle, 329,                                                        \
      (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned Flags))                                                    \
    F(cuIpcOpenMemHandle, 11000, PLAIN, cuIpcOpenMemHandle_v2, 567,                                                    \
      (CUdeviceptr * pdptr, CUipcMemHandle handle, unsigned Flags))                                                    \
    F(cuIpcCloseMemHandle, 4010, PLAIN, cuIpcCloseMemHandle, 330, (CUdeviceptr dptr))                                  \
    F(cuImportExternalMemory, 10000, PLAIN, cuImportExternalMemory, 485,                                               \
      (CUexternalMemory * extMem_out, const CUDA_EXTERNAL_MEMORY_HANDLE_DESC *memHandleDesc))                          \
    F(cuExternalMemoryGetMappedBuffer, 10000, PLAIN, cuExternalMemoryGetMappedBuffer, 486,                             \
      (CUdeviceptr * devPtr, CUexternalMemory extMem, const CUDA_EXTERNAL_MEMORY_BUFFER_DESC *bufferDesc))             \
    F(cuExternalMemoryGetMappedMipmappedArray, 10000, PLAIN, cuExternalMemoryGetMappedMipmappedArray, 487,             \
      (CUmipmappedArray * mipmap, CUexternalMemory extMem,                                                             \
       const CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC *mipmapDesc))                                                   \
    F(cuDestroyExternalMemory, 10000, PLAIN, cuDestroyExternalMemory, 488, (CUexternalMemory extMem))

#define DRIVER_GRAPH_CALLS(F)                                                                                          \
    F(cuGraphCreate, 10000, PLAIN, cuGraphCreate, 501, (CUgraph * phGraph, unsigned flags))                            \
    F(cuGraphDestroy, 10000, PLAIN, cuGraphDestroy, 517, (CUgraph hGraph))                                             \
    F(cuGraphAddMemAllocNode, 11040, PLAIN, cuGraphAddMemAllocNode, 638,                                               \
      (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,             \
       CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams))                                                                        \
    F(cuGraphAddMemFreeNode, 11040, PLAIN, cuGraphAddMemFreeNode, 639,                                                 \
      (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,             \
       CUdeviceptr dptr))                                                                                              \
    F(cuGraphAddNode, 12020, PLAIN, cuGraphAddNode, 712,                                                               \
      (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies,             \
       CUgraphNodeParams *nodeParams))                                                                                 \
    F(cuGraphAddNode, 12030, PLAIN, cuGraphAddNode_v2, 723,                                                            \
      (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, const void *dependencyData,         \
       size_t numDependencies, CUgraphNodeParams *nodeParams))                                                         \
    F(cuGraphAddEmptyNode, 10000, PLAIN, cuGraphAddEmptyNode, 0,                                                       \
      (CUgraphNode * phGraphNode, CUgraph hGraph, const CUgraphNode *dependencies, size_t numDependencies))            \
    F(cuGraphNodeGetDependencies, 10000, PLAIN, cuGraphNodeGetDependencies, 0,                                         \
      (CUgraphNode hNode, CUgraphNode * dependencies, size_t * numDependencies))                                       \
    F(cuGraphGetNodes, 10000, PLAIN, cuGraphGetNodes, 0, (CUgraph hGraph, CUgraphNode * nodes, size_t * numNodes))     \
    F(cuGraphNodeGetType, 10000, PLAIN, cuGraphNodeGetType, 0, (CUgraphNode hNode, int *type))                         \
    F(cuGraphDebugDotPrint, 11030, PLAIN, cuGraphDebugDotPrint, 0, (CUgraph hGraph, const char *path, unsigned flags)) \
    F(cuGraphClone, 10000, PLAIN, cuGraphClone, 523, (CUgraph * phGraphClone, CUgraph originalGraph))                  \
    F(cuGraphInstantiate, 10000, PLAIN, cuGraphInstantiate, 513,                                                       \
      (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode * phErrorNode, char *logBuffer, size_t bufferSize))      \
    F(cuGraphInstantiate, 11000, PLAIN, cuGraphInstantiate_v2, 578,                                                    \
      (CUgraphExec * phGraphExec, CUgraph hGraph, CUgraphNode * phErrorNode, char *logBuffer, size_t bufferSize))      \
    F(cuGraphInstantiateWithFlags, 11040, PLAIN, cuGraphInstantiateWithFlags, 643,                                     \
      (CUgraphExec * phGraphExec, CUgraph hGraph, unsigned long long flags))                                           \
    F(cuGraphInstantiateWithParams, 12000, PLAIN, cuGraphInstantiateWithParams, 656,                                   \
      (CUgraphExec * phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS * instantiateParams))                  \
    F(cuGraphInstantiateWithParams, 12000, THREAD, cuGraphInstantiateWithParams_ptsz, 657,                             \
      (CUgraphExec * phGraphExec, CUgraph hGraph, CUDA_GRAPH_INSTANTIATE_PARAMS * instantiateParams))                  \
    F(cuGraphLaunch, 10000, PLAIN, cuGraphLaunch, 514, (CUgraphExec hGraphExec, CUstream hStream))                     \
    F(cuGraphLaunch, 10000, THREAD, cuGraphLaunch_ptsz, 515, (CUgraphExec hGraphExec, CUstream hStream))               \
    F(cuGraphExecDestroy, 10000, PLAIN, cuGraphExecDestroy, 516, (CUgraphExec hGraphExec))                             \
    F(cuDeviceGraphMemTrim, 11040, PLAIN, cuDeviceGraphMemTrim, 640, (CUdevice device))                                \
    F(cuDeviceGetGraphMemAttribute, 11040, PLAIN, cuDeviceGetGraphMemAttribute, 641,                                   \
      (CUdevice device, int attr, void *value))

#define DRIVER_WORK_CALLS(F)                                                                                           \
    F(cuMemcpy, 4000, PLAIN, cuMemcpy, 0, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount))                        \
    F(cuMemcpyAsync, 4000, PLAIN, cuMemcpyAsync, 0,                                                                    \
      (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream))                                          \
    F(cuMemcpyHtoD, 3020, PLAIN, cuMemcpyHtoD_v2, 0, (CUdeviceptr dst, const void *src, size_t ByteCount))             \
    F(cuMemcpyHtoDAsync, 3020, PLAIN, cuMemcpyHtoDAsync_v2, 0,                                                         \
      (CUdeviceptr dst, const void *src, size_t ByteCount, CUstream hStream))                                          \
    F(cuMemcpyDtoH, 3020, PLAIN, cuMemcpyDtoH_v2, 0, (void *dst, CUdeviceptr src, size_t ByteCount))                   \
    F(cuMemcpyDtoHAsync, 3020, PLAIN, cuMemcpyDtoHAsync_v2, 0,                                                         \
      (void *dst, CUdeviceptr src, size_t ByteCount, CUstream hStream))                                                \
    F(cuMemcpyDtoD, 3020, PLAIN, cuMemcpyDtoD_v2, 0, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount))             \
    F(cuMemcpyDtoDAsync, 3020, PLAIN, cuMemcpyDtoDAsync_v2, 0,                                                         \
      (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream))                                          \
    F(cuMemsetD8, 3020, PLAIN, cuMemsetD8_v2, 0, (CUdeviceptr dst, unsigned char value, size_t N))                     \
    F(cuMemsetD8Async, 3020, PLAIN, cuMemsetD8Async, 0,                                                                \
      (CUdeviceptr dst, unsigned char value, size_t N, CUstream hStream))                                              \
    F(cuMemsetD32Async, 3020, PLAIN, cuMemsetD32Async, 0,                                                              \
      (CUdeviceptr dst, unsigned value, size_t N, CUstream hStream))                                                   \
    F(cuPointerGetAttribute, 4000, PLAIN, cuPointerGetAttribute, 0, (void *data, int attribute, CUdeviceptr ptr))      \
    F(cuPointerGetAttributes, 7000, PLAIN, cuPointerGetAttributes, 0,                                                  \
      (unsigned numAttributes, int *attributes, void **data, CUdeviceptr ptr))                                         \
    F(cuLaunchHostFunc, 10000, PLAIN, cuLaunchHostFunc, 0, (CUstream hStream, void (*fn)(void *data), void *userData)) \
    F(cuStreamQuery, 2000, PLAIN, cuStreamQuery, 0, (CUstream hStream))                                                \
    F(cuStreamWaitEvent, 3020, PLAIN, cuStreamWaitEvent, 0, (CUstream hStream, CUevent hEvent, unsigned Flags))        \
    F(cuStreamGetCaptureInfo, 11030, PLAIN, cuStreamGetCaptureInfo_v2, 0,                                              \
      (CUstream hStream, int *captureStatus, unsigned long long *id, CUgraph *graph, const CUgraphNode **dependencies, \
       size_t *numDependencies))                                                                                       \
    F(cuStreamUpdateCaptureDependencies, 11030, PLAIN, cuStreamUpdateCaptureDependencies, 0,                           \
      (CUstream hStream, CUgraphNode * dependencies, size_t numDependencies, unsigned flags))                          \
    F(cuStreamGetPriority, 5050, PLAIN, cuStreamGetPriority, 0, (CUstream hStream, int *priority))                     \
    F(cuThreadExchangeStreamCaptureMode, 10010, PLAIN, cuThreadExchangeStreamCaptureMode, 0, (int *mode))              \
    F(cuStreamWriteValue32, 8000, PLAIN, cuStreamWriteValue32, 0,                                                      \
      (CUstream stream, CUdeviceptr addr, unsigned value, unsigned flags))                                             \
    F(cuEventRecord, 2000, PLAIN, cuEventRecord, 0, (CUevent hEvent, CUstream hStream))                                \
    F(cuEventQuery, 2000, PLAIN, cuEventQuery, 0, (CUevent hEvent))                                                    \
    F(cuEventSynchronize, 2000, PLAIN, cuEventSynchronize, 0, (CUevent hEvent))                                        \
    F(cuEventElapsedTime, 2000, PLAIN, cuEventElapsedTime, 0, (float *pMilliseconds, CUevent hStart, CUevent hEnd))    \
    F(cuModuleGetFunction, 2000, PLAIN, cuModuleGetFunction, 0, (CUfunction * hfunc, CUmodule hmod, const char *name)) \
    F(cuFuncGetAttribute, 2020, PLAIN, cuFuncGetAttribute, 0, (int *pi, int attrib, CUfunction hfunc))                 \
    F(cuFuncSetAttribute, 9000, PLAIN, cuFuncSetAttribute, 0, (CUfunction hfunc, int attrib, int value))               \
    F(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, PLAIN, cuOccupancyMaxActiveBlocksPerMultiprocessor, 0,        \
      (int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize))                                        \
    F(cuLaunchKernel, 4000, PLAIN, cuLaunchKernel, 0,                                                                  \
      (CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX, unsigned blockDimY,  \
       unsigned blockDimZ, unsigned sharedMemBytes, CUstream hStream, void **kernelParams, void **extra))              \
    F(cuLaunchCooperativeKernel, 9000, PLAIN, cuLaunchCooperativeKernel, 0,                                            \
      (CUfunction f, unsigned gridDimX, unsigned gridDimY, unsigned gridDimZ, unsigned blockDimX, unsigned blockDimY,  \
       unsigned blockDimZ, unsigned sharedMemBytes, CUstream hStream, void **kernelParams))                            \
    F(cuLaunchKernelEx, 11060, PLAIN, cuLaunchKernelEx, 0,                                                             \
      (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra))                                 \
    F(cuFuncSetCacheConfig, 3000, PLAIN, cuFuncSetCacheConfig, 0, (CUfunction hfunc, int config))                      \
    F(cuFuncSetSharedMemConfig, 4020, PLAIN, cuFuncSetSharedMemConfig, 0, (CUfunction hfunc, int config))              \
    F(cuFuncGetName, 12030, PLAIN, cuFuncGetName, 0, (const char **name, CUfunction hfunc))                            \
    F(cuFuncLoad, 12040, PLAIN, cuFuncLoad, 0, (CUfunction function))                                                  \
    F(cuFuncGetModule, 11000, PLAIN, cuFuncGetModule, 0, (CUmodule * hmod, CUfunction hfunc))                          \
    F(cuLibraryGetKernel, 12000, PLAIN, cuLibraryGetKernel, 0,                                                         \
      (CUfunction * pKernel, CUlibrary library, const char *name))                                                     \
    F(cuLibraryGetModule, 12000, PLAIN, cuLibraryGetModule, 0, (CUmodule * pMod, CUlibrary library))                   \
    F(cuLibraryGetKernelCount, 12040, PLAIN, cuLibraryGetKernelCount, 0, (unsigned *count, CUlibrary lib))             \
    F(cuLibraryEnumerateKernels, 12040, PLAIN, cuLibraryEnumerateKernels, 0,                                           \
      (CUfunction * kernels, unsigned numKernels, CUlibrary lib))                                                      \
    F(cuKernelGetFunction, 12000, PLAIN, cuKernelGetFunction, 0, (CUfunction * pFunc, CUfunction kernel))              \
    F(cuKernelGetAttribute, 12000, PLAIN, cuKernelGetAttribute, 0,                                                     \
      (int *pi, int attrib, CUfunction kernel, CUdevice dev))                                                          \
    F(cuKernelSetAttribute, 12000, PLAIN, cuKernelSetAttribute, 0,                                                     \
      (int attrib, int val, CUfunction kernel, CUdevice dev))                                                          \
    F(cuKernelSetCacheConfig, 12000, PLAIN, cuKernelSetCacheConfig, 0, (CUfunction kernel, int config, CUdevice dev))  \
    F(cuKernelGetName, 12030, PLAIN, cuKernelGetName, 0, (const char **name, CUfunction hfunc))                        \
    F(cuModuleGetLoadingMode, 11070, PLAIN, cuModuleGetLoadingMode, 0, (int *mode))                                    \
    F(cuOccupancyMaxActiveClusters, 11080, PLAIN, cuOccupancyMaxActiveClusters, 0,                                     \
      (int *numClusters, CUfunction func, const CUlaunchConfig *config))                                               \
    F(cuOccupancyMaxPotentialClusterSize, 11080, PLAIN, cuOccupancyMaxPotentialClusterSize, 0,                         \
      (int *clusterSize, CUfunction func, const CUlaunchConfig *config))                                               \
    F(cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 7000, PLAIN,                                               \
      cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags, 0,                                                         \
      (int *numBlocks, CUfunction func, int blockSize, size_t dynamicSMemSize, unsigned flags))                        \
    F(cuOccupancyAvailableDynamicSMemPerBlock, 10020, PLAIN, cuOccupancyAvailableDynamicSMemPerBlock, 0,               \
      (size_t * bytes, CUfunction func, int numBlocks, int blockSize))                                                 \
    F(cuCtxGetLimit, 3010, PLAIN, cuCtxGetLimit, 0, (size_t * pvalue, int limit))                                      \
    F(cuCtxResetPersistingL2Cache, 11000, PLAIN, cuCtxResetPersistingL2Cache, 0, (void))                               \
    F(cuCtxGetStreamPriorityRange, 5050, PLAIN, cuCtxGetStreamPriorityRange, 0, (int *least, int *greatest))           \
    F(cuStreamSetAttribute, 11000, PLAIN, cuStreamSetAttribute, 0, (CUstream hStream, int attr, const void *value))    \
    F(cuTensorMapReplaceAddress, 12000, PLAIN, cuTensorMapReplaceAddress, 0, (void *tensorMap, void *globalAddress))   \
    F(cuTensorMapEncodeIm2col, 12000, PLAIN, cuTensorMapEncodeIm2col, 0,                                               \
      (void *tensorMap, int tensorDataType, uint32_t tensorRank, void *globalAddress, const uint64_t *globalDim,       \
       const uint64_t *globalStrides, const int *lower, const int *upper, uint32_t channels, uint32_t pixels,          \
       const uint32_t *elementStrides, int interleave, int swizzle, int l2Promotion, int oobFill))                     \
    F(cuMulticastGetGranularity, 12010, PLAIN, cuMulticastGetGranularity, 0,                                           \
      (size_t * granularity, const void *prop, int option))                                                            \
    F(cuTensorMapEncodeTiled, 12000, PLAIN, cuTensorMapEncodeTiled, 0,                                                 \
      (void *tensorMap, int tensorDataType, uint32_t tensorRank, void *globalAddress, const uint64_t *globalDim,       \
       const uint64_t *globalStrides, const uint32_t *boxDim, const uint32_t *elementStrides, int interleave,          \
       int swizzle, int l2Promotion, int oobFill))                                                                     \
    F(cuLinkCreate, 6050, PLAIN, cuLinkCreate_v2, 0,                                                                   \
      (unsigned numOptions, int *options, void **optionValues, void **stateOut))                                       \
    F(cuLinkAddData, 6050, PLAIN, cuLinkAddData_v2, 0,                                                                 \
      (void *state, int type, void *data, size_t size, const char *name, unsigned numOptions, int *options,            \
       void **optionValues))                                                                                           \
    F(cuLinkComplete, 5050, PLAIN, cuLinkComplete, 0, (void *state, void **cubinOut, size_t *sizeOut))

#define DRIVER_CALLS(F)                                                                                                \
    DRIVER_DEVICE_CALLS(F)                                                                                             \
    DRIVER_CONTEXT_CALLS(F)                                                                                            \
    DRIVER_MEMORY_CALLS(F)                                                                                             \
    DRIVER_POOL_CALLS(F)                                                                                               \
    DRIVER_SHARING_CALLS(F)                                                                                            \
    DRIVER_GRAPH_CALLS(F)                                                                                              \
    DRIVER_WORK_CALLS(F)

#define DECLARE_CALL(name, version, mode, symbol, cbid, signature) CUresult symbol signature;
DRIVER_CALLS(DECLARE_CALL)
#undef DECLARE_CALL
