/*
 * The tracks on which the driver's memory is booked, and how a block begins and ends there. There are three kinds of
 * ledgers, which are never added together: memory of a device, addresses, and a pool's own memory as opposed to what it
 * handed out. Physical use of a device by this process = driver + reserved of pool + reserved of graph.
 *
 * Any thread, inside a hook.
 */
#ifndef MP_CAPTURE_CUDA_BOOK_H
#define MP_CAPTURE_CUDA_BOOK_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/core/recorder.h"
#include "capture/cuda/live.h"

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

#endif
