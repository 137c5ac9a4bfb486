/*
 * What a call of the driver does to the tracks: one booking for both ways in. Whoever sees a call (CUPTI's callback, a
 * wrapper of libmemprof-hooks.so) calls mp_cuda_enter() before it and mp_cuda_exit() after it, with the same visit.
 *
 * A free is published before the call goes down, since the driver may hand the address to another thread before this
 * one is back; an allocation after it. A free that failed is taken back by a second record. What a context owned ends
 * with it: linear, managed, pinned and registered memory, arrays, what was opened or mapped from others, modules'
 * variables, modules, streams and events. What belongs to a device stays: pools and their blocks, physical handles,
 * address ranges, libraries, graphs.
 *
 * A graph's alloc node is an address, from when it is added or captured until the graph and all its executables are
 * gone. A launch gives it memory, with the node's stack; a free node or the program takes that back.
 *
 * Any thread; outside a hook (both enter one). Never calls CUDA.
 */
#ifndef MP_CAPTURE_CUDA_BOOKING_H
#define MP_CAPTURE_CUDA_BOOKING_H

#include "capture/cuda/book.h"
#include "capture/cuda/calls.h"
#include "capture/cuda/visit.h"

/* What is known beside the call's arguments when it has returned. */
enum { MP_NOT_KNOWN = -1 };
struct mp_cuda_facts {
    uint64_t context; /* the calling thread's; 0: none */
    int device;       /* of that context; MP_NOT_KNOWN */
    int capturing;    /* 1: the call's stream captures a graph; MP_NOT_KNOWN: look at begins and ends of captures */
    int active;       /* of cuDevicePrimaryCtxRelease: 0: the context is gone; MP_NOT_KNOWN: somebody else will tell */
    uint64_t bytes;   /* of memory whose size the call does not tell; MP_BYTES_UNKNOWN */
    uint64_t pool, pool_bytes; /* the pool that was touched and what it holds; 0: not told */
    uint64_t graph_bytes;      /* what the device's graphs hold; MP_BYTES_UNKNOWN: not told */
};
#define MP_CUDA_NO_FACTS                                                                                               \
    {                                                                                                                  \
        .device = MP_NOT_KNOWN, .capturing = MP_NOT_KNOWN, .active = MP_NOT_KNOWN, .bytes = MP_BYTES_UNKNOWN,          \
        .graph_bytes = MP_BYTES_UNKNOWN                                                                                \
    }

void mp_cuda_enter(enum mp_cuda_call_id id, const void *arguments, struct mp_cuda_visit *visit);
void mp_cuda_exit(enum mp_cuda_call_id id, const void *arguments, int result, struct mp_cuda_visit *visit,
                  const struct mp_cuda_facts *facts);

/* The UUID of a device by its ordinal in this process; not `final` ones give way to those that are. */
void mp_cuda_device_is(int ordinal, const struct mp_cu_uuid *uuid, bool final);
/* True once a wrapper has asked the driver what pools hold. */
bool mp_cuda_hooks_ask(void);
/* Inside a hook: what was learned of pools and graphs, whatever the call was. */
void mp_cuda_book_facts(struct mp_thread *thread, const struct mp_cuda_facts *facts);

/* The device of a context that was seen; MP_NOT_KNOWN. */
int mp_cuda_device_of(uint64_t context);
/* Inside a hook: a context is there; it and what it owned are gone. */
void mp_cuda_context_seen(struct mp_thread *thread, uint64_t context, int device, bool primary);
void mp_cuda_context_gone(struct mp_thread *thread, uint64_t context);

#endif
