/* Streams, what they capture, and events. */
#include "softgpu/driver/driver.h"

#include <stdlib.h>

struct CUstream_st {
    uint32_t id;
    CUgraph capturing;
};

static uint32_t streams = 16; /* CUPTI's first user stream has a small number that is not 0 */

bool soft_is_stream(CUstream stream)
{
    /* NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD are there without being created. */
    return (uintptr_t)stream <= 2 || soft_find(SOFT_stream, (uint64_t)(uintptr_t)stream);
}

CUgraph soft_capturing(CUstream stream)
{
    return (uintptr_t)stream <= 2 ? NULL : stream->capturing;
}

uint32_t soft_stream_id(CUstream stream)
{
    return (uintptr_t)stream <= 2 ? (uint32_t)(uintptr_t)stream : stream->id;
}

static CUresult create(CUstream *to)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    CUstream stream = calloc(1, sizeof *stream);
    if (!stream) abort();
    stream->id = ++streams;
    soft_add(SOFT_stream, context->device, (uint64_t)(uintptr_t)stream, 0, context);
    *to = stream;
    return CUDA_SUCCESS;
}

static CUresult destroy(CUstream stream)
{
    struct soft_block *block = stream ? soft_find(SOFT_stream, (uint64_t)(uintptr_t)stream) : NULL;
    if (!block) return CUDA_ERROR_INVALID_HANDLE;
    soft_destroy(block);
    free(stream);
    return CUDA_SUCCESS;
}

static CUresult synchronize(CUstream stream)
{
    if (!soft_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    soft_pools_idle();
    return CUDA_SUCCESS;
}

/* `graph`: NULL for a new one. */
static CUresult begin_capture(CUstream stream, CUgraph graph)
{
    if ((uintptr_t)stream <= 2 || !soft_is_stream(stream) || stream->capturing) return CUDA_ERROR_INVALID_VALUE;
    stream->capturing = graph ? graph : soft_new_graph();
    return CUDA_SUCCESS;
}

static CUresult begin_capture_to(CUstream stream, CUgraph graph)
{
    return soft_is_graph(graph) ? begin_capture(stream, graph) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult end_capture(CUstream stream, CUgraph *graph)
{
    if ((uintptr_t)stream <= 2 || !soft_is_stream(stream) || !stream->capturing) return CUDA_ERROR_INVALID_VALUE;
    *graph = stream->capturing;
    stream->capturing = NULL;
    return CUDA_SUCCESS;
}

static CUresult is_capturing(CUstream stream, int *status)
{
    if (!soft_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    *status = soft_capturing(stream) != NULL;
    return CUDA_SUCCESS;
}

static CUresult create_event(CUevent *to)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    void *event = malloc(16);
    if (!event) abort();
    soft_add(SOFT_event, context->device, (uint64_t)(uintptr_t)event, 0, context);
    *to = event;
    return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
    struct soft_block *block = soft_find(SOFT_event, (uint64_t)(uintptr_t)event);
    if (!block) return CUDA_ERROR_INVALID_HANDLE;
    soft_destroy(block);
    return CUDA_SUCCESS;
}

ENTRY(cuStreamCreate, create(phStream), (CUstream *, phStream), (unsigned, Flags))
ENTRY(cuStreamCreateWithPriority, create(phStream), (CUstream *, phStream), (unsigned, flags), (int, priority))
ENTRY(cuStreamDestroy, destroy(hStream), (CUstream, hStream))
ENTRY(cuStreamDestroy_v2, destroy(hStream), (CUstream, hStream))
ENTRY_BOTH(cuStreamSynchronize, synchronize(hStream), (CUstream, hStream))
ENTRY(cuStreamBeginCapture, begin_capture(hStream, NULL), (CUstream, hStream))
ENTRY_BOTH(cuStreamBeginCaptureToGraph, begin_capture_to(hStream, hGraph), (CUstream, hStream), (CUgraph, hGraph),
           (const CUgraphNode *, dependencies), (const void *, dependencyData), (size_t, numDependencies), (int, mode))
ENTRY_BOTH(cuStreamBeginCapture_v2, begin_capture(hStream, NULL), (CUstream, hStream), (int, mode))
ENTRY_BOTH(cuStreamEndCapture, end_capture(hStream, phGraph), (CUstream, hStream), (CUgraph *, phGraph))
ENTRY_BOTH(cuStreamIsCapturing, is_capturing(hStream, captureStatus), (CUstream, hStream), (int *, captureStatus))
ENTRY(cuEventCreate, create_event(phEvent), (CUevent *, phEvent), (unsigned, Flags))
ENTRY(cuEventDestroy, destroy_event(hEvent), (CUevent, hEvent))
ENTRY(cuEventDestroy_v2, destroy_event(hEvent), (CUevent, hEvent))
