#include "exchange/pytorch/pytorch_replay.h"

#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/words.h"

struct replay {
    struct mp_pytorch_records *records;
    struct mp_pytorch_device *device;
    struct mp_map live;                    /* address + 1 to the entry of the alloc */
    struct mp_map waiting;                 /* address + 1 to the stack of a request that waits for other streams */
    uint64_t same_stack, other_stack;      /* number of frees with the same stack as their alloc, and with another
                                            * stack */
    void *ranges;                          /* tree of disjoint struct live_range: ranges that are live in the trace */
    void *listed;                          /* tree of disjoint struct live_range: segments of the end, without ignored
                                            * ones */
    MP_VEC(struct mp_pytorch_range) older; /* ranges of the base, in order of discovery */
    MP_VEC(struct mp_pytorch_range_event) events; /* `range` is OLDER + index for ranges in `older` */
    MP_VEC(struct mp_pytorch_range) taken;
    MP_VEC(uint32_t) annotations; /* annotations (entries) of blocks that no alloc of the trace made */
};

#define OLDER 0x80000000u

struct live_range {
    uint64_t start, end;
    uint32_t range;
    bool seen;
};

/* Overlapping ranges compare equal, so that any part of a range finds the range. */
static int by_place(const void *left, const void *right)
{
    const struct live_range *a = left, *b = right;
    return a->end <= b->start ? -1 : b->end <= a->start;
}

/* Adds `made` to the tree. Returns `made`, or the range of the tree that overlaps it. */
static const struct live_range *put_in(void **tree, struct live_range *made)
{
    struct live_range **found = tsearch(made, tree, by_place);
    if (!found) mp_memory_lacks(sizeof *made);
    return *found;
}

static struct live_range *find_range(const struct replay *r, uint64_t start, uint64_t end)
{
    struct live_range key = {.start = start, .end = end};
    struct live_range **found = tfind(&key, &r->ranges, by_place);
    return found ? *found : NULL;
}

static void put_range_event(struct replay *r, uint32_t entry, uint32_t range, bool frees)
{
    struct mp_pytorch_range_event event = {entry, range, frees};
    mp_vec_add(&r->events, event);
}

/* Takes a range, if nothing live overlaps it. */
static void take_range(struct replay *r, uint32_t entry, struct mp_pytorch_range range)
{
    struct live_range *made = mp_alloc(sizeof *made);
    *made = (struct live_range){range.address, range.address + range.bytes, (uint32_t)r->taken.count, false};
    mp_vec_add(&r->taken, range);
    put_in(&r->ranges, made);
    put_range_event(r, entry, made->range, false);
}

/* Removes [start, end) of a live range. A remainder on either side becomes a new range. */
static void drop_range(struct replay *r, uint32_t entry, struct live_range *live, uint64_t start, uint64_t end)
{
    struct live_range was = *live;
    struct mp_pytorch_range rest = r->taken.at[was.range];
    tdelete(live, &r->ranges, by_place);
    free(live);
    put_range_event(r, entry, was.range, true);
    if (was.start < start) {
        rest.address = was.start;
        rest.bytes = start - was.start;
        take_range(r, entry, rest);
    }
    if (was.end > end) {
        rest.address = end;
        rest.bytes = was.end - end;
        take_range(r, entry, rest);
    }
}

/* Calls back for each part of [start, end) that no live range covers. Marks these live ranges as `seen`; if `entry` is
 * given, drops them instead. */
static void each_gap(struct replay *r, struct mp_pytorch_range range, uint32_t entry, bool frees_gaps)
{
    MP_VEC(uint64_t) todo = {0};
    uint64_t first = range.address, last = range.address + range.bytes;
    mp_vec_add(&todo, first);
    mp_vec_add(&todo, last);
    while (todo.count) {
        uint64_t end = todo.at[--todo.count], start = todo.at[--todo.count];
        if (start >= end) continue;
        struct live_range *live = find_range(r, start, end);
        if (!live) {
            range.address = start;
            range.bytes = end - start;
            mp_vec_add(&r->older, range);
            if (frees_gaps) put_range_event(r, entry, OLDER + (uint32_t)r->older.count - 1, true);
            continue;
        }
        uint64_t from = live->start, to = live->end;
        live->seen = true;
        if (entry != MP_NONE) drop_range(r, entry, live, first, last);
        mp_vec_room_for(&todo, 4);
        todo.at[todo.count++] = start;
        todo.at[todo.count++] = from;
        todo.at[todo.count++] = to;
        todo.at[todo.count++] = end;
    }
    mp_vec_free(&todo);
}

static void on_segment(struct replay *r, uint32_t at, const struct mp_pytorch_entry *entry)
{
    bool mapped = entry->action == MP_ACTION_SEGMENT_MAP || entry->action == MP_ACTION_SEGMENT_UNMAP;
    unsigned kind = r->device->host ? MP_KIND_PINNED : mapped ? MP_KIND_VMM : MP_KIND_DEVICE;
    struct mp_pytorch_range range = {entry->address, entry->bytes, entry->stack, (uint8_t)kind};
    if (entry->action == MP_ACTION_SEGMENT_FREE || entry->action == MP_ACTION_SEGMENT_UNMAP) {
        range.stack = 0;
        each_gap(r, range, at, true);
        return;
    }
    /* A range that still seems live at these addresses was released, but the trace lacks the release. */
    struct live_range *live;
    while ((live = find_range(r, range.address, range.address + range.bytes)))
        drop_range(r, at, live, range.address, range.address + range.bytes);
    take_range(r, at, range);
}

static void on_alloc(struct replay *r, uint32_t at, uint32_t id, const struct mp_pytorch_entry *entry)
{
    bool added;
    uint64_t *slot = mp_map_at(&r->live, entry->address + 1, &added);
    if (!added) {
        mp_vec_add(&r->device->missed, at);
        mp_vec_add(&r->device->missed, (uint32_t)*slot);
    }
    *slot = id;
    r->device->allocs++;
}

/* Keeps the stack of a request to free, if its completion does not follow at once. A late completion has the stack of
 * the thread that noticed it, not the stack of the request. */
static void on_request(struct replay *r, uint32_t at, const struct mp_pytorch_entry *entry)
{
    const struct mp_pytorch_device *device = r->device;
    const struct mp_pytorch_entry *next =
        at + 1 < device->trace.count ? &r->records->entries.at[device->trace.at[at + 1]] : NULL;
    if (next && next->action == device->free_action && next->address == entry->address && next->stack == entry->stack)
        return;
    uint64_t *slot = mp_map_at(&r->waiting, entry->address + 1, NULL);
    *slot = entry->stack;
}

static void on_free(struct replay *r, uint32_t at, struct mp_pytorch_entry *entry)
{
    uint64_t alloc, stack = entry->stack;
    r->device->frees++;
    if (r->waiting.count && mp_map_remove(&r->waiting, entry->address + 1, &stack)) {
        mp_vec_add(&r->device->requested, at);
        mp_vec_add(&r->device->requested, (uint32_t)stack);
    }
    if (mp_map_remove(&r->live, entry->address + 1, &alloc)) {
        entry->block = (uint32_t)alloc;
        r->same_stack += r->records->entries.at[alloc].stack == stack;
        r->other_stack += r->records->entries.at[alloc].stack != stack;
        return;
    }
    struct mp_pytorch_block block = {.address = entry->address, .requested = entry->bytes, .stack = (uint32_t)stack};
    entry->older = true;
    entry->block = (uint32_t)r->device->base.count;
    r->device->base_bytes += entry->bytes;
    mp_vec_add(&r->device->base, block);
}

/* Finds the block of an annotation: the live block at the address, else a block from before the trace, which
 * find_annotated() finds later. */
static void on_annotation(struct replay *r, uint32_t id, struct mp_pytorch_entry *entry)
{
    const uint64_t *alloc = entry->has_address ? mp_map_find(&r->live, entry->address + 1) : NULL;
    entry->block = alloc ? (uint32_t)*alloc : MP_NONE;
    entry->older = !alloc;
    if (entry->older) mp_vec_add(&r->annotations, id);
}

/* Finds the blocks of annotations among the blocks from before the trace. Call it when all of these blocks are known;
 * no two of them have the same address. */
static void find_annotated(struct replay *r)
{
    struct mp_map places = {0};
    struct mp_pytorch_device *device = r->device;
    for (size_t i = 0; r->annotations.count && i < device->base.count; i++)
        *mp_map_at(&places, device->base.at[i].address + 1, NULL) = i;
    for (size_t i = 0; i < r->annotations.count; i++) {
        struct mp_pytorch_entry *entry = &r->records->entries.at[r->annotations.at[i]];
        const uint64_t *found = entry->has_address ? mp_map_find(&places, entry->address + 1) : NULL;
        if (found) entry->block = (uint32_t)*found;
        device->annotations_lost += !found;
    }
    mp_map_free(&places);
}

static bool is_sound(const struct mp_pytorch_entry *entry)
{
    return entry->has_address && entry->has_bytes && entry->bytes <= INT64_MAX &&
           entry->address <= INT64_MAX - entry->bytes;
}

static void replay_trace(struct replay *r)
{
    struct mp_pytorch_device *device = r->device;
    for (size_t i = 0; i < device->trace.count; i++) {
        uint32_t id = device->trace.at[i];
        struct mp_pytorch_entry *entry = &r->records->entries.at[id];
        bool frees = entry->action == MP_ACTION_FREE || entry->action == device->free_action;
        bool segment = mp_pytorch_is_segment_action(entry->action);
        bool requests = entry->action == MP_ACTION_FREE_REQUESTED && !frees;
        if (requests && is_sound(entry)) on_request(r, (uint32_t)i, entry);
        if (entry->action == MP_ACTION_ANNOTATE) on_annotation(r, id, entry);
        if (!frees && !segment && entry->action != MP_ACTION_ALLOC) continue;
        if (!is_sound(entry) || (segment && !entry->bytes)) {
            entry->action = MP_ACTION_UNKNOWN;
            device->bad_entries++;
            continue;
        }
        if (segment)
            on_segment(r, (uint32_t)i, entry);
        else if (frees)
            on_free(r, (uint32_t)i, entry);
        else
            on_alloc(r, (uint32_t)i, id, entry);
    }
}

/* PyTorch frees a block at free_completed. Between free_requested and free_completed, other streams may still use the
 * memory. A trace without free_completed has only the requests. */
static uint8_t find_free_action(const struct mp_pytorch_records *records, const struct mp_pytorch_device *device)
{
    bool requested = false;
    for (size_t i = 0; i < device->trace.count; i++) {
        unsigned action = records->entries.at[device->trace.at[i]].action;
        if (action == MP_ACTION_FREE_COMPLETED || action == MP_ACTION_FREE) return MP_ACTION_FREE_COMPLETED;
        requested |= action == MP_ACTION_FREE_REQUESTED;
    }
    return requested ? MP_ACTION_FREE_REQUESTED : MP_ACTION_FREE_COMPLETED;
}

/* Takes a block that is live at the end: an alloc of the trace made it, or it is from before the trace. */
static void meet_block(struct replay *r, const struct mp_pytorch_block *block, uint64_t address)
{
    struct mp_pytorch_device *device = r->device;
    struct mp_pytorch_block base = *block;
    uint64_t alloc;
    if (base.requested == MP_BYTES_UNKNOWN) base.requested = base.bytes;
    base.address = block->address == MP_BYTES_UNKNOWN ? address : block->address;
    device->live_rounded += block->bytes;
    device->live_requested += base.requested;
    if (base.address < INT64_MAX && mp_map_remove(&r->live, base.address + 1, &alloc)) {
        device->other_size += r->records->entries.at[alloc].bytes != base.requested;
        return;
    }
    device->base_bytes += base.requested;
    mp_vec_add(&device->base, base);
}

static void keep_part(struct replay *r, uint32_t segment, const struct mp_pytorch_block *block)
{
    uint64_t absent = block->live ? block->bytes : 0;
    const struct mp_segment_part part = {.bytes = block->bytes,
                                         .requested = block->requested == MP_BYTES_UNKNOWN ? absent : block->requested,
                                         .segment = segment,
                                         .state = block->pending ? MP_TORCH_PENDING
                                                  : block->live  ? MP_TORCH_ALLOCATED
                                                                 : MP_TORCH_FREE};
    mp_vec_add(&r->device->parts, part);
}

static bool is_sane(const struct mp_pytorch_segment *segment)
{
    return segment->bytes && segment->bytes <= INT64_MAX && segment->address <= INT64_MAX - segment->bytes;
}

/* False if the segment overlaps one listed before it: such a segment is ignored. */
static bool is_believed(struct replay *r, const struct mp_pytorch_segment *segment)
{
    if (!is_sane(segment)) return true;
    struct live_range *listed = mp_alloc(sizeof *listed);
    *listed = (struct live_range){.start = segment->address, .end = segment->address + segment->bytes};
    bool believed = put_in(&r->listed, listed) == listed;
    if (!believed) free(listed);
    return believed;
}

/* Counts an ignored segment and its live blocks, for a note. */
static void pass_over(struct replay *r, struct mp_pytorch_segment *segment, const uint64_t *items, size_t count)
{
    segment->overlaps = true;
    r->device->overlapping++;
    for (size_t i = 0; items && i < count; i++) {
        uint64_t value = mp_values_resolve(&r->records->values, items[i]);
        if (mp_value_tag(value) != MP_PYTORCH_BLOCK) continue;
        const struct mp_pytorch_block *block = &r->records->blocks.at[mp_value_payload(value)];
        r->device->overlapping_bytes += block->live ? block->bytes : 0;
    }
    if (items && count)
        mp_values_settle(&r->records->values, segment->blocks, MP_VALUE_NONE); /* no list is read twice */
}

static void meet_segment(struct replay *r, uint32_t index)
{
    struct mp_pytorch_segment *segment = &r->records->segments.at[r->device->segments.at[index]];
    struct mp_values *values = &r->records->values;
    size_t count;
    const uint64_t *items = mp_values_items(values, segment->blocks, MP_OBJECT_LIST, &count);
    uint64_t address = segment->address;
    r->records->again += mp_values_is_gone(values, segment->blocks);
    if (!is_believed(r, segment)) {
        pass_over(r, segment, items, count);
        return;
    }
    for (size_t i = 0; items && i < count; i++) {
        uint64_t value = mp_values_resolve(values, items[i]);
        if (mp_value_tag(value) != MP_PYTORCH_BLOCK) continue;
        struct mp_pytorch_block *block = &r->records->blocks.at[mp_value_payload(value)];
        if (block->live) meet_block(r, block, address);
        keep_part(r, index, block);
        address += block->bytes;
    }
    if (items && count) mp_values_settle(values, segment->blocks, MP_VALUE_NONE); /* no list is read twice */
    if (!is_sane(segment)) return;
    unsigned kind = r->device->host ? MP_KIND_PINNED : segment->expandable ? MP_KIND_VMM : MP_KIND_DEVICE;
    struct mp_pytorch_range range = {segment->address, segment->bytes, segment->stack, (uint8_t)kind};
    each_gap(r, range, MP_NONE, false);
}

static void count_unseen(const void *node, VISIT visit, void *count)
{
    const struct live_range *live = *(const struct live_range *const *)node;
    if (visit == postorder || visit == leaf) *(uint64_t *)count += !live->seen;
}

static void meet_segments(struct replay *r)
{
    struct mp_pytorch_device *device = r->device;
    for (size_t i = 0; i < device->segments.count; i++)
        meet_segment(r, (uint32_t)i);
    if (!device->lists_segments) return;
    twalk_r(r->ranges, count_unseen, &device->ranges_missing);
    for (size_t i = 0; i < r->live.room; i++) {
        if (!r->live.slots[i].key) continue;
        device->not_in_segments++;
        device->not_in_segments_bytes += r->records->entries.at[r->live.slots[i].value].bytes;
    }
}

/* If PyTorch took no stacks at frees, each free has its alloc's stack. A free of a block of the base then shows the
 * block's stack. Otherwise the stacks of the base are unknown. */
static void judge_stacks(struct replay *r)
{
    r->device->free_stacks = r->other_stack;
    if (!r->other_stack && r->same_stack) return;
    for (size_t i = 0; i < r->device->base.count; i++)
        r->device->base.at[i].stack = 0;
}

/* Joins the ranges, those of the base first, and renumbers the events' ranges. */
static void join_ranges(struct replay *r)
{
    struct mp_pytorch_device *device = r->device;
    size_t older = r->older.count, taken = r->taken.count;
    if (older + taken >= OLDER) mp_memory_lacks(0);
    mp_vec_room_for(&device->ranges, older + taken);
    if (older) memcpy(device->ranges.at, r->older.at, older * sizeof *r->older.at);
    if (taken) memcpy(device->ranges.at + older, r->taken.at, taken * sizeof *r->taken.at);
    device->ranges.count = older + taken;
    device->base_ranges = older;
    for (size_t i = 0; i < older; i++)
        device->base_range_bytes += r->older.at[i].bytes;
    for (size_t i = 0; i < r->events.count; i++) {
        struct mp_pytorch_range_event event = r->events.at[i];
        event.range = event.range >= OLDER ? event.range - OLDER : event.range + (uint32_t)older;
        mp_vec_add(&device->range_events, event);
    }
}

void mp_pytorch_replay(struct mp_pytorch_records *records, struct mp_pytorch_device *device)
{
    struct replay r = {.records = records, .device = device};
    device->free_action = find_free_action(records, device);
    replay_trace(&r);
    judge_stacks(&r);
    meet_segments(&r);
    join_ranges(&r);
    find_annotated(&r);
    tdestroy(r.ranges, free);
    tdestroy(r.listed, free);
    mp_map_free(&r.live);
    mp_map_free(&r.waiting);
    mp_vec_free(&r.older);
    mp_vec_free(&r.events);
    mp_vec_free(&r.taken);
    mp_vec_free(&r.annotations);
}

void mp_pytorch_device_free(struct mp_pytorch_device *device)
{
    mp_vec_free(&device->trace);
    mp_vec_free(&device->segments);
    mp_vec_free(&device->base);
    mp_vec_free(&device->ranges);
    mp_vec_free(&device->range_events);
    mp_vec_free(&device->missed);
    mp_vec_free(&device->requested);
    mp_vec_free(&device->parts);
}
