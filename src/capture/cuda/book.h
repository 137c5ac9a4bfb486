/*
 * The tracks on which the driver's memory is booked, and how a block begins and ends there. Three kinds of tracks must
 * not be added up: memory of a device, addresses, and the memory that pools hold (as opposed to their blocks). Physical
 * use of a device by this process = driver + reserved of pool + reserved of graph.
 *
 * Any thread, inside a hook.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capture/core/front.h"
#include "capture/core/recorder.h"
#include "capture/cuda/live.h"

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
