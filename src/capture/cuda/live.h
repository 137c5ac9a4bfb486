/*
 * The program's CUDA memory and handles, by address or handle. The recorder keeps its own list, since a free gives only
 * an address, and since handles are counted by reference. Sharded hash tables in mapped memory. Nothing here allocates;
 * where memory cannot be mapped an entry is not kept, and its end is that of an unknown block.
 *
 * Any thread, inside a hook. In a forked child mp_live_reset() comes first.
 */
#ifndef MP_CAPTURE_CUDA_LIVE_H
#define MP_CAPTURE_CUDA_LIVE_H

#include <stdbool.h>
#include <stdint.h>

/* The kind of a value: addresses and handles of different kinds may be equal. */
enum mp_live_class {
    MP_LIVE_MEMORY = 1, /* an address that a free takes: device, managed, pool, graph, pinned */
    MP_LIVE_REGISTERED, /* the program's own host memory */
    MP_LIVE_STATIC,     /* a module's variable */
    MP_LIVE_ARRAY,
    MP_LIVE_MIPMAP,
    MP_LIVE_PHYSICAL, /* cuMemCreate's handle; `other` counts mappings and bindings */
    MP_LIVE_MULTICAST,
    MP_LIVE_RESERVATION,
    MP_LIVE_MAPPING,  /* of addresses; `other` is the handle of what is mapped there */
    MP_LIVE_BINDING,  /* to a multicast object; `other` likewise */
    MP_LIVE_EXTERNAL, /* cuImportExternalMemory's handle */
    MP_LIVE_POOL,     /* its handle; `other` is the number of its memory */
    MP_LIVE_HELD,     /* by number (by address, where only CUPTI's records report a pool): `bytes` is the pool's memory;
                       * `refs` counts the pool and its blocks */
    MP_LIVE_CONTEXT,
    MP_LIVE_MODULE,
    MP_LIVE_LIBRARY,
    MP_LIVE_STREAM,
    MP_LIVE_EVENT,
    MP_LIVE_GRAPH,        /* `other` is the number of its memory */
    MP_LIVE_EXEC,         /* likewise; `bytes` counts the nodes that it has of that */
    MP_LIVE_CAPTURE,      /* a stream that captures; likewise */
    MP_LIVE_GRAPH_MEMORY, /* by number: `refs` counts the graph, its executables and captures, `other` the nodes */
    MP_LIVE_NODE,         /* by number and place: a graph's memory node; `other` is its address */
    MP_LIVE_NODE_ADDRESS, /* the address to which an alloc node will give memory */
    MP_LIVE_REGION,       /* of NVTX's memory extension; `other` is its heap */
};

struct mp_live {
    uint64_t value;
    uint64_t bytes;
    uint64_t context; /* with which it ends; 0: with none */
    uint64_t other;
    uint32_t stack, module, refs; /* where it was made: struct mp_captured */
    int16_t device;
    uint8_t class;  /* enum mp_live_class; 0: a free slot */
    uint8_t book;   /* enum mp_book, the track that has it as a block */
    uint8_t kind;   /* enum mp_kind */
    uint8_t origin; /* of the class's own */
};

/* Adds an entry. An existing one with the value is replaced and returned in *before; returns whether there was one. */
bool mp_live_put(const struct mp_live *entry, struct mp_live *before);
bool mp_live_find(enum mp_live_class class, uint64_t value, struct mp_live *found);
bool mp_live_take(enum mp_live_class class, uint64_t value, struct mp_live *taken);

/* Adds to the two counts of an existing entry; *after is its new state. Removes it where both are then 0. */
bool mp_live_count(enum mp_live_class class, uint64_t value, int refs, int others, struct mp_live *after);
/* Sets `bytes` as of a moment, which is kept in `context`: an older one changes nothing. *before is the former
 * state. */
bool mp_live_set_bytes(enum mp_live_class class, uint64_t value, uint64_t bytes, uint64_t when, struct mp_live *before);

/* Removes entries that `wanted` accepts, a few at a time. Returns how many are in `taken`, 0 when none is left. Walks
 * everything: for rare events. `wanted` runs under a lock and may only look. */
#define MP_LIVE_TAKEN 16
unsigned mp_live_take_some(bool (*wanted)(const struct mp_live *entry, uint64_t filter), uint64_t filter,
                           struct mp_live taken[MP_LIVE_TAKEN]);

/* Nothing is live and no lock is held. */
void mp_live_reset(void);

#endif
