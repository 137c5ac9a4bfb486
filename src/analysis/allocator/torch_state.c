/* Reads and writes a whole state of the model of PyTorch's allocator. */
#include <string.h>

#include "analysis/allocator/torch_parts.h"

#include "base/order.h"

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
    uint32_t id = mp_torch_block_new(a, &block);
    if (previous == NONE)
        a->segments.at[segment].first = id;
    else
        a->blocks.at[previous].next = id;
    if (from->state == MP_TORCH_FREE || from->state == MP_TORCH_UNMAPPED) {
        mp_torch_put(a, id);
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
    mp_torch_pool_need(a, segment->pool);
    const struct segment made = {.address = segment->address,
                                 .bytes = segment->bytes,
                                 .page = !segment->expandable ? 0
                                         : segment->small     ? MP_TORCH_PAGE
                                                              : a->settings.large_segment,
                                 .stream = segment->stream,
                                 .pool = segment->pool,
                                 .first = NONE,
                                 .small = segment->small};
    uint32_t id = mp_torch_segment_new(a, &made);
    uint64_t mapped = 0, free_bytes = 0;
    for (size_t i = 0; i < count; i++) {
        ids[i] = restore_block(a, id, i ? ids[i - 1] : NONE, &blocks[i]);
        if (blocks[i].state != MP_TORCH_UNMAPPED) mapped += blocks[i].bytes;
        if (blocks[i].state == MP_TORCH_FREE && count > 1) free_bytes += blocks[i].bytes;
    }
    mp_torch_gained(a, &made, mapped);
    struct mp_torch_stats *stats = &a->stats;
    if (!segment->expandable) stats->inactive_split += free_bytes;
    stats->peak_allocated = stats->allocated;
    stats->peak_active = stats->active;
    stats->peak_requested = stats->requested;
}
