/*
 * The program's live CUDA memory and handles, by address or handle. The recorder needs this list for two reasons: a
 * free gives only an address, and handles are counted by reference. It consists of sharded hash tables in mapped
 * memory. Nothing here allocates. If memory cannot be mapped, an entry is lost, and its end counts as the end of an
 * unknown block.
 *
 * Any thread, inside a hook. In a forked child mp_live_reset() comes first.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* The kind of a value. Addresses and handles of different kinds may be equal numbers. */
enum mp_live_class {
    MP_LIVE_MEMORY = 1, /* an address that a free takes: device, managed, pool, graph, pinned */
    MP_LIVE_REGISTERED, /* the program's own host memory */
    MP_LIVE_STATIC,     /* a module's variable */
    MP_LIVE_ARRAY,
    MP_LIVE_MIPMAP,
    MP_LIVE_PHYSICAL, /* cuMemCreate's handle; `other` counts mappings and bindings */
    MP_LIVE_MULTICAST,
    MP_LIVE_RESERVATION,
    MP_LIVE_MAPPING,  /* a mapping of addresses; `other` is the handle of the memory that is mapped there */
    MP_LIVE_BINDING,  /* memory bound to a multicast object; `other` is its handle */
    MP_LIVE_EXTERNAL, /* cuImportExternalMemory's handle */
    MP_LIVE_POOL,     /* a pool's handle; `other` is the number of its memory */
    MP_LIVE_HELD,     /* a pool's memory; `value` is its number (or address, if only CUPTI's records report the pool);
                       * `bytes` is its     size, `refs` counts the pool and its blocks */
    MP_LIVE_CONTEXT,
    MP_LIVE_MODULE,
    MP_LIVE_LIBRARY,
    MP_LIVE_STREAM,
    MP_LIVE_EVENT,
    MP_LIVE_GRAPH,        /* `other` is the number of its memory */
    MP_LIVE_EXEC,         /* an executable graph; `other` is the number of its memory, `bytes` counts its nodes in that
                           * memory */
    MP_LIVE_CAPTURE,      /* a stream that captures; `other` is the number of the capture's memory */
    MP_LIVE_GRAPH_MEMORY, /* by number: `refs` counts a graph, its executables and captures, `other` their nodes */
    MP_LIVE_NODE,         /* by number and place: a graph's memory node; `other` is its address */
    MP_LIVE_NODE_ADDRESS, /* the address to which an alloc node will give memory */
    MP_LIVE_REGION,       /* a block of NVTX's memory extension; `other` is its heap */
};

struct mp_live {
    uint64_t value;
    uint64_t bytes;
    uint64_t context; /* the context whose end also ends the entry; 0: none */
    uint64_t other;
    uint32_t stack, module, refs; /* stack, module: captured when the entry was made (struct mp_captured) */
    int16_t device;
    uint8_t class;  /* enum mp_live_class; 0: a free slot */
    uint8_t book;   /* enum mp_book: the track that has the entry as a block */
    uint8_t kind;   /* enum mp_kind */
    uint8_t origin; /* its meaning depends on the class */
};

/* Adds an entry. Replaces an existing entry with the same class and value, and returns it in *before. Returns whether
 * one was replaced. */
bool mp_live_put(const struct mp_live *entry, struct mp_live *before);
bool mp_live_find(enum mp_live_class class, uint64_t value, struct mp_live *found);
bool mp_live_take(enum mp_live_class class, uint64_t value, struct mp_live *taken);

/* Adds `refs` and `others` to the counts of an existing entry; *after is its new state. Removes the entry if both are
 * then 0. */
bool mp_live_count(enum mp_live_class class, uint64_t value, int refs, int others, struct mp_live *after);
/* Sets the entry's `bytes` as of the moment `when`, and stores `when` in `context`. A value older than the stored one
 * changes nothing. *before is the former state. */
bool mp_live_set_bytes(enum mp_live_class class, uint64_t value, uint64_t bytes, uint64_t when, struct mp_live *before);

/* Removes entries that `wanted` accepts, a few at a time. Returns the number of entries in `taken`; 0 when none is
 * left. Each call walks all entries, so it is for rare events. `wanted` runs under a lock and may only read. */
#define MP_LIVE_TAKEN 16
unsigned mp_live_take_some(bool (*wanted)(const struct mp_live *entry, uint64_t filter), uint64_t filter,
                           struct mp_live taken[MP_LIVE_TAKEN]);

/* Forgets all entries and releases all locks, for a forked child. */
void mp_live_reset(void);
