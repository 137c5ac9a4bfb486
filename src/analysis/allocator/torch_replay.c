#include "analysis/allocator/torch_replay.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/units.h"

/* A running replay. One thread at a time. */

struct mp_torch_player {
    const struct mp_model *model;
    const struct mp_torch_history *history;
    struct mp_torch_history *noted; /* the same history, in a replay of the recording */
    struct mp_torch_allocator *allocator;
    struct mp_torch_settings settings; /* now */
    struct mp_torch_replay *replay;
    uint32_t *ids;           /* by block of the model: the allocator's id, or MP_TORCH_NO_BLOCK */
    MP_VEC(uint32_t) owners; /* by the allocator's id: the model's block */
    MP_VEC(uint32_t) begun;  /* by pool: number of its begins */
    MP_VEC(uint32_t) open;   /* by pool: number of its uses by the program now, from the marks */
    MP_VEC(uint32_t) late;   /* blocks whose requested free the recording completes during the next call */
    uint64_t most;           /* reserved bytes beyond which the replay stops. 0: unlimited */
    mp_torch_watch *watch;   /* NULL: none */
    void *context;           /* argument for `watch` */
    bool recorded;
    bool own_limit;             /* the replay has its own limit, which the program's calls do not change */
    bool probing, probe_failed; /* a call is being tried on a copy of the allocator; the try did something that the
                                 * recording lacks */
    uint32_t probes;
    uint32_t step;               /* under way */
    uint32_t script, script_end; /* range of steps with the recording's next steps about segments */
};

static void torch_differ(struct mp_torch_player *p, const char *format, ...)
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

/* Notes the model's block for an allocator's block. */
static void torch_own(struct mp_torch_player *p, uint32_t block, uint32_t id)
{
    if (id == MP_TORCH_NO_BLOCK) return;
    while (p->owners.count <= id)
        mp_vec_add(&p->owners, (uint32_t)MP_NONE);
    p->owners.at[id] = block;
    if (block != MP_NONE) p->ids[block] = id;
}

/* `is_new`: the request did not fail in the recording. */
static void torch_count_oom(struct mp_torch_player *p, bool is_new)
{
    p->replay->ooms++;
    p->replay->new_ooms += is_new;
    p->replay->last_oom = p->step;
}

/* Adds the base's blocks in [address, end), and the free blocks between them: a run of memory. */
static void fill(const struct mp_torch_history *history, size_t *next, uint64_t address, uint64_t end,
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
        mp_vec_add(&to->listing.blocks, block);
        mp_vec_add(&to->owners, here ? base->block : (uint32_t)MP_NONE);
        address = limit;
    }
}

/* Adds an expandable segment: its runs of mapped pages, with no memory between them. */
static void fill_expandable(const struct mp_torch_history *history, const struct mp_torch_segment *segment,
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
            fill(history, next, address, limit, to);
            address = limit;
            continue;
        }
        bool mine = mapped && mapped->address < end && mapped->stream == segment->stream &&
                    mapped->pool == segment->pool && mapped->small == segment->small;
        uint64_t limit = mine ? mapped->address : end;
        const struct mp_torch_block block = {.address = address, .bytes = limit - address, .state = MP_TORCH_UNMAPPED};
        mp_vec_add(&to->listing.blocks, block);
        mp_vec_add(&to->owners, (uint32_t)MP_NONE);
        address = limit;
    }
}

/* The recording's first state. With other settings, the same blocks at other addresses. */
static void torch_begin_recorded(struct mp_torch_player *p)
{
    const struct mp_torch_history *history = p->history;
    struct mp_torch_moment parts = {0};
    MP_VEC(uint32_t) ids = {0};
    size_t next = 0, run = 0;
    for (size_t i = 0; i < history->segments.count; i++) {
        const struct mp_torch_segment *segment = &history->segments.at[i];
        parts.listing.blocks.count = parts.owners.count = ids.count = 0;
        if (segment->expandable)
            fill_expandable(history, segment, &next, &run, &parts);
        else
            fill(history, &next, segment->address, segment->address + segment->bytes, &parts);
        size_t count = parts.listing.blocks.count;
        mp_vec_grow_to(&ids, count);
        mp_torch_restore(p->allocator, segment, parts.listing.blocks.at, count, ids.at);
        for (size_t k = 0; k < count; k++)
            if (parts.owners.at[k] != MP_NONE) torch_own(p, parts.owners.at[k], ids.at[k]);
    }
    for (size_t i = 0; i < history->base.count; i++)
        if (!history->base.at[i].bytes)
            torch_differ(p, "a block at 0x%" PRIx64 " from before the trace lies in no segment",
                         history->base.at[i].address);
    mp_torch_moment_free(&parts);
    mp_vec_free(&ids);
}

static void torch_begin_anew(struct mp_torch_player *p)
{
    for (size_t i = 0; i < p->history->base.count; i++) {
        const struct mp_torch_base *base = &p->history->base.at[i];
        uint32_t id;
        enum mp_torch_result result = mp_torch_malloc(p->allocator, base->requested, base->stream, base->pool, &id);
        if (result == MP_TORCH_OOM) torch_count_oom(p, true);
        if (result == MP_TORCH_DONE) torch_own(p, base->block, id);
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
            torch_differ(
                p, "the segment at 0x%" PRIx64 " has %zu blocks at the end of the replay, but other ones in the record",
                segment->address, segment->block_count);
            return;
        }
        ++*part;
        p->replay->parts++;
        bool same = block->state == MP_TORCH_FREE || block->requested == with->requested;
        if (block->bytes != with->bytes || block->state != with->state || !same)
            torch_differ(p,
                         "at the end the block at 0x%" PRIx64 " has %" PRIu64 " bytes (state %u, %" PRIu64
                         " requested) in the replay, %" PRIu64 " (%u, %" PRIu64 ") in the record",
                         address, block->bytes, block->state, block->requested, with->bytes, with->state,
                         with->requested);
        address += block->bytes;
    }
    if (*part < model->parts.count && model->parts.at[*part].segment == recorded)
        torch_differ(p, "the segment at 0x%" PRIx64 " has more than %zu blocks at the end of the record",
                     segment->address, segment->block_count);
}

struct place {
    uint64_t address;
    uint32_t segment; /* of the model */
};

MP_ORDER(by_address, struct place, MP_RISING(address))

/* Counts blocks that the trace leaves live, but that lie in no segment at the end. */
static void count_unfreed(struct mp_torch_player *p)
{
    const struct mp_model *model = p->model;
    struct mp_map held = {0};
    uint64_t address = 0;
    for (size_t i = 0; i < model->parts.count; address += model->parts.at[i++].bytes) {
        const struct mp_segment *segment = &model->segments.at[model->parts.at[i].segment];
        if (!i || model->parts.at[i - 1].segment != model->parts.at[i].segment) address = segment->address;
        bool holds = model->parts.at[i].state == MP_TORCH_ALLOCATED || model->parts.at[i].state == MP_TORCH_PENDING;
        if (segment->track == p->history->track && holds) mp_map_at(&held, address + 1, NULL);
    }
    for (uint32_t i = 0; i < model->blocks.count; i++)
        p->replay->unfreed += model->blocks.track[i] == p->history->track && model->blocks.free_event[i] == MP_NONE &&
                              !mp_map_find(&held, model->blocks.address[i] + 1);
    mp_map_free(&held);
}

/* Compares the end of the replay with the segments in the file. */
static void torch_compare_end(struct mp_torch_player *p, const struct mp_torch_listing *listing)
{
    const struct mp_model *model = p->model;
    uint64_t before = p->replay->differences;
    MP_VEC(struct place) order = {0};
    for (uint32_t i = 0; i < model->segments.count; i++) {
        const struct place place = {model->segments.at[i].address, i};
        if (model->segments.at[i].track != p->history->track || (model->segments.at[i].keys & MP_ROW_OVERLAPS))
            continue;
        mp_vec_add(&order, place);
    }
    size_t *first = mp_alloc_zeroed(model->segments.count + 1, sizeof *first); /* first part of each segment */
    for (size_t i = model->parts.count; i--;)
        first[model->parts.at[i].segment] = i;
    if (order.count) qsort(order.at, order.count, sizeof *order.at, by_address);
    size_t common = order.count < listing->segments.count ? order.count : listing->segments.count;
    for (size_t i = 0; i < common; i++) {
        const struct mp_torch_segment *segment = &listing->segments.at[i];
        const struct mp_segment *with = &model->segments.at[order.at[i].segment];
        if (segment->address != with->address || segment->bytes != with->bytes || segment->stream != with->stream ||
            p->history->pools.at[segment->pool] != with->pool || segment->small != with->small) {
            torch_differ(p,
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
        torch_differ(p, "%zu segments at the end of the replay, %zu in the record", listing->segments.count,
                     order.count);
    p->replay->differences_at_end = p->replay->differences - before;
    if (p->replay->differences_at_end) count_unfreed(p);
    mp_vec_free(&order);
    free(first);
}

#define OTHER_STREAM (UINT64_MAX - 1)    /* stands for all streams that use a block; its work never ends */
#define PROBES       100000              /* in one replay, so that no file takes for ever */
#define TOTAL        ((uint64_t)1 << 40) /* for an unknown device: its address space never runs out */

static const char *name_of(unsigned action)
{
    static const char *const names[MP_TORCH_ACTIONS] = {
        "alloc",        "free_requested", "free_completed", "segment_alloc",
        "segment_free", "segment_map",    "segment_unmap",  "oom"};
    return names[action];
}

static bool is_about_segments(const struct mp_torch_step *step)
{
    return step->action >= MP_TORCH_SEGMENT_ALLOC && step->action <= MP_TORCH_SEGMENT_UNMAP;
}

static const struct mp_torch_step *next_of_script(struct mp_torch_player *p)
{
    while (p->script < p->script_end && !is_about_segments(&p->history->steps.at[p->script]))
        p->script++;
    return p->script < p->script_end ? &p->history->steps.at[p->script] : NULL;
}

static bool give_segment(void *context, uint64_t bytes, uint64_t *address)
{
    struct mp_torch_player *p = context;
    const struct mp_torch_step *next = next_of_script(p);
    if (!next || next->action != MP_TORCH_SEGMENT_ALLOC || next->bytes != bytes) return false;
    *address = next->address;
    return true;
}

static bool give_room(void *context, uint64_t bytes, uint64_t page, uint64_t *address)
{
    struct mp_torch_player *p = context;
    const struct mp_torch_step *next = next_of_script(p);
    (void)bytes, (void)page;
    if (!next || next->action != MP_TORCH_SEGMENT_MAP) return false;
    *address = next->address;
    return true;
}

static bool give_pages(void *context, uint64_t address, uint64_t bytes)
{
    struct mp_torch_player *p = context;
    const struct mp_torch_step *next = next_of_script(p);
    return next && next->action == MP_TORCH_SEGMENT_MAP && next->address == address && next->bytes == bytes;
}

static void meet_segment_event(struct mp_torch_player *p, const struct mp_torch_event *event)
{
    const struct mp_torch_step *next = next_of_script(p);
    if (next && next->action == event->action && next->address == event->address && next->bytes == event->bytes) {
        p->script++;
        p->replay->segment_events += !p->probing;
        return;
    }
    if (p->probing)
        p->probe_failed = true;
    else if (next)
        torch_differ(
            p,
            "%s of %" PRIu64 " bytes at 0x%" PRIx64 " in the replay, %s of %" PRIu64 " at 0x%" PRIx64 " in the record",
            name_of(event->action), event->bytes, event->address, name_of(next->action), next->bytes, next->address);
    else
        torch_differ(p, "%s of %" PRIu64 " bytes at 0x%" PRIx64 " in the replay, none in the record",
                     name_of(event->action), event->bytes, event->address);
}

/* Blocks' ids are reused, so a freed block must lose its id. */
static void on_event(void *context, const struct mp_torch_event *event)
{
    struct mp_torch_player *p = context;
    bool gains = event->action == MP_TORCH_SEGMENT_ALLOC || event->action == MP_TORCH_SEGMENT_MAP;
    p->replay->driver_calls += gains && !p->probing;
    if (event->action == MP_TORCH_FREE_COMPLETED) {
        if (!p->probing && event->block < p->owners.count && p->owners.at[event->block] != MP_NONE)
            p->ids[p->owners.at[event->block]] = MP_TORCH_NO_BLOCK;
    } else if (p->recorded && event->action >= MP_TORCH_SEGMENT_ALLOC && event->action <= MP_TORCH_SEGMENT_UNMAP) {
        meet_segment_event(p, event);
    }
}

static bool gives_back(const struct mp_torch_step *step)
{
    return step->action == MP_TORCH_SEGMENT_FREE || step->action == MP_TORCH_SEGMENT_UNMAP;
}

/* True if the recording returns segments to the driver now. A private pool returns its segments only after its last
 * use. */
static bool release_pools(struct mp_torch_player *p)
{
    bool any = false;
    for (uint32_t i = p->script; i < p->script_end; i++) {
        const struct mp_torch_step *step = &p->history->steps.at[i];
        if (!gives_back(step)) continue;
        any = true;
        for (; step->pool < p->begun.count && p->begun.at[step->pool]; p->begun.at[step->pool]--)
            mp_torch_pool_release(p->allocator, step->pool);
    }
    return any;
}

/* A deleted MemPool returns only its own segments. If the recording returns others, too, or first segments of the
 * default pool, the program emptied the cache. */
static void give_back(struct mp_torch_player *p)
{
    const struct mp_torch_step *next;
    for (uint32_t seen = MP_NONE; (next = next_of_script(p)) && next->pool && p->script != seen;) {
        seen = p->script;
        mp_torch_empty_pool(p->allocator, next->pool);
    }
    if (!next) return;
    if (!p->probing) mp_vec_add(&p->noted->emptied, p->step);
    mp_torch_empty_cache(p->allocator);
}

/* A private pool allocates only in a capture of a graph, while the program uses the pool, or while PyTorch restores
 * it. */
static enum mp_torch_result ask(struct mp_torch_player *p, const struct mp_torch_step *step, uint32_t *id)
{
    bool open = step->pool < p->open.count && p->open.at[step->pool];
    if (!step->pool || open || step->put_back)
        return mp_torch_malloc(p->allocator, step->bytes, step->stream, step->pool, id);
    mp_vec_grow_to(&p->begun, (size_t)step->pool + 1);
    if (!p->probing) p->begun.at[step->pool]++;
    mp_torch_pool_begin(p->allocator, step->pool, MP_TORCH_ANY_STREAM);
    enum mp_torch_result result = mp_torch_malloc(p->allocator, step->bytes, step->stream, step->pool, id);
    mp_torch_pool_end(p->allocator, step->pool);
    return result;
}

static void complete_late(struct mp_torch_player *p)
{
    for (size_t i = 0; i < p->late.count; i++) {
        uint32_t id = p->ids[p->late.at[i]];
        if (id != MP_TORCH_NO_BLOCK) mp_torch_complete(p->allocator, id);
    }
}

/* The recording returns segments and then allocates a block, or fails to. Three courses of events explain it.
 * COURSE_REQUEST: frees waiting for streams were completed before the request. COURSE_WAITING: the request found no
 * memory, and itself waited for all streams. COURSE_EMPTIED: the program emptied the cache before the request. */
enum course { COURSE_REQUEST, COURSE_WAITING, COURSE_EMPTIED, COURSES };

static enum mp_torch_result take_course(struct mp_torch_player *p, const struct mp_torch_step *step, enum course course,
                                        uint32_t *id)
{
    if (course != COURSE_WAITING) complete_late(p);
    if (course == COURSE_EMPTIED) give_back(p);
    return ask(p, step, id);
}

/* True if the course, tried on a copy of the allocator, leads to the recording's next events. */
static bool leads_there(struct mp_torch_player *p, const struct mp_torch_step *step, enum course course)
{
    struct mp_torch_allocator *kept = p->allocator;
    uint32_t script = p->script, id = MP_TORCH_NO_BLOCK;
    p->allocator = mp_torch_allocator_copy(kept);
    p->probing = true;
    p->probe_failed = false;
    enum mp_torch_result result = take_course(p, step, course, &id);
    bool there = !p->probe_failed && !next_of_script(p);
    if (step->action == MP_TORCH_OUT_OF_MEMORY)
        there = there && result == MP_TORCH_OOM;
    else
        there = there && result == MP_TORCH_DONE && mp_torch_block_address(p->allocator, id) == step->address;
    for (size_t i = 0; there && i < p->late.count; i++) {
        uint32_t late = p->ids[p->late.at[i]];
        there = late == MP_TORCH_NO_BLOCK || mp_torch_block_state(p->allocator, late) != MP_TORCH_PENDING;
    }
    mp_torch_allocator_free(p->allocator);
    p->allocator = kept;
    p->probing = false;
    p->script = script;
    return there;
}

static enum course find_course(struct mp_torch_player *p, const struct mp_torch_step *step)
{
    if (!p->recorded) return COURSE_REQUEST;
    bool in_doubt = release_pools(p) || (p->late.count && step->action == MP_TORCH_OUT_OF_MEMORY);
    if (!in_doubt || p->probes++ > PROBES) return COURSE_REQUEST;
    for (enum course course = COURSE_REQUEST; course < COURSES; course++)
        if (leads_there(p, step, course)) return course;
    return COURSE_REQUEST;
}

static void compare_alloc(struct mp_torch_player *p, const struct mp_torch_step *step, bool found, uint64_t address)
{
    bool was_oom = step->action == MP_TORCH_OUT_OF_MEMORY;
    if (found && was_oom)
        torch_differ(p, "%" PRIu64 " bytes at 0x%" PRIx64 " in the replay, out of memory in the record", step->bytes,
                     address);
    else if (!found && !was_oom)
        torch_differ(p, "out of memory in the replay, %" PRIu64 " bytes at 0x%" PRIx64 " in the record", step->bytes,
                     step->address);
    else if (found && step->bytes && address != step->address)
        torch_differ(p, "%" PRIu64 " bytes at 0x%" PRIx64 " in the replay, at 0x%" PRIx64 " in the record", step->bytes,
                     address, step->address);
}

static void play_alloc(struct mp_torch_player *p, const struct mp_torch_step *step)
{
    uint32_t id;
    enum mp_torch_result result = take_course(p, step, find_course(p, step), &id);
    bool found = result == MP_TORCH_DONE;
    p->replay->allocs += step->action == MP_TORCH_ALLOC;
    if (!found) torch_count_oom(p, step->action == MP_TORCH_ALLOC);
    if (p->recorded) compare_alloc(p, step, found, mp_torch_block_address(p->allocator, id));
    if (found && step->action == MP_TORCH_OUT_OF_MEMORY)
        mp_torch_free(p->allocator, id);
    else if (found)
        torch_own(p, step->block, id);
    complete_late(p);
}

static uint32_t id_of(const struct mp_torch_player *p, const struct mp_torch_step *step)
{
    return step->block == MP_NONE ? MP_TORCH_NO_BLOCK : p->ids[step->block];
}

static void play_free(struct mp_torch_player *p, const struct mp_torch_step *step)
{
    uint32_t id = id_of(p, step);
    if (id == MP_TORCH_NO_BLOCK) return;
    if (step->action == MP_TORCH_FREE_REQUESTED)
        mp_torch_record_stream(p->allocator, id, OTHER_STREAM);
    else
        mp_torch_complete(p->allocator, id); /* its free was requested before */
    if (p->ids[step->block] == id) mp_torch_free(p->allocator, id);
}

static void play_limit(struct mp_torch_player *p, double limit)
{
    if (!p->own_limit) p->settings.fraction = limit;
    mp_torch_set(p->allocator, &p->settings);
}

static void play_settings(struct mp_torch_player *p, const char *text)
{
    double own = p->settings.fraction;
    mp_torch_settings_change(&p->settings, text);
    if (p->own_limit) p->settings.fraction = own;
    mp_torch_set(p->allocator, &p->settings);
}

/* Replays a call that allocates nothing. */
static void play_call(struct mp_torch_player *p, const struct mp_torch_step *step)
{
    struct mp_torch_allocator *a = p->allocator;
    uint32_t pool = step->pool;
    mp_vec_grow_to(&p->open, (size_t)pool + 1);
    switch (step->action - MP_TORCH_CALL) {
    case MP_TORCH_CALL_EMPTY:
        mp_torch_empty_cache(a);
        break;
    case MP_TORCH_CALL_POOL_MADE:
        mp_torch_pool_hold(a, pool);
        mp_torch_pool_set(a, pool, (unsigned)step->bytes);
        break;
    case MP_TORCH_CALL_POOL_BEGINS:
        p->open.at[pool]++;
        mp_torch_pool_begin(a, pool, MP_TORCH_ANY_STREAM);
        break;
    case MP_TORCH_CALL_POOL_ENDS:
        if (p->open.at[pool]) p->open.at[pool]--;
        mp_torch_pool_end(a, pool);
        break;
    case MP_TORCH_CALL_POOL_RELEASED:
        mp_torch_pool_release(a, pool);
        break;
    case MP_TORCH_CALL_POOL_DELETED:
        mp_torch_pool_release(a, pool);
        mp_torch_empty_pool(a, pool);
        break;
    case MP_TORCH_CALL_LIMIT:
        play_limit(p, p->history->limits.at[step->bytes]);
        break;
    case MP_TORCH_CALL_SETTINGS:
        play_settings(p, p->history->changes.at[step->bytes]);
        break;
    }
}

/* If no request is running, the program itself returned the segments. */
static void end_script(struct mp_torch_player *p)
{
    complete_late(p);
    if (release_pools(p)) give_back(p);
}

/* Skips the recording's steps about segments that the replay did not make. */
static void end_call(struct mp_torch_player *p)
{
    for (const struct mp_torch_step *next; (next = next_of_script(p)); p->script++)
        torch_differ(p, "%s of %" PRIu64 " bytes at 0x%" PRIx64 " in the record, not in the replay",
                     name_of(next->action), next->bytes, next->address);
    p->script = p->script_end = p->step + 1;
    p->late.count = 0;
}

/* True if a step of the recording belongs to the next call: the call's segments, and frees that waited for streams and
 * are completed in it. */
static bool belongs_to_next(struct mp_torch_player *p, const struct mp_torch_step *step)
{
    bool late = step->action == MP_TORCH_FREE_COMPLETED &&
                mp_torch_block_state(p->allocator, id_of(p, step)) == MP_TORCH_PENDING;
    if (late) mp_vec_add(&p->late, step->block);
    p->script_end = p->step + 1;
    return late || is_about_segments(step);
}

static bool is_too_much(struct mp_torch_player *p)
{
    p->replay->given_up = p->most && mp_torch_stats(p->allocator)->peak_reserved > p->most;
    return p->replay->given_up;
}

static void tell(struct mp_torch_player *p, size_t step)
{
    const struct mp_torch_stats *stats = mp_torch_stats(p->allocator);
    if (p->watch) p->watch(p->context, step, stats->allocated, stats->reserved);
}

static void play(struct mp_torch_player *p, uint32_t until)
{
    const struct mp_torch_history *history = p->history;
    size_t end = until < history->steps.count ? until : history->steps.count, emptied = 0;
    tell(p, MP_TORCH_BEFORE_STEPS);
    for (p->step = 0; p->step < end && !is_too_much(p); p->step++) {
        const struct mp_torch_step *step = &history->steps.at[p->step];
        bool asks = step->action == MP_TORCH_ALLOC || step->action == MP_TORCH_OUT_OF_MEMORY;
        if (p->recorded ? belongs_to_next(p, step) : is_about_segments(step)) continue;
        for (; !p->recorded && emptied < history->emptied.count && history->emptied.at[emptied] <= p->step; emptied++)
            mp_torch_empty_cache(p->allocator);
        if (step->action >= MP_TORCH_CALL) {
            play_call(p, step);
            tell(p, p->step);
            continue;
        }
        if (!p->recorded && step->was_free) continue; /* other settings leave other blocks free */
        if (asks) play_alloc(p, step);
        if (p->recorded && !asks) end_script(p);
        if (p->recorded) end_call(p);
        if (!asks) play_free(p, step);
        tell(p, p->step);
    }
    if (!p->recorded) return;
    end_script(p);
    end_call(p);
}

static void start(struct mp_torch_player *p, const struct mp_torch_settings *settings, uint64_t capacity,
                  uint64_t total)
{
    static const struct mp_torch_hooks none;
    struct mp_torch_hooks hooks = none;
    hooks.context = p;
    hooks.event = on_event;
    if (p->recorded) {
        hooks.allocate = give_segment;
        hooks.reserve = give_room;
        hooks.map = give_pages;
    }
    *p->replay = (struct mp_torch_replay){.last_oom = MP_NONE};
    p->settings = *settings;
    p->own_limit = settings->fraction > 0;
    p->allocator = mp_torch_allocator_new(settings, capacity, total, &hooks);
    size_t blocks = p->model->blocks.count + p->history->made_up;
    p->ids = mp_alloc((blocks + 1) * sizeof *p->ids);
    for (size_t i = 0; i < blocks; i++)
        p->ids[i] = MP_TORCH_NO_BLOCK;
}

static void finish(struct mp_torch_player *p)
{
    const struct mp_torch_stats *stats = mp_torch_stats(p->allocator);
    p->replay->reserved_peak = stats->peak_reserved;
    p->replay->allocated_peak = stats->peak_allocated;
    p->replay->retries = stats->retries;
    mp_torch_allocator_free(p->allocator);
    mp_vec_free(&p->owners);
    mp_vec_free(&p->begun);
    mp_vec_free(&p->open);
    mp_vec_free(&p->late);
    free(p->ids);
}

static void list(struct mp_torch_player *p, struct mp_torch_moment *moment)
{
    mp_torch_list(p->allocator, &moment->listing);
    mp_vec_each (const struct mp_torch_block, block, &moment->listing.blocks) {
        bool owned = block->state != MP_TORCH_FREE && block->id < p->owners.count;
        mp_vec_add(&moment->owners, owned ? p->owners.at[block->id] : (uint32_t)MP_NONE);
    }
}

static void replay_recorded(const struct mp_model *model, struct mp_torch_history *history, uint32_t until,
                            struct mp_torch_moment *moment, struct mp_torch_replay *replay)
{
    struct mp_torch_player p = {
        .model = model, .history = history, .noted = history, .replay = replay, .recorded = true};
    struct mp_torch_moment own_moment = {0};
    history->emptied.count = 0;
    start(&p, &history->settings, MP_TORCH_UNLIMITED, TOTAL);
    torch_begin_recorded(&p);
    play(&p, until);
    list(&p, moment ? moment : &own_moment);
    if (until >= history->steps.count) torch_compare_end(&p, moment ? &moment->listing : &own_moment.listing);
    mp_torch_moment_free(&own_moment);
    finish(&p);
}

/* No file says in which order PyTorch takes free blocks. So both orders are tried, and the one that agrees better with
 * the recording counts. */
void mp_torch_replay_recorded(const struct mp_model *model, struct mp_torch_history *history, uint32_t until,
                              struct mp_torch_moment *moment, struct mp_torch_replay *replay)
{
    uint64_t differences = UINT64_MAX;
    for (unsigned tries = 0; tries < 3; tries++) {
        if (moment) mp_torch_moment_free(moment);
        if (moment) *moment = (struct mp_torch_moment){0};
        replay_recorded(model, history, until, moment, replay);
        if (!replay->differences || (tries == 1 && replay->differences < differences)) return;
        differences = replay->differences;
        if (tries < 2) history->settings.oldest_first = !history->settings.oldest_first;
    }
}

static void replay_anew(struct mp_torch_player *p, const struct mp_torch_settings *settings, uint64_t capacity,
                        uint64_t total, uint32_t until)
{
    start(p, settings, capacity, total);
    torch_begin_anew(p);
    play(p, until);
    (void)is_too_much(p);
    finish(p);
}

void mp_torch_replay_with(const struct mp_model *model, const struct mp_torch_history *history,
                          const struct mp_torch_settings *settings, uint64_t capacity, uint64_t total, uint32_t until,
                          struct mp_torch_replay *replay)
{
    struct mp_torch_player p = {.model = model, .history = history, .replay = replay};
    replay_anew(&p, settings, capacity, total, until);
}

void mp_torch_replay_watched(const struct mp_model *model, const struct mp_torch_history *history,
                             const struct mp_torch_settings *settings, uint64_t capacity, uint64_t total,
                             mp_torch_watch *watch, void *context, struct mp_torch_replay *replay)
{
    struct mp_torch_player p = {
        .model = model, .history = history, .replay = replay, .watch = watch, .context = context};
    replay_anew(&p, settings, capacity, total, MP_TORCH_TO_THE_END);
}

void mp_torch_replay_below(const struct mp_model *model, const struct mp_torch_history *history,
                           const struct mp_torch_settings *settings, uint64_t capacity, uint64_t total, uint64_t most,
                           struct mp_torch_replay *replay)
{
    struct mp_torch_player p = {.model = model, .history = history, .replay = replay, .most = most};
    replay_anew(&p, settings, capacity, total, MP_TORCH_TO_THE_END);
}

void mp_torch_moment_free(struct mp_torch_moment *moment)
{
    mp_torch_listing_free(&moment->listing);
    mp_vec_free(&moment->owners);
}
