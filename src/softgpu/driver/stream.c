/* Streams. Work in a stream is done at once. */
#include "softgpu/driver/stream.h"
#include "softgpu/driver/call.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/ledger.h"

#include <stdlib.h>

static uint32_t streams = 16; /* in CUPTI, the first stream of a program has a small number that is not 0 */

bool soft_is_stream(CUstream stream)
{
    /* NULL, CU_STREAM_LEGACY and CU_STREAM_PER_THREAD exist without being created. */
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

static CUresult create(CUstream *to, int priority)
{
    CUcontext context = soft_current();
    if (!context) return CUDA_ERROR_INVALID_CONTEXT;
    CUstream stream = calloc(1, sizeof *stream);
    if (!stream) abort();
    stream->id = ++streams;
    stream->priority = priority;
    soft_add(SOFT_stream, context->device, (uint64_t)(uintptr_t)stream, 0, context);
    *to = stream;
    return CUDA_SUCCESS;
}

static CUresult destroy(CUstream stream)
{
    struct soft_block *block = stream ? soft_find(SOFT_stream, (uint64_t)(uintptr_t)stream) : NULL;
    if (!block) return CUDA_ERROR_INVALID_HANDLE;
    soft_remove(block);
    free(stream->last.nodes);
    free(stream);
    return CUDA_SUCCESS;
}

static CUresult get_priority(CUstream stream, int *priority)
{
    if (!soft_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    *priority = (uintptr_t)stream <= 2 ? 0 : stream->priority;
    return CUDA_SUCCESS;
}

ENTRY(cuStreamCreate, create(phStream, 0), (CUstream *, phStream), (unsigned, Flags))
ENTRY(cuStreamCreateWithPriority, create(phStream, priority), (CUstream *, phStream), (unsigned, flags),
      (int, priority))
ENTRY(cuStreamDestroy, destroy(hStream), (CUstream, hStream))
ENTRY(cuStreamDestroy_v2, destroy(hStream), (CUstream, hStream))
ENTRY(cuStreamQuery, soft_is_stream(hStream) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE, (CUstream, hStream))
ENTRY(cuStreamGetPriority, get_priority(hStream, priority), (CUstream, hStream), (int *, priority))
