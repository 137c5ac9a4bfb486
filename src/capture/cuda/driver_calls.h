/*
 * The driver's calls that memprof records. CUPTI's callbacks and the wrappers of libmemprof-hooks.so both use this
 * table: the same rows, the same params structs, and the same code to book them.
 *
 *     X(symbol, base name, version, per thread, cbid, action, number of arguments, (type, argument)...)
 *
 * symbol      what libcuda exports
 * base name,  cuGetProcAddress(base name, v, flags) returns the symbol of the row with the highest `version` up to v.
 * version,    If two rows have this version, MP_CU_LOOKUP_PER_THREAD_STREAM in `flags` chooses the row with
 * per thread  `per thread` 1
 * cbid        of CUPTI's driver domain (CUPTI_DRIVER_TRACE_CBID_symbol)
 * action its effect on the tracks (booking.c): calls of one action have the same arguments, as far as the action reads
 * them
 */
#pragma once

#include <stdbool.h>

#include "capture/cuda/driver_abi.h"

#define MP_CUDA_LINEAR_CALLS(X)                                                                                        \
    X(cuMemAlloc_v2, "cuMemAlloc", 3020, 0, 243, ALLOC, 2, (mp_cu_ptr *, dptr), (size_t, bytesize))                    \
    X(cuMemAllocPitch_v2, "cuMemAllocPitch", 3020, 0, 244, ALLOC_PITCH, 5, (mp_cu_ptr *, dptr), (size_t *, pPitch),    \
      (size_t, WidthInBytes), (size_t, Height), (unsigned, ElementSizeBytes))                                          \
    X(cuMemAllocManaged, "cuMemAllocManaged", 6000, 0, 371, ALLOC_MANAGED, 3, (mp_cu_ptr *, dptr), (size_t, bytesize), \
      (unsigned, flags))                                                                                               \
    X(cuMemFree_v2, "cuMemFree", 3020, 0, 245, FREE, 1, (mp_cu_ptr, dptr))

#define MP_CUDA_HOST_CALLS(X)                                                                                          \
    X(cuMemAllocHost_v2, "cuMemAllocHost", 3020, 0, 294, HOST_ALLOC, 2, (void **, pp), (size_t, bytesize))             \
    X(cuMemHostAlloc, "cuMemHostAlloc", 2020, 0, 39, HOST_ALLOC, 3, (void **, pp), (size_t, bytesize),                 \
      (unsigned, Flags))                                                                                               \
    X(cuMemFreeHost, "cuMemFreeHost", 2000, 0, 38, HOST_FREE, 1, (void *, p))                                          \
    X(cuMemHostRegister_v2, "cuMemHostRegister", 6050, 0, 379, HOST_REGISTER, 3, (void *, p), (size_t, bytesize),      \
      (unsigned, Flags))                                                                                               \
    X(cuMemHostRegister, "cuMemHostRegister", 4000, 0, 301, HOST_REGISTER, 3, (void *, p), (size_t, bytesize),         \
      (unsigned, Flags))                                                                                               \
    X(cuMemHostUnregister, "cuMemHostUnregister", 4000, 0, 302, HOST_UNREGISTER, 1, (void *, p))

#define MP_CUDA_POOL_CALLS(X)                                                                                          \
    X(cuMemAllocAsync, "cuMemAllocAsync", 11020, 0, 598, ALLOC_ASYNC, 3, (mp_cu_ptr *, dptr), (size_t, bytesize),      \
      (mp_cu_handle, hStream))                                                                                         \
    X(cuMemAllocAsync_ptsz, "cuMemAllocAsync", 11020, 1, 599, ALLOC_ASYNC, 3, (mp_cu_ptr *, dptr), (size_t, bytesize), \
      (mp_cu_handle, hStream))                                                                                         \
    X(cuMemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", 11020, 0, 611, ALLOC_FROM_POOL, 4, (mp_cu_ptr *, dptr),      \
      (size_t, bytesize), (mp_cu_handle, pool), (mp_cu_handle, hStream))                                               \
    X(cuMemAllocFromPoolAsync_ptsz, "cuMemAllocFromPoolAsync", 11020, 1, 612, ALLOC_FROM_POOL, 4, (mp_cu_ptr *, dptr), \
      (size_t, bytesize), (mp_cu_handle, pool), (mp_cu_handle, hStream))                                               \
    X(cuMemFreeAsync, "cuMemFreeAsync", 11020, 0, 600, FREE_ASYNC, 2, (mp_cu_ptr, dptr), (mp_cu_handle, hStream))      \
    X(cuMemFreeAsync_ptsz, "cuMemFreeAsync", 11020, 1, 601, FREE_ASYNC, 2, (mp_cu_ptr, dptr), (mp_cu_handle, hStream)) \
    X(cuMemPoolCreate, "cuMemPoolCreate", 11020, 0, 607, POOL_CREATE, 2, (mp_cu_handle *, pool),                       \
      (const struct mp_cu_pool_props *, poolProps))                                                                    \
    X(cuMemPoolDestroy, "cuMemPoolDestroy", 11020, 0, 608, POOL_DESTROY, 1, (mp_cu_handle, pool))                      \
    X(cuMemPoolTrimTo, "cuMemPoolTrimTo", 11020, 0, 602, POOL_TRIM, 2, (mp_cu_handle, pool), (size_t, minBytesToKeep)) \
    X(cuMemPoolImportFromShareableHandle, "cuMemPoolImportFromShareableHandle", 11020, 0, 614, POOL_IMPORT, 4,         \
      (mp_cu_handle *, pool_out), (void *, handle), (int, handleType), (unsigned long long, flags))                    \
    X(cuMemPoolImportPointer, "cuMemPoolImportPointer", 11020, 0, 616, POOL_IMPORT_POINTER, 3, (mp_cu_ptr *, ptr_out), \
      (mp_cu_handle, pool), (void *, shareData))                                                                       \
    X(cuDeviceGetDefaultMemPool, "cuDeviceGetDefaultMemPool", 11020, 0, 606, POOL_OF_DEVICE, 2,                        \
      (mp_cu_handle *, pool_out), (int, dev))                                                                          \
    X(cuDeviceGetMemPool, "cuDeviceGetMemPool", 11020, 0, 610, POOL_OF_DEVICE, 2, (mp_cu_handle *, pool), (int, dev))  \
    X(cuDeviceSetMemPool, "cuDeviceSetMemPool", 11020, 0, 609, POOL_SET, 2, (int, dev), (mp_cu_handle, pool))          \
    X(cuMemGetDefaultMemPool, "cuMemGetDefaultMemPool", 13000, 0, 801, POOL_OF_LOCATION, 3,                            \
      (mp_cu_handle *, pool_out), (struct mp_cu_location *, location), (int, type))                                    \
    X(cuMemGetMemPool, "cuMemGetMemPool", 13000, 0, 802, POOL_OF_LOCATION, 3, (mp_cu_handle *, pool),                  \
      (struct mp_cu_location *, location), (int, type))                                                                \
    X(cuMemSetMemPool, "cuMemSetMemPool", 13000, 0, 803, POOL_SET_LOCATION, 3, (struct mp_cu_location *, location),    \
      (int, type), (mp_cu_handle, pool))

#define MP_CUDA_VMM_CALLS(X)                                                                                           \
    X(cuMemAddressReserve, "cuMemAddressReserve", 10020, 0, 547, ADDRESS_RESERVE, 5, (mp_cu_ptr *, ptr),               \
      (size_t, size), (size_t, alignment), (mp_cu_ptr, addr), (unsigned long long, flags))                             \
    X(cuMemAddressFree, "cuMemAddressFree", 10020, 0, 548, ADDRESS_FREE, 2, (mp_cu_ptr, ptr), (size_t, size))          \
    X(cuMemCreate, "cuMemCreate", 10020, 0, 549, VMM_CREATE, 4, (mp_cu_ptr *, handle), (size_t, size),                 \
      (const struct mp_cu_allocation_prop *, prop), (unsigned long long, flags))                                       \
    X(cuMemRelease, "cuMemRelease", 10020, 0, 550, VMM_RELEASE, 1, (mp_cu_ptr, handle))                                \
    X(cuMemMap, "cuMemMap", 10020, 0, 551, VMM_MAP, 5, (mp_cu_ptr, ptr), (size_t, size), (size_t, offset),             \
      (mp_cu_ptr, handle), (unsigned long long, flags))                                                                \
    X(cuMemUnmap, "cuMemUnmap", 10020, 0, 552, VMM_UNMAP, 2, (mp_cu_ptr, ptr), (size_t, size))                         \
    X(cuMemImportFromShareableHandle, "cuMemImportFromShareableHandle", 10020, 0, 555, VMM_IMPORT, 3,                  \
      (mp_cu_ptr *, handle), (void *, osHandle), (int, shHandleType))                                                  \
    X(cuMemRetainAllocationHandle, "cuMemRetainAllocationHandle", 11000, 0, 565, VMM_RETAIN, 2, (mp_cu_ptr *, handle), \
      (void *, addr))                                                                                                  \
    X(cuMulticastCreate, "cuMulticastCreate", 12010, 0, 706, MULTICAST_CREATE, 2, (mp_cu_ptr *, mcHandle),             \
      (const struct mp_cu_multicast_prop *, prop))                                                                     \
    X(cuMulticastBindMem, "cuMulticastBindMem", 12010, 0, 708, MULTICAST_BIND, 6, (mp_cu_ptr, mcHandle),               \
      (size_t, mcOffset), (mp_cu_ptr, memHandle), (size_t, memOffset), (size_t, size), (unsigned long long, flags))    \
    X(cuMulticastUnbind, "cuMulticastUnbind", 12010, 0, 710, MULTICAST_UNBIND, 4, (mp_cu_ptr, mcHandle), (int, dev),   \
      (size_t, mcOffset), (size_t, size))

#define MP_CUDA_ARRAY_CALLS(X)                                                                                         \
    X(cuArrayCreate_v2, "cuArrayCreate", 3020, 0, 272, ARRAY_CREATE, 2, (mp_cu_handle *, pHandle),                     \
      (const struct mp_cu_array *, pAllocateArray))                                                                    \
    X(cuArray3DCreate_v2, "cuArray3DCreate", 3020, 0, 274, ARRAY3D_CREATE, 2, (mp_cu_handle *, pHandle),               \
      (const struct mp_cu_array3d *, pAllocateArray))                                                                  \
    X(cuArrayDestroy, "cuArrayDestroy", 2000, 0, 89, ARRAY_DESTROY, 1, (mp_cu_handle, hArray))                         \
    X(cuMipmappedArrayCreate, "cuMipmappedArrayCreate", 5000, 0, 347, MIPMAP_CREATE, 3, (mp_cu_handle *, pHandle),     \
      (const struct mp_cu_array3d *, pMipmappedArrayDesc), (unsigned, numMipmapLevels))                                \
    X(cuMipmappedArrayDestroy, "cuMipmappedArrayDestroy", 5000, 0, 349, MIPMAP_DESTROY, 1,                             \
      (mp_cu_handle, hMipmappedArray))

#define MP_CUDA_IMPORT_CALLS(X)                                                                                        \
    X(cuIpcOpenMemHandle_v2, "cuIpcOpenMemHandle", 11000, 0, 567, IPC_OPEN, 3, (mp_cu_ptr *, pdptr),                   \
      (struct mp_cu_ipc_handle, handle), (unsigned, Flags))                                                            \
    X(cuIpcOpenMemHandle, "cuIpcOpenMemHandle", 4010, 0, 329, IPC_OPEN, 3, (mp_cu_ptr *, pdptr),                       \
      (struct mp_cu_ipc_handle, handle), (unsigned, Flags))                                                            \
    X(cuIpcCloseMemHandle, "cuIpcCloseMemHandle", 4010, 0, 330, IPC_CLOSE, 1, (mp_cu_ptr, dptr))                       \
    X(cuImportExternalMemory, "cuImportExternalMemory", 10000, 0, 485, EXTERNAL_IMPORT, 2,                             \
      (mp_cu_handle *, extMem_out), (const struct mp_cu_external_memory *, memHandleDesc))                             \
    X(cuExternalMemoryGetMappedBuffer, "cuExternalMemoryGetMappedBuffer", 10000, 0, 486, EXTERNAL_BUFFER, 3,           \
      (mp_cu_ptr *, devPtr), (mp_cu_handle, extMem), (const struct mp_cu_external_buffer *, bufferDesc))               \
    X(cuExternalMemoryGetMappedMipmappedArray, "cuExternalMemoryGetMappedMipmappedArray", 10000, 0, 487,               \
      EXTERNAL_MIPMAP, 3, (mp_cu_handle *, mipmap), (mp_cu_handle, extMem),                                            \
      (const struct mp_cu_external_mipmap *, mipmapDesc))                                                              \
    X(cuDestroyExternalMemory, "cuDestroyExternalMemory", 10000, 0, 488, EXTERNAL_DESTROY, 1, (mp_cu_handle, extMem))

#define MP_CUDA_GRAPH_CALLS(X)                                                                                         \
    X(cuStreamBeginCapture_v2, "cuStreamBeginCapture", 10010, 0, 539, CAPTURE_BEGIN, 2, (mp_cu_handle, hStream),       \
      (int, mode))                                                                                                     \
    X(cuStreamBeginCapture_v2_ptsz, "cuStreamBeginCapture", 10010, 1, 540, CAPTURE_BEGIN, 2, (mp_cu_handle, hStream),  \
      (int, mode))                                                                                                     \
    X(cuStreamBeginCapture, "cuStreamBeginCapture", 10000, 0, 495, CAPTURE_BEGIN, 1, (mp_cu_handle, hStream))          \
    X(cuStreamBeginCapture_ptsz, "cuStreamBeginCapture", 10000, 1, 496, CAPTURE_BEGIN, 1, (mp_cu_handle, hStream))     \
    X(cuStreamBeginCaptureToGraph, "cuStreamBeginCaptureToGraph", 12030, 0, 720, CAPTURE_BEGIN, 6,                     \
      (mp_cu_handle, hStream), (mp_cu_handle, hGraph), (const mp_cu_handle *, dependencies),                           \
      (const void *, dependencyData), (size_t, numDependencies), (int, mode))                                          \
    X(cuStreamBeginCaptureToGraph_ptsz, "cuStreamBeginCaptureToGraph", 12030, 1, 721, CAPTURE_BEGIN, 6,                \
      (mp_cu_handle, hStream), (mp_cu_handle, hGraph), (const mp_cu_handle *, dependencies),                           \
      (const void *, dependencyData), (size_t, numDependencies), (int, mode))                                          \
    X(cuStreamEndCapture, "cuStreamEndCapture", 10000, 0, 497, CAPTURE_END, 2, (mp_cu_handle, hStream),                \
      (mp_cu_handle *, phGraph))                                                                                       \
    X(cuStreamEndCapture_ptsz, "cuStreamEndCapture", 10000, 1, 498, CAPTURE_END, 2, (mp_cu_handle, hStream),           \
      (mp_cu_handle *, phGraph))                                                                                       \
    X(cuGraphCreate, "cuGraphCreate", 10000, 0, 501, GRAPH_CREATE, 2, (mp_cu_handle *, phGraph), (unsigned, flags))    \
    X(cuGraphClone, "cuGraphClone", 10000, 0, 523, GRAPH_CLONE, 2, (mp_cu_handle *, phGraphClone),                     \
      (mp_cu_handle, originalGraph))                                                                                   \
    X(cuGraphDestroy, "cuGraphDestroy", 10000, 0, 517, GRAPH_DESTROY, 1, (mp_cu_handle, hGraph))                       \
    X(cuGraphAddMemAllocNode, "cuGraphAddMemAllocNode", 11040, 0, 638, GRAPH_ALLOC_NODE, 5,                            \
      (mp_cu_handle *, phGraphNode), (mp_cu_handle, hGraph), (const mp_cu_handle *, dependencies),                     \
      (size_t, numDependencies), (struct mp_cu_alloc_node *, nodeParams))                                              \
    X(cuGraphAddMemFreeNode, "cuGraphAddMemFreeNode", 11040, 0, 639, GRAPH_FREE_NODE, 5,                               \
      (mp_cu_handle *, phGraphNode), (mp_cu_handle, hGraph), (const mp_cu_handle *, dependencies),                     \
      (size_t, numDependencies), (mp_cu_ptr, dptr))                                                                    \
    X(cuGraphAddNode_v2, "cuGraphAddNode", 12030, 0, 723, GRAPH_NODE_V2, 6, (mp_cu_handle *, phGraphNode),             \
      (mp_cu_handle, hGraph), (const mp_cu_handle *, dependencies), (const void *, dependencyData),                    \
      (size_t, numDependencies), (struct mp_cu_node_params *, nodeParams))                                             \
    X(cuGraphAddNode, "cuGraphAddNode", 12020, 0, 712, GRAPH_NODE, 5, (mp_cu_handle *, phGraphNode),                   \
      (mp_cu_handle, hGraph), (const mp_cu_handle *, dependencies), (size_t, numDependencies),                         \
      (struct mp_cu_node_params *, nodeParams))                                                                        \
    X(cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", 11040, 0, 643, GRAPH_INSTANTIATE, 3,                 \
      (mp_cu_handle *, phGraphExec), (mp_cu_handle, hGraph), (unsigned long long, flags))                              \
    X(cuGraphInstantiate_v2, "cuGraphInstantiate", 11000, 0, 578, GRAPH_INSTANTIATE, 5, (mp_cu_handle *, phGraphExec), \
      (mp_cu_handle, hGraph), (mp_cu_handle *, phErrorNode), (char *, logBuffer), (size_t, bufferSize))                \
    X(cuGraphInstantiate, "cuGraphInstantiate", 10000, 0, 513, GRAPH_INSTANTIATE, 5, (mp_cu_handle *, phGraphExec),    \
      (mp_cu_handle, hGraph), (mp_cu_handle *, phErrorNode), (char *, logBuffer), (size_t, bufferSize))                \
    X(cuGraphInstantiateWithParams, "cuGraphInstantiateWithParams", 12000, 0, 656, GRAPH_INSTANTIATE, 3,               \
      (mp_cu_handle *, phGraphExec), (mp_cu_handle, hGraph), (void *, instantiateParams))                              \
    X(cuGraphInstantiateWithParams_ptsz, "cuGraphInstantiateWithParams", 12000, 1, 657, GRAPH_INSTANTIATE, 3,          \
      (mp_cu_handle *, phGraphExec), (mp_cu_handle, hGraph), (void *, instantiateParams))                              \
    X(cuGraphExecDestroy, "cuGraphExecDestroy", 10000, 0, 516, GRAPH_EXEC_DESTROY, 1, (mp_cu_handle, hGraphExec))      \
    X(cuGraphLaunch, "cuGraphLaunch", 10000, 0, 514, GRAPH_LAUNCH, 2, (mp_cu_handle, hGraph), (mp_cu_handle, hStream)) \
    X(cuGraphLaunch_ptsz, "cuGraphLaunch", 10000, 1, 515, GRAPH_LAUNCH, 2, (mp_cu_handle, hGraphExec),                 \
      (mp_cu_handle, hStream))                                                                                         \
    X(cuDeviceGraphMemTrim, "cuDeviceGraphMemTrim", 11040, 0, 640, GRAPH_TRIM, 1, (int, device))                       \
    X(cuDeviceGetGraphMemAttribute, "cuDeviceGetGraphMemAttribute", 11040, 0, 641, GRAPH_ATTRIBUTE, 3, (int, device),  \
      (int, attr), (void *, value))

#define MP_CUDA_HANDLE_CALLS(X)                                                                                        \
    X(cuCtxCreate_v4, "cuCtxCreate", 12050, 0, 757, CONTEXT_CREATE_V4, 4, (mp_cu_handle *, pctx),                      \
      (void *, ctxCreateParams), (unsigned, flags), (int, dev))                                                        \
    X(cuCtxCreate_v3, "cuCtxCreate", 11040, 0, 645, CONTEXT_CREATE_V3, 5, (mp_cu_handle *, pctx),                      \
      (void *, paramsArray), (int, numParams), (unsigned, flags), (int, dev))                                          \
    X(cuCtxCreate_v2, "cuCtxCreate", 3020, 0, 235, CONTEXT_CREATE, 3, (mp_cu_handle *, pctx), (unsigned, flags),       \
      (int, dev))                                                                                                      \
    X(cuCtxCreate, "cuCtxCreate", 2000, 0, 10, CONTEXT_CREATE, 3, (mp_cu_handle *, pctx), (unsigned, flags),           \
      (int, dev))                                                                                                      \
    X(cuCtxDestroy_v2, "cuCtxDestroy", 4000, 0, 322, CONTEXT_DESTROY, 1, (mp_cu_handle, ctx))                          \
    X(cuCtxDestroy, "cuCtxDestroy", 2000, 0, 11, CONTEXT_DESTROY, 1, (mp_cu_handle, ctx))                              \
    X(cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", 7000, 0, 386, PRIMARY_RETAIN, 2, (mp_cu_handle *, pctx),   \
      (int, dev))                                                                                                      \
    X(cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease", 11000, 0, 544, PRIMARY_RELEASE, 1, (int, dev))        \
    X(cuDevicePrimaryCtxRelease, "cuDevicePrimaryCtxRelease", 7000, 0, 387, PRIMARY_RELEASE, 1, (int, dev))            \
    X(cuDevicePrimaryCtxReset_v2, "cuDevicePrimaryCtxReset", 11000, 0, 545, PRIMARY_RESET, 1, (int, dev))              \
    X(cuDevicePrimaryCtxReset, "cuDevicePrimaryCtxReset", 7000, 0, 389, PRIMARY_RESET, 1, (int, dev))                  \
    X(cuModuleLoad, "cuModuleLoad", 2000, 0, 18, MODULE_LOAD, 2, (mp_cu_handle *, module), (const char *, fname))      \
    X(cuModuleLoadData, "cuModuleLoadData", 2000, 0, 19, MODULE_LOAD, 2, (mp_cu_handle *, module),                     \
      (const void *, image))                                                                                           \
    X(cuModuleLoadDataEx, "cuModuleLoadDataEx", 2010, 0, 20, MODULE_LOAD, 5, (mp_cu_handle *, module),                 \
      (const void *, image), (unsigned, numOptions), (void *, options), (void **, optionValues))                       \
    X(cuModuleLoadFatBinary, "cuModuleLoadFatBinary", 2000, 0, 21, MODULE_LOAD, 2, (mp_cu_handle *, module),           \
      (const void *, fatCubin))                                                                                        \
    X(cuModuleUnload, "cuModuleUnload", 2000, 0, 22, MODULE_UNLOAD, 1, (mp_cu_handle, hmod))                           \
    X(cuLibraryLoadData, "cuLibraryLoadData", 12000, 0, 678, LIBRARY_LOAD, 8, (mp_cu_handle *, library),               \
      (const void *, code), (void *, jitOptions), (void **, jitOptionsValues), (unsigned, numJitOptions),              \
      (void *, libraryOptions), (void **, libraryOptionValues), (unsigned, numLibraryOptions))                         \
    X(cuLibraryLoadFromFile, "cuLibraryLoadFromFile", 12000, 0, 679, LIBRARY_LOAD, 8, (mp_cu_handle *, library),       \
      (const char *, fileName), (void *, jitOptions), (void **, jitOptionsValues), (unsigned, numJitOptions),          \
      (void *, libraryOptions), (void **, libraryOptionValues), (unsigned, numLibraryOptions))                         \
    X(cuLibraryUnload, "cuLibraryUnload", 12000, 0, 680, LIBRARY_UNLOAD, 1, (mp_cu_handle, library))                   \
    X(cuStreamCreate, "cuStreamCreate", 2000, 0, 124, STREAM_CREATE, 2, (mp_cu_handle *, phStream), (unsigned, Flags)) \
    X(cuStreamCreateWithPriority, "cuStreamCreateWithPriority", 5050, 0, 367, STREAM_CREATE, 3,                        \
      (mp_cu_handle *, phStream), (unsigned, flags), (int, priority))                                                  \
    X(cuGreenCtxStreamCreate, "cuGreenCtxStreamCreate", 12050, 0, 758, STREAM_CREATE, 4, (mp_cu_handle *, phStream),   \
      (mp_cu_handle, greenCtx), (unsigned, flags), (int, priority))                                                    \
    X(cuStreamDestroy_v2, "cuStreamDestroy", 4000, 0, 326, STREAM_DESTROY, 1, (mp_cu_handle, hStream))                 \
    X(cuStreamDestroy, "cuStreamDestroy", 2000, 0, 127, STREAM_DESTROY, 1, (mp_cu_handle, hStream))                    \
    X(cuEventCreate, "cuEventCreate", 2000, 0, 118, EVENT_CREATE, 2, (mp_cu_handle *, phEvent), (unsigned, Flags))     \
    X(cuIpcOpenEventHandle, "cuIpcOpenEventHandle", 4010, 0, 335, EVENT_CREATE, 2, (mp_cu_handle *, phEvent),          \
      (struct mp_cu_ipc_handle, handle))                                                                               \
    X(cuEventDestroy_v2, "cuEventDestroy", 4000, 0, 325, EVENT_DESTROY, 1, (mp_cu_handle, hEvent))                     \
    X(cuEventDestroy, "cuEventDestroy", 2000, 0, 122, EVENT_DESTROY, 1, (mp_cu_handle, hEvent))                        \
    X(cuDeviceGetUuid_v2, "cuDeviceGetUuid", 11040, 0, 647, DEVICE_UUID, 2, (struct mp_cu_uuid *, uuid), (int, dev))   \
    X(cuDeviceGetUuid, "cuDeviceGetUuid", 9020, 0, 482, DEVICE_UUID, 2, (struct mp_cu_uuid *, uuid), (int, dev))

#define MP_CUDA_CALLS(X)                                                                                               \
    MP_CUDA_LINEAR_CALLS(X)                                                                                            \
    MP_CUDA_HOST_CALLS(X)                                                                                              \
    MP_CUDA_POOL_CALLS(X)                                                                                              \
    MP_CUDA_VMM_CALLS(X)                                                                                               \
    MP_CUDA_ARRAY_CALLS(X)                                                                                             \
    MP_CUDA_IMPORT_CALLS(X)                                                                                            \
    MP_CUDA_GRAPH_CALLS(X)                                                                                             \
    MP_CUDA_HANDLE_CALLS(X)

/* Names that later belong to another symbol: cuGetProcAddress(base name, version or higher) returns `symbol`. */
#define MP_CUDA_RENAMED_CALLS(X) X(cuGraphInstantiateWithFlags, "cuGraphInstantiate", 12000)

/* Calls of CUDA 3 with 32-bit sizes and addresses, and calls that no header declares any more. Callbacks report them,
 * but their arguments are not read. X(name, cbid) */
#define MP_CUDA_UNDESCRIBED_CALLS(X)                                                                                   \
    X(cuMemAlloc, 29)                                                                                                  \
    X(cuMemAllocPitch, 31)                                                                                             \
    X(cuMemFree, 33)                                                                                                   \
    X(cuMemAllocHost, 37)                                                                                              \
    X(cuArrayCreate, 87)                                                                                               \
    X(cuArray3DCreate, 90)                                                                                             \
    X(cu64MemAlloc, 30)                                                                                                \
    X(cu64MemAllocPitch, 32)                                                                                           \
    X(cu64MemFree, 34)                                                                                                 \
    X(cu64MemHostAlloc, 215)                                                                                           \
    X(cu64ArrayCreate, 228)                                                                                            \
    X(cu64Array3DCreate, 230)                                                                                          \
    X(cuMemHostAlloc_v2, 271)

enum mp_cuda_action {
    MP_CUDA_ALLOC,
    MP_CUDA_ALLOC_PITCH,
    MP_CUDA_ALLOC_MANAGED,
    MP_CUDA_FREE,
    MP_CUDA_HOST_ALLOC,
    MP_CUDA_HOST_FREE,
    MP_CUDA_HOST_REGISTER,
    MP_CUDA_HOST_UNREGISTER,
    MP_CUDA_ALLOC_ASYNC,
    MP_CUDA_ALLOC_FROM_POOL,
    MP_CUDA_FREE_ASYNC,
    MP_CUDA_POOL_CREATE,
    MP_CUDA_POOL_DESTROY,
    MP_CUDA_POOL_TRIM,
    MP_CUDA_POOL_IMPORT,
    MP_CUDA_POOL_IMPORT_POINTER,
    MP_CUDA_POOL_OF_DEVICE,
    MP_CUDA_POOL_SET,
    MP_CUDA_POOL_OF_LOCATION,
    MP_CUDA_POOL_SET_LOCATION,
    MP_CUDA_ADDRESS_RESERVE,
    MP_CUDA_ADDRESS_FREE,
    MP_CUDA_VMM_CREATE,
    MP_CUDA_VMM_RELEASE,
    MP_CUDA_VMM_MAP,
    MP_CUDA_VMM_UNMAP,
    MP_CUDA_VMM_IMPORT,
    MP_CUDA_VMM_RETAIN,
    MP_CUDA_MULTICAST_CREATE,
    MP_CUDA_MULTICAST_BIND,
    MP_CUDA_MULTICAST_UNBIND,
    MP_CUDA_ARRAY_CREATE,
    MP_CUDA_ARRAY3D_CREATE,
    MP_CUDA_ARRAY_DESTROY,
    MP_CUDA_MIPMAP_CREATE,
    MP_CUDA_MIPMAP_DESTROY,
    MP_CUDA_IPC_OPEN,
    MP_CUDA_IPC_CLOSE,
    MP_CUDA_EXTERNAL_IMPORT,
    MP_CUDA_EXTERNAL_BUFFER,
    MP_CUDA_EXTERNAL_MIPMAP,
    MP_CUDA_EXTERNAL_DESTROY,
    MP_CUDA_CAPTURE_BEGIN,
    MP_CUDA_CAPTURE_END,
    MP_CUDA_GRAPH_CREATE,
    MP_CUDA_GRAPH_CLONE,
    MP_CUDA_GRAPH_DESTROY,
    MP_CUDA_GRAPH_ALLOC_NODE,
    MP_CUDA_GRAPH_FREE_NODE,
    MP_CUDA_GRAPH_NODE_V2,
    MP_CUDA_GRAPH_NODE,
    MP_CUDA_GRAPH_INSTANTIATE,
    MP_CUDA_GRAPH_EXEC_DESTROY,
    MP_CUDA_GRAPH_LAUNCH,
    MP_CUDA_GRAPH_TRIM,
    MP_CUDA_GRAPH_ATTRIBUTE,
    MP_CUDA_CONTEXT_CREATE_V4,
    MP_CUDA_CONTEXT_CREATE_V3,
    MP_CUDA_CONTEXT_CREATE,
    MP_CUDA_CONTEXT_DESTROY,
    MP_CUDA_PRIMARY_RETAIN,
    MP_CUDA_PRIMARY_RELEASE,
    MP_CUDA_PRIMARY_RESET,
    MP_CUDA_MODULE_LOAD,
    MP_CUDA_MODULE_UNLOAD,
    MP_CUDA_LIBRARY_LOAD,
    MP_CUDA_LIBRARY_UNLOAD,
    MP_CUDA_STREAM_CREATE,
    MP_CUDA_STREAM_DESTROY,
    MP_CUDA_EVENT_CREATE,
    MP_CUDA_EVENT_DESTROY,
    MP_CUDA_DEVICE_UUID,
    MP_CUDA_ACTIONS
};

enum mp_cuda_call_id {
#define MP_CUDA_ROW(symbol, ...) MP_CALL_##symbol,
    MP_CUDA_CALLS(MP_CUDA_ROW)
#undef MP_CUDA_ROW
        MP_CUDA_CALL_COUNT
};

/* Arguments as members, parameters, and names: MP_CUDA_MEMBERS(2, (type, a), (type, b)) is "type a; type b;". */
#define MP_CUDA_MEMBER(type, name)    type name;
#define MP_CUDA_PARAMETER(type, name) type name
#define MP_CUDA_NAME(type, name)      name
#define MP_CUDA_MEMBERS(count, ...)   MP_CUDA_MEMBERS_##count(__VA_ARGS__)
#define MP_CUDA_MEMBERS_1(a)          MP_CUDA_MEMBER a
#define MP_CUDA_MEMBERS_2(a, b)       MP_CUDA_MEMBER a MP_CUDA_MEMBER b
#define MP_CUDA_MEMBERS_3(a, b, c)    MP_CUDA_MEMBER a MP_CUDA_MEMBER b MP_CUDA_MEMBER c
#define MP_CUDA_MEMBERS_4(a, b, c, d) MP_CUDA_MEMBER a MP_CUDA_MEMBER b MP_CUDA_MEMBER c MP_CUDA_MEMBER d
#define MP_CUDA_MEMBERS_5(a, b, c, d, e)                                                                               \
    MP_CUDA_MEMBER a MP_CUDA_MEMBER b MP_CUDA_MEMBER c MP_CUDA_MEMBER d MP_CUDA_MEMBER e
#define MP_CUDA_MEMBERS_6(a, b, c, d, e, f)                                                                            \
    MP_CUDA_MEMBER a MP_CUDA_MEMBER b MP_CUDA_MEMBER c MP_CUDA_MEMBER d MP_CUDA_MEMBER e MP_CUDA_MEMBER f
#define MP_CUDA_MEMBERS_8(a, b, c, d, e, f, g, h)                                                                      \
    MP_CUDA_MEMBER a MP_CUDA_MEMBER b MP_CUDA_MEMBER c MP_CUDA_MEMBER d MP_CUDA_MEMBER e MP_CUDA_MEMBER f              \
        MP_CUDA_MEMBER g MP_CUDA_MEMBER h
#define MP_CUDA_PARAMETERS(count, ...) MP_CUDA_PARAMETERS_##count(__VA_ARGS__)
#define MP_CUDA_PARAMETERS_1(a)        MP_CUDA_PARAMETER a
#define MP_CUDA_PARAMETERS_2(a, b)     MP_CUDA_PARAMETER a, MP_CUDA_PARAMETER b
#define MP_CUDA_PARAMETERS_3(a, b, c)  MP_CUDA_PARAMETER a, MP_CUDA_PARAMETER b, MP_CUDA_PARAMETER c
#define MP_CUDA_PARAMETERS_4(a, b, c, d)                                                                               \
    MP_CUDA_PARAMETER a, MP_CUDA_PARAMETER b, MP_CUDA_PARAMETER c, MP_CUDA_PARAMETER d
#define MP_CUDA_PARAMETERS_5(a, b, c, d, e)                                                                            \
    MP_CUDA_PARAMETER a, MP_CUDA_PARAMETER b, MP_CUDA_PARAMETER c, MP_CUDA_PARAMETER d, MP_CUDA_PARAMETER e
#define MP_CUDA_PARAMETERS_6(a, b, c, d, e, f)                                                                         \
    MP_CUDA_PARAMETER a, MP_CUDA_PARAMETER b, MP_CUDA_PARAMETER c, MP_CUDA_PARAMETER d, MP_CUDA_PARAMETER e,           \
        MP_CUDA_PARAMETER f
#define MP_CUDA_PARAMETERS_8(a, b, c, d, e, f, g, h)                                                                   \
    MP_CUDA_PARAMETER a, MP_CUDA_PARAMETER b, MP_CUDA_PARAMETER c, MP_CUDA_PARAMETER d, MP_CUDA_PARAMETER e,           \
        MP_CUDA_PARAMETER f, MP_CUDA_PARAMETER g, MP_CUDA_PARAMETER h
#define MP_CUDA_NAMES(count, ...)      MP_CUDA_NAMES_##count(__VA_ARGS__)
#define MP_CUDA_NAMES_1(a)             MP_CUDA_NAME a
#define MP_CUDA_NAMES_2(a, b)          MP_CUDA_NAME a, MP_CUDA_NAME b
#define MP_CUDA_NAMES_3(a, b, c)       MP_CUDA_NAME a, MP_CUDA_NAME b, MP_CUDA_NAME c
#define MP_CUDA_NAMES_4(a, b, c, d)    MP_CUDA_NAME a, MP_CUDA_NAME b, MP_CUDA_NAME c, MP_CUDA_NAME d
#define MP_CUDA_NAMES_5(a, b, c, d, e) MP_CUDA_NAME a, MP_CUDA_NAME b, MP_CUDA_NAME c, MP_CUDA_NAME d, MP_CUDA_NAME e
#define MP_CUDA_NAMES_6(a, b, c, d, e, f)                                                                              \
    MP_CUDA_NAME a, MP_CUDA_NAME b, MP_CUDA_NAME c, MP_CUDA_NAME d, MP_CUDA_NAME e, MP_CUDA_NAME f
#define MP_CUDA_NAMES_8(a, b, c, d, e, f, g, h)                                                                        \
    MP_CUDA_NAME a, MP_CUDA_NAME b, MP_CUDA_NAME c, MP_CUDA_NAME d, MP_CUDA_NAME e, MP_CUDA_NAME f, MP_CUDA_NAME g,    \
        MP_CUDA_NAME h

/* struct mp_params_cuMemAlloc_v2 { mp_cu_ptr *dptr; size_t bytesize; }: the struct that CUPTI passes as
 * functionParams. */
#define MP_CUDA_ROW(symbol, base, version, per_thread, cbid, action, count, ...)                                       \
    struct mp_params_##symbol {                                                                                        \
        MP_CUDA_MEMBERS(count, __VA_ARGS__)                                                                            \
    };
MP_CUDA_CALLS(MP_CUDA_ROW)
#undef MP_CUDA_ROW

/* The rows of driver_calls.h as data. Never allocates; used in libmemprof.so and in libmemprof-hooks.so. */

struct mp_cuda_call {
    const char *symbol, *name; /* the exported name; the name for cuGetProcAddress */
    int version;
    bool per_thread;
    unsigned cbid;
    enum mp_cuda_action action;
};
extern const struct mp_cuda_call mp_cuda_calls[MP_CUDA_CALL_COUNT];

/* True if the action loads code. Only CUPTI's records report the variables of the code. */
static inline bool mp_cuda_loads_code(enum mp_cuda_action action)
{
    return action == MP_CUDA_MODULE_LOAD || action == MP_CUDA_LIBRARY_LOAD;
}

/* True if the action may end a context, perhaps the current one. */
static inline bool mp_cuda_ends_context(enum mp_cuda_action action)
{
    return action == MP_CUDA_CONTEXT_DESTROY || action == MP_CUDA_PRIMARY_RELEASE || action == MP_CUDA_PRIMARY_RESET;
}
