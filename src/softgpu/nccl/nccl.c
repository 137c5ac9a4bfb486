/*
 * The stand-in of NCCL. Communicators know their rank and size. Ranks that run as processes of one plan exchange small
 * data that the driver knows (exchange.h). Otherwise collectives return at once, and nothing is sent. Each rank gets
 * back its own data: a broadcast or a sum leaves the buffer unchanged. The driver knows that these data are a
 * guess (softgpu_received()). It takes no device memory itself. The plan states separately how much NVIDIA's NCCL
 * takes.
 */
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "softgpu/driver_function.h"
#include "softgpu/nccl/exchange.h"
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
    uint64_t splits;
    struct exchange exchange;
};
typedef struct ncclComm *ncclComm_t;

/* A number for `data` that continues `from`. */
static uint64_t hash(uint64_t from, const void *data, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++)
        from = (from ^ ((const unsigned char *)data)[i]) * 0x100000001b3;
    return from;
}

static ncclResult_t create(ncclComm_t *to, int size, int rank, int device, uint64_t id)
{
    if (size < 1 || rank < 0 || rank >= size) return ncclInvalidArgument;
    *to = malloc(sizeof **to);
    if (!*to) return ncclSystemError;
    **to = (struct ncclComm){rank, size, device, .exchange = {.id = id, .rank = rank, .size = size}};
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclGetVersion(int *version)
{
    *version = 22203; /* of the interface; later functions exist here, too */
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    return getrandom(id, sizeof *id, 0) == (ssize_t)sizeof *id ? ncclSuccess : ncclSystemError;
}

EXPORTED ncclResult_t ncclCommInitRank(ncclComm_t *to, int size, ncclUniqueId id, int rank)
{
    return create(to, size, rank, 0, hash(0, &id, sizeof id));
}

EXPORTED ncclResult_t ncclCommInitRankConfig(ncclComm_t *to, int size, ncclUniqueId id, int rank, void *config)
{
    (void)config;
    return create(to, size, rank, 0, hash(0, &id, sizeof id));
}

EXPORTED ncclResult_t ncclCommInitRankScalable(ncclComm_t *to, int size, int rank, int ids, ncclUniqueId *id,
                                               void *config)
{
    (void)config;
    return create(to, size, rank, 0, hash(0, id, (size_t)ids * sizeof *id));
}

EXPORTED ncclResult_t ncclCommInitAll(ncclComm_t *to, int size, const int *devices)
{
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < size && result == ncclSuccess; i++)
        result = create(&to[i], size, i, devices ? devices[i] : i, 0);
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
static ncclResult_t give(const void *from, void *to, size_t bytes, ncclComm_t comm, void *stream)
{
    static int (*copy)(unsigned long long, unsigned long long, size_t, void *);
    static __typeof__(softgpu_received) *received;
    if (!copy) SOFT_DRIVER_FUNCTION(copy, "cuMemcpyAsync");
    if (!received) SOFT_DRIVER_FUNCTION(received, "softgpu_received");
    if (copy && from && from != to && bytes) copy((uintptr_t)to, (uintptr_t)from, bytes, stream);
    if (received && comm->size > 1) received((uintptr_t)to, bytes, from);
    return ncclSuccess;
}

/* At its first collective a communicator makes its buffers. */
static ncclResult_t use(ncclComm_t comm, void *stream)
{
    static __typeof__(softgpu_nccl_launch) *launch;
    if (!launch) SOFT_DRIVER_FUNCTION(launch, "softgpu_nccl_launch");
    if (!launch || comm->size < 2) return ncclSuccess;
    if (launch(!comm->connected, stream)) return ncclUnhandledCudaError;
    comm->connected = true;
    return ncclSuccess;
}

/* The data that the ranks sent; `sources` as in softnccl_exchange(). */
struct parts {
    unsigned char *data;
    int *sources, source; /* `source`: of all together */
};

/* Exchanges data, unless they are too large. The caller gives the parts back. */
static bool fetch(ncclComm_t comm, int root, const void *from, size_t bytes, struct parts *parts)
{
    static __typeof__(softgpu_known) *known;
    size_t size = (size_t)comm->size;
    if (!known) SOFT_DRIVER_FUNCTION(known, "softgpu_known");
    if (!known || size < 2 || !bytes || bytes > EXCHANGED_MOST) return false;
    unsigned char *own = malloc(bytes);
    *parts = (struct parts){malloc(size * bytes), malloc(size * sizeof *parts->sources), -1};
    bool done = own && parts->data && parts->sources &&
                softnccl_exchange(&comm->exchange, root, own, known((uintptr_t)from, own, bytes), bytes, parts->data,
                                  parts->sources);
    free(own);
    for (int i = 0; done && i < comm->size; i++) {
        if (i && (parts->source < 0 || parts->sources[i] < 0))
            parts->source = -1;
        else if (!i || parts->sources[i] > parts->source)
            parts->source = parts->sources[i];
    }
    if (!done) free(parts->data), free(parts->sources);
    return done;
}

/* Sets what the device has; source -1: it is unknown. */
static void set(void *to, const void *data, size_t bytes, int source)
{
    static __typeof__(softgpu_put) *put;
    if (!put) SOFT_DRIVER_FUNCTION(put, "softgpu_put");
    put((uintptr_t)to, data, bytes, source);
}

static ncclResult_t done(const struct parts *parts)
{
    free(parts->data);
    free(parts->sources);
    return ncclSuccess;
}

/* Sets the `count` elements of a reduction that begin at number `first` of each rank's data. */
static ncclResult_t set_reduced(void *to, const struct parts *parts, ncclComm_t comm, size_t all, size_t first,
                                size_t count, int type, int operation)
{
    unsigned char *result = malloc(bytes_of(all, type));
    bool known = result && parts->source >= 0 && softnccl_reduce(result, parts->data, comm->size, all, type, operation);
    set(to, known ? result + bytes_of(first, type) : NULL, bytes_of(count, type), known ? parts->source : -1);
    free(result);
    return done(parts);
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
    struct parts parts;
    if (use(comm, stream)) return ncclUnhandledCudaError;
    if (fetch(comm, EVERYBODY, from, bytes, &parts)) {
        for (int i = 0; parts.source < 0 && i < comm->size; i++)
            set((char *)to + (size_t)i * bytes, parts.data + (size_t)i * bytes, bytes, parts.sources[i]);
        if (parts.source >= 0) set(to, parts.data, (size_t)comm->size * bytes, parts.source);
        return done(&parts);
    }
    for (int i = 0; i < comm->size; i++)
        give(from, (char *)to + (size_t)i * bytes, bytes, comm, stream);
    return ncclSuccess;
}

/* Without an exchange, each other rank is assumed to send what this rank sends to itself. */
EXPORTED ncclResult_t ncclAlltoAll(const void *from, void *to, size_t count, int type, ncclComm_t comm, void *stream)
{
    size_t bytes = bytes_of(count, type), size = (size_t)comm->size;
    struct parts parts;
    if (fetch(comm, EVERYBODY, from, size * bytes, &parts)) {
        for (size_t i = 0; i < size; i++)
            memmove(parts.data + i * bytes, parts.data + (i * size + (size_t)comm->rank) * bytes, bytes);
        set(to, parts.data, size * bytes, parts.source);
        return done(&parts);
    }
    return ncclAllGather((const char *)from + (size_t)comm->rank * bytes_of(count, type), to, count, type, comm,
                         stream);
}

EXPORTED ncclResult_t ncclGather(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm,
                                 void *stream)
{
    size_t bytes = bytes_of(count, type), size = (size_t)comm->size;
    struct parts parts;
    if (fetch(comm, EVERYBODY, from, bytes, &parts)) {
        if (comm->rank == root) set(to, parts.data, size * bytes, parts.source);
        return done(&parts);
    }
    for (size_t i = 0; comm->rank == root && i < size; i++)
        give(from, (char *)to + i * bytes, bytes, comm, stream);
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclScatter(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm,
                                  void *stream)
{
    size_t bytes = bytes_of(count, type), size = (size_t)comm->size, at = (size_t)root * size + (size_t)comm->rank;
    struct parts parts;
    if (fetch(comm, root, from, size * bytes, &parts)) {
        set(to, parts.data + at * bytes, bytes, parts.sources[root]);
        return done(&parts);
    }
    return give(comm->rank == root ? (const char *)from + (size_t)root * bytes : NULL, to, bytes, comm, stream);
}

EXPORTED ncclResult_t ncclReduceScatter(const void *from, void *to, size_t count, int type, int operation,
                                        ncclComm_t comm, void *stream)
{
    size_t bytes = bytes_of(count, type), all = count * (size_t)comm->size;
    struct parts parts;
    if (use(comm, stream)) return ncclUnhandledCudaError;
    if (fetch(comm, EVERYBODY, from, bytes_of(all, type), &parts))
        return set_reduced(to, &parts, comm, all, count * (size_t)comm->rank, count, type, operation);
    return give((const char *)from + (size_t)comm->rank * bytes, to, bytes, comm, stream);
}

EXPORTED ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, int type, int operation, ncclComm_t comm,
                                    void *stream)
{
    size_t bytes = bytes_of(count, type);
    struct parts parts;
    if (use(comm, stream)) return ncclUnhandledCudaError;
    if (fetch(comm, EVERYBODY, from, bytes, &parts))
        return set_reduced(to, &parts, comm, count, 0, count, type, operation);
    return give(from, to, bytes, comm, stream);
}

EXPORTED ncclResult_t ncclReduce(const void *from, void *to, size_t count, int type, int operation, int root,
                                 ncclComm_t comm, void *stream)
{
    struct parts parts;
    if (fetch(comm, EVERYBODY, from, bytes_of(count, type), &parts))
        return comm->rank == root ? set_reduced(to, &parts, comm, count, 0, count, type, operation) : done(&parts);
    return comm->rank == root ? give(from, to, bytes_of(count, type), comm, stream) : ncclSuccess;
}

EXPORTED ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, int type, int root, ncclComm_t comm,
                                    void *stream)
{
    size_t bytes = bytes_of(count, type);
    struct parts parts;
    if (use(comm, stream)) return ncclUnhandledCudaError;
    if (fetch(comm, root, from, bytes, &parts)) {
        set(to, parts.data + (size_t)root * bytes, bytes, parts.sources[root]);
        return done(&parts);
    }
    return give(from, to, bytes, comm, stream);
}

EXPORTED ncclResult_t ncclBcast(void *buffer, size_t count, int type, int root, ncclComm_t comm, void *stream)
{
    return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

/* Sends and receives of one group take place together at its end, as with NCCL: a group may receive first. */
struct transfer {
    struct transfer *next;
    void *buffer;
    size_t bytes;
    int peer;
    ncclComm_t comm;
    void *stream;
    bool receives;
};

static __thread struct transfer *transfers, **last_transfer;
static __thread int groups; /* that were begun and not ended */

static void send_one(const struct transfer *one)
{
    static __typeof__(softgpu_known) *known;
    if (!known) SOFT_DRIVER_FUNCTION(known, "softgpu_known");
    unsigned char *own = known && one->bytes <= EXCHANGED_MOST ? malloc(one->bytes) : NULL;
    if (own)
        softnccl_send(&one->comm->exchange, one->peer, own, known((uintptr_t)one->buffer, own, one->bytes), one->bytes);
    free(own);
}

/* Without an exchange, the peer is assumed to send what this rank sends to itself in this group, or else to the peer.
 */
static void receive_one(const struct transfer *one)
{
    unsigned char *theirs = one->bytes <= EXCHANGED_MOST && getenv("SOFTGPU_MESSAGES") ? malloc(one->bytes) : NULL;
    const struct transfer *like = NULL;
    if (theirs) {
        int source = softnccl_receive(&one->comm->exchange, one->peer, theirs, one->bytes);
        set(one->buffer, theirs, one->bytes, source);
        free(theirs);
        return;
    }
    for (const struct transfer *own = transfers; own; own = own->next)
        if (!own->receives && own->comm == one->comm && own->bytes == one->bytes &&
            (own->peer == one->comm->rank || (!like && own->peer == one->peer)))
            like = own;
    give(like ? like->buffer : NULL, one->buffer, one->bytes, one->comm, one->stream);
}

static ncclResult_t transfer_all(void)
{
    for (const struct transfer *one = transfers; one; one = one->next)
        if (!one->receives) send_one(one);
    for (const struct transfer *one = transfers; one; one = one->next)
        if (one->receives) receive_one(one);
    for (struct transfer *one; (one = transfers);) {
        transfers = one->next;
        free(one);
    }
    last_transfer = NULL;
    return ncclSuccess;
}

static ncclResult_t transfer(void *buffer, size_t bytes, int peer, ncclComm_t comm, void *stream, bool receives)
{
    struct transfer *one = bytes ? malloc(sizeof *one) : NULL;
    if (!one) return bytes ? ncclSystemError : ncclSuccess;
    *one = (struct transfer){NULL, buffer, bytes, peer, comm, stream, receives};
    if (!last_transfer) last_transfer = &transfers;
    *last_transfer = one;
    last_transfer = &one->next;
    return groups ? ncclSuccess : transfer_all();
}

EXPORTED ncclResult_t ncclGroupStart(void)
{
    groups++;
    return ncclSuccess;
}

EXPORTED ncclResult_t ncclGroupEnd(void)
{
    return groups && --groups ? ncclSuccess : transfer_all();
}

EXPORTED ncclResult_t ncclSend(const void *from, size_t count, int type, int peer, ncclComm_t comm, void *stream)
{
    return transfer((void *)(uintptr_t)from, bytes_of(count, type), peer, comm, stream, false);
}

EXPORTED ncclResult_t ncclRecv(void *to, size_t count, int type, int peer, ncclComm_t comm, void *stream)
{
    return transfer(to, bytes_of(count, type), peer, comm, stream, true);
}

static __thread int split_size; /* 0: not told */

/* Says how many ranks the calling thread's next split leaves together: one rank cannot know the colours of the others.
 */
EXPORTED void softnccl_split_size(int size)
{
    split_size = size;
}

/* Ranks of one `color` stay together, in the order of their keys. Programs count keys from 0 in each part. If the size
 * is unknown, all are assumed to stay together. */
EXPORTED ncclResult_t ncclCommSplit(ncclComm_t from, int color, int key, ncclComm_t *to, void *config)
{
    (void)config;
    int size = split_size > 0 && split_size <= from->size ? split_size : from->size;
    split_size = 0;
    *to = NULL;
    uint64_t id = hash(from->exchange.id, (const uint64_t[]){from->splits++, (uint64_t)color}, 2 * sizeof(uint64_t));
    int rank = key >= 0 && key < size ? key : from->rank % size;
    return color < 0 ? ncclSuccess : create(to, size, rank, from->device, id);
}

EXPORTED ncclResult_t ncclCommShrink(ncclComm_t from, int *left_out, int count, ncclComm_t *to, void *config, int flags)
{
    (void)config, (void)flags;
    int before = 0; /* ranks before this one that leave */
    for (int i = 0; i < count; i++)
        before += left_out[i] < from->rank;
    uint64_t id = hash(from->exchange.id, left_out, (size_t)count * sizeof *left_out);
    return create(to, from->size - count, from->rank - before, from->device, id);
}

EXPORTED ncclResult_t ncclCommGrow(ncclComm_t from, int size, const ncclUniqueId *id, int rank, ncclComm_t *to,
                                   void *config)
{
    (void)config;
    return create(to, size, from ? from->rank : rank, from ? from->device : 0, id ? hash(0, id, sizeof *id) : 0);
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
