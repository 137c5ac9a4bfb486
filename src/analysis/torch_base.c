/*
 * A trace rarely reaches back to the first allocation. What was there before is known from the end: of a block that is
 * still live the segments say what it takes. Of one that was freed the trace says what had been asked for; the rest of
 * a large free block that was not worth a cut (at most 1 MiB) then belongs to it, which only its neighbours tell.
 */
#include "analysis/torch_base.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/search.h"
#include "base/words.h"
#include "model/track.h"

#define ROOM         ((uint64_t)1 << 40) /* that an expandable segment may grow to: more than any device has */
#define RESERVATIONS 1024                /* expandable segments at the beginning: two for each stream and pool */

/* An alloc of the trace: where, and when. */
struct birth {
    uint64_t address;
    uint32_t event;
};

struct finder {
    const struct mp_model *model;
    struct mp_torch_history *history;
    uint16_t driver;
    struct mp_map held; /* address + 1 of a live part at the end to its index in model->parts, less 1 */
    MP_VEC(struct birth) births;
    MP_VEC(struct mp_torch_segment) ends;       /* segments of the end */
    MP_VEC(struct mp_torch_segment) given_back; /* by steps */
    size_t reservations;
};

static int by_address(const void *a, const void *b)
{
    /* Every struct sorted here begins with its address. */
    uint64_t x, y;
    memcpy(&x, a, sizeof x);
    memcpy(&y, b, sizeof y);
    return (x > y) - (x < y);
}

/* The last of some sorted segments that begins at or below the address; NULL where there is none. */
static const struct mp_torch_segment *last_below(const struct mp_torch_segment *at, size_t count, uint64_t address)
{
    size_t before = MP_COUNT_BEFORE(count, i, at[i].address <= address);
    return before ? &at[before - 1] : NULL;
}

/* The one that the address lies in. */
static const struct mp_torch_segment *segment_at(const struct mp_torch_segment *at, size_t count, uint64_t address)
{
    const struct mp_torch_segment *found = last_below(at, count, address);
    return found && address - found->address < found->bytes ? found : NULL;
}

/* Whose the memory is: by the segments of the end, else by the step that gives it back. */
static void find_owner(const struct finder *f, struct mp_torch_segment *segment)
{
    const struct mp_torch_segment *found = last_below(f->ends.at, f->ends.count, segment->address + segment->bytes - 1);
    bool overlaps = found && found->address + found->bytes > segment->address;
    if (!overlaps || (!segment->expandable && found->address != segment->address))
        found = segment_at(f->given_back.at, f->given_back.count, segment->address);
    segment->small = segment->expandable ? segment->bytes % f->history->settings.large_segment != 0
                                         : segment->bytes <= MP_TORCH_PAGE;
    if (!found) return;
    segment->stream = found->stream;
    segment->pool = found->pool;
    if (overlaps) segment->small = found->small;
}

static bool same_owner(const struct mp_torch_segment *a, const struct mp_torch_segment *b)
{
    return a->stream == b->stream && a->pool == b->pool && a->small == b->small;
}

/* The expandable segment that a run of pages lies in; it begins where the lowest of its runs does, those that the trace
 * maps included. */
static bool put_in_reservation(struct finder *f, const struct mp_torch_segment *run)
{
    struct mp_torch_history *history = f->history;
    uint64_t page = run->small ? MP_TORCH_PAGE : history->settings.large_segment;
    for (size_t i = 0; i < history->segments.count; i++) {
        struct mp_torch_segment *at = &history->segments.at[i];
        if (!at->expandable || !same_owner(at, run)) continue;
        if (run->address < at->address) at->address = run->address;
        return true;
    }
    if (++f->reservations > RESERVATIONS) return true;
    struct mp_torch_segment made = *run;
    for (size_t i = 0; i < history->steps.count; i++) {
        const struct mp_torch_step *step = &history->steps.at[i];
        if (step->action == MP_TORCH_SEGMENT_MAP && step->stream == run->stream && step->pool == run->pool &&
            (step->bytes % history->settings.large_segment != 0) == run->small && step->address < made.address &&
            made.address - step->address < ROOM && (made.address - step->address) % page == 0)
            made.address = step->address;
    }
    made.bytes = ROOM / page * page;
    return mp_vec_push(&history->segments, made);
}

static bool find_segments(struct finder *f)
{
    const struct mp_model_blocks *blocks = &f->model->blocks;
    for (size_t i = 0; i < blocks->count && f->driver != MP_TRACK_NONE; i++) {
        if (blocks->track[i] != f->driver || blocks->alloc_event[i] != MP_NONE) continue;
        if (blocks->bytes[i] == MP_BYTES_UNKNOWN || blocks->bytes[i] >= ROOM) continue;
        struct mp_torch_segment segment = {
            .address = blocks->address[i], .bytes = blocks->bytes[i], .expandable = blocks->kind[i] == MP_KIND_VMM};
        find_owner(f, &segment);
        bool done = segment.expandable ? mp_vec_push(&f->history->mapped, segment) && put_in_reservation(f, &segment)
                                       : mp_vec_push(&f->history->segments, segment);
        if (!done) return false;
    }
    if (f->history->segments.count)
        qsort(f->history->segments.at, f->history->segments.count, sizeof *f->history->segments.at, by_address);
    if (f->history->mapped.count)
        qsort(f->history->mapped.at, f->history->mapped.count, sizeof *f->history->mapped.at, by_address);
    return true;
}

/* Where the parts live at the end lie, and where the trace allocates. */
static bool gather(struct finder *f)
{
    const struct mp_model *model = f->model;
    uint64_t offset = 0;
    for (size_t i = 0; i < model->parts.count; i++) {
        const struct mp_segment_part *part = &model->parts.at[i];
        const struct mp_segment *segment = &model->segments.at[part->segment];
        if (i && model->parts.at[i - 1].segment == part->segment)
            offset += model->parts.at[i - 1].bytes;
        else
            offset = 0;
        if (segment->track != f->history->track || part->state == MP_TORCH_FREE) continue;
        uint64_t *slot = mp_map_insert(&f->held, segment->address + offset + 1, NULL);
        if (!slot) return false;
        *slot = i;
    }
    for (size_t i = 0; i < f->history->steps.count; i++) {
        const struct birth birth = {f->history->steps.at[i].address, f->history->steps.at[i].event};
        if (f->history->steps.at[i].action == MP_TORCH_ALLOC && !mp_vec_push(&f->births, birth)) return false;
    }
    if (f->births.count) qsort(f->births.at, f->births.count, sizeof *f->births.at, by_address);
    return true;
}

static bool gather_owners(struct finder *f)
{
    const struct mp_model *model = f->model;
    for (size_t i = 0; i < model->segments.count; i++) {
        const struct mp_segment *from = &model->segments.at[i];
        const struct mp_torch_segment segment = {.address = from->address,
                                                 .bytes = from->bytes,
                                                 .stream = from->stream,
                                                 .pool = mp_torch_pool_index(f->history, from->pool),
                                                 .small = from->small,
                                                 .expandable = from->expandable};
        if (from->track == f->history->track && !mp_vec_push(&f->ends, segment)) return false;
    }
    for (size_t i = 0; i < f->history->steps.count; i++) {
        const struct mp_torch_step *step = &f->history->steps.at[i];
        const struct mp_torch_segment segment = {
            .address = step->address, .bytes = step->bytes, .stream = step->stream, .pool = step->pool};
        if ((step->action == MP_TORCH_SEGMENT_FREE || step->action == MP_TORCH_SEGMENT_UNMAP) &&
            !mp_vec_push(&f->given_back, segment))
            return false;
    }
    if (f->ends.count) qsort(f->ends.at, f->ends.count, sizeof *f->ends.at, by_address);
    if (f->given_back.count) qsort(f->given_back.at, f->given_back.count, sizeof *f->given_back.at, by_address);
    return true;
}

/* The lowest address in [from, limit) at which the trace allocates before the event; limit where there is none. */
static uint64_t first_birth(const struct finder *f, uint64_t from, uint64_t limit, uint32_t before)
{
    size_t first = MP_COUNT_BEFORE(f->births.count, i, f->births.at[i].address < from);
    for (; first < f->births.count && f->births.at[first].address < limit; first++)
        if (f->births.at[first].event < before) return f->births.at[first].address;
    return limit;
}

/* What a block of the base takes, with the next one of its segment, or that one's end, at `limit`. */
static uint64_t taken(const struct finder *f, const struct mp_torch_base *block, const struct mp_torch_segment *segment,
                      uint64_t limit)
{
    uint32_t freed = f->model->blocks.free_event[block->block];
    const uint64_t *part = freed == MP_NONE ? mp_map_find(&f->held, block->address + 1) : NULL;
    if (part && f->model->parts.at[*part].bytes <= limit - block->address) return f->model->parts.at[*part].bytes;
    uint64_t bytes = mp_torch_round(&f->history->settings, block->requested), room = limit - block->address;
    if (bytes >= room || (!segment->small && bytes >= f->history->settings.max_split)) return room; /* never cut */
    if (segment->small || f->history->settings.expandable) return bytes;
    uint64_t end = block->address + bytes, rest = room - bytes;
    if (rest <= MP_TORCH_SMALL) return room;
    uint64_t next = first_birth(f, end, end + MP_TORCH_SMALL + 1, freed);
    return next <= end + MP_TORCH_SMALL ? next - block->address : bytes;
}

/* No step requests its free, but the end has it as freed. */
static bool is_pending_at_end(const struct finder *f, const struct mp_torch_base *block)
{
    const uint64_t *part = mp_map_find(&f->held, block->address + 1);
    if (f->model->blocks.free_event[block->block] != MP_NONE || !part ||
        f->model->parts.at[*part].state != MP_TORCH_PENDING)
        return false;
    for (size_t i = 0; i < f->history->steps.count; i++)
        if (f->history->steps.at[i].action == MP_TORCH_FREE_REQUESTED && f->history->steps.at[i].block == block->block)
            return false;
    return true;
}

static bool find_blocks(struct finder *f)
{
    struct mp_torch_history *history = f->history;
    const struct mp_model_blocks *blocks = &f->model->blocks;
    for (size_t i = 0; i < blocks->count; i++) {
        if (blocks->track[i] != history->track || blocks->alloc_event[i] != MP_NONE) continue;
        if (blocks->bytes[i] == MP_BYTES_UNKNOWN || blocks->bytes[i] > INT64_MAX) continue;
        const struct mp_torch_base base = {
            .address = blocks->address[i], .requested = blocks->bytes[i], .block = (uint32_t)i};
        if (!mp_vec_push(&history->base, base)) return false;
    }
    if (history->base.count) qsort(history->base.at, history->base.count, sizeof *history->base.at, by_address);
    uint64_t end = 0; /* of the block before */
    for (size_t i = 0; i < history->base.count; i++) {
        struct mp_torch_base *base = &history->base.at[i];
        const struct mp_torch_segment *segment =
            segment_at(history->segments.at, history->segments.count, base->address);
        const struct mp_torch_segment *memory =
            segment && segment->expandable ? segment_at(history->mapped.at, history->mapped.count, base->address)
                                           : segment;
        if (!memory || base->address < end) continue;
        uint64_t limit = memory->address + memory->bytes;
        while (segment->expandable && ++memory < history->mapped.at + history->mapped.count && memory->address == limit)
            limit += memory->bytes; /* runs that were mapped one after the other */
        if (i + 1 < history->base.count && history->base.at[i + 1].address < limit)
            limit = history->base.at[i + 1].address;
        base->stream = segment->stream;
        base->pool = segment->pool;
        base->bytes = taken(f, base, segment, limit);
        base->pending = is_pending_at_end(f, base);
        end = base->address + base->bytes;
    }
    return true;
}

/* Before PyTorch 2.10 only the segments of the end name their pools: what lies in them is theirs. */
static void find_pools(struct finder *f)
{
    struct mp_torch_history *history = f->history;
    for (size_t i = 0; i < history->steps.count; i++)
        if (history->steps.at[i].pool) return;
    for (size_t i = 0; history->pools.count > 1 && i < history->steps.count; i++) {
        const struct mp_torch_segment *segment = segment_at(f->ends.at, f->ends.count, history->steps.at[i].address);
        if (segment && history->steps.at[i].action != MP_TORCH_OUT_OF_MEMORY) history->steps.at[i].pool = segment->pool;
    }
}

bool mp_torch_find_base(const struct mp_model *model, struct mp_torch_history *history)
{
    struct finder f = {.model = model, .history = history, .driver = mp_torch_driver_of(model, history->track)};
    bool done = !history->traced || gather_owners(&f);
    if (done) find_pools(&f);
    done = done && (!history->traced || find_segments(&f));
    done = done && gather(&f) && find_blocks(&f);
    mp_map_free(&f.held);
    mp_vec_free(&f.births);
    mp_vec_free(&f.ends);
    mp_vec_free(&f.given_back);
    return done;
}
