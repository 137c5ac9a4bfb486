/* Memory from the driver and back: alloc_block(), garbage_collect_cached_blocks(), release_available_cached_blocks()
 * and release_cached_blocks() of CUDACachingAllocator.cpp. */
#include "analysis/allocator/torch_parts.h"

uint32_t mp_torch_segment_new(struct mp_torch_allocator *a, const struct segment *segment)
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

void mp_torch_segment_unused(struct mp_torch_allocator *a, uint32_t segment)
{
    a->segments.at[segment].unused = true;
    a->segments.at[segment].first = a->unused_segment;
    a->unused_segment = segment;
}

void mp_torch_gained(struct mp_torch_allocator *a, const struct segment *segment, uint64_t bytes)
{
    a->device_used += bytes;
    a->stats.reserved += bytes;
    if (a->stats.peak_reserved < a->stats.reserved) a->stats.peak_reserved = a->stats.reserved;
    a->pools.at[segment->pool].bytes += bytes;
    if (!segment->page) a->stats.segments++;
}

void mp_torch_lost(struct mp_torch_allocator *a, const struct segment *segment, uint64_t bytes)
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

uint32_t mp_torch_get_memory(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool)
{
    uint64_t asked = mp_torch_segment_bytes(&a->settings, bytes);
    if (a->limit != MP_TORCH_UNLIMITED && a->stats.reserved + asked > a->limit) return NONE;
    if (a->settings.expandable) return mp_torch_expand(a, bytes, stream, pool);
    uint64_t address;
    if (!ask_driver(a, asked, &address)) return NONE;
    const struct segment segment = {
        .address = address, .bytes = asked, .stream = stream, .pool = pool, .small = bytes <= MP_TORCH_SMALL};
    uint32_t id = mp_torch_segment_new(a, &segment);
    const struct block whole = {
        .address = address, .bytes = asked, .segment = id, .previous = NONE, .next = NONE, .uses = NONE};
    uint32_t block = mp_torch_block_new(a, &whole);
    a->segments.at[id].first = block;
    mp_torch_gained(a, &segment, asked);
    mp_torch_trace(a, MP_TORCH_SEGMENT_ALLOC, address, asked, &segment, MP_TORCH_NO_BLOCK);
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
    mp_torch_take(a, block);
    mp_torch_lost(a, segment, segment->bytes);
    mp_torch_trace(a, MP_TORCH_SEGMENT_FREE, segment->address, segment->bytes, segment, MP_TORCH_NO_BLOCK);
    mp_torch_segment_unused(a, a->blocks.at[block].segment);
    mp_torch_block_unused(a, block);
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

void mp_torch_collect_garbage(struct mp_torch_allocator *a)
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

bool mp_torch_release_available(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool)
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
        mp_torch_unmap(a, a->scratch.at[i]);
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
    mp_torch_pool_need(a, pool);
    if (!a->contexts.count) mp_torch_finish_streams(a);
    if (a->pools.at[pool].freeable && empty_pool(a, pool)) mp_torch_not_freeable(a, pool);
}

void mp_torch_release_all(struct mp_torch_allocator *a)
{
    if (!a->contexts.count) {
        mp_torch_pool_need(a, 0);
        mp_torch_finish_streams(a);
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
