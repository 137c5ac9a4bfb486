/*
 * A model of PyTorch's CUDA caching allocator for one device, as it places blocks in segments
 * (c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.0 to 2.10). Its result depends only on the order of calls, the
 * settings and the driver's memory. Without hooks the driver is a device of a given capacity that hands out addresses
 * in ascending order.
 *
 * Sizes are bytes. Streams are any numbers; 0 is the default stream. Pools are small numbers: 0 is the default pool,
 * others are private (CUDA graphs, MemPool). Blocks have ids that are reused after a free.
 *
 * A call takes 0.1 to 0.3 µs. One thread at a time.
 *
 * An example, without settings, on one stream:
 *
 *     a  1 000 000 bytes   rounded to 1 000 448, a multiple of 512. At most 1 MiB is small: a segment of 2 MiB, whose
 *                          rest stays free
 *     b  3 MiB             large, and below 10 MiB: a segment of 20 MiB, split: 17 MiB stay free
 *     c  18 MiB            more than the free 17 MiB, and 10 MiB or more: a segment of its own, 18 MiB
 *     free b               b joins the free 17 MiB behind it: 20 MiB
 *     d  19.5 MiB          fits there. The rest, 0.5 MiB, is at most 1 MiB: large blocks keep such a rest, so d has
 *                          20 MiB
 *
 * Reserved are 2 + 20 + 18 = 40 MiB. With expandable_segments:True it is 62 MiB: b, c and d lie behind each other in
 * mapped pages of 20 MiB, and the hole that b left is too small for d.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/allocator/torch_settings.h"
#include "base/vec.h"
#include "base/words.h"

#define MP_TORCH_ANY_STREAM UINT64_MAX /* filter of a pool that takes all streams */
#define MP_TORCH_NO_BLOCK   UINT32_MAX /* the result of a request for 0 bytes; may be freed */

enum mp_torch_result {
    MP_TORCH_DONE,
    MP_TORCH_OOM, /* the program gets an OutOfMemoryError */
};

struct mp_torch_event {
    uint64_t address, bytes; /* alloc, free: requested bytes; out of memory: rounded bytes */
    uint64_t stream;
    uint32_t pool, block; /* block: for an alloc or a free */
    uint8_t action;       /* enum mp_torch_action: as in PyTorch's own trace */
};

/* Functions that the allocator calls. Where they are NULL, the model's own device is used, and no listener. */
struct mp_torch_hooks {
    void *context;
    /* cudaMalloc(): false if the device has no room. */
    bool (*allocate)(void *context, uint64_t bytes, uint64_t *address);
    /* Address space for an expandable segment, `bytes` a multiple of `page`. */
    bool (*reserve)(void *context, uint64_t bytes, uint64_t page, uint64_t *address);
    /* Backs pages of it with memory: all of them, or none and false. */
    bool (*map)(void *context, uint64_t address, uint64_t bytes);
    void (*event)(void *context, const struct mp_torch_event *event);
};

struct mp_torch_stats {
    uint64_t allocated, reserved, active, requested, inactive_split;
    uint64_t peak_allocated, peak_reserved, peak_active, peak_requested;
    uint64_t segments; /* of cudaMalloc() */
    uint64_t retries, ooms;
};

struct mp_torch_block {
    uint64_t address, bytes, requested;
    uint32_t id;
    uint8_t state; /* enum mp_torch_state; in listings not MP_TORCH_UNMAPPED */
};

struct mp_torch_segment {
    uint64_t address, bytes, stream;
    uint32_t pool;
    bool small, expandable;
    size_t first_block, block_count; /* indices into the listing's blocks */
};

/* Segments and their blocks, by address. Each run of mapped pages of an expandable segment counts as a segment. */
struct mp_torch_listing {
    MP_VEC(struct mp_torch_segment) segments;
    MP_VEC(struct mp_torch_block) blocks;
};

struct mp_torch_allocator;

/* `capacity`: the device's memory for this allocator. The limit of settings->fraction is a part of `total` bytes, which
 * also bounds the address space of an expandable segment. hooks may be NULL. */
struct mp_torch_allocator *mp_torch_allocator_new(const struct mp_torch_settings *settings, uint64_t capacity,
                                                  uint64_t total, const struct mp_torch_hooks *hooks);
/* A copy of the state, with the same hooks and ids. */
struct mp_torch_allocator *mp_torch_allocator_copy(const struct mp_torch_allocator *allocator);
void mp_torch_allocator_free(struct mp_torch_allocator *allocator);
/* As torch.cuda.memory._set_allocator_settings() while the program runs. */
void mp_torch_set(struct mp_torch_allocator *allocator, const struct mp_torch_settings *settings);

enum mp_torch_result mp_torch_malloc(struct mp_torch_allocator *allocator, uint64_t bytes, uint64_t stream,
                                     uint32_t pool, uint32_t *block);
void mp_torch_free(struct mp_torch_allocator *allocator, uint32_t block);
/* torch.cuda.empty_cache() */
void mp_torch_empty_cache(struct mp_torch_allocator *allocator);

uint64_t mp_torch_block_address(const struct mp_torch_allocator *allocator, uint32_t block);
enum mp_torch_state mp_torch_block_state(const struct mp_torch_allocator *allocator, uint32_t block);
const struct mp_torch_stats *mp_torch_stats(const struct mp_torch_allocator *allocator);
/* The listing starts empty; the caller frees it. */
void mp_torch_list(const struct mp_torch_allocator *allocator, struct mp_torch_listing *listing);
void mp_torch_listing_free(struct mp_torch_listing *listing);

/* The first rounds a request before the search for a block. The second gives the bytes to ask the driver for. */
uint64_t mp_torch_round(const struct mp_torch_settings *settings, uint64_t bytes);
uint64_t mp_torch_segment_bytes(const struct mp_torch_settings *settings, uint64_t rounded);
/* Address space of a new expandable segment for `bytes`, on a device of `total` bytes. A larger request fails. */
uint64_t mp_torch_expandable_room(const struct mp_torch_settings *settings, uint64_t total, uint64_t bytes);

/*
 * Streams. A block that another stream used stays pending after its free until that stream has done the work it was
 * given before the free. The next malloc checks this.
 */
void mp_torch_record_stream(struct mp_torch_allocator *allocator, uint32_t block, uint64_t stream);
/* Completes the free of a pending block now, when a trace says so. */
void mp_torch_complete(struct mp_torch_allocator *allocator, uint32_t block);

/*
 * Private pools. Between begin and end, the pool serves the requests of streams that the filter accepts. Meanwhile the
 * allocator neither checks streams nor releases memory to try again. Each begin and hold needs a release (a MemPool
 * holds its pool). After the last one, the next release of memory returns its segments.
 */
void mp_torch_pool_hold(struct mp_torch_allocator *allocator, uint32_t pool);
/* MemPool(use_on_oom, no_split): other requests may use its memory when memory runs out; its segments are never
 * divided. */
enum { MP_TORCH_USE_ON_OOM = 1, MP_TORCH_NO_SPLIT = 2 };
void mp_torch_pool_set(struct mp_torch_allocator *allocator, uint32_t pool, unsigned ways);
void mp_torch_pool_begin(struct mp_torch_allocator *allocator, uint32_t pool, uint64_t stream);
void mp_torch_pool_end(struct mp_torch_allocator *allocator, uint32_t pool);
void mp_torch_pool_release(struct mp_torch_allocator *allocator, uint32_t pool);
/* Returns the free memory of a pool without users to the driver, as deleting a MemPool does. */
void mp_torch_empty_pool(struct mp_torch_allocator *allocator, uint32_t pool);

/*
 * Adds to the initial state a segment with its blocks, ascending, without gaps, no two free ones adjacent. An
 * expandable segment includes its unmapped parts. ids[i] becomes the id of blocks[i]. Only `address`, `bytes`,
 * `requested` and `state` of the blocks count; only mp_torch_complete() completes a pending block.
 */
void mp_torch_restore(struct mp_torch_allocator *allocator, const struct mp_torch_segment *segment,
                      const struct mp_torch_block *blocks, size_t count, uint32_t *ids);
