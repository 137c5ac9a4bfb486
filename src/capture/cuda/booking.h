/*
 * The effect of a driver's call on the tracks: one booking for both ways in. Code that sees a call (CUPTI's callback, a
 * wrapper of libmemprof-hooks.so) calls mp_cuda_enter() before it and mp_cuda_exit() after it, with the same visit.
 *
 * A free is published before the call goes down, since the driver may hand the address to another thread before this
 * one returns; an allocation is published after it. A second record takes back a free that failed. A context's property
 * ends with it: linear, managed, pinned and registered memory, arrays, memory opened or mapped from others, modules'
 * variables, modules, streams and events. A device's property stays: pools and their blocks, physical handles, address
 * ranges, libraries, graphs.
 *
 * A graph's alloc node is an address, from its addition or capture until the graph and all its executables are gone. A
 * launch gives it memory, with the node's stack; a free node or the program takes that back.
 *
 * Any thread; outside a hook (both enter one). Never calls CUDA.
 */
#ifndef MP_CAPTURE_CUDA_BOOKING_H
#define MP_CAPTURE_CUDA_BOOKING_H

#include "capture/cuda/book.h"
#include "capture/cuda/calls.h"
#include "capture/cuda/visit.h"

/* Facts about a call that has returned, beside its arguments. */
enum { MP_NOT_KNOWN = -1 };
struct mp_cuda_facts {
    uint64_t context; /* the calling thread's; 0: none */
    int device;       /* of that context; MP_NOT_KNOWN */
    int capturing;    /* 1: the call's stream captures a graph; MP_NOT_KNOWN: look at begins and ends of captures */
    int active;       /* of cuDevicePrimaryCtxRelease: 0: the context is gone; MP_NOT_KNOWN: another way in will report
                       * it */
    uint64_t bytes;   /* of memory whose size is not in the call; MP_BYTES_UNKNOWN */
    uint64_t pool, pool_bytes; /* the affected pool and its bytes; 0: unknown */
    uint64_t graph_bytes;      /* bytes of the device's graphs; MP_BYTES_UNKNOWN */
};
#define MP_CUDA_NO_FACTS                                                                                               \
    {                                                                                                                  \
        .device = MP_NOT_KNOWN, .capturing = MP_NOT_KNOWN, .active = MP_NOT_KNOWN, .bytes = MP_BYTES_UNKNOWN,          \
        .graph_bytes = MP_BYTES_UNKNOWN                                                                                \
    }

void mp_cuda_enter(enum mp_cuda_call_id id, const void *arguments, struct mp_cuda_visit *visit);
void mp_cuda_exit(enum mp_cuda_call_id id, const void *arguments, int result, struct mp_cuda_visit *visit,
                  const struct mp_cuda_facts *facts);

/* Sets the UUID of a device by its ordinal in this process; `final` ones replace others. */
void mp_cuda_device_is(int ordinal, const struct mp_cu_uuid *uuid, bool final);
/* True once a wrapper has asked the driver for the pools' sizes. */
bool mp_cuda_hooks_ask(void);
/* Inside a hook: books what was learned of pools and graphs, whatever the call was. */
void mp_cuda_book_facts(struct mp_thread *thread, const struct mp_cuda_facts *facts);

/* The device of a known context; MP_NOT_KNOWN. */
int mp_cuda_device_of(uint64_t context);
/* Inside a hook: a context exists; the other: it and its property are gone. */
void mp_cuda_context_seen(struct mp_thread *thread, uint64_t context, int device, bool primary);
void mp_cuda_context_gone(struct mp_thread *thread, uint64_t context);

#endif
