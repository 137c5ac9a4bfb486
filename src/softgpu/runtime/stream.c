/* Streams, events and graphs: calls of the driver. */
#include "softgpu/runtime/runtime.h"
#include "softgpu/runtime/start.h"

FORWARD(cudaStreamCreateWithPriority, (cudaStream_t * to, unsigned flags, int priority),
        cuStreamCreateWithPriority(to, flags, priority))
FORWARD(cudaStreamCreateWithFlags, (cudaStream_t * to, unsigned flags), cuStreamCreateWithPriority(to, flags, 0))
FORWARD(cudaStreamCreate, (cudaStream_t * to), cuStreamCreateWithPriority(to, 0, 0))
FORWARD(cudaStreamDestroy, (cudaStream_t stream), cuStreamDestroy_v2(stream))
FORWARD(cudaStreamSynchronize, (cudaStream_t stream), cuStreamSynchronize(stream))
FORWARD(cudaStreamQuery, (cudaStream_t stream), cuStreamQuery(stream))
FORWARD(cudaStreamWaitEvent, (cudaStream_t stream, cudaEvent_t event, unsigned flags),
        cuStreamWaitEvent(stream, event, flags))
FORWARD(cudaStreamBeginCapture, (cudaStream_t stream, int mode), cuStreamBeginCapture_v2(stream, mode))
FORWARD(cudaStreamEndCapture, (cudaStream_t stream, cudaGraph_t *graph), cuStreamEndCapture(stream, graph))
FORWARD(cudaStreamIsCapturing, (cudaStream_t stream, int *status),
        cuStreamGetCaptureInfo_v2(stream, status, NULL, NULL, NULL, NULL))
FORWARD(cudaThreadExchangeStreamCaptureMode, (int *mode), cuThreadExchangeStreamCaptureMode(mode))

/* The oldest form returns only the number. CUDA 13 gave its name to the form that 12 called _v3. */
#if SOFTRT_MAJOR < 13
FORWARD(cudaStreamGetCaptureInfo, (cudaStream_t stream, int *status, unsigned long long *id),
        cuStreamGetCaptureInfo_v2(stream, status, id, NULL, NULL, NULL))
FORWARD(cudaStreamGetCaptureInfo_v2,
        (cudaStream_t stream, int *status, unsigned long long *id, cudaGraph_t *graph,
         const cudaGraphNode_t **dependencies, size_t *count),
        cuStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count))
#    define GET_CAPTURE_INFO_WITH_EDGES cudaStreamGetCaptureInfo_v3
#else
#    define GET_CAPTURE_INFO_WITH_EDGES cudaStreamGetCaptureInfo
#endif
EXPORTED cudaError_t GET_CAPTURE_INFO_WITH_EDGES(cudaStream_t stream, int *status, unsigned long long *id,
                                                 cudaGraph_t *graph, const cudaGraphNode_t **dependencies,
                                                 const void **edges, size_t *count)
{
    cudaError_t error = softrt_ready();
    if (edges) *edges = NULL;
    return softrt_keep(error ? error
                             : soft_driver.cuStreamGetCaptureInfo_v2(stream, status, id, graph, dependencies, count));
}

FORWARD(cudaStreamGetPriority, (cudaStream_t stream, int *priority), cuStreamGetPriority(stream, priority))
FORWARD(cudaGraphAddEmptyNode,
        (cudaGraphNode_t * to, cudaGraph_t graph, const cudaGraphNode_t *dependencies, size_t count),
        cuGraphAddEmptyNode(to, graph, dependencies, count))
FORWARD(cudaGraphNodeGetType, (cudaGraphNode_t node, int *type), cuGraphNodeGetType(node, type))

/* CUDA 13 gave the names to the forms with data of the edges, which have none here. */
#if SOFTRT_MAJOR < 13
FORWARD(cudaStreamUpdateCaptureDependencies,
        (cudaStream_t stream, cudaGraphNode_t *dependencies, size_t count, unsigned flags),
        cuStreamUpdateCaptureDependencies(stream, dependencies, count, flags))
FORWARD(cudaGraphNodeGetDependencies, (cudaGraphNode_t node, cudaGraphNode_t *dependencies, size_t *count),
        cuGraphNodeGetDependencies(node, dependencies, count))
#else
FORWARD(cudaStreamUpdateCaptureDependencies,
        (cudaStream_t stream, cudaGraphNode_t *dependencies, const void *edges, size_t count, unsigned flags),
        cuStreamUpdateCaptureDependencies(stream, dependencies, count, flags))
FORWARD(cudaGraphNodeGetDependencies, (cudaGraphNode_t node, cudaGraphNode_t *dependencies, void *edges, size_t *count),
        cuGraphNodeGetDependencies(node, dependencies, count))
#endif

FORWARD(cudaEventCreateWithFlags, (cudaEvent_t * to, unsigned flags), cuEventCreate(to, flags))
FORWARD(cudaEventCreate, (cudaEvent_t * to), cuEventCreate(to, 0))
FORWARD(cudaEventDestroy, (cudaEvent_t event), cuEventDestroy_v2(event))
FORWARD(cudaEventRecord, (cudaEvent_t event, cudaStream_t stream), cuEventRecord(event, stream))
FORWARD(cudaEventSynchronize, (cudaEvent_t event), cuEventSynchronize(event))
FORWARD(cudaEventElapsedTime, (float *ms, cudaEvent_t from, cudaEvent_t to), cuEventElapsedTime(ms, from, to))

EXPORTED cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags)
{
    (void)flags;
    return cudaEventRecord(event, stream);
}

/* The answer "not ready" is not remembered as an error. */
EXPORTED cudaError_t cudaEventQuery(cudaEvent_t event)
{
    cudaError_t error = softrt_ready();
    if (!error) error = soft_driver.cuEventQuery(event);
    return error == CUDA_ERROR_NOT_READY ? error : softrt_keep(error);
}

FORWARD(cudaLaunchHostFunc, (cudaStream_t stream, void (*function)(void *), void *data),
        cuLaunchHostFunc(stream, function, data))
FORWARD(cudaGraphInstantiateWithFlags, (cudaGraphExec_t * to, cudaGraph_t graph, unsigned long long flags),
        cuGraphInstantiateWithFlags(to, graph, flags))
FORWARD(cudaGraphLaunch, (cudaGraphExec_t graph, cudaStream_t stream), cuGraphLaunch(graph, stream))
FORWARD(cudaGraphDestroy, (cudaGraph_t graph), cuGraphDestroy(graph))
FORWARD(cudaGraphExecDestroy, (cudaGraphExec_t graph), cuGraphExecDestroy(graph))

#if SOFTRT_MAJOR >= 12
FORWARD(cudaGraphInstantiate, (cudaGraphExec_t * to, cudaGraph_t graph, unsigned long long flags),
        cuGraphInstantiateWithFlags(to, graph, flags))
#else
FORWARD(cudaGraphInstantiate, (cudaGraphExec_t * to, cudaGraph_t graph, cudaGraphNode_t *node, char *log, size_t room),
        cuGraphInstantiateWithFlags(to, graph, 0))
#endif

FORWARD(cudaGraphGetNodes, (cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count),
        cuGraphGetNodes(graph, nodes, count))

FORWARD(cudaGraphDebugDotPrint, (cudaGraph_t graph, const char *path, unsigned flags),
        cuGraphDebugDotPrint(graph, path, flags))
