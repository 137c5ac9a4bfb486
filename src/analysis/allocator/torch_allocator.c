#include "analysis/allocator/torch_allocator.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "analysis/allocator/torch_set.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/vec.h"

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

/* ---- streams */

static void torch_trace(struct mp_torch_allocator *a, enum mp_torch_action action, uint64_t address, uint64_t bytes,
                        const struct segment *segment, uint32_t block);
static uint32_t torch_expand(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool);
static void torch_unmap(struct mp_torch_allocator *a, uint32_t block);
static void torch_finish_streams(struct mp_torch_allocator *a);
static void torch_not_freeable(struct mp_torch_allocator *a, uint32_t pool);
static void torch_free_now(struct mp_torch_allocator *a, uint32_t block);

/* ---- blocks and free memory */

static uint32_t torch_block_new(struct mp_torch_allocator *a, const struct block *block)
{
    uint32_t id = a->unused_block;
    if (id != NONE) {
        a->unused_block = a->blocks.at[id].next;
        a->blocks.at[id] = *block;
        return id;
    }
    mp_vec_add(&a->blocks, *block);
    return (uint32_t)a->blocks.count - 1;
}

static void torch_block_unused(struct mp_torch_allocator *a, uint32_t block)
{
    a->blocks.at[block].unused = true;
    a->blocks.at[block].next = a->unused_block;
    a->unused_block = block;
}

/* Cuts a block after `bytes`. The high part is a new block of the same state in no set. */
static uint32_t torch_cut(struct mp_torch_allocator *a, uint32_t block, uint64_t bytes)
{
    struct block high = a->blocks.at[block];
    high.address += bytes;
    high.bytes -= bytes;
    high.previous = block;
    uint32_t id = torch_block_new(a, &high);
    a->blocks.at[block].bytes = bytes;
    a->blocks.at[block].next = id;
    if (high.next != NONE) a->blocks.at[high.next].previous = id;
    return id;
}

static struct mp_torch_set *set_of(struct mp_torch_allocator *a, uint32_t block, struct mp_torch_key *key)
{
    const struct block *it = &a->blocks.at[block];
    const struct segment *segment = segment_of(a, block);
    struct side *side = side_of(a, segment);
    bool unmapped = it->state == MP_TORCH_UNMAPPED;
    *key = (struct mp_torch_key){.stream = segment->stream,
                                 .bytes = unmapped ? 0 : it->bytes,
                                 .age = unmapped ? 0 : segment->age,
                                 .address = it->address,
                                 .block = block};
    return unmapped ? &side->unmapped : &side->blocks;
}

/* Puts a free or unmapped block into the set of its state. */
static void torch_put(struct mp_torch_allocator *a, uint32_t block)
{
    struct mp_torch_key key;
    struct mp_torch_set *set = set_of(a, block, &key);
    a->blocks.at[block].age_base = side_of(a, segment_of(a, block))->searches;
    mp_torch_set_insert(set, &key);
}

static void torch_take(struct mp_torch_allocator *a, uint32_t block)
{
    struct mp_torch_key key;
    struct mp_torch_set *set = set_of(a, block, &key);
    mp_torch_set_remove(set, &key);
}

/* Makes one block of two neighbours. */
static void absorb(struct mp_torch_allocator *a, uint32_t low, uint32_t high)
{
    a->blocks.at[low].bytes += a->blocks.at[high].bytes;
    a->blocks.at[low].next = a->blocks.at[high].next;
    if (a->blocks.at[low].next != NONE) a->blocks.at[a->blocks.at[low].next].previous = low;
    torch_block_unused(a, high);
}

/* Joins a free or unmapped block that is in no set with its neighbours of the same state. Returns the lowest block,
 * which remains. */
static uint32_t torch_join(struct mp_torch_allocator *a, uint32_t block)
{
    uint32_t previous = a->blocks.at[block].previous, next = a->blocks.at[block].next;
    uint8_t state = a->blocks.at[block].state;
    if (previous != NONE && a->blocks.at[previous].state == state) {
        torch_take(a, previous);
        absorb(a, previous, block);
        block = previous;
    }
    if (next != NONE && a->blocks.at[next].state == state) {
        torch_take(a, next);
        absorb(a, block, next);
    }
    return block;
}

static void torch_pool_need(struct mp_torch_allocator *a, uint32_t pool)
{
    mp_vec_grow_to(&a->pools, (size_t)pool + 1);
}

/* Memory from the driver and back: alloc_block(), garbage_collect_cached_blocks(), release_available_cached_blocks()
 * and release_cached_blocks() of CUDACachingAllocator.cpp. */

/* ---- segments */

static uint32_t torch_segment_new(struct mp_torch_allocator *a, const struct segment *segment)
{
    uint32_t id = a->unused_segment;
    if (id == NONE) {
        id = (uint32_t)a->segments.count;
        mp_vec_add(&a->segments, *segment);
    } else {
        a->unused_segment = a->segments.at[id].first;
        a->segments.at[id] = *segment;
    }
    if (a->oldest_first) a->segments.at[id].age = ++a->next_age;
    return id;
}

static void torch_segment_unused(struct mp_torch_allocator *a, uint32_t segment)
{
    a->segments.at[segment].unused = true;
    a->segments.at[segment].first = a->unused_segment;
    a->unused_segment = segment;
}

/* Counts memory that a segment got from the driver, or returned. */
static void torch_gained(struct mp_torch_allocator *a, const struct segment *segment, uint64_t bytes)
{
    a->device_used += bytes;
    a->stats.reserved += bytes;
    if (a->stats.peak_reserved < a->stats.reserved) a->stats.peak_reserved = a->stats.reserved;
    a->pools.at[segment->pool].bytes += bytes;
    if (!segment->page) a->stats.segments++;
}

static void torch_lost(struct mp_torch_allocator *a, const struct segment *segment, uint64_t bytes)
{
    a->device_used -= bytes;
    a->stats.reserved -= bytes;
    a->pools.at[segment->pool].bytes -= bytes;
    if (!segment->page) a->stats.segments--;
}

/* cudaMalloc() */
static bool ask_driver(struct mp_torch_allocator *a, uint64_t bytes, uint64_t *address)
{
    if (a->hooks.allocate) return a->hooks.allocate(a->hooks.context, bytes, address);
    if (bytes > a->capacity || a->device_used > a->capacity - bytes) return false;
    *address = a->next_segment;
    a->next_segment += bytes;
    return true;
}

/* A free block of a new segment, or of new pages; NONE: no memory, or the limit is reached. */
static uint32_t torch_get_memory(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool)
{
    uint64_t asked = mp_torch_segment_bytes(&a->settings, bytes);
    if (a->limit != MP_TORCH_UNLIMITED && a->stats.reserved + asked > a->limit) return NONE;
    if (a->settings.expandable) return torch_expand(a, bytes, stream, pool);
    uint64_t address;
    if (!ask_driver(a, asked, &address)) return NONE;
    const struct segment segment = {
        .address = address, .bytes = asked, .stream = stream, .pool = pool, .small = bytes <= MP_TORCH_SMALL};
    uint32_t id = torch_segment_new(a, &segment);
    const struct block whole = {
        .address = address, .bytes = asked, .segment = id, .previous = NONE, .next = NONE, .uses = NONE};
    uint32_t block = torch_block_new(a, &whole);
    a->segments.at[id].first = block;
    torch_gained(a, &segment, asked);
    torch_trace(a, MP_TORCH_SEGMENT_ALLOC, address, asked, &segment, MP_TORCH_NO_BLOCK);
    return block;
}

static bool may_release(struct mp_torch_allocator *a, uint32_t block)
{
    return !is_split(&a->blocks.at[block]) && !segment_of(a, block)->page;
}

/* Returns a segment that consists of one free block to the driver, with cudaFree(). */
static void release(struct mp_torch_allocator *a, uint32_t block)
{
    struct segment *segment = segment_of(a, block);
    torch_take(a, block);
    torch_lost(a, segment, segment->bytes);
    torch_trace(a, MP_TORCH_SEGMENT_FREE, segment->address, segment->bytes, segment, MP_TORCH_NO_BLOCK);
    torch_segment_unused(a, a->blocks.at[block].segment);
    torch_block_unused(a, block);
}

/* Copies the blocks of a set, in order, to a->scratch. */
static void copy_blocks(struct mp_torch_allocator *a, const struct mp_torch_set *set)
{
    struct mp_torch_place place = {0, 0};
    const struct mp_torch_key *key;
    a->scratch.count = 0;
    for (; (key = mp_torch_set_at(set, place)); place = mp_torch_set_next(set, place))
        mp_vec_add(&a->scratch, key->block);
}

static void torch_collect_garbage(struct mp_torch_allocator *a)
{
    uint64_t keep = (uint64_t)(a->settings.gc_threshold * (double)a->limit), reclaimed = 0;
    if (a->stats.reserved <= keep) return;
    uint64_t target = a->stats.reserved - keep;
    const struct side *side = &a->pools.at[0].sides[0];
    copy_blocks(a, &side->blocks);
    double ages = 0, count = 0;
    for (size_t i = 0; i < a->scratch.count; i++)
        if (!is_split(&a->blocks.at[a->scratch.at[i]])) {
            ages += (double)(side->searches - a->blocks.at[a->scratch.at[i]].age_base);
            count++;
        }
    for (bool any = true; any && reclaimed < target && count > 0;) {
        double threshold = ages / count;
        any = false;
        for (size_t i = 0; i < a->scratch.count; i++) {
            uint32_t block = a->scratch.at[i];
            if (block == NONE || !may_release(a, block)) continue;
            double age = (double)(side->searches - a->blocks.at[block].age_base);
            if (age < threshold) continue;
            reclaimed += a->blocks.at[block].bytes;
            ages -= age;
            count--;
            any = true;
            a->scratch.at[i] = NONE;
            release(a, block);
        }
    }
}

/* True if a request of the stream may release the key's block for itself. */
static bool is_oversize(const struct mp_torch_key *key, uint64_t stream, uint64_t least)
{
    return key && key->stream == stream && key->bytes >= least;
}

/* Chooses the blocks to release for a request, into a->scratch: the smallest block that suffices alone, else several,
 * from the largest on. Returns their sum. */
static uint64_t choose(struct mp_torch_allocator *a, uint64_t need, uint64_t stream, const struct mp_torch_set *set)
{
    struct mp_torch_place place = mp_torch_set_find(set, &(struct mp_torch_key){.stream = stream, .bytes = need});
    const struct mp_torch_key *key = mp_torch_set_at(set, place);
    uint64_t bytes = 0;
    a->scratch.count = 0;
    if (is_oversize(key, stream, need) && may_release(a, key->block)) {
        mp_vec_add(&a->scratch, key->block);
        return key->bytes;
    }
    while (bytes < need && mp_torch_set_previous(set, &place)) {
        key = mp_torch_set_at(set, place);
        if (!is_oversize(key, stream, a->settings.max_split)) break;
        if (!may_release(a, key->block)) continue;
        bytes += key->bytes;
        mp_vec_add(&a->scratch, key->block);
    }
    return bytes;
}

static bool torch_release_available(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool)
{
    uint64_t need = bytes > a->settings.max_split ? bytes : a->settings.max_split;
    if (a->settings.max_split == MP_TORCH_UNLIMITED) return false;
    uint64_t chosen = choose(a, need, stream, &a->pools.at[pool].sides[bytes <= MP_TORCH_SMALL].blocks);
    for (size_t i = 0; i < a->scratch.count; i++)
        release(a, a->scratch.at[i]);
    return chosen >= need;
}

static void release_side(struct mp_torch_allocator *a, uint32_t pool, bool small)
{
    copy_blocks(a, &a->pools.at[pool].sides[small].blocks);
    size_t kept = 0;
    for (size_t i = 0; i < a->scratch.count; i++) {
        uint32_t block = a->scratch.at[i];
        if (may_release(a, block))
            release(a, block);
        else if (segment_of(a, block)->page)
            a->scratch.at[kept++] = block;
    }
    for (size_t i = 0; i < kept; i++)
        torch_unmap(a, a->scratch.at[i]);
}

/* Releases the free memory of a pool without users. If nothing is left, the pool goes, too. True: the pool has gone. */
static bool empty_pool(struct mp_torch_allocator *a, uint32_t pool)
{
    release_side(a, pool, true);
    release_side(a, pool, false);
    struct pool *it = &a->pools.at[pool];
    if (it->bytes) return false;
    it->freeable = it->no_split = it->use_on_oom = false;
    return true;
}

void mp_torch_empty_pool(struct mp_torch_allocator *a, uint32_t pool)
{
    torch_pool_need(a, pool);
    if (!a->contexts.count) torch_finish_streams(a);
    if (a->pools.at[pool].freeable && empty_pool(a, pool)) torch_not_freeable(a, pool);
}

static void torch_release_all(struct mp_torch_allocator *a)
{
    if (!a->contexts.count) {
        torch_pool_need(a, 0);
        torch_finish_streams(a);
        release_side(a, 0, false);
        release_side(a, 0, true);
    }
    size_t kept = 0;
    for (size_t i = 0; i < a->freeable.count; i++) {
        uint32_t pool = a->freeable.at[i];
        if (!empty_pool(a, pool)) a->freeable.at[kept++] = pool;
    }
    a->freeable.count = kept;
}

/* Expandable segments: address space into which pages are mapped, from its start on. Follows
 * try_allocate_expandable_block(), map_block() and unmap_block() of CUDACachingAllocator.cpp. */

static bool ask_address_space(struct mp_torch_allocator *a, uint64_t bytes, uint64_t page, uint64_t *address)
{
    if (a->hooks.reserve) return a->hooks.reserve(a->hooks.context, bytes, page, address);
    *address = a->next_reservation;
    a->next_reservation += bytes;
    return true;
}

static bool ask_pages(struct mp_torch_allocator *a, uint64_t address, uint64_t bytes)
{
    if (a->hooks.map) return a->hooks.map(a->hooks.context, address, bytes);
    return bytes <= a->capacity && a->device_used <= a->capacity - bytes;
}

uint64_t mp_torch_expandable_room(const struct mp_torch_settings *settings, uint64_t total, uint64_t bytes)
{
    uint64_t page = bytes <= MP_TORCH_SMALL ? MP_TORCH_PAGE : settings->large_segment, most = total + total / 8;
    double set = settings->reserve * (double)(settings->reserve_in_gib ? (uint64_t)1 << 30 : total);
    if (set > 0 && set < (double)most) most = (uint64_t)set;
    return (most + page - 1) / page * page;
}

/* A new expandable segment as one unmapped block. */
static uint32_t reserve(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool)
{
    bool small = bytes <= MP_TORCH_SMALL;
    uint64_t page = small ? MP_TORCH_PAGE : a->settings.large_segment, address;
    uint64_t room = mp_torch_expandable_room(&a->settings, a->total, bytes);
    if (room < bytes || !ask_address_space(a, room, page, &address)) return NONE;
    const struct segment segment = {
        .address = address, .bytes = room, .page = page, .stream = stream, .pool = pool, .small = small};
    uint32_t id = torch_segment_new(a, &segment);
    const struct block whole = {.address = address,
                                .bytes = room,
                                .segment = id,
                                .previous = NONE,
                                .next = NONE,
                                .uses = NONE,
                                .state = MP_TORCH_UNMAPPED};
    uint32_t block = torch_block_new(a, &whole);
    a->segments.at[id].first = block;
    torch_put(a, block);
    return block;
}

static bool has_room(const struct mp_torch_allocator *a, uint32_t block, uint64_t bytes)
{
    for (uint64_t sum = 0; block != NONE; block = a->blocks.at[block].next) {
        const struct block *it = &a->blocks.at[block];
        if (it->state != MP_TORCH_FREE && it->state != MP_TORCH_UNMAPPED) return false;
        sum += it->bytes;
        if (sum >= bytes) return true;
    }
    return false;
}

/* The lowest free or unmapped block from which `bytes` would be free in a row, once pages are mapped. */
static uint32_t find_room(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool)
{
    const struct mp_torch_set *set = &a->pools.at[pool].sides[bytes <= MP_TORCH_SMALL].unmapped;
    struct mp_torch_place place = mp_torch_set_find(set, &(struct mp_torch_key){.stream = stream});
    const struct mp_torch_key *key;
    for (; (key = mp_torch_set_at(set, place)) && key->stream == stream; place = mp_torch_set_next(set, place)) {
        uint32_t previous = a->blocks.at[key->block].previous;
        uint32_t from = previous != NONE && a->blocks.at[previous].state == MP_TORCH_FREE ? previous : key->block;
        if (has_room(a, from, bytes)) return from;
    }
    return reserve(a, bytes, stream, pool);
}

/* Maps the pages of the first `bytes` of an unmapped block. Returns the free block that contains them, or NONE. */
static uint32_t map(struct mp_torch_allocator *a, uint32_t block, uint64_t bytes)
{
    const struct segment segment = *segment_of(a, block);
    uint64_t address = a->blocks.at[block].address;
    uint64_t pages = (bytes + segment.page - 1) / segment.page * segment.page;
    if (!ask_pages(a, address, pages)) return NONE;
    torch_take(a, block);
    if (pages < a->blocks.at[block].bytes) {
        torch_put(a, torch_cut(a, block, pages));
    }
    a->blocks.at[block].state = MP_TORCH_FREE;
    block = torch_join(a, block);
    torch_put(a, block);
    torch_gained(a, &segment, pages);
    torch_trace(a, MP_TORCH_SEGMENT_MAP, address, pages, &segment, MP_TORCH_NO_BLOCK);
    return block;
}

/* ---- expandable segments */

static uint32_t torch_expand(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool)
{
    uint32_t block = find_room(a, bytes, stream, pool);
    if (block == NONE) return NONE;
    if (a->blocks.at[block].state == MP_TORCH_UNMAPPED) {
        uint64_t room = a->blocks.at[block].bytes;
        block = map(a, block, room < bytes ? room : bytes);
    }
    while (block != NONE && a->blocks.at[block].bytes < bytes) {
        uint32_t next = a->blocks.at[block].next;
        uint64_t missing = bytes - a->blocks.at[block].bytes, room = a->blocks.at[next].bytes;
        block = map(a, next, room < missing ? room : missing); /* joined, so it is the lower one again */
    }
    if (block != NONE) torch_take(a, block);
    return block;
}

static void torch_unmap(struct mp_torch_allocator *a, uint32_t block)
{
    const struct segment segment = *segment_of(a, block);
    const struct block it = a->blocks.at[block];
    uint64_t begin = it.address - segment.address, end = begin + it.bytes; /* offsets in the segment */
    uint64_t first = (begin + segment.page - 1) / segment.page * segment.page, last = end / segment.page * segment.page;
    if (first >= last) return;
    torch_take(a, block);
    if (first > begin) {
        uint32_t rest = torch_cut(a, block, first - begin);
        torch_put(a, block);
        block = rest;
    }
    if (end > last) torch_put(a, torch_cut(a, block, last - first));
    a->blocks.at[block].state = MP_TORCH_UNMAPPED;
    block = torch_join(a, block);
    torch_put(a, block);
    torch_lost(a, &segment, last - first);
    torch_trace(a, MP_TORCH_SEGMENT_UNMAP, segment.address + first, last - first, &segment, MP_TORCH_NO_BLOCK);
    if (is_split(&a->blocks.at[block])) return;
    torch_take(a, block);
    torch_segment_unused(a, a->blocks.at[block].segment);
    torch_block_unused(a, block);
}

/* Frees of blocks that other streams use: record_stream(), insert_events(), process_events() and
 * synchronize_and_free_events() of CUDACachingAllocator.cpp. No event may be made between a private pool's begin and
 * end, so frees in that time wait. Blocks used only in that time need no event. */

void mp_torch_record_stream(struct mp_torch_allocator *a, uint32_t block, uint64_t stream)
{
    if (block == MP_TORCH_NO_BLOCK || segment_of(a, block)->stream == stream) return;
    for (uint32_t id = a->blocks.at[block].uses; id != NONE; id = a->uses.at[id].next)
        if (a->uses.at[id].stream == stream) return;
    const struct use use = {stream, a->blocks.at[block].uses, a->contexts.count > 0};
    uint32_t id = a->unused_use;
    if (id != NONE) {
        a->unused_use = a->uses.at[id].next;
        a->uses.at[id] = use;
    } else {
        id = (uint32_t)a->uses.count;
        mp_vec_add(&a->uses, use);
    }
    a->blocks.at[block].uses = id;
}

static struct queue *queue_of(struct mp_torch_allocator *a, uint64_t stream)
{
    for (size_t i = 0; i < a->queues.count; i++)
        if (a->queues.at[i].stream == stream) return &a->queues.at[i];
    const struct queue queue = {.stream = stream};
    mp_vec_add(&a->queues, queue);
    return &a->queues.at[a->queues.count - 1];
}

/* Ends a block's uses. With `wait`, its free waits for each of them. */
static void end_uses(struct mp_torch_allocator *a, uint32_t block, bool wait, bool but_in_capture)
{
    for (uint32_t id = a->blocks.at[block].uses, next; id != NONE; id = next) {
        struct use *use = &a->uses.at[id];
        next = use->next;
        if (wait && !(but_in_capture && use->in_capture)) {
            struct queue *queue = queue_of(a, use->stream);
            mp_vec_add(&queue->blocks, block);
            a->blocks.at[block].events++;
        }
        use->next = a->unused_use;
        a->unused_use = id;
    }
    a->blocks.at[block].uses = NONE;
}

/* Queues the free of a block that other streams use. */
static void torch_wait_for_streams(struct mp_torch_allocator *a, uint32_t block)
{
    a->blocks.at[block].state = MP_TORCH_PENDING;
    if (!a->contexts.count)
        end_uses(a, block, true, false);
    else
        mp_vec_add(&a->deferred, block);
}

static void end_deferral(struct mp_torch_allocator *a)
{
    for (size_t i = 0; i < a->deferred.count; i++) {
        uint32_t block = a->deferred.at[i];
        end_uses(a, block, true, true);
        if (!a->blocks.at[block].events) torch_free_now(a, block);
    }
    a->deferred.count = 0;
}

static void take_done(struct mp_torch_allocator *a, struct queue *queue)
{
    for (; queue->first < queue->done; queue->first++) {
        uint32_t block = queue->blocks.at[queue->first];
        if (!--a->blocks.at[block].events) torch_free_now(a, block);
    }
    if (queue->first == queue->blocks.count) queue->first = queue->done = queue->blocks.count = 0;
}

/* Completes queued frees whose streams are done. */
static void torch_look_at_streams(struct mp_torch_allocator *a)
{
    end_deferral(a);
    for (size_t i = 0; i < a->queues.count; i++)
        take_done(a, &a->queues.at[i]);
}

/* Waits for all streams and completes all queued frees. */
static void torch_finish_streams(struct mp_torch_allocator *a)
{
    end_deferral(a);
    for (size_t i = 0; i < a->queues.count; i++) {
        a->queues.at[i].done = a->queues.at[i].blocks.count;
        take_done(a, &a->queues.at[i]);
    }
}

void mp_torch_complete(struct mp_torch_allocator *a, uint32_t block)
{
    if (block == MP_TORCH_NO_BLOCK || a->blocks.at[block].state != MP_TORCH_PENDING) return;
    end_uses(a, block, false, false);
    a->blocks.at[block].events = 0;
    mp_vec_each (struct queue, queue, &a->queues) {
        size_t kept = 0, done = queue->done;
        for (size_t at = 0; at < queue->blocks.count; at++) {
            if (at >= queue->first && queue->blocks.at[at] != block)
                queue->blocks.at[kept++] = queue->blocks.at[at];
            else if (at < queue->done)
                done--;
        }
        queue->first = 0;
        queue->done = done;
        queue->blocks.count = kept;
    }
    size_t kept = 0;
    for (size_t i = 0; i < a->deferred.count; i++)
        if (a->deferred.at[i] != block) a->deferred.at[kept++] = a->deferred.at[i];
    a->deferred.count = kept;
    torch_free_now(a, block);
}

/* Private pools: beginAllocateToPool(), endAllocateToPool(), releasePool() of CUDACachingAllocator.cpp. */

/* The next release must not empty the pool. */
static void torch_not_freeable(struct mp_torch_allocator *a, uint32_t pool)
{
    size_t kept = 0;
    for (size_t i = 0; i < a->freeable.count; i++)
        if (a->freeable.at[i] != pool) a->freeable.at[kept++] = a->freeable.at[i];
    a->freeable.count = kept;
    a->pools.at[pool].freeable = false;
}

void mp_torch_pool_hold(struct mp_torch_allocator *a, uint32_t pool)
{
    torch_pool_need(a, pool);
    a->pools.at[pool].users++;
    torch_not_freeable(a, pool);
}

void mp_torch_pool_set(struct mp_torch_allocator *a, uint32_t pool, unsigned ways)
{
    torch_pool_need(a, pool);
    a->pools.at[pool].use_on_oom = ways & MP_TORCH_USE_ON_OOM;
    a->pools.at[pool].no_split = ways & MP_TORCH_NO_SPLIT;
    if (ways & MP_TORCH_USE_ON_OOM && a->pools_on_oom <= pool) a->pools_on_oom = pool + 1;
}

void mp_torch_pool_begin(struct mp_torch_allocator *a, uint32_t pool, uint64_t stream)
{
    const struct context context = {pool, stream};
    mp_vec_add(&a->contexts, context);
    mp_torch_pool_hold(a, pool);
}

void mp_torch_pool_end(struct mp_torch_allocator *a, uint32_t pool)
{
    for (size_t i = a->contexts.count; i--;)
        if (a->contexts.at[i].pool == pool) {
            a->contexts.count--;
            for (; i < a->contexts.count; i++)
                a->contexts.at[i] = a->contexts.at[i + 1];
            return;
        }
}

void mp_torch_pool_release(struct mp_torch_allocator *a, uint32_t pool)
{
    if (pool >= a->pools.count || !a->pools.at[pool].users || --a->pools.at[pool].users) return;
    a->pools.at[pool].freeable = true;
    mp_vec_add(&a->freeable, pool);
}

#define TOO_LARGE ((uint64_t)1 << 60) /* refused at once */

/* The first address on a device without hooks: no segment lies below a reservation. */
#define RESERVATIONS ((uint64_t)1 << 40)
#define SEGMENTS     ((uint64_t)1 << 60)

struct mp_torch_allocator *mp_torch_allocator_new(const struct mp_torch_settings *settings, uint64_t capacity,
                                                  uint64_t total, const struct mp_torch_hooks *hooks)
{
    struct mp_torch_allocator *a = mp_alloc_zeroed(1, sizeof *a);
    a->capacity = capacity;
    a->total = total;
    if (hooks) a->hooks = *hooks;
    a->oldest_first = settings->oldest_first;
    a->next_segment = SEGMENTS;
    a->next_reservation = RESERVATIONS;
    a->unused_block = a->unused_segment = a->unused_use = NONE;
    mp_torch_set(a, settings);
    return a;
}

void mp_torch_allocator_free(struct mp_torch_allocator *a)
{
    if (!a) return;
    for (size_t i = 0; i < a->pools.count; i++)
        for (unsigned small = 0; small < 2; small++) {
            mp_torch_set_free(&a->pools.at[i].sides[small].blocks);
            mp_torch_set_free(&a->pools.at[i].sides[small].unmapped);
        }
    for (size_t i = 0; i < a->queues.count; i++)
        mp_vec_free(&a->queues.at[i].blocks);
    mp_vec_free(&a->blocks);
    mp_vec_free(&a->segments);
    mp_vec_free(&a->pools);
    mp_vec_free(&a->contexts);
    mp_vec_free(&a->freeable);
    mp_vec_free(&a->uses);
    mp_vec_free(&a->queues);
    mp_vec_free(&a->deferred);
    mp_vec_free(&a->scratch);
    free(a);
}

void mp_torch_set(struct mp_torch_allocator *a, const struct mp_torch_settings *settings)
{
    a->settings = *settings;
    a->limit = settings->fraction > 0 ? (uint64_t)(settings->fraction * (double)a->total) : MP_TORCH_UNLIMITED;
}

const struct mp_torch_stats *mp_torch_stats(const struct mp_torch_allocator *a)
{
    return &a->stats;
}

uint64_t mp_torch_block_address(const struct mp_torch_allocator *a, uint32_t block)
{
    return block < a->blocks.count ? a->blocks.at[block].address : 0;
}

enum mp_torch_state mp_torch_block_state(const struct mp_torch_allocator *a, uint32_t block)
{
    return block < a->blocks.count ? (enum mp_torch_state)a->blocks.at[block].state : MP_TORCH_FREE;
}

static void torch_trace(struct mp_torch_allocator *a, enum mp_torch_action action, uint64_t address, uint64_t bytes,
                        const struct segment *segment, uint32_t block)
{
    if (!a->hooks.event) return;
    const struct mp_torch_event event = {address, bytes, segment->stream, segment->pool, block, (uint8_t)action};
    a->hooks.event(a->hooks.context, &event);
}

/* roundup_power2_next_division() */
static uint64_t next_division(uint64_t bytes, uint32_t divisions)
{
    uint64_t floor = (uint64_t)1 << (63 - __builtin_clzll(bytes));
    if (floor == bytes) return bytes;
    uint64_t step = floor >> (31 - __builtin_clz(divisions));
    return step ? (bytes + step - 1) / step * step : 2 * floor;
}

uint64_t mp_torch_round(const struct mp_torch_settings *settings, uint64_t bytes)
{
    if (bytes < MP_TORCH_MINIMUM) return MP_TORCH_MINIMUM;
    unsigned log2 = 63 - (unsigned)__builtin_clzll(bytes);
    unsigned index = log2 < 20 ? 0 : log2 - 20;
    uint32_t divisions = settings->divisions[index < MP_TORCH_DIVISIONS ? index : MP_TORCH_DIVISIONS - 1];
    if (divisions > 1 && bytes > (uint64_t)MP_TORCH_MINIMUM * divisions) return next_division(bytes, divisions);
    return (bytes + MP_TORCH_MINIMUM - 1) / MP_TORCH_MINIMUM * MP_TORCH_MINIMUM;
}

uint64_t mp_torch_segment_bytes(const struct mp_torch_settings *settings, uint64_t rounded)
{
    if (rounded <= MP_TORCH_SMALL) return MP_TORCH_PAGE;
    if (rounded < MP_TORCH_OWN_SEGMENT) return settings->large_segment;
    return (rounded + MP_TORCH_PAGE - 1) / MP_TORCH_PAGE * MP_TORCH_PAGE;
}

/* The size by which a free block competes. The growing end of an expandable segment counts with all the room after it,
 * so that holes are preferred. */
static uint64_t room_of(const struct mp_torch_allocator *a, uint32_t block)
{
    const struct block *it = &a->blocks.at[block];
    bool grows = it->next != NONE && a->blocks.at[it->next].state == MP_TORCH_UNMAPPED;
    return it->bytes + (grows ? a->blocks.at[it->next].bytes : 0);
}

/* Follows get_free_block(). Returns the block to try, or NONE. With expandable_segments, expandable blocks compete by
 * their room; without it they are skipped. */
static uint32_t best_fit(const struct mp_torch_allocator *a, const struct mp_torch_set *set, uint64_t bytes,
                         uint64_t stream, bool expandable)
{
    struct mp_torch_place place = mp_torch_set_find(set, &(struct mp_torch_key){.stream = stream, .bytes = bytes});
    const struct mp_torch_key *key = mp_torch_set_at(set, place);
    while (key && key->stream == stream && a->segments.at[a->blocks.at[key->block].segment].page) {
        place = mp_torch_set_next(set, place);
        const struct mp_torch_key *next = mp_torch_set_at(set, place);
        if (expandable && (!next || next->stream != stream || room_of(a, next->block) >= room_of(a, key->block))) break;
        key = next;
    }
    return key && key->stream == stream ? key->block : NONE;
}

/* True if the best-fitting block may be taken: large blocks do not serve small requests. */
static bool suits(const struct mp_torch_allocator *a, uint32_t block, uint64_t bytes)
{
    uint64_t has = a->blocks.at[block].bytes, max_split = a->settings.max_split;
    return bytes < max_split ? has < max_split : has < bytes + a->settings.max_non_split_rounding;
}

/* Takes a free block of that size out of a pool; NONE: there is none. */
static uint32_t search(struct mp_torch_allocator *a, uint32_t pool, uint64_t bytes, uint64_t stream, bool expandable)
{
    struct side *side = &a->pools.at[pool].sides[bytes <= MP_TORCH_SMALL];
    if (collects_garbage(a)) side->searches++;
    uint32_t block = best_fit(a, &side->blocks, bytes, stream, expandable);
    if (block == NONE || !suits(a, block, bytes)) return NONE;
    torch_take(a, block);
    return block;
}

/* Called if no free block fits: tries these ways in order. */
static uint32_t find_memory(struct mp_torch_allocator *a, uint32_t pool, uint64_t bytes, uint64_t stream)
{
    if (collects_garbage(a)) torch_collect_garbage(a);
    uint32_t block = torch_get_memory(a, bytes, stream, pool);
    for (uint32_t i = 1; block == NONE && !pool && i < a->pools_on_oom; i++)
        if (a->pools.at[i].use_on_oom) block = search(a, i, bytes, stream, false);
    if (block == NONE && torch_release_available(a, bytes, stream, pool))
        block = torch_get_memory(a, bytes, stream, pool);
    if (block == NONE && !a->contexts.count) {
        torch_release_all(a);
        a->stats.retries++;
        /* Only the driver's memory counts now, even if other blocks became free meanwhile. */
        block = torch_get_memory(a, bytes, stream, pool);
    }
    return block;
}

static bool should_split(const struct mp_torch_allocator *a, const struct segment *segment, uint64_t rest,
                         uint64_t bytes)
{
    if (a->pools.at[segment->pool].no_split) return false;
    if (segment->small || a->settings.expandable) return rest >= MP_TORCH_MINIMUM;
    return bytes < a->settings.max_split && rest > MP_TORCH_SMALL;
}

static void raise_peak(uint64_t *peak, uint64_t value)
{
    if (*peak < value) *peak = value;
}

/* alloc_found_block(): hands out the low part of the block. */
static void hand_out(struct mp_torch_allocator *a, uint32_t block, uint64_t bytes, uint64_t requested)
{
    struct segment *segment = segment_of(a, block);
    struct mp_torch_stats *stats = &a->stats;
    bool was_split = is_split(&a->blocks.at[block]), counts = !segment->page;
    uint64_t rest = a->blocks.at[block].bytes - bytes;
    a->blocks.at[block].state = MP_TORCH_FREE;
    if (should_split(a, segment, rest, bytes)) {
        torch_put(a, torch_cut(a, block, bytes));
        if (counts && was_split)
            stats->inactive_split -= bytes;
        else if (counts)
            stats->inactive_split += rest;
    } else if (counts && was_split) {
        stats->inactive_split -= a->blocks.at[block].bytes;
    }
    struct block *it = &a->blocks.at[block];
    it->state = MP_TORCH_ALLOCATED;
    it->requested = requested;
    it->events = 0;
    it->uses = NONE;
    stats->allocated += it->bytes;
    stats->active += it->bytes;
    stats->requested += requested;
    raise_peak(&stats->peak_allocated, stats->allocated);
    raise_peak(&stats->peak_active, stats->active);
    raise_peak(&stats->peak_requested, stats->requested);
    torch_trace(a, MP_TORCH_ALLOC, it->address, requested, segment, block);
}

enum mp_torch_result mp_torch_malloc(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool,
                                     uint32_t *block)
{
    *block = MP_TORCH_NO_BLOCK;
    torch_pool_need(a, pool);
    if (!bytes) return MP_TORCH_DONE;
    if (bytes >= TOO_LARGE) return MP_TORCH_OOM;
    if (!a->contexts.count) torch_look_at_streams(a);
    uint64_t rounded = mp_torch_round(&a->settings, bytes);
    uint32_t found = search(a, pool, rounded, stream, a->settings.expandable);
    if (found == NONE) found = find_memory(a, pool, rounded, stream);
    if (found == NONE) {
        const struct segment none = {.stream = stream, .pool = pool};
        a->stats.ooms++;
        torch_trace(a, MP_TORCH_OUT_OF_MEMORY, 0, rounded, &none, MP_TORCH_NO_BLOCK);
        return MP_TORCH_OOM;
    }
    hand_out(a, found, rounded, bytes);
    *block = found;
    return MP_TORCH_DONE;
}

void mp_torch_free(struct mp_torch_allocator *a, uint32_t block)
{
    if (block == MP_TORCH_NO_BLOCK || a->blocks.at[block].state != MP_TORCH_ALLOCATED) return;
    const struct block *it = &a->blocks.at[block];
    a->stats.allocated -= it->bytes;
    torch_trace(a, MP_TORCH_FREE_REQUESTED, it->address, it->requested, segment_of(a, block), block);
    if (it->uses != NONE)
        torch_wait_for_streams(a, block);
    else
        torch_free_now(a, block);
}

/* Frees a block whose free was requested. */
static void torch_free_now(struct mp_torch_allocator *a, uint32_t block)
{
    struct block *it = &a->blocks.at[block];
    const struct segment *segment = segment_of(a, block);
    torch_trace(a, MP_TORCH_FREE_COMPLETED, it->address, it->requested, segment, block);
    a->stats.active -= it->bytes;
    a->stats.requested -= it->requested;
    it->state = MP_TORCH_FREE;
    it->requested = 0;
    uint64_t freed = it->bytes;
    block = torch_join(a, block);
    torch_put(a, block);
    if (segment->page) return;
    it = &a->blocks.at[block];
    a->stats.inactive_split -= it->bytes - freed; /* the neighbours that it was joined with are no longer split off */
    if (is_split(it)) a->stats.inactive_split += it->bytes;
}

void mp_torch_empty_cache(struct mp_torch_allocator *a)
{
    torch_release_all(a);
}

/* Reads and writes a whole state of the model of PyTorch's allocator. */

static void copy_side(struct side *to, const struct side *from)
{
    to->searches = from->searches;
    mp_torch_set_copy(&to->blocks, &from->blocks);
    mp_torch_set_copy(&to->unmapped, &from->unmapped);
}

static void copy_pools(struct mp_torch_allocator *to, const struct mp_torch_allocator *from)
{
    to->pools_on_oom = from->pools_on_oom;
    for (size_t i = 0; i < from->pools.count; i++) {
        const struct pool *pool = &from->pools.at[i];
        mp_vec_grow_to(&to->pools, i + 1);
        struct pool *made = &to->pools.at[i];
        made->users = pool->users;
        made->bytes = pool->bytes;
        made->freeable = pool->freeable;
        made->no_split = pool->no_split;
        made->use_on_oom = pool->use_on_oom;
        copy_side(&made->sides[0], &pool->sides[0]);
        copy_side(&made->sides[1], &pool->sides[1]);
    }
}

static void copy_queues(struct mp_torch_allocator *to, const struct mp_torch_allocator *from)
{
    for (size_t i = 0; i < from->queues.count; i++) {
        const struct queue *queue = &from->queues.at[i];
        const struct queue made = {.stream = queue->stream, .first = queue->first, .done = queue->done};
        mp_vec_add(&to->queues, made);
        mp_vec_add_all(&to->queues.at[i].blocks, queue->blocks.at, queue->blocks.count);
    }
}

struct mp_torch_allocator *mp_torch_allocator_copy(const struct mp_torch_allocator *from)
{
    struct mp_torch_allocator *to = mp_torch_allocator_new(&from->settings, from->capacity, from->total, &from->hooks);
    to->device_used = from->device_used;
    to->next_segment = from->next_segment;
    to->next_reservation = from->next_reservation;
    to->next_age = from->next_age;
    to->stats = from->stats;
    to->unused_block = from->unused_block;
    to->unused_segment = from->unused_segment;
    to->unused_use = from->unused_use;
    mp_vec_add_all(&to->blocks, from->blocks.at, from->blocks.count);
    mp_vec_add_all(&to->segments, from->segments.at, from->segments.count);
    mp_vec_add_all(&to->contexts, from->contexts.at, from->contexts.count);
    mp_vec_add_all(&to->freeable, from->freeable.at, from->freeable.count);
    mp_vec_add_all(&to->uses, from->uses.at, from->uses.count);
    mp_vec_add_all(&to->deferred, from->deferred.at, from->deferred.count);
    copy_pools(to, from);
    copy_queues(to, from);
    return to;
}

/* Adds the run of mapped blocks from `block` on; *block becomes the block after it. */
static void list_run(const struct mp_torch_allocator *a, const struct segment *segment, uint32_t *block,
                     struct mp_torch_listing *listing)
{
    struct mp_torch_segment run = {.address = a->blocks.at[*block].address,
                                   .stream = segment->stream,
                                   .pool = segment->pool,
                                   .small = segment->small,
                                   .expandable = segment->page != 0,
                                   .first_block = listing->blocks.count};
    for (; *block != NONE && a->blocks.at[*block].state != MP_TORCH_UNMAPPED; *block = a->blocks.at[*block].next) {
        const struct block *it = &a->blocks.at[*block];
        const struct mp_torch_block listed = {it->address, it->bytes, it->requested, *block, it->state};
        mp_vec_add(&listing->blocks, listed);
        run.bytes += it->bytes;
        run.block_count++;
    }
    mp_vec_add(&listing->segments, run);
}

MP_ORDER(by_address, struct mp_torch_segment, MP_RISING(address))

void mp_torch_list(const struct mp_torch_allocator *a, struct mp_torch_listing *listing)
{
    for (size_t i = 0; i < a->segments.count; i++) {
        const struct segment *segment = &a->segments.at[i];
        if (segment->unused) continue;
        for (uint32_t block = segment->first; block != NONE;) {
            if (a->blocks.at[block].state == MP_TORCH_UNMAPPED)
                block = a->blocks.at[block].next;
            else
                list_run(a, segment, &block, listing);
        }
    }
    if (listing->segments.count)
        qsort(listing->segments.at, listing->segments.count, sizeof *listing->segments.at, by_address);
}

void mp_torch_listing_free(struct mp_torch_listing *listing)
{
    mp_vec_free(&listing->segments);
    mp_vec_free(&listing->blocks);
}

static uint32_t restore_block(struct mp_torch_allocator *a, uint32_t segment, uint32_t previous,
                              const struct mp_torch_block *from)
{
    const struct block block = {.address = from->address,
                                .bytes = from->bytes,
                                .requested = from->state == MP_TORCH_FREE ? 0 : from->requested,
                                .segment = segment,
                                .previous = previous,
                                .next = NONE,
                                .uses = NONE,
                                .state = from->state};
    uint32_t id = torch_block_new(a, &block);
    if (previous == NONE)
        a->segments.at[segment].first = id;
    else
        a->blocks.at[previous].next = id;
    if (from->state == MP_TORCH_FREE || from->state == MP_TORCH_UNMAPPED) {
        torch_put(a, id);
        return id;
    }
    if (from->state == MP_TORCH_ALLOCATED) a->stats.allocated += from->bytes;
    a->stats.active += from->bytes;
    a->stats.requested += from->requested;
    return id;
}

void mp_torch_restore(struct mp_torch_allocator *a, const struct mp_torch_segment *segment,
                      const struct mp_torch_block *blocks, size_t count, uint32_t *ids)
{
    torch_pool_need(a, segment->pool);
    const struct segment made = {.address = segment->address,
                                 .bytes = segment->bytes,
                                 .page = !segment->expandable ? 0
                                         : segment->small     ? MP_TORCH_PAGE
                                                              : a->settings.large_segment,
                                 .stream = segment->stream,
                                 .pool = segment->pool,
                                 .first = NONE,
                                 .small = segment->small};
    uint32_t id = torch_segment_new(a, &made);
    uint64_t mapped = 0, free_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        ids[i] = restore_block(a, id, i ? ids[i - 1] : NONE, &blocks[i]);
        if (blocks[i].state != MP_TORCH_UNMAPPED) mapped += blocks[i].bytes;
        if (blocks[i].state == MP_TORCH_FREE && count > 1) free_bytes += blocks[i].bytes;
    }
    torch_gained(a, &made, mapped);
    struct mp_torch_stats *stats = &a->stats;
    if (!segment->expandable) stats->inactive_split += free_bytes;
    stats->peak_allocated = stats->allocated;
    stats->peak_active = stats->active;
    stats->peak_requested = stats->requested;
}
