/*
 * The stand-in of NCCL. Communicators know their rank and size, collectives return at once, and nothing is sent. Each
 * rank gets back its own data: a broadcast or a sum leaves the buffer unchanged. It takes no device memory itself. The
 * plan states separately how much NVIDIA's NCCL takes.
 */
#include <memprof.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "softgpu/driver_function.h"
#include "softgpu/softgpu.h"

#define EXPORTED __attribute__((visibility("default")))

typedef int ncclResult_t;
enum { ncclSuccess = 0, ncclUnhandledCudaError = 1, ncclSystemError = 2, ncclInvalidArgument = 4 };

typedef struct {
    char internal[128];
} ncclUniqueId;

struct ncclComm {
    int rank, size, device;
    bool connected; /* its buffers have been made */
};
typedef struct ncclComm *ncclComm_t;

static ncclResult_t create(ncclComm_t *to, int size, int rank, int device)
{
    if (size < 1 || rank < 0 || rank >= size) return ncclInvalidArgument;
    *to = malloc(sizeof **to);
    if (!*to) return ncclSystemError;
    **to = (struct ncclComm){rank, size, device, false};
    char text[64];
    snprintf(text, sizeof text, "plan: communicator %d", size);
    memprof_mark(text);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclGetVersion(int *version)
{
    *version = 22203; /* of the interface; later functions exist here, too */
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 7, sizeof *id);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommInitRank(ncclComm_t *to, int size, ncclUniqueId id, int rank)
{
    (void)id;
    return create(to, size, rank, 0);
}

EXPORTED ncclResult_t ncclCommInitRankConfig(ncclComm_t *to, int size, ncclUniqueId id, int rank, void *config)
{
    (void)id, (void)config;
    return create(to, size, rank, 0);
}

EXPORTED ncclResult_t ncclCommInitRankScalable(ncclComm_t *to, int size, int rank, int ids, ncclUniqueId *id,
                                               void *config)
{
    (void)ids, (void)id, (void)config;
    return create(to, size, rank, 0);
}

EXPORTED ncclResult_t ncclCommInitAll(ncclComm_t *to, int size, const int *devices)
{
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < size && result == ncclSuccess; i++)
        result = create(&to[i], size, i, devices ? devices[i] : i);
    return result;
}

/* Bytes of elements of an ncclDataType_t: integers of 8, 32 and 64 bits, half, float, double, bfloat16, two of 8
 * bits */
static size_t bytes_of(size_t count, int type)
{
    static const unsigned char sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    return count * (type >= 0 && type < (int)sizeof sizes ? sizes[type] : 1);
}

/* Copies by the driver's public function, which also copies the values that the stand-in knows. `driver` NULL: there is
 * no driver. */
static ncclResult_t give(const void *from, void *to, size_t bytes, void *stream)
{
    static int (*copy)(unsigned long long, unsigned long long, size_t, void *);
    if (!copy) SOFT_DRIVER_FUNCTION(copy, "cuMemcpyAsync");
    if (copy && from != to && bytes) copy((uintptr_t)to, (uintptr_t)from, bytes, stream);
    return ncclSuccess;
}

/* A collective of this many bytes uses all channels; NCCL then makes their buffers. */
#define CONNECTS ((size_t)1 << 20)

static ncclResult_t use(ncclComm_t comm, size_t bytes, void *stream)
{
    static __typeof__(softgpu_nccl_launch) *launch;
    bool connects = bytes >= CONNECTS && !comm->connected;
    if (!launch) SOFT_DRIVER_FUNCTION(launch, "softgpu_nccl_launch");
    if (!launch || comm->size < 2) return ncclSuccess;
    comm->connected |= connects;
    return launch(connects, stream) ? ncclUnhandledCudaError : ncclSuccess;
}

EXPORTED ncclResult_t ncclMemAlloc(void **to, size_t bytes)
{
    int (*alloc)(void **, size_t);
    SOFT_DRIVER_FUNCTION(alloc, "cuMemAlloc_v2");
    return alloc && !alloc(to, bytes) ? ncclSuccess : ncclUnhandledCudaError;
}

EXPORTED ncclResult_t ncclMemFree(void *address)
{
    int (*release)(void *);
    SOFT_DRIVER_FUNCTION(release, "cuMemFree_v2");
    return release && !release(address) ? ncclSuccess : ncclUnhandledCudaError;
}

EXPORTED ncclResult_t ncclAllGather(const void *from, void *to, size_t count, int type, ncclComm_t comm, void *stream)
{
    size_t bytes = bytes_of(count, type);
    if (use(comm, bytes * (size_t)comm->size, stream)) return ncclUnhandledCudaError;
    for (int i = 0; i < comm->size; i++)
        give(from, (char *)to + (size_t)i * bytes, bytes, stream);
    return ncclSuccess;
}

/* Each other rank is assumed to send what this rank sends to itself. */
EXPORTED ncclResult_t ncclAlltoAll(const void *from, void *to, size_t count, int type, ncclComm_t comm, void *stream)
{
    return ncclAllGather((const char *)from + (size_t)comm->rank * bytes_of(count, type), to, count, type, comm,
                         stream);
}

EXPORTED ncclResult_t ncclGather(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm,
                                 void *stream)
{
    return comm->rank == root ? ncclAllGather(from, to, count, type, comm, stream) : ncclSuccess;
}

EXPORTED ncclResult_t ncclScatter(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm,
                                  void *stream)
{
    size_t bytes = bytes_of(count, type);
    return comm->rank == root ? give((const char *)from + (size_t)root * bytes, to, bytes, stream) : ncclSuccess;
}

EXPORTED ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation,
                                        ncclComm_t comm, void *stream)
{
    (void)operation;
    size_t bytes = bytes_of(count, type);
    if (use(comm, bytes * (size_t)comm->size, stream)) return ncclUnhandledCudaError;
    return give((const char *)from + (size_t)comm->rank * bytes, to, bytes, stream);
}

EXPORTED ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, ncclComm_t comm,
                                    void *stream)
{
    (void)operation;
    size_t bytes = bytes_of(count, type);
    return use(comm, bytes, stream) ? ncclUnhandledCudaError : give(from, to, bytes, stream);
}

EXPORTED ncclResult_t ncclReduce(const void *from, void *to, size_t count, int type, int operation, int root,
                                 ncclComm_t comm, void *stream)
{
    (void)operation;
    return comm->rank == root ? give(from, to, bytes_of(count, type), stream) : ncclSuccess;
}

EXPORTED ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm,
                                    void *stream)
{
    (void)root;
    size_t bytes = bytes_of(count, type);
    return use(comm, bytes, stream) ? ncclUnhandledCudaError : give(from, to, bytes, stream);
}

/* Ranks of one `color` stay together. One rank cannot know the colours of the others, so we assume that all stay
 * together. */
EXPORTED ncclResult_t ncclCommSplit(ncclComm_t from, int color, int key, ncclComm_t *to, void *config)
{
    (void)key, (void)config;
    *to = NULL;
    return color < 0 ? ncclSuccess : create(to, from->size, from->rank, from->device);
}

EXPORTED ncclResult_t ncclCommShrink(ncclComm_t from, int *left_out, int count, ncclComm_t *to, void *config, int flags)
{
    (void)config, (void)flags;
    int before = 0; /* ranks before this one that leave */
    for (int i = 0; i < count; i++)
        before += left_out[i] < from->rank;
    return create(to, from->size - count, from->rank - before, from->device);
}

EXPORTED ncclResult_t ncclCommGrow(ncclComm_t from, int size, const ncclUniqueId *id, int rank, ncclComm_t *to,
                                   void *config)
{
    (void)id, (void)config;
    return create(to, size, from ? from->rank : rank, from ? from->device : 0);
}

EXPORTED ncclResult_t ncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id)
{
    (void)comm;
    return ncclGetUniqueId(id);
}

/* The handle of a registered buffer is its address; so is its window. */
EXPORTED ncclResult_t ncclCommRegister(ncclComm_t comm, void *buffer, size_t bytes, void **handle)
{
    (void)comm, (void)bytes;
    *handle = buffer;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void *buffer, size_t bytes, void **window, int flags)
{
    (void)flags;
    return ncclCommRegister(comm, buffer, bytes, window);
}

EXPORTED ncclResult_t ncclWinGetUserPtr(ncclComm_t comm, void *window, void **buffer)
{
    (void)comm;
    *buffer = window;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommMemStats(ncclComm_t comm, int which, uint64_t *bytes)
{
    (void)comm, (void)which;
    *bytes = 0;
    return ncclSuccess;
}

static ncclResult_t drop(ncclComm_t comm)
{
    free(comm);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return drop(comm);
}

EXPORTED ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return drop(comm);
}

EXPORTED ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    (void)comm;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommCount(ncclComm_t comm, int *to)
{
    *to = comm->size;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommUserRank(ncclComm_t comm, int *to)
{
    *to = comm->rank;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommCuDevice(ncclComm_t comm, int *to)
{
    *to = comm->device;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *to)
{
    (void)comm;
    *to = ncclSuccess;
    return ncclSuccess;
}

EXPORTED const char *ncclGetErrorString(ncclResult_t result)
{
    return result ? "error of the stand-in of NCCL" : "no error";
}

EXPORTED const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}
