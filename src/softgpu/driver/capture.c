/*
 * Captures on streams, and events, which let other streams join a capture. With $SOFTGPU_EVENT_MS=N events complete N
 * milliseconds after they were recorded, so that waiting for them takes time; else at once.
 */
#include "softgpu/driver/capture.h"
#include "softgpu/driver/call.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/graph.h"
#include "softgpu/driver/ledger.h"
#include "softgpu/driver/stream.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

struct CUevent_st {
    uint64_t recorded_ns;
    CUgraph graph; /* the graph in which it was recorded */
    unsigned long long capture;
    struct soft_nodes last;
};

static unsigned long long captures;

/* Replaces the nodes, or if `add` is set, appends to them. */
static void depend(struct soft_nodes *on, const CUgraphNode *nodes, size_t count, bool add)
{
    if (!add) on->count = 0;
    if (!count) return;
    on->nodes = realloc(on->nodes, (on->count + count) * sizeof(CUgraphNode));
    if (!on->nodes) abort();
    for (size_t i = 0; i < count; i++) {
        size_t known = 0;
        while (known < on->count && on->nodes[known] != nodes[i])
            known++;
        if (known == on->count) on->nodes[on->count++] = nodes[i];
    }
}

void soft_capture(CUstream stream, int type)
{
    CUgraph graph = soft_is_stream(stream) ? soft_capturing(stream) : NULL;
    if (!graph) return;
    CUgraphNode node = soft_new_step(graph, type, stream->last.nodes, stream->last.count);
    depend(&stream->last, &node, 1, false);
}

/* `graph`: `graph` NULL: makes a new one. */
static CUresult begin_capture(CUstream stream, CUgraph graph)
{
    if ((uintptr_t)stream <= 2 || !soft_is_stream(stream) || stream->capturing) return CUDA_ERROR_INVALID_VALUE;
    stream->capturing = graph ? graph : soft_new_graph();
    stream->last.count = 0;
    stream->capture = ++captures;
    return CUDA_SUCCESS;
}

static CUresult begin_capture_to(CUstream stream, CUgraph graph)
{
    return soft_is_graph(graph) ? begin_capture(stream, graph) : CUDA_ERROR_INVALID_VALUE;
}

static void leave_capture(struct soft_block *block, void *graph)
{
    CUstream stream = (CUstream)(uintptr_t)block->address;
    if (block->class == SOFT_stream && stream->capturing == graph) stream->capturing = NULL;
}

/* Streams that joined the capture by an event leave it, too. */
static CUresult end_capture(CUstream stream, CUgraph *graph)
{
    if ((uintptr_t)stream <= 2 || !soft_is_stream(stream) || !stream->capturing) return CUDA_ERROR_INVALID_VALUE;
    *graph = stream->capturing;
    soft_each(leave_capture, *graph);
    return CUDA_SUCCESS;
}

static CUresult capture_info(CUstream stream, int *status, unsigned long long *id, CUgraph *graph,
                             const CUgraphNode **dependencies, size_t *count)
{
    if (!soft_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    CUgraph capturing = soft_capturing(stream);
    *status = capturing != NULL;
    if (id) *id = capturing ? stream->capture : 0;
    if (graph) *graph = capturing;
    if (dependencies) *dependencies = capturing ? stream->last.nodes : NULL;
    if (count) *count = capturing ? stream->last.count : 0;
    return CUDA_SUCCESS;
}

static CUresult update_dependencies(CUstream stream, const CUgraphNode *nodes, size_t count, unsigned flags)
{
    if (!soft_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (!soft_capturing(stream)) return CUDA_ERROR_ILLEGAL_STATE;
    depend(&stream->last, nodes, count, !(flags & CU_STREAM_SET_CAPTURE_DEPENDENCIES));
    return CUDA_SUCCESS;
}

static CUresult exchange_mode(int *mode)
{
    static __thread int own;
    int before = own;
    own = *mode;
    *mode = before;
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
    CUevent event = calloc(1, sizeof *event);
    if (!event) abort();
    soft_add(SOFT_event, context->device, (uint64_t)(uintptr_t)event, 0, context);
    *to = event;
    return CUDA_SUCCESS;
}

static CUresult destroy_event(CUevent event)
{
    struct soft_block *block = soft_find(SOFT_event, (uint64_t)(uintptr_t)event);
    if (!block) return CUDA_ERROR_INVALID_HANDLE;
    free(event->last.nodes);
    soft_remove(block);
    free(event);
    return CUDA_SUCCESS;
}

static bool is_event(CUevent event)
{
    return event && soft_find(SOFT_event, (uint64_t)(uintptr_t)event);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* The time until the event is complete. */
static uint64_t event_wait_ns(CUevent event)
{
    static uint64_t takes = UINT64_MAX;
    if (takes == UINT64_MAX) {
        const char *text = getenv("SOFTGPU_EVENT_MS");
        takes = text && *text ? (uint64_t)(atof(text) * 1e6) : 0;
    }
    uint64_t due = event->recorded_ns + takes, now = takes ? now_ns() : due;
    return now < due ? due - now : 0;
}

static CUresult record_event(CUevent event, CUstream stream)
{
    if (!is_event(event) || !soft_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    CUgraph graph = soft_capturing(stream);
    event->recorded_ns = now_ns();
    event->graph = graph;
    event->capture = graph ? stream->capture : 0;
    if (graph) depend(&event->last, stream->last.nodes, stream->last.count, false);
    return CUDA_SUCCESS;
}

static CUresult query_event(CUevent event)
{
    if (!is_event(event)) return CUDA_ERROR_INVALID_HANDLE;
    return event_wait_ns(event) ? CUDA_ERROR_NOT_READY : CUDA_SUCCESS;
}

static CUresult elapsed(float *ms, CUevent from, CUevent to)
{
    if (!is_event(from) || !is_event(to)) return CUDA_ERROR_INVALID_HANDLE;
    *ms = (float)((double)to->recorded_ns - (double)from->recorded_ns) / 1e6f;
    return CUDA_SUCCESS;
}

struct running {
    CUgraph graph;
    unsigned long long capture;
    bool found;
};

static void find_capture(struct soft_block *block, void *context)
{
    struct running *running = context;
    CUstream stream = (CUstream)(uintptr_t)block->address;
    if (block->class == SOFT_stream && stream->capturing == running->graph && stream->capture == running->capture)
        running->found = true;
}

/* A stream that waits for an event of a capture joins the capture, and depends on the nodes before the event. */
static CUresult wait_event(CUstream stream, CUevent event)
{
    if (!is_event(event) || !soft_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    if (!event->graph || (uintptr_t)stream <= 2) return CUDA_SUCCESS;
    if (stream->capturing && stream->capture != event->capture) return CUDA_SUCCESS;
    struct running running = {event->graph, event->capture, false};
    soft_each(find_capture, &running);
    if (running.found) {
        depend(&stream->last, event->last.nodes, event->last.count, stream->capturing != NULL);
        stream->capturing = event->graph;
        stream->capture = event->capture;
    }
    return CUDA_SUCCESS;
}

ENTRY(cuStreamBeginCapture, begin_capture(hStream, NULL), (CUstream, hStream))
ENTRY_BOTH(cuStreamBeginCaptureToGraph, begin_capture_to(hStream, hGraph), (CUstream, hStream), (CUgraph, hGraph),
           (const CUgraphNode *, dependencies), (const void *, dependencyData), (size_t, numDependencies), (int, mode))
ENTRY_BOTH(cuStreamBeginCapture_v2, begin_capture(hStream, NULL), (CUstream, hStream), (int, mode))
ENTRY_BOTH(cuStreamEndCapture, end_capture(hStream, phGraph), (CUstream, hStream), (CUgraph *, phGraph))
ENTRY_BOTH(cuStreamIsCapturing, is_capturing(hStream, captureStatus), (CUstream, hStream), (int *, captureStatus))
ENTRY(cuEventCreate, create_event(phEvent), (CUevent *, phEvent), (unsigned, Flags))
ENTRY(cuEventDestroy, destroy_event(hEvent), (CUevent, hEvent))
ENTRY(cuEventDestroy_v2, destroy_event(hEvent), (CUevent, hEvent))
ENTRY(cuStreamWaitEvent, wait_event(hStream, hEvent), (CUstream, hStream), (CUevent, hEvent), (unsigned, Flags))
ENTRY(cuStreamGetCaptureInfo_v2, capture_info(hStream, captureStatus, id, graph, dependencies, numDependencies),
      (CUstream, hStream), (int *, captureStatus), (unsigned long long *, id), (CUgraph *, graph),
      (const CUgraphNode **, dependencies), (size_t *, numDependencies))
ENTRY(cuStreamUpdateCaptureDependencies, update_dependencies(hStream, dependencies, numDependencies, flags),
      (CUstream, hStream), (CUgraphNode *, dependencies), (size_t, numDependencies), (unsigned, flags))
ENTRY(cuThreadExchangeStreamCaptureMode, exchange_mode(mode), (int *, mode))
ENTRY(cuEventRecord, record_event(hEvent, hStream), (CUevent, hEvent), (CUstream, hStream))
ENTRY(cuEventQuery, query_event(hEvent), (CUevent, hEvent))
ENTRY(cuEventElapsedTime, elapsed(pMilliseconds, hStart, hEnd), (float *, pMilliseconds), (CUevent, hStart),
      (CUevent, hEnd))

/* Waits without the lock. */
EXPORTED CUresult cuEventSynchronize(CUevent hEvent)
{
    pthread_mutex_lock(&soft_lock);
    bool known = is_event(hEvent);
    uint64_t wait = known ? event_wait_ns(hEvent) : 0;
    pthread_mutex_unlock(&soft_lock);
    struct timespec left = {(time_t)(wait / 1000000000), (long)(wait % 1000000000)};
    while (wait && nanosleep(&left, &left) && errno == EINTR)
        ;
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}

/* Runs at once, without the lock: it may call the driver. */
EXPORTED CUresult cuLaunchHostFunc(CUstream hStream, void (*fn)(void *data), void *userData)
{
    pthread_mutex_lock(&soft_lock);
    bool known = soft_is_stream(hStream), captured = known && soft_capturing(hStream);
    if (captured) soft_capture(hStream, CU_GRAPH_NODE_TYPE_HOST);
    pthread_mutex_unlock(&soft_lock);
    if (known && !captured) fn(userData);
    return known ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
}
