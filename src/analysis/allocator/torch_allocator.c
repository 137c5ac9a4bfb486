#include "analysis/allocator/torch_parts.h"
#include "base/memory.h"

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

void mp_torch_trace(struct mp_torch_allocator *a, enum mp_torch_action action, uint64_t address, uint64_t bytes,
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
    mp_torch_take(a, block);
    return block;
}

/* Called if no free block fits: tries these ways in order. */
static uint32_t find_memory(struct mp_torch_allocator *a, uint32_t pool, uint64_t bytes, uint64_t stream)
{
    if (collects_garbage(a)) mp_torch_collect_garbage(a);
    uint32_t block = mp_torch_get_memory(a, bytes, stream, pool);
    for (uint32_t i = 1; block == NONE && !pool && i < a->pools_on_oom; i++)
        if (a->pools.at[i].use_on_oom) block = search(a, i, bytes, stream, false);
    if (block == NONE && mp_torch_release_available(a, bytes, stream, pool))
        block = mp_torch_get_memory(a, bytes, stream, pool);
    if (block == NONE && !a->contexts.count) {
        mp_torch_release_all(a);
        a->stats.retries++;
        /* Only the driver's memory counts now, even if other blocks became free meanwhile. */
        block = mp_torch_get_memory(a, bytes, stream, pool);
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
        mp_torch_put(a, mp_torch_cut(a, block, bytes));
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
    mp_torch_trace(a, MP_TORCH_ALLOC, it->address, requested, segment, block);
}

enum mp_torch_result mp_torch_malloc(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool,
                                     uint32_t *block)
{
    *block = MP_TORCH_NO_BLOCK;
    mp_torch_pool_need(a, pool);
    if (!bytes) return MP_TORCH_DONE;
    if (bytes >= TOO_LARGE) return MP_TORCH_OOM;
    if (!a->contexts.count) mp_torch_look_at_streams(a);
    uint64_t rounded = mp_torch_round(&a->settings, bytes);
    uint32_t found = search(a, pool, rounded, stream, a->settings.expandable);
    if (found == NONE) found = find_memory(a, pool, rounded, stream);
    if (found == NONE) {
        const struct segment none = {.stream = stream, .pool = pool};
        a->stats.ooms++;
        mp_torch_trace(a, MP_TORCH_OUT_OF_MEMORY, 0, rounded, &none, MP_TORCH_NO_BLOCK);
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
    mp_torch_trace(a, MP_TORCH_FREE_REQUESTED, it->address, it->requested, segment_of(a, block), block);
    if (it->uses != NONE)
        mp_torch_wait_for_streams(a, block);
    else
        mp_torch_free_now(a, block);
}

void mp_torch_free_now(struct mp_torch_allocator *a, uint32_t block)
{
    struct block *it = &a->blocks.at[block];
    const struct segment *segment = segment_of(a, block);
    mp_torch_trace(a, MP_TORCH_FREE_COMPLETED, it->address, it->requested, segment, block);
    a->stats.active -= it->bytes;
    a->stats.requested -= it->requested;
    it->state = MP_TORCH_FREE;
    it->requested = 0;
    uint64_t freed = it->bytes;
    block = mp_torch_join(a, block);
    mp_torch_put(a, block);
    if (segment->page) return;
    it = &a->blocks.at[block];
    a->stats.inactive_split -= it->bytes - freed; /* the neighbours that it was joined with are no longer split off */
    if (is_split(it)) a->stats.inactive_split += it->bytes;
}

void mp_torch_empty_cache(struct mp_torch_allocator *a)
{
    mp_torch_release_all(a);
}
