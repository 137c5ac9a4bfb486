#include "analysis/allocator/torch_layout.h"

#include <stdlib.h>

#include "analysis/sites/live.h"
#include "base/map.h"
#include "base/order.h"
#include "base/search.h"
#include "base/words.h"
#include "model/track.h"

struct placer {
    const struct mp_model *model;
    const struct mp_torch_history *history;
    uint32_t event;
    struct mp_torch_moment *to;
};

static void put(struct placer *p, const struct mp_torch_block *block, uint32_t owner)
{
    struct mp_torch_segment *segment = &p->to->listing.segments.at[p->to->listing.segments.count - 1];
    segment->block_count++;
    mp_vec_add(&p->to->listing.blocks, *block);
    mp_vec_add(&p->to->owners, owner);
}

static void open_segment(struct placer *p, struct mp_torch_segment segment)
{
    segment.first_block = p->to->listing.blocks.count;
    segment.block_count = 0;
    mp_vec_add(&p->to->listing.segments, segment);
}

/* Takes the file's own list, whose parts are in the order of the segments. */
static void take_list(struct placer *p)
{
    const struct mp_model *model = p->model;
    struct mp_live_blocks live = {0};
    struct mp_map owners = {0};
    mp_live_blocks_at(model, p->history->track, p->event, NULL, &live);
    for (size_t i = 0; i < live.count; i++) {
        uint64_t *slot = mp_map_at(&owners, model->blocks.address[live.at[i].block] + 1, NULL);
        *slot = live.at[i].block;
    }
    for (size_t i = 0, last = SIZE_MAX; i < model->parts.count; i++) {
        const struct mp_segment_part *part = &model->parts.at[i];
        const struct mp_segment *from = &model->segments.at[part->segment];
        if (from->track != p->history->track || (from->keys & MP_ROW_OVERLAPS)) continue;
        if (part->segment != last) {
            const struct mp_torch_segment segment = {.address = from->address,
                                                     .stream = from->stream,
                                                     .pool = mp_torch_pool_index(p->history, from->pool),
                                                     .small = from->small,
                                                     .expandable = from->expandable};
            open_segment(p, segment);
            last = part->segment;
        }
        struct mp_torch_segment *segment = &p->to->listing.segments.at[p->to->listing.segments.count - 1];
        const struct mp_torch_block block = {segment->address + segment->bytes, part->bytes,
                                             part->state == MP_TORCH_FREE ? 0 : part->requested, 0, part->state};
        const uint64_t *owner =
            part->state == MP_TORCH_FREE ? NULL : mp_map_find(&owners, segment->address + segment->bytes + 1);
        segment->bytes += part->bytes;
        put(p, &block, owner ? (uint32_t)*owner : (uint32_t)MP_NONE);
    }
    mp_live_blocks_free(&live);
    mp_map_free(&owners);
}

struct range {
    uint64_t address, end;
    uint32_t block;
    bool used; /* a block of the allocator has lain in it */
};

struct ranges {
    struct range *at;
    size_t count, room;
};

MP_ORDER(by_address, struct range, MP_RISING(address))

/* The live blocks of a track. With `memory`, only blocks that are ranges of it. */
static void gather_track(const struct placer *p, uint16_t track, const struct mp_track_memory *memory,
                         struct ranges *to)
{
    const struct mp_model_blocks *blocks = &p->model->blocks;
    struct mp_live_blocks live = {0};
    mp_live_blocks_at(p->model, track, p->event, NULL, &live);
    for (size_t i = 0; i < live.count; i++) {
        uint32_t block = live.at[i].block;
        uint64_t address = blocks->address[block], bytes = live.at[i].bytes;
        if (memory && !mp_track_is_range(p->model, memory, block)) continue;
        if (!bytes || bytes == MP_BYTES_UNKNOWN || address > INT64_MAX || bytes > INT64_MAX) continue;
        const struct range range = {address, address + bytes, block, false};
        mp_vec_add(to, range);
    }
    mp_live_blocks_free(&live);
}

/* Sorts by address, and drops a range that overlaps the previous one. */
static void sort(struct ranges *to)
{
    if (to->count) qsort(to->at, to->count, sizeof *to->at, by_address);
    size_t kept = 0;
    for (size_t i = 0; i < to->count; i++)
        if (!kept || to->at[i].address >= to->at[kept - 1].end) to->at[kept++] = to->at[i];
    to->count = kept;
}

static struct range *range_at(struct ranges *in, uint64_t address)
{
    size_t before = MP_COUNT_BEFORE(in->count, i, in->at[i].address <= address);
    return before && address < in->at[before - 1].end ? &in->at[before - 1] : NULL;
}

/* A driver's block is a segment if it has ever held a block of the allocator. Most hold one now. */
static void mark_used(const struct placer *p, struct ranges *below, const struct ranges *live)
{
    const struct mp_model_blocks *blocks = &p->model->blocks;
    const uint32_t *births = blocks->alloc_event;
    size_t unused = below->count;
    for (size_t i = 0; i < live->count; i++) {
        struct range *range = range_at(below, live->at[i].address);
        if (range && !range->used) unused--;
        if (range) range->used = true;
    }
    for (size_t i = 0; unused && i < blocks->count; i++) {
        if (blocks->track[i] != p->history->track) continue;
        struct range *range = range_at(below, blocks->address[i]);
        if (!range || range->used) continue;
        bool together = births[range->block] == MP_NONE || blocks->free_event[i] > births[range->block];
        range->used = together;
        unused -= together;
    }
}

/* The bytes from a block up to the next one: they include a remainder too small to split. */
static uint64_t taken(const struct placer *p, const struct range *block, uint64_t room, bool small, bool expandable)
{
    uint64_t bytes = block->end - block->address;
    bool requested = p->model->tracks.at[p->history->track].size_basis == MP_BASIS_REQUESTED;
    if (requested) bytes = mp_torch_round(&p->history->settings, bytes);
    if (bytes >= room) return room;
    return !small && !expandable && room - bytes <= MP_TORCH_SMALL ? room : bytes;
}

static void place_in(struct placer *p, const struct mp_torch_segment *segment, const struct ranges *blocks,
                     size_t *next)
{
    uint64_t address = segment->address, end = segment->address + segment->bytes;
    open_segment(p, *segment);
    while (*next < blocks->count && blocks->at[*next].address < address)
        ++*next;
    while (address < end) {
        const struct range *block =
            *next < blocks->count && blocks->at[*next].address < end ? &blocks->at[*next] : NULL;
        bool here = block && block->address == address;
        uint64_t limit = block && !here ? block->address : end;
        if (here) {
            ++*next;
            uint64_t room = *next < blocks->count && blocks->at[*next].address < end ? blocks->at[*next].address : end;
            limit = address + taken(p, block, room - address, segment->small, segment->expandable);
        }
        const struct mp_torch_block placed = {address, limit - address, here ? block->end - block->address : 0, 0,
                                              here ? MP_TORCH_ALLOCATED : MP_TORCH_FREE};
        put(p, &placed, here ? block->block : (uint32_t)MP_NONE);
        address = limit;
    }
}

/* Pages that were mapped one after the other are one run. */
static void place_all(struct placer *p, const struct mp_track_memory *memory)
{
    struct ranges below = {0}, blocks = {0};
    gather_track(p, memory->below, memory, &below);
    gather_track(p, p->history->track, NULL, &blocks);
    if (memory->mapped != MP_TRACK_NONE) gather_track(p, memory->mapped, memory, &below);
    sort(&below);
    sort(&blocks);
    mark_used(p, &below, &blocks);
    size_t next = 0;
    for (size_t i = 0; i < below.count; i++) {
        bool expandable = p->model->blocks.kind[below.at[i].block] == MP_KIND_VMM, used = below.at[i].used;
        uint64_t address = below.at[i].address, end = below.at[i].end;
        for (; expandable && i + 1 < below.count && below.at[i + 1].address == end &&
               p->model->blocks.kind[below.at[i + 1].block] == MP_KIND_VMM;
             i++) {
            end = below.at[i + 1].end;
            used |= below.at[i + 1].used;
        }
        const struct mp_torch_segment segment = {.address = address,
                                                 .bytes = end - address,
                                                 .small = end - address <= MP_TORCH_PAGE,
                                                 .expandable = expandable};
        if (used) place_in(p, &segment, &blocks, &next);
    }
    mp_vec_free(&below);
    mp_vec_free(&blocks);
}

static bool has_list(const struct mp_model *model, uint16_t track)
{
    for (size_t i = 0; i < model->segments.count; i++)
        if (model->segments.at[i].track == track) return true;
    return false;
}

bool mp_torch_layout_at(const struct mp_model *model, struct mp_torch_history *history, uint32_t event,
                        struct mp_torch_layout *layout)
{
    *layout = (struct mp_torch_layout){0};
    if (history->traced) {
        struct mp_torch_replay replay;
        uint32_t until = event < model->events.count ? mp_torch_step_of(history, event) : MP_TORCH_TO_THE_END;
        mp_torch_replay_recorded(model, history, until, &layout->moment, &replay);
        if (!replay.differences) return true;
        mp_torch_moment_free(&layout->moment);
        *layout = (struct mp_torch_layout){0};
    }
    struct placer p = {model, history, event, &layout->moment};
    const struct mp_track_memory memory = mp_track_memory_of(model, history->track);
    bool below = memory.below != MP_TRACK_NONE && memory.below != history->track;
    if (event >= model->events.count && has_list(model, history->track)) {
        layout->source = MP_LAYOUT_LISTED;
        take_list(&p);
    } else {
        layout->source = MP_LAYOUT_PLACED;
        if (below) place_all(&p, &memory);
    }
    return layout->moment.listing.segments.count;
}
