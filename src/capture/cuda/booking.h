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

#include "capture/core/front.h"
#include "capture/core/recorder.h"
#include "capture/cuda/driver_calls.h"
#include "capture/cuda/live.h"

/*
 * The tracks on which the driver's memory is booked, and how a block begins and ends there. Three kinds of tracks must
 * not be added up: memory of a device, addresses, and the memory that pools hold (as opposed to their blocks). Physical
 * use of a device by this process = driver + reserved of pool + reserved of graph.
 *
 * Any thread, inside a hook.
 */

enum mp_book {
    MP_BOOK_NONE,
    /* books of a device: cuda:N/driver... */
    MP_BOOK_DEVICE,    /* "": memory that the driver handed out: linear, arrays, physical handles, modules' variables */
    MP_BOOK_POOL,      /* blocks of stream-ordered pools; reserved: the pools' own memory */
    MP_BOOK_GRAPH,     /* blocks that launches of graphs allocate; reserved: the device's graph pool */
    MP_BOOK_NODES,     /* graphs' alloc nodes: addresses to which a launch gives memory */
    MP_BOOK_MANAGED,   /* managed memory, which may not be resident on the device */
    MP_BOOK_ADDRESSES, /* reserved address ranges: no memory */
    MP_BOOK_MAPPED,    /* address ranges with memory behind them, which MP_BOOK_DEVICE has, too */
    MP_BOOK_IMPORTED,  /* memory of another process or interface */
    /* books of the host: cpu/driver... */
    MP_BOOK_PINNED,     /* "" */
    MP_BOOK_HOST_POOL,  /* blocks of pools in host memory */
    MP_BOOK_REGISTERED, /* the program's own memory, registered with the driver */
    /* books of a device again: handles, 0 bytes each */
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

/* Values of `origin` in a pool's entry: the place of its blocks. */
enum { MP_POOL_OF_DEVICE, MP_POOL_OF_HOST, MP_POOL_MANAGED, MP_POOL_IMPORTED };

#define MP_CUDA_DEVICES MP_SPOOL_DEVICES

/* A book's track on a device; MP_TRACK_NONE if there is no room for more. `device` below 0 or too high: device 0. */
uint16_t mp_book_track(enum mp_book book, int device);

/* Begins a block: makes the entry live and, if it has a book, records it. Captures the stack unless entry->stack is
 * set. If an earlier entry has the same value, its end was missed, so it ends now. */
void mp_book_begin(struct mp_thread *thread, struct mp_live *entry);
/* Captures the present stack, for entries that begin at this moment. */
struct mp_captured mp_book_stack(struct mp_thread *thread);
/* Ends the block of an entry. The caller has removed the entry from the live ones. */
void mp_book_end(struct mp_thread *thread, const struct mp_live *entry);
/* Sets the size of memory that was booked without a size. The block ends and begins anew. */
void mp_book_has_size(struct mp_thread *thread, uint64_t address, uint64_t bytes);
/* Records a free of a block whose begin memprof did not see. */
void mp_book_end_unknown(struct mp_thread *thread, enum mp_book book, int device, uint64_t value);
/* Records that an allocation of `bytes` found no memory. */
void mp_book_refused(struct mp_thread *thread, enum mp_book book, int device, uint64_t bytes);
/* Returns a number for the memory of a new pool: `other` in the entries of the pool and of its blocks. */
uint64_t mp_book_new_pool(int device, unsigned origin);
/* Records that the pool of that number held `bytes` at `when` (monotonic ns). */
void mp_book_pool_holds(struct mp_thread *thread, uint64_t number, uint64_t bytes, uint64_t when);
/* Records that the device's graphs hold `bytes` now. */
void mp_book_graphs_hold(struct mp_thread *thread, int device, uint64_t bytes);

/* Called in a forked child: no pool or graph holds memory there. */
void mp_book_reset(void);

/* One call of the driver from its enter to its exit, and the facts that a thread keeps about its calls. */

/* A call's state. Its owner zeroes it. */
#define MP_CUDA_VISIT_TAKEN 4
struct mp_cuda_visit {
    unsigned taken_count;
    bool entered, unknown; /* unknown: memprof did not see the begin of the freed block */
    uint8_t began;         /* enum mp_book on which the call began memory with an address */
    struct mp_live taken[MP_CUDA_VISIT_TAKEN];
};

/* Facts about a thread that CUPTI's callbacks remember. */
#define MP_CUPTI_VISITS 4
struct mp_cupti_thread {
    uint32_t enters, exits; /* number of enters and exits of calls that callbacks reported */
    bool captured;          /* an alloc node was made since the enter of the current call */
    struct mp_cuda_visit visits[MP_CUPTI_VISITS];
};
struct mp_cupti_thread *mp_cupti_thread(struct mp_thread *thread); /* NULL if `thread` is NULL */

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
