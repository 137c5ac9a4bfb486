/*
 * The effect of a driver's call on the tracks. CUPTI's callbacks and the wrappers of libmemprof-hooks.so both use it.
 * They call mp_cuda_enter() before the call and mp_cuda_exit() after it, with the same visit.
 *
 * A free is recorded before the driver runs the call, since the driver may give the address to another thread before
 * the call returns. An allocation is recorded after the call. If a free fails, a second record takes it back. A context
 * owns streams, events, modules with their variables, and most memory. All these end with the context. Pools with their
 * blocks, physical handles, address ranges, libraries and graphs stay: the device owns them.
 *
 * A graph's alloc node is an address. The address lives from the node's addition or capture until the graph and all its
 * executables are destroyed. A launch gives it memory, with the node's stack; a free node or the program takes that
 * memory back.
 *
 * Any thread; outside a hook (both enter one). Never calls CUDA.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capture/cuda/book.h"
#include "capture/cuda/driver_calls.h"

/* A call's state. Its owner zeroes it. */
#define MP_CUDA_VISIT_TAKEN 4
struct mp_cuda_visit {
    unsigned taken_count;
    bool entered, unknown; /* unknown: memprof did not see the begin of the freed block */
    uint8_t began;         /* enum mp_book on which the call began memory with an address */
    struct mp_live taken[MP_CUDA_VISIT_TAKEN];
};

/* Facts about a call that has returned, in addition to its arguments. */
enum { MP_NOT_KNOWN = -1 };
struct mp_cuda_facts {
    uint64_t context; /* the current context of the calling thread; 0: none */
    int device;       /* the context's device, or MP_NOT_KNOWN */
    int capturing;    /* 1: the call's stream captures a graph; MP_NOT_KNOWN: derive it from begins and ends of
                       * captures */
    int active;       /* after cuDevicePrimaryCtxRelease, 0: the context was destroyed. MP_NOT_KNOWN: another callback
                       * will report it */
    uint64_t bytes;   /* size of memory that the arguments do not give; MP_BYTES_UNKNOWN */
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

/* Sets the UUID of a device by its ordinal in this process. A `final` UUID replaces an earlier one. */
void mp_cuda_device_is(int ordinal, const struct mp_cu_uuid *uuid, bool final);
/* True once a wrapper has asked the driver for the pools' sizes. */
bool mp_cuda_hooks_ask(void);
/* Inside a hook, after any call: books new sizes of pools and graphs. */
void mp_cuda_book_facts(struct mp_thread *thread, const struct mp_cuda_facts *facts);

/* The device of a context; MP_NOT_KNOWN if memprof has not seen the context. */
int mp_cuda_device_of(uint64_t context);
/* Inside a hook. mp_cuda_context_seen(): a context exists. mp_cuda_context_gone(): it was destroyed, and all that it
 * owned ends. */
void mp_cuda_context_seen(struct mp_thread *thread, uint64_t context, int device, bool primary);
void mp_cuda_context_gone(struct mp_thread *thread, uint64_t context);
