/*
 * Small data between ranks that run as processes of one plan (`--devices N`). $SOFTGPU_MESSAGES names a folder, in
 * which each collective of a communicator has one file for each rank. Without it, nothing is exchanged.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXCHANGED_MOST ((size_t)64 << 10) /* most bytes of one rank */
#define EVERYBODY      (-1)

#define PEERS 8 /* most ranks of one plan: devices of the driver */

struct exchange {
    uint64_t id;                                   /* of the communicator, the same on all its ranks */
    uint64_t number;                               /* of the next collective */
    uint64_t sent_to[PEERS], received_from[PEERS]; /* messages from one rank to another */
    int rank, size;
    bool given_up; /* a rank did not come in time; later collectives do not wait for any */
};

/* Sends `bytes` of `own` to the other ranks, and receives from rank `root` or from everybody. `source`: of the own
 * data, a softgpu_source, or -1: unknown. `theirs`: room for `bytes` from each rank; `sources`: for each rank, as
 * `source`. Waits for the others, at most for some seconds. False: nothing is exchanged. One thread at a time. */
bool softnccl_exchange(struct exchange *of, int root, const void *own, int source, size_t bytes, unsigned char *theirs,
                       int *sources);
/* Sets `to` to the element by element result of an ncclRedOp_t. False: the type or operation is not known. */
bool softnccl_reduce(void *to, const unsigned char *theirs, int ranks, size_t count, int type, int operation);
/* Sends `bytes` to one rank, and waits for nobody. Arguments as above. */
bool softnccl_send(struct exchange *of, int to, const void *own, int source, size_t bytes);
/* Waits for what that rank sent. Returns its source; -1: it is unknown. */
int softnccl_receive(struct exchange *of, int from, void *theirs, size_t bytes);
