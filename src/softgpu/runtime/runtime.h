/*
 * Internals of the stand-in of NVIDIA's runtime (libcudart). Its public functions call the driver's public functions,
 * which it finds in the same way as NVIDIA's runtime. It keeps no device memory of its own.
 */
#pragma once

#include <stdbool.h>

#include "softgpu/driver_calls.h"
#include "softgpu/runtime/types.h"

#define EXPORTED __attribute__((visibility("default")))

/* The version of this library, 12040 for CUDA 12.4; the build sets it. */
#ifndef SOFTRT_VERSION
#    define SOFTRT_VERSION 12040
#endif
#define SOFTRT_MAJOR (SOFTRT_VERSION / 1000)

/* The functions of the driver that the runtime calls: F(name, version, symbol). */
#define RUNTIME_NEEDS(F)                                                                                               \
    F(cuInit, 2000, cuInit)                                                                                            \
    F(cuDriverGetVersion, 2020, cuDriverGetVersion)                                                                    \
    F(cuDeviceGetCount, 2000, cuDeviceGetCount)                                                                        \
    F(cuDeviceGetName, 2000, cuDeviceGetName)                                                                          \
    F(cuDeviceTotalMem, 3020, cuDeviceTotalMem_v2)                                                                     \
    F(cuDeviceGetUuid, 9020, cuDeviceGetUuid)                                                                          \
    F(cuDeviceGetAttribute, 2000, cuDeviceGetAttribute)                                                                \
    F(cuDevicePrimaryCtxRetain, 7000, cuDevicePrimaryCtxRetain)                                                        \
    F(cuDevicePrimaryCtxReset, 11000, cuDevicePrimaryCtxReset_v2)                                                      \
    F(cuCtxSetCurrent, 4000, cuCtxSetCurrent)                                                                          \
    F(cuCtxGetCurrent, 4000, cuCtxGetCurrent)                                                                          \
    F(cuCtxSynchronize, 2000, cuCtxSynchronize)                                                                        \
    F(cuMemGetInfo, 3020, cuMemGetInfo_v2)                                                                             \
    F(cuMemAlloc, 3020, cuMemAlloc_v2)                                                                                 \
    F(cuMemAllocPitch, 3020, cuMemAllocPitch_v2)                                                                       \
    F(cuMemAllocManaged, 6000, cuMemAllocManaged)                                                                      \
    F(cuMemFree, 3020, cuMemFree_v2)                                                                                   \
    F(cuMemHostAlloc, 2020, cuMemHostAlloc)                                                                            \
    F(cuMemFreeHost, 2000, cuMemFreeHost)                                                                              \
    F(cuMemHostRegister, 6050, cuMemHostRegister_v2)                                                                   \
    F(cuMemHostUnregister, 4000, cuMemHostUnregister)                                                                  \
    F(cuMemAllocAsync, 11020, cuMemAllocAsync)                                                                         \
    F(cuMemAllocFromPoolAsync, 11020, cuMemAllocFromPoolAsync)                                                         \
    F(cuMemFreeAsync, 11020, cuMemFreeAsync)                                                                           \
    F(cuDeviceGetDefaultMemPool, 11020, cuDeviceGetDefaultMemPool)                                                     \
    F(cuMemPoolGetAttribute, 11020, cuMemPoolGetAttribute)                                                             \
    F(cuMemPoolSetAttribute, 11020, cuMemPoolSetAttribute)                                                             \
    F(cuMemPoolTrimTo, 11020, cuMemPoolTrimTo)                                                                         \
    F(cuMemcpyAsync, 4000, cuMemcpyAsync)                                                                              \
    F(cuMemsetD8Async, 3020, cuMemsetD8Async)                                                                          \
    F(cuPointerGetAttribute, 4000, cuPointerGetAttribute)                                                              \
    F(cuStreamCreateWithPriority, 5050, cuStreamCreateWithPriority)                                                    \
    F(cuStreamDestroy, 4000, cuStreamDestroy_v2)                                                                       \
    F(cuStreamSynchronize, 2000, cuStreamSynchronize)                                                                  \
    F(cuStreamQuery, 2000, cuStreamQuery)                                                                              \
    F(cuStreamWaitEvent, 3020, cuStreamWaitEvent)                                                                      \
    F(cuStreamBeginCapture, 10010, cuStreamBeginCapture_v2)                                                            \
    F(cuStreamEndCapture, 10000, cuStreamEndCapture)                                                                   \
    F(cuStreamGetCaptureInfo, 11030, cuStreamGetCaptureInfo_v2)                                                        \
    F(cuStreamUpdateCaptureDependencies, 11030, cuStreamUpdateCaptureDependencies)                                     \
    F(cuStreamGetPriority, 5050, cuStreamGetPriority)                                                                  \
    F(cuGraphAddEmptyNode, 10000, cuGraphAddEmptyNode)                                                                 \
    F(cuGraphNodeGetDependencies, 10000, cuGraphNodeGetDependencies)                                                   \
    F(cuGraphGetNodes, 10000, cuGraphGetNodes)                                                                         \
    F(cuGraphNodeGetType, 10000, cuGraphNodeGetType)                                                                   \
    F(cuGraphDebugDotPrint, 11030, cuGraphDebugDotPrint)                                                               \
    F(cuDeviceGetPCIBusId, 4010, cuDeviceGetPCIBusId)                                                                  \
    F(cuLaunchHostFunc, 10000, cuLaunchHostFunc)                                                                       \
    F(cuThreadExchangeStreamCaptureMode, 10010, cuThreadExchangeStreamCaptureMode)                                     \
    F(cuEventCreate, 2000, cuEventCreate)                                                                              \
    F(cuEventDestroy, 4000, cuEventDestroy_v2)                                                                         \
    F(cuEventRecord, 2000, cuEventRecord)                                                                              \
    F(cuEventQuery, 2000, cuEventQuery)                                                                                \
    F(cuEventSynchronize, 2000, cuEventSynchronize)                                                                    \
    F(cuEventElapsedTime, 2000, cuEventElapsedTime)                                                                    \
    F(cuGraphInstantiateWithFlags, 11040, cuGraphInstantiateWithFlags)                                                 \
    F(cuGraphLaunch, 10000, cuGraphLaunch)                                                                             \
    F(cuGraphDestroy, 10000, cuGraphDestroy)                                                                           \
    F(cuGraphExecDestroy, 10000, cuGraphExecDestroy)                                                                   \
    F(cuIpcGetMemHandle, 4010, cuIpcGetMemHandle)                                                                      \
    F(cuIpcOpenMemHandle, 11000, cuIpcOpenMemHandle_v2)                                                                \
    F(cuIpcCloseMemHandle, 4010, cuIpcCloseMemHandle)                                                                  \
    F(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, cuOccupancyMaxActiveBlocksPerMultiprocessor)                  \
    F(cuGetErrorString, 6000, cuGetErrorString)                                                                        \
    F(cuFuncGetAttribute, 2020, cuFuncGetAttribute)                                                                    \
    F(cuLaunchKernel, 4000, cuLaunchKernel)

struct soft_driver {
#define MEMBER(name, version, symbol) __typeof__(symbol) *symbol;
    RUNTIME_NEEDS(MEMBER)
#undef MEMBER
};

extern struct soft_driver soft_driver;
extern __thread int softrt_device; /* the thread's current device */

/* ---- the kernels that compiled code registers (kernels.c) ---- */
struct softrt_kernel {
    const void *function;
    const char *name;             /* name of the device function; valid as long as the wrapper */
    const void *wrapper;          /* wrapper of the fat binary with its code; NULL: unknown */
    int answer, elements, follow; /* facts that answers.c derives from the name; `answer` 0: not derived yet */
};

/* ---- the contents of boolean tensors (truths.c) ---- */
enum softrt_truth { SOFTRT_UNKNOWN, SOFTRT_FALSE, SOFTRT_TRUE };

/* Defines FUNCTION(parameters) as the driver's call, in the thread's context. */
#define FORWARD(function, parameters, call)                                                                            \
    EXPORTED cudaError_t function parameters                                                                           \
    {                                                                                                                  \
        cudaError_t error = softrt_ready();                                                                            \
        return softrt_keep(error ? error : soft_driver.call);                                                          \
    }
