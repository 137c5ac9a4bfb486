/* Shared by the parts of the model of PyTorch's allocator. Private to torch_*.c in this folder. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/allocator/torch_allocator.h"
#include "base/vec.h"

/*
 * An ordered set of blocks, for the model of PyTorch's allocator: sorted runs of bounded length, so that changes move
 * little memory and walks are short. Zero-initialised is empty. One thread at a time.
 */

struct mp_torch_key {
    uint64_t stream, bytes, age, address; /* keys are sorted ascending, in this order */
    uint32_t block;
};

struct mp_torch_run;

struct mp_torch_set {
    MP_VEC(struct mp_torch_run *) runs; /* none is empty */
};

/* A position; valid until the set changes. */
struct mp_torch_place {
    size_t run, index;
};

/* The key must not be in the set. */
void mp_torch_set_insert(struct mp_torch_set *set, const struct mp_torch_key *key);
/* The key must be in the set. */
void mp_torch_set_remove(struct mp_torch_set *set, const struct mp_torch_key *key);
/* `to` is empty. */
void mp_torch_set_copy(struct mp_torch_set *to, const struct mp_torch_set *from);
void mp_torch_set_free(struct mp_torch_set *set);

/* The first position whose key is not below the key. mp_torch_set_at() of a position behind the last is NULL. */
struct mp_torch_place mp_torch_set_find(const struct mp_torch_set *set, const struct mp_torch_key *key);
const struct mp_torch_key *mp_torch_set_at(const struct mp_torch_set *set, struct mp_torch_place place);
struct mp_torch_place mp_torch_set_next(const struct mp_torch_set *set, struct mp_torch_place place);
/* False: there is no earlier one. */
bool mp_torch_set_previous(const struct mp_torch_set *set, struct mp_torch_place *place);

#define NONE UINT32_MAX /* no block, no use */

struct block {
    uint64_t address, bytes, requested;
    uint64_t age_base; /* number of searches in its list of free blocks when it became free */
    uint32_t segment;
    uint32_t previous, next; /* neighbours in the segment, by address */
    uint32_t uses;           /* index of the first struct use, of another stream */
    uint32_t events;         /* number of its events that the device has not reached yet */
    uint8_t state;           /* enum mp_torch_state */
    bool unused;             /* the id is free; `next` is then the next free id */
};

struct segment {
    uint64_t address, bytes, page, stream; /* page: of an expandable segment, whose bytes are address space; otherwise
                                            * 0 */
    uint64_t age;                          /* number of segments made before this one; 0: ages do not matter */
    uint32_t pool;
    uint32_t first; /* block */
    bool small, unused;
};

/* The small or the large blocks of a pool. */
struct side {
    struct mp_torch_set blocks;   /* free ones */
    struct mp_torch_set unmapped; /* keys have bytes 0 */
    uint64_t searches;            /* counted only if garbage is collected */
};

struct pool {
    struct side sides[2]; /* large, small */
    uint32_t users;       /* begun, not released */
    uint64_t bytes;       /* bytes from the driver */
    bool freeable;        /* no users left: the next release of memory empties it */
    bool no_split, use_on_oom;
};

struct use {
    uint64_t stream;
    uint32_t next;
    bool in_capture;
};

/* Frees that wait for a stream's earlier work, the oldest first. */
struct queue {
    uint64_t stream;
    MP_VEC(uint32_t) blocks;
    size_t first, done; /* done: frees before this index have completed */
};

struct context {
    uint32_t pool;
    uint64_t stream;
};

struct mp_torch_allocator {
    struct mp_torch_settings settings;
    struct mp_torch_hooks hooks;
    uint64_t capacity, total, device_used;
    uint64_t limit; /* MP_TORCH_UNLIMITED */
    uint64_t next_segment, next_reservation, next_age;
    struct mp_torch_stats stats;
    bool oldest_first; /* as in the first settings */
    MP_VEC(struct block) blocks;
    uint32_t unused_block;
    MP_VEC(struct segment) segments;
    uint32_t unused_segment;
    MP_VEC(struct pool) pools;
    uint32_t pools_on_oom;           /* no pool from this number on has use_on_oom */
    MP_VEC(struct context) contexts; /* begun, not ended */
    MP_VEC(uint32_t) freeable;       /* pools in the order of their last release */
    MP_VEC(struct use) uses;
    uint32_t unused_use;
    MP_VEC(struct queue) queues;
    MP_VEC(uint32_t) deferred; /* blocks freed in a capture while other streams use them */
    MP_VEC(uint32_t) scratch;
};

static inline struct segment *segment_of(struct mp_torch_allocator *a, uint32_t block)
{
    return &a->segments.at[a->blocks.at[block].segment];
}

static inline struct side *side_of(struct mp_torch_allocator *a, const struct segment *segment)
{
    return &a->pools.at[segment->pool].sides[segment->small];
}

static inline bool is_split(const struct block *block)
{
    return block->previous != NONE || block->next != NONE;
}

static inline bool collects_garbage(const struct mp_torch_allocator *a)
{
    return a->limit != MP_TORCH_UNLIMITED && a->settings.gc_threshold > 0;
}

void mp_torch_trace(struct mp_torch_allocator *a, enum mp_torch_action action, uint64_t address, uint64_t bytes,
                    const struct segment *segment, uint32_t block);

/* torch_blocks.c: blocks and free memory. */
uint32_t mp_torch_block_new(struct mp_torch_allocator *a, const struct block *block);
void mp_torch_block_unused(struct mp_torch_allocator *a, uint32_t block);
/* Cuts a block after `bytes`. The high part is a new block of the same state in no set. */
uint32_t mp_torch_cut(struct mp_torch_allocator *a, uint32_t block, uint64_t bytes);
/* Puts a free or unmapped block into the set of its state. */
void mp_torch_put(struct mp_torch_allocator *a, uint32_t block);
void mp_torch_take(struct mp_torch_allocator *a, uint32_t block); /* out of it */
/* Joins a free or unmapped block that is in no set with its neighbours of the same state. Returns the lowest block,
 * which remains. */
uint32_t mp_torch_join(struct mp_torch_allocator *a, uint32_t block);
void mp_torch_pool_need(struct mp_torch_allocator *a, uint32_t pool); /* makes room for the pool */

/* torch_segments.c */
uint32_t mp_torch_segment_new(struct mp_torch_allocator *a, const struct segment *segment);
/* A free block of a new segment, or of new pages; NONE: no memory, or the limit is reached. */
uint32_t mp_torch_get_memory(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool);
void mp_torch_collect_garbage(struct mp_torch_allocator *a);
bool mp_torch_release_available(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool);
void mp_torch_release_all(struct mp_torch_allocator *a);
void mp_torch_segment_unused(struct mp_torch_allocator *a, uint32_t segment);
/* Counts memory that a segment got from the driver, or returned. */
void mp_torch_gained(struct mp_torch_allocator *a, const struct segment *segment, uint64_t bytes);
void mp_torch_lost(struct mp_torch_allocator *a, const struct segment *segment, uint64_t bytes);

/* torch_expandable.c */
uint32_t mp_torch_expand(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool);
void mp_torch_unmap(struct mp_torch_allocator *a, uint32_t block);

/* torch_streams.c */
/* Queues the free of a block that other streams use. */
void mp_torch_wait_for_streams(struct mp_torch_allocator *a, uint32_t block);
/* Completes queued frees whose streams are done. */
void mp_torch_look_at_streams(struct mp_torch_allocator *a);
/* Waits for all streams and completes all queued frees. */
void mp_torch_finish_streams(struct mp_torch_allocator *a);

/* torch_pools.c: the next release must not empty the pool. */
void mp_torch_not_freeable(struct mp_torch_allocator *a, uint32_t pool);

/* torch_allocator.c: frees a block whose free was requested. */
void mp_torch_free_now(struct mp_torch_allocator *a, uint32_t block);
