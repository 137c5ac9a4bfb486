#include "softgpu/nccl/exchange.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "softgpu/stub.h"

/* A rank may import PyTorch, or compile, while the others wait. After a minute it is taken to be gone. */
#define PATIENCE_NS   (UINT64_C(60) * 1000000000)
#define LOOK_AGAIN_NS 500000
#define KEPT_FILES    64 /* a rank may be behind by this many collectives in which it waits for nobody (broadcasts) */

/* The data that rank `from` sent in one collective, or as one message `to` another rank. */
struct message {
    uint64_t number;
    int from, to; /* to EVERYBODY: a collective */
};

static char *path_of(const struct exchange *of, struct message one, const char *end, char path[PATH_MAX])
{
    snprintf(path, PATH_MAX, "%s/%" PRIx64 "-%" PRIu64 "-%d-%d%s", getenv("SOFTGPU_MESSAGES"), of->id, one.number,
             one.from, one.to, end);
    return path;
}

static void send_own(const struct exchange *of, struct message one, const void *own, int source, size_t bytes)
{
    char path[PATH_MAX], partial[PATH_MAX];
    int file = open(path_of(of, one, ".partial", partial), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (file < 0) return;
    bool written = write(file, &source, sizeof source) == (ssize_t)sizeof source &&
                   (source < 0 || write(file, own, bytes) == (ssize_t)bytes);
    close(file);
    if (written) rename(partial, path_of(of, one, "", path));
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* Returns the source of the data; -1: they are unknown, or the rank did not come. */
static int receive(struct exchange *of, struct message one, void *to, size_t bytes)
{
    char path[PATH_MAX];
    int file, source = -1;
    path_of(of, one, "", path);
    for (uint64_t until = now_ns() + PATIENCE_NS; (file = open(path, O_RDONLY | O_CLOEXEC)) < 0;) {
        if (of->given_up || now_ns() > until) {
            char said[128];
            snprintf(said, sizeof said, "plan: waited: rank %d waited in vain for rank %d", of->rank, one.from);
            if (!of->given_up) soft_not_imitated(said, said);
            of->given_up = true;
            return -1;
        }
        nanosleep(&(struct timespec){0, LOOK_AGAIN_NS}, NULL);
    }
    bool whole = read(file, &source, sizeof source) == (ssize_t)sizeof source &&
                 (source < 0 || read(file, to, bytes) == (ssize_t)bytes);
    close(file);
    if (one.to != EVERYBODY) unlink(path);
    return whole ? source : -1;
}

bool softnccl_exchange(struct exchange *of, int root, const void *own, int source, size_t bytes, unsigned char *theirs,
                       int *sources)
{
    if (!getenv("SOFTGPU_MESSAGES")) return false;
    if (root == EVERYBODY || root == of->rank) {
        char path[PATH_MAX];
        send_own(of, (struct message){of->number, of->rank, EVERYBODY}, own, source, bytes);
        if (of->number >= KEPT_FILES)
            unlink(path_of(of, (struct message){of->number - KEPT_FILES, of->rank, EVERYBODY}, "", path));
    }
    for (int i = 0; i < of->size; i++) {
        sources[i] = i == of->rank ? source : -1;
        if (i == of->rank && source >= 0) memcpy(theirs + (size_t)i * bytes, own, bytes);
        if (i != of->rank && (root == EVERYBODY || root == i))
            sources[i] = receive(of, (struct message){of->number, i, EVERYBODY}, theirs + (size_t)i * bytes, bytes);
    }
    of->number++;
    return true;
}

bool softnccl_send(struct exchange *of, int to, const void *own, int source, size_t bytes)
{
    if (!getenv("SOFTGPU_MESSAGES") || to < 0 || to >= PEERS) return false;
    send_own(of, (struct message){of->sent_to[to]++, of->rank, to}, own, source, bytes);
    return true;
}

int softnccl_receive(struct exchange *of, int from, void *theirs, size_t bytes)
{
    if (!getenv("SOFTGPU_MESSAGES") || from < 0 || from >= PEERS) return -1;
    return receive(of, (struct message){of->received_from[from]++, from, of->rank}, theirs, bytes);
}

/* ncclRedOp_t */
enum { SUM, PRODUCT, MAXIMUM, MINIMUM, AVERAGE };

#define REDUCE(name, of)                                                                                               \
    static void name(void *to, const unsigned char *theirs, int ranks, size_t count, int operation)                    \
    {                                                                                                                  \
        for (size_t i = 0; i < count; i++) {                                                                           \
            of sum, one;                                                                                               \
            memcpy(&sum, theirs + i * sizeof sum, sizeof sum);                                                         \
            for (int rank = 1; rank < ranks; rank++) {                                                                 \
                memcpy(&one, theirs + ((size_t)rank * count + i) * sizeof one, sizeof one);                            \
                sum = operation == PRODUCT   ? (of)(sum * one)                                                         \
                      : operation == MAXIMUM ? (one > sum ? one : sum)                                                 \
                      : operation == MINIMUM ? (one < sum ? one : sum)                                                 \
                                             : (of)(sum + one);                                                        \
            }                                                                                                          \
            if (operation == AVERAGE) sum = (of)(sum / (of)ranks);                                                     \
            memcpy((char *)to + i * sizeof sum, &sum, sizeof sum);                                                     \
        }                                                                                                              \
    }
REDUCE(reduce_int8, int8_t)
REDUCE(reduce_uint8, uint8_t)
REDUCE(reduce_int32, int32_t)
REDUCE(reduce_uint32, uint32_t)
REDUCE(reduce_int64, int64_t)
REDUCE(reduce_uint64, uint64_t)
REDUCE(reduce_float, float)
REDUCE(reduce_double, double)

bool softnccl_reduce(void *to, const unsigned char *theirs, int ranks, size_t count, int type, int operation)
{
    static void (*const reduce[])(void *, const unsigned char *, int, size_t, int) = {
        reduce_int8,   reduce_uint8, reduce_int32, reduce_uint32, reduce_int64,
        reduce_uint64, NULL,         reduce_float, reduce_double}; /* by ncclDataType_t; 6: half */
    if (type < 0 || type > 8 || !reduce[type] || operation < SUM || operation > AVERAGE) return false;
    reduce[type](to, theirs, ranks, count, operation);
    return true;
}
