#include "analysis/torch_player.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/units.h"

void mp_torch_differ(struct mp_torch_player *p, const char *format, ...)
{
    if (p->replay->differences++) return;
    char when[MP_UNIT_TEXT], *to = p->replay->first;
    size_t room = sizeof p->replay->first;
    uint32_t event = p->step < p->history->steps.count ? p->history->steps.at[p->step].event : MP_NONE;
    int length = snprintf(to, room, "call %u", p->step + 1);
    if (event != MP_NONE)
        length += snprintf(to + length, room - (size_t)length, ", at %s",
                           mp_format_duration(when, p->model->events.time_ns[event]));
    length += snprintf(to + length, room - (size_t)length, ": ");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(to + length, room - (size_t)length, format, arguments);
    va_end(arguments);
}

bool mp_torch_own(struct mp_torch_player *p, uint32_t block, uint32_t id)
{
    if (id == MP_TORCH_NO_BLOCK) return true;
    while (p->owners.count <= id)
        if (!mp_vec_push(&p->owners, (uint32_t)MP_NONE)) return false;
    p->owners.at[id] = block;
    if (block != MP_NONE) p->ids[block] = id;
    return true;
}

bool mp_torch_check(struct mp_torch_player *p, enum mp_torch_result result)
{
    if (result == MP_TORCH_BROKEN) p->failed = true;
    return !p->failed;
}

void mp_torch_count_oom(struct mp_torch_player *p, bool is_new)
{
    p->replay->ooms++;
    p->replay->new_ooms += is_new;
    p->replay->last_oom = p->step;
}

/* The blocks of the base that lie in [address, end), and what is free between them: `run` of memory. */
static bool fill(const struct mp_torch_history *history, size_t *next, uint64_t address, uint64_t end,
                 struct mp_torch_moment *to)
{
    while (address < end) {
        while (*next < history->base.count &&
               (!history->base.at[*next].bytes || history->base.at[*next].address < address))
            ++*next;
        const struct mp_torch_base *base = *next < history->base.count ? &history->base.at[*next] : NULL;
        bool here = base && base->address == address;
        uint64_t limit = here ? address + base->bytes : base && base->address < end ? base->address : end;
        const struct mp_torch_block block = {.address = address,
                                             .bytes = limit - address,
                                             .requested = here ? base->requested : 0,
                                             .state = !here           ? MP_TORCH_FREE
                                                      : base->pending ? MP_TORCH_PENDING
                                                                      : MP_TORCH_ALLOCATED};
        if (!mp_vec_push(&to->listing.blocks, block) ||
            !mp_vec_push(&to->owners, here ? base->block : (uint32_t)MP_NONE))
            return false;
        address = limit;
    }
    return true;
}

/* The blocks of an expandable segment: its runs of mapped pages, and no memory between them. */
static bool fill_expandable(const struct mp_torch_history *history, const struct mp_torch_segment *segment,
                            size_t *next, size_t *run, struct mp_torch_moment *to)
{
    uint64_t address = segment->address, end = segment->address + segment->bytes;
    while (address < end) {
        while (*run < history->mapped.count && history->mapped.at[*run].address < address)
            ++*run;
        const struct mp_torch_segment *mapped = *run < history->mapped.count ? &history->mapped.at[*run] : NULL;
        if (mapped && mapped->address == address) {
            uint64_t limit = address;
            for (; *run < history->mapped.count && history->mapped.at[*run].address == limit; ++*run)
                limit += history->mapped.at[*run].bytes;
            if (!fill(history, next, address, limit, to)) return false;
            address = limit;
            continue;
        }
        bool mine = mapped && mapped->address < end && mapped->stream == segment->stream &&
                    mapped->pool == segment->pool && mapped->small == segment->small;
        uint64_t limit = mine ? mapped->address : end;
        const struct mp_torch_block block = {.address = address, .bytes = limit - address, .state = MP_TORCH_UNMAPPED};
        if (!mp_vec_push(&to->listing.blocks, block) || !mp_vec_push(&to->owners, (uint32_t)MP_NONE)) return false;
        address = limit;
    }
    return true;
}

void mp_torch_begin_recorded(struct mp_torch_player *p)
{
    const struct mp_torch_history *history = p->history;
    struct mp_torch_moment parts = {0};
    MP_VEC(uint32_t) ids = {0};
    size_t next = 0, run = 0;
    for (size_t i = 0; i < history->segments.count && !p->failed; i++) {
        const struct mp_torch_segment *segment = &history->segments.at[i];
        parts.listing.blocks.count = parts.owners.count = ids.count = 0;
        bool done = segment->expandable
                        ? fill_expandable(history, segment, &next, &run, &parts)
                        : fill(history, &next, segment->address, segment->address + segment->bytes, &parts);
        size_t count = parts.listing.blocks.count;
        if (!done || !mp_vec_extend(&ids, count) ||
            !mp_torch_check(p, mp_torch_restore(p->allocator, segment, parts.listing.blocks.at, count, ids.at)))
            p->failed = true;
        for (size_t k = 0; k < count && !p->failed; k++)
            if (parts.owners.at[k] != MP_NONE && !mp_torch_own(p, parts.owners.at[k], ids.at[k])) p->failed = true;
    }
    for (size_t i = 0; i < history->base.count; i++)
        if (!history->base.at[i].bytes)
            mp_torch_differ(p, "a block at 0x%" PRIx64 " from before the trace lies in no segment",
                            history->base.at[i].address);
    mp_torch_moment_free(&parts);
    mp_vec_free(&ids);
}

void mp_torch_begin_anew(struct mp_torch_player *p)
{
    for (size_t i = 0; i < p->history->base.count && !p->failed; i++) {
        const struct mp_torch_base *base = &p->history->base.at[i];
        uint32_t id;
        enum mp_torch_result result = mp_torch_malloc(p->allocator, base->requested, base->stream, base->pool, &id);
        if (!mp_torch_check(p, result)) return;
        if (result == MP_TORCH_OOM) mp_torch_count_oom(p, true);
        if (result == MP_TORCH_DONE && !mp_torch_own(p, base->block, id)) p->failed = true;
    }
}

static void compare_parts(struct mp_torch_player *p, const struct mp_torch_listing *listing,
                          const struct mp_torch_segment *segment, uint32_t recorded, size_t *part)
{
    const struct mp_model *model = p->model;
    uint64_t address = segment->address;
    for (size_t i = 0; i < segment->block_count; i++) {
        const struct mp_torch_block *block = &listing->blocks.at[segment->first_block + i];
        const struct mp_segment_part *with = *part < model->parts.count ? &model->parts.at[*part] : NULL;
        if (!with || with->segment != recorded) {
            mp_torch_differ(p,
                            "the segment at 0x%" PRIx64 " has %zu blocks at the end of the replay, not in the record",
                            segment->address, segment->block_count);
            return;
        }
        ++*part;
        p->replay->parts++;
        if (block->bytes != with->bytes || block->state != with->state || block->requested != with->requested)
            mp_torch_differ(p,
                            "at the end the block at 0x%" PRIx64 " has %" PRIu64 " bytes (state %u, %" PRIu64
                            " requested) in the replay, %" PRIu64 " (%u, %" PRIu64 ") in the record",
                            address, block->bytes, block->state, block->requested, with->bytes, with->state,
                            with->requested);
        address += block->bytes;
    }
    if (*part < model->parts.count && model->parts.at[*part].segment == recorded)
        mp_torch_differ(p, "the segment at 0x%" PRIx64 " has more than %zu blocks at the end of the record",
                        segment->address, segment->block_count);
}

struct place {
    uint64_t address;
    uint32_t segment; /* of the model */
};

static int by_address(const void *a, const void *b)
{
    uint64_t x = ((const struct place *)a)->address, y = ((const struct place *)b)->address;
    return (x > y) - (x < y);
}

void mp_torch_compare_end(struct mp_torch_player *p, const struct mp_torch_listing *listing)
{
    const struct mp_model *model = p->model;
    MP_VEC(struct place) order = {0};
    for (uint32_t i = 0; i < model->segments.count; i++) {
        const struct place place = {model->segments.at[i].address, i};
        if (model->segments.at[i].track == p->history->track && !mp_vec_push(&order, place)) p->failed = true;
    }
    size_t *first = calloc(model->segments.count + 1, sizeof *first); /* part of each segment */
    if (!first) p->failed = true;
    for (size_t i = model->parts.count; first && i--;)
        first[model->parts.at[i].segment] = i;
    if (order.count) qsort(order.at, order.count, sizeof *order.at, by_address);
    size_t common = order.count < listing->segments.count ? order.count : listing->segments.count;
    for (size_t i = 0; i < common && !p->failed; i++) {
        const struct mp_torch_segment *segment = &listing->segments.at[i];
        const struct mp_segment *with = &model->segments.at[order.at[i].segment];
        if (segment->address != with->address || segment->bytes != with->bytes || segment->stream != with->stream ||
            p->history->pools.at[segment->pool] != with->pool || segment->small != with->small) {
            mp_torch_differ(p,
                            "at the end the segment at 0x%" PRIx64 " has %" PRIu64
                            " bytes in the replay, that at 0x%" PRIx64 " has %" PRIu64 " in the record",
                            segment->address, segment->bytes, with->address, with->bytes);
            continue;
        }
        p->replay->segments++;
        size_t part = first[order.at[i].segment];
        compare_parts(p, listing, segment, order.at[i].segment, &part);
    }
    if (order.count != listing->segments.count && order.count)
        mp_torch_differ(p, "%zu segments at the end of the replay, %zu in the record", listing->segments.count,
                        order.count);
    mp_vec_free(&order);
    free(first);
}
