/*
 * The effect of a driver's call on the tracks: one booking for both ways in. Code that sees a call (CUPTI's callback, a
 * wrapper of libmemprof-hooks.so) calls mp_cuda_enter() before it and mp_cuda_exit() after it, with the same visit.
 *
 * A free is published before the call goes down, since the driver may hand the address to another thread before this
 * one returns; an allocation is published after it. A second record takes back a free that failed. A context's property
 * ends with it: memory (linear, managed, pinned, registered, arrays, opened or mapped from others), modules and their
 * variables, streams and events. A device's property stays: pools with their blocks, physical handles, address ranges,
 * libraries and graphs.
 *
 * A graph's alloc node is an address, from its addition or capture until the graph and all its executables are gone. A
 * launch gives it memory, with the node's stack; a free node or the program takes that back.
 *
 * Any thread; outside a hook (both enter one). Never calls CUDA.
 */
#ifndef MP_CAPTURE_CUDA_BOOKING_H
#define MP_CAPTURE_CUDA_BOOKING_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/core/front.h"
#include "capture/core/recorder.h"
#include "capture/cuda/driver_calls.h"
#include "capture/cuda/live.h"

/*
 * The tracks on which the driver's memory is booked, and how a block begins and ends there. There are three kinds of
 * ledgers, which are never added together: memory of a device, addresses, and a pool's own memory, as opposed to its
 * blocks. Physical use of a device by this process = driver + reserved of pool + reserved of graph.
 *
 * Any thread, inside a hook.
 */

enum mp_book {
    MP_BOOK_NONE,
    /* of a device: cuda:N/driver... */
    MP_BOOK_DEVICE,    /* "": memory handed out: linear, arrays, physical handles, modules' variables */
    MP_BOOK_POOL,      /* blocks of stream-ordered pools; reserved: the pools' own memory */
    MP_BOOK_GRAPH,     /* allocated by launches of graphs; reserved: the device's graph pool */
    MP_BOOK_NODES,     /* graphs' alloc nodes: addresses to which a launch gives memory */
    MP_BOOK_MANAGED,   /* managed memory: never booked as resident */
    MP_BOOK_ADDRESSES, /* reserved address ranges: no memory */
    MP_BOOK_MAPPED,    /* address ranges with memory behind them: the same memory as "" */
    MP_BOOK_IMPORTED,  /* of another process or interface */
    /* of the host: cpu/driver... */
    MP_BOOK_PINNED,     /* "" */
    MP_BOOK_HOST_POOL,  /* blocks of pools whose memory is the host's */
    MP_BOOK_REGISTERED, /* the program's own memory */
    /* of a device again: handles, 0 bytes each */
    MP_BOOK_CONTEXTS,
    MP_BOOK_MODULES,
    MP_BOOK_LIBRARIES,
    MP_BOOK_STREAMS,
    MP_BOOK_EVENTS,
    MP_BOOK_GRAPHS,
    MP_BOOK_EXECUTABLES,
    MP_BOOK_POOLS,
    MP_BOOK_MULTICAST,
    MP_BOOKS
};

/* `origin` of a pool: the kind of its blocks. */
enum { MP_POOL_OF_DEVICE, MP_POOL_OF_HOST, MP_POOL_MANAGED, MP_POOL_IMPORTED };

#define MP_CUDA_DEVICES MP_SPOOL_DEVICES

/* The track; MP_TRACK_NONE where there is no room for more. `device` below 0 or too high: device 0. */
uint16_t mp_book_track(enum mp_book book, int device);

/* A block begins: the entry becomes live and, where it has a ledger, is recorded with its stack (entry->stack is the
 * one that is kept). An earlier entry of the same value ended unseen. */
void mp_book_begin(struct mp_thread *thread, struct mp_live *entry);
/* The stack of this moment, for entries that begin with it. */
struct mp_captured mp_book_stack(struct mp_thread *thread);
/* Ends the block of an entry that was removed from the live ones. */
void mp_book_end(struct mp_thread *thread, const struct mp_live *entry);
/* The size of memory that was booked without one became known: the block begins anew. */
void mp_book_has_size(struct mp_thread *thread, uint64_t address, uint64_t bytes);
/* A free of a block whose beginning was never seen. */
void mp_book_end_unknown(struct mp_thread *thread, enum mp_book book, int device, uint64_t value);
/* An allocation of that many bytes found no memory. */
void mp_book_refused(struct mp_thread *thread, enum mp_book book, int device, uint64_t bytes);
/* The number of a new pool's memory: `other` of the pool's entry and of its blocks'. */
uint64_t mp_book_new_pool(int device, unsigned origin);
/* The pool of that number held `bytes` at that moment (monotonic ns). */
void mp_book_pool_holds(struct mp_thread *thread, uint64_t number, uint64_t bytes, uint64_t when);
/* The device's graphs hold `bytes` now. */
void mp_book_graphs_hold(struct mp_thread *thread, int device, uint64_t bytes);

/* In a forked child: no pool holds anything. */
void mp_book_reset(void);

/* A driver's call between its enter and its exit, and a thread's record of such calls. */

/* Zeroed by its owner. */
#define MP_CUDA_VISIT_TAKEN 4
struct mp_cuda_visit {
    unsigned taken_count;
    bool entered, unknown; /* unknown: nobody saw the beginning of the freed block */
    uint8_t began;         /* enum mp_book on which memory with an address began */
    struct mp_live taken[MP_CUDA_VISIT_TAKEN];
};

/* Data that CUPTI's callbacks leave in a thread. */
#define MP_CUPTI_VISITS 4
struct mp_cupti_thread {
    uint32_t enters, exits; /* of calls that callbacks reported */
    bool captured;          /* an alloc node was made since the call's enter */
    struct mp_cuda_visit visits[MP_CUPTI_VISITS];
};
struct mp_cupti_thread *mp_cupti_thread(struct mp_thread *thread); /* NULL of NULL */

/* Facts about a call that has returned, in addition to its arguments. */
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
/* Inside a hook, after any call: books news about pools and graphs. */
void mp_cuda_book_facts(struct mp_thread *thread, const struct mp_cuda_facts *facts);

/* The device of a known context; MP_NOT_KNOWN. */
int mp_cuda_device_of(uint64_t context);
/* Inside a hook: a context exists; the other: it and its property are gone. */
void mp_cuda_context_seen(struct mp_thread *thread, uint64_t context, int device, bool primary);
void mp_cuda_context_gone(struct mp_thread *thread, uint64_t context);

#endif
