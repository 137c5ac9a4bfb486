#include "analysis/allocator/frag.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/allocator/torch_room.h"
#include "analysis/device/device_free.h"
#include "analysis/device/plan.h"
#include "analysis/leaks/leaks.h"
#include "analysis/sites/level.h"
#include "analysis/sites/placement.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/search.h"
#include "base/words.h"
#include "model/steps_infer.h"
#include "model/track.h"

/* The autopsy of an out-of-memory: its cause, and the settings that would have fitted it. */

/* The settings to try, in this order: the smallest change first. PyTorch before 2.9 refuses a max_split_size_mb of
 * 20. */
static const char *const remedies[] = {
    "expandable_segments:True",   "max_split_size_mb:512",
    "max_split_size_mb:256",      "max_split_size_mb:128",
    "max_split_size_mb:64",       "max_split_size_mb:21",
    "roundup_power2_divisions:8", "expandable_segments:True,roundup_power2_divisions:8",
};

static const struct mp_torch_step *step_of(const struct mp_torch_history *history, uint32_t event, uint32_t *index)
{
    for (*index = 0; *index < history->steps.count; ++*index)
        if (history->steps.at[*index].event == event) return &history->steps.at[*index];
    return NULL;
}

/* The device's memory for the allocator when memory ran out: reserved plus free bytes. If the free bytes are unknown,
 * only the reserved bytes count. A setting that fits into these also fits into more; one that does not fit proves
 * nothing. */
static uint64_t frag_capacity(const struct mp_frag *frag)
{
    uint64_t free_bytes = frag->oom.device_free == MP_BYTES_UNKNOWN ? 0 : frag->oom.device_free;
    return frag->reserved + free_bytes / MP_TORCH_PAGE * MP_TORCH_PAGE;
}

/* Leaves out a setting that PyTorch refuses in combination with the program's own: a max_split_size_mb below the size
 * of a large segment. */
static void try_remedies(const struct mp_model *model, const struct mp_torch_history *history, uint32_t step,
                         struct mp_frag *frag)
{
    uint64_t capacity = frag_capacity(frag);
    frag->oom.tried = true;
    for (size_t i = 0; i < sizeof remedies / sizeof *remedies; i++) {
        struct mp_torch_settings settings = history->settings;
        struct mp_torch_replay replay;
        if (mp_torch_settings_parse(&settings, remedies[i], NULL)) continue;
        if (!memcmp(&settings, &history->settings, sizeof settings)) continue;
        mp_torch_replay_with(model, history, &settings, capacity, capacity, step + 1, &replay);
        if (!replay.new_ooms && replay.last_oom != step) mp_vec_add(&frag->oom.would_fit, remedies[i]);
    }
    if (frag->oom.device_free == MP_BYTES_UNKNOWN && !frag->oom.would_fit.count) frag->oom.tried = false;
}

/* Growth on this track that went on until the out-of-memory. */
struct growth {
    uint64_t leaking; /* bytes of leaks */
    uint64_t grown;   /* and of what may be none, or was kept again and again after the last step */
    double each_step; /* by which these grew in a step */
};

static enum mp_status find_growth(const struct mp_model *model, const struct mp_frag *frag, struct growth *growth,
                                  struct mp_error *error)
{
    struct mp_window window = {.last = frag->events, .to_ns = frag->ns};
    const struct mp_leaks_query query = {
        frag->track, window, {.by = MP_GROUP_STACK, .sort = MP_SORT_GROWTH}, NULL, NULL};
    struct mp_leaks leaks;
    enum mp_status status = mp_leaks_find(model, &query, &leaks, error);
    if (status) return status;
    mp_vec_each (const struct mp_leak_finding, finding, &leaks.findings) {
        bool leaks_on = mp_leak_is_leak(finding);
        if (finding->track != frag->track || (!leaks_on && finding->why.test != MP_LEAK_BY_REST)) continue;
        growth->grown += finding->bytes;
        growth->each_step += finding->bytes_per_step;
        growth->leaking += leaks_on && finding->confidence != MP_LEAK_POSSIBLE ? finding->bytes : 0;
    }
    mp_leaks_free(&leaks);
    return MP_OK;
}

static uint64_t total_of(const struct mp_model *model, uint16_t track)
{
    return model->devices.at[model->tracks.at[track].device].total_bytes;
}

/* Free bytes in the allocator's segments, of all streams and pools; MP_BYTES_UNKNOWN. */
static uint64_t free_inside(const struct mp_model *model, const struct mp_frag *frag)
{
    if (frag->known) return frag->free_bytes;
    for (size_t i = model->noted.count; i--;) {
        uint32_t event = model->noted.at[i];
        if (event >= frag->oom.event || model->events.type[event] != MP_EVENT_RESERVED ||
            model->events.track[event] != frag->track)
            continue;
        uint64_t held = model->notes.at[i].bytes;
        return held > frag->allocated ? held - frag->allocated : 0;
    }
    return MP_BYTES_UNKNOWN;
}

/* Bytes of a planned program's own context and libraries, outside of its allocator; 0: it was not planned. */
static uint64_t planned_outside(const struct mp_model *model)
{
    struct mp_plan plan;
    mp_plan_find(model, &plan);
    uint64_t bytes = plan.planned ? plan.estimated_bytes : 0;
    mp_plan_free(&plan);
    return bytes;
}

/* The device's free memory when the request failed: from PyTorch's note, else from readings of the device. An early
 * reading lacks the context or what libraries take, for which a plan leaves room. A plan has a device of its own, and
 * needs no reading. */
static uint64_t free_outside(const struct mp_model *model, uint16_t track, uint32_t oom)
{
    struct mp_device_free room;
    mp_device_free_start(&room, model, mp_track_below(model, track));
    for (uint32_t event = 0; event <= oom; event++)
        mp_device_free_follow(&room, event);
    uint64_t now = mp_device_free_now(&room), planned = planned_outside(model), total = total_of(model, track);
    if (now == MP_BYTES_UNKNOWN && planned && total != MP_BYTES_UNKNOWN) {
        uint64_t used = room.handed_out.bytes + planned;
        return used < total ? total - used : 0;
    }
    if (now == MP_BYTES_UNKNOWN) return now;
    uint64_t beyond = room.total - room.handed_out.bytes - now;
    uint64_t left_out = planned > beyond ? planned - beyond : 0;
    return now > left_out ? now - left_out : 0;
}

/* The highest allocated bytes before the out-of-memory. */
static uint64_t highest_before(const struct mp_model *model, uint16_t track, uint32_t oom)
{
    struct mp_level level = mp_level_start(model, track);
    uint64_t highest = level.bytes;
    for (uint32_t event = 0; event < oom; event++) {
        mp_level_apply(&level, model, track, event);
        if (level.bytes > highest) highest = level.bytes;
    }
    return highest;
}

/* True if what grows would soon fill the memory. In the next step; or it is most of what is live, and a quarter of its
 * growth more is too much: an evaluation that keeps its graphs ran out at 91 % of the device, with 22 of them. */
static bool fills_soon(const struct growth *growth, uint64_t held, uint64_t further)
{
    enum { MOST = 2, AHEAD = 4 };
    return growth->each_step > (double)further || (growth->grown * MOST >= held && growth->grown / AHEAD >= further);
}

/* Finds whether live blocks alone fill the memory, or soon would. A program that had more live at an earlier time runs
 * on if the request finds a place. */
static void find_further(const struct mp_model *model, const struct growth *growth, struct mp_frag *frag)
{
    struct mp_frag_oom *oom = &frag->oom;
    oom->further = MP_BYTES_UNKNOWN;
    if (!frag->known || oom->device_free == MP_BYTES_UNKNOWN) return;
    uint64_t free_bytes = frag->free_bytes + oom->device_free, held = frag->reserved - frag->free_bytes;
    if (free_bytes < oom->requested) return;
    oom->further = free_bytes - oom->requested;
    bool rises = held + oom->requested > highest_before(model, frag->track, oom->event);
    oom->full =
        rises && (mp_torch_is_full(held, frag->reserved + oom->device_free) || fills_soon(growth, held, oom->further));
    oom->scarce = rises && oom->further < oom->requested;
}

/* Checks the causes in this order. Capacity: the device is smaller than the request. A limit: the device had room for
 * the segment, or an expandable segment may not grow that far. Fragmentation: the free bytes of all streams and pools
 * and of the device cover the request, and memory is not full; scarce memory leaves the cause unknown. A leak.
 * Fragmentation: a setting would fit the request. Another process. Capacity. `least` and `most` bound the device's free
 * memory if it is unknown: 0, and just below the segment that would have served the request. If less than half of the
 * request was free inside the allocator, the cause is capacity all the same. */
static void find_cause(const struct mp_model *model, const struct mp_torch_history *history,
                       const struct growth *growth, struct mp_frag *frag)
{
    struct mp_frag_oom *oom = &frag->oom;
    bool on_host = !strcmp(mp_track_device(model, frag->track), "cpu"), known = oom->device_free != MP_BYTES_UNKNOWN;
    uint64_t asked = mp_torch_segment_bytes(&history->settings, oom->requested);
    uint64_t total = total_of(model, frag->track), free_bytes = on_host ? 0 : free_inside(model, frag);
    uint64_t held = frag->known ? frag->reserved : frag->allocated;
    oom->exceeds_device = total != MP_BYTES_UNKNOWN && oom->requested > total;
    oom->cause = oom->exceeds_device ? MP_OOM_CAPACITY : MP_OOM_UNKNOWN;
    if (oom->exceeds_device || free_bytes == MP_BYTES_UNKNOWN) return;
    if (history->settings.expandable && oom->requested > MP_TORCH_SMALL)
        asked += history->settings.large_segment; /* an expandable segment grows by whole large segments */
    uint64_t least = known ? oom->device_free : 0, most = asked - 1, room = mp_torch_room(model, frag->track, held);
    if (room - held < most) most = room - held;
    bool bounded = history->settings.expandable && total != MP_BYTES_UNKNOWN &&
                   mp_torch_expandable_room(&history->settings, total, oom->requested) < oom->requested;
    if ((known && least >= asked) || bounded) {
        oom->cause = MP_OOM_LIMIT;
        return;
    }
    bool covered = free_bytes + least >= oom->requested;
    if (covered && !oom->full) {
        if (!oom->scarce) oom->cause = MP_OOM_FRAGMENTATION;
        return;
    }
    uint64_t missing = covered ? oom->requested : oom->requested - free_bytes - least;
    bool others_known = total != MP_BYTES_UNKNOWN && frag->known && known;
    uint64_t own = held + least + planned_outside(model);
    uint64_t others = others_known && total > own ? total - own : 0;
    if (growth->leaking >= missing)
        oom->cause = MP_OOM_LEAK;
    else if (oom->would_fit.count)
        oom->cause = MP_OOM_FRAGMENTATION;
    else if (others >= missing && others > total / 4)
        oom->cause = MP_OOM_OTHER_PROCESS;
    else if (known || oom->full || free_bytes + most < oom->requested || free_bytes < oom->requested / 2)
        oom->cause = MP_OOM_CAPACITY;
}

static void count_ooms(const struct mp_model *model, struct mp_frag *frag)
{
    struct mp_frag_oom *oom = &frag->oom;
    for (size_t i = 0; i < model->noted.count; i++) {
        uint32_t event = model->noted.at[i];
        if (model->events.type[event] != MP_EVENT_OOM || model->events.track[event] != frag->track) continue;
        if (!oom->times++) oom->first_ns = model->events.time_ns[event];
        if (model->notes.at[i].bytes > oom->most_requested) oom->most_requested = model->notes.at[i].bytes;
    }
}

/* Fills frag->oom, whose event is known. frag's moment must be that event. */
static enum mp_status frag_judge_oom(const struct mp_model *model, const struct mp_torch_history *history,
                                     struct mp_frag *frag, struct mp_error *error)
{
    struct mp_frag_oom *oom = &frag->oom;
    const struct mp_model_note *note = &model->notes.at[model->events.subject[oom->event]];
    uint32_t index;
    struct growth growth = {0};
    enum mp_status status = find_growth(model, frag, &growth, error);
    if (status) return status;
    const struct mp_torch_step *step = step_of(history, oom->event, &index);
    oom->ns = model->events.time_ns[oom->event];
    oom->requested = note->bytes;
    oom->stack = note->stack;
    oom->device_free = step && history->traced ? step->address : free_outside(model, frag->track, oom->event);
    count_ooms(model, frag);
    find_further(model, &growth, frag);
    if (step && frag->known && !oom->full) try_remedies(model, history, index, frag);
    find_cause(model, history, &growth, frag);
    if (oom->cause != MP_OOM_LIMIT) return MP_OK;
    oom->would_fit.count = 0;
    oom->full = false;
    oom->further = MP_BYTES_UNKNOWN;
    oom->tried = false;
    return MP_OK;
}

const char *mp_oom_cause_name(enum mp_oom_cause cause)
{
    static const char *const names[] = {"capacity", "fragmentation", "leak", "other_process", "limit", NULL};
    return names[cause];
}

/* The last out-of-memory of the track in the window. */
static uint32_t find_oom(const struct mp_model *model, const struct mp_frag_query *query)
{
    for (uint32_t event = query->window.last; event-- > query->window.first;)
        if (model->events.type[event] == MP_EVENT_OOM && model->events.track[event] == query->track) return event;
    return MP_NONE;
}

/* The number of events up to the highest reserved total, including the block that raised it. Without reserved totals,
 * the highest allocated total counts. */
static uint32_t find_highest(const struct mp_model *model, uint16_t track)
{
    uint64_t highest = 0;
    uint32_t at = model->sums.at[track].peak_event == MP_NONE ? 0 : model->sums.at[track].peak_event + 1;
    for (uint32_t event = 0; event < model->events.count; event++) {
        if (model->events.type[event] != MP_EVENT_RESERVED || model->events.track[event] != track) continue;
        uint64_t bytes = model->notes.at[model->events.subject[event]].bytes;
        if (bytes <= highest) continue;
        highest = bytes;
        at = event + 1;
    }
    for (uint32_t event = at; event < model->events.count; event++) {
        unsigned type = model->events.type[event];
        if (model->events.track[event] != track || (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE)) continue;
        return type == MP_EVENT_ALLOC ? event + 1 : at;
    }
    return at;
}

static uint64_t allocated_at(const struct mp_model *model, uint16_t track, uint32_t moment)
{
    if (moment >= model->events.count) return model->sums.at[track].end_bytes;
    struct mp_level level = mp_level_start(model, track);
    for (uint32_t event = 0; event < moment; event++)
        mp_level_apply(&level, model, track, event);
    return level.bytes;
}

/* The moment of the query. If the program freed everything at its end, it is the moment of the highest total. */
static void find_moment(const struct mp_model *model, const struct mp_frag_query *query,
                        struct mp_torch_history *history, struct mp_frag *frag)
{
    frag->moment = frag->oom.event == MP_NONE ? MP_FRAG_END : MP_FRAG_OOM;
    frag->events = frag->oom.event == MP_NONE ? query->window.last : frag->oom.event + 1;
    frag->known = mp_torch_layout_at(model, history, frag->events, &frag->layout);
    bool empty = !frag->known || !frag->layout.moment.listing.segments.count;
    if (empty && frag->moment == MP_FRAG_END && query->window.whole) {
        mp_torch_moment_free(&frag->layout.moment);
        frag->moment = MP_FRAG_PEAK;
        frag->events = find_highest(model, query->track);
        frag->known = mp_torch_layout_at(model, history, frag->events, &frag->layout);
    }
    if (!frag->known && frag->moment == MP_FRAG_PEAK) {
        frag->moment = MP_FRAG_END;
        frag->events = query->window.last;
    }
    frag->ns = frag->events >= model->events.count ? model->duration_ns
               : frag->events                      ? model->events.time_ns[frag->events - 1]
                                                   : 0;
}

static uint64_t largest_block(const struct mp_model *model, uint16_t track)
{
    uint64_t largest = 0;
    for (size_t i = 0; i < model->blocks.count; i++) {
        uint64_t bytes = model->blocks.bytes[i];
        if (model->blocks.track[i] == track && bytes != MP_BYTES_UNKNOWN && bytes > largest) largest = bytes;
    }
    return largest;
}

static void add_block(struct mp_frag *frag, struct mp_frag_segment *segment, const struct mp_torch_block *block)
{
    if (block->state == MP_TORCH_FREE) {
        frag->holes++;
        frag->free_bytes += block->bytes;
        if (block->bytes < frag->wanted) frag->unusable += block->bytes;
        if (block->bytes > segment->largest_free) segment->largest_free = block->bytes;
        return;
    }
    segment->held += block->bytes;
    if (block->state == MP_TORCH_ALLOCATED) segment->allocated += block->bytes;
    frag->requested += block->requested;
}

static void sum_up(const struct mp_torch_history *history, struct mp_frag *frag)
{
    const struct mp_torch_listing *listing = &frag->layout.moment.listing;
    bool exact = frag->layout.source != MP_LAYOUT_PLACED;
    for (size_t i = 0; i < listing->segments.count; i++) {
        const struct mp_torch_segment *from = &listing->segments.at[i];
        struct mp_frag_segment segment = {.address = from->address,
                                          .bytes = from->bytes,
                                          .stream = exact ? from->stream : MP_BYTES_UNKNOWN,
                                          .pool = exact ? history->pools.at[from->pool] : MP_BYTES_UNKNOWN,
                                          .small = from->small,
                                          .expandable = from->expandable,
                                          .first_block = from->first_block,
                                          .block_count = from->block_count};
        for (size_t k = 0; k < from->block_count; k++)
            add_block(frag, &segment, &listing->blocks.at[from->first_block + k]);
        frag->allocated += segment.allocated;
        frag->pending += segment.held - segment.allocated;
        frag->reserved += segment.bytes;
        if (!segment.held) frag->whole_free += segment.bytes;
        if (segment.largest_free > frag->largest_free) frag->largest_free = segment.largest_free;
        mp_vec_add(&frag->segments, segment);
    }
}

MP_ORDER(by_free_bytes, struct mp_frag_pin,
         MP_COMPARE(b->segment_bytes - b->held_bytes, a->segment_bytes - a->held_bytes) ?: MP_RISING(address))

static void add_pin(const struct mp_model *model, const struct mp_steps *steps, const struct mp_frag_segment *segment,
                    struct mp_frag *frag)
{
    const struct mp_torch_moment *moment = &frag->layout.moment;
    struct mp_frag_pin pin = {
        .address = segment->address, .segment_bytes = segment->bytes, .held_bytes = segment->held};
    struct mp_live_blocks live = {0};
    for (size_t i = segment->first_block; i < segment->first_block + segment->block_count; i++) {
        const struct mp_torch_block *block = &moment->listing.blocks.at[i];
        const struct mp_live_block held = {block->bytes, moment->owners.at[i]};
        if (block->state != MP_TORCH_FREE && held.block != MP_NONE) mp_vec_add(&live, held);
    }
    const struct mp_grouping grouping = {.by = MP_GROUP_STACK, .sort = MP_SORT_BYTES};
    mp_sites_make(model, &live, steps, &grouping, &pin.sites);
    mp_live_blocks_free(&live);
    mp_vec_add(&frag->pins, pin);
}

static void find_pins(const struct mp_model *model, struct mp_frag *frag)
{
    struct mp_steps steps = {0};
    mp_steps_find(model, &steps);
    for (size_t i = 0; i < frag->segments.count; i++) {
        const struct mp_frag_segment *segment = &frag->segments.at[i];
        if (segment->held && segment->held < segment->bytes / 2) add_pin(model, &steps, segment, frag);
    }
    mp_steps_free(&steps);
    if (frag->pins.count) qsort(frag->pins.at, frag->pins.count, sizeof *frag->pins.at, by_free_bytes);
}

/* The highest reserved total of the recording. */
static uint64_t recorded_peak(const struct mp_model *model, const struct mp_frag *frag)
{
    uint64_t peak = model->sums.at[frag->track].reserved_peak_bytes;
    return peak == MP_BYTES_UNKNOWN ? frag->reserved : peak;
}

static enum mp_status replay_recorded(const struct mp_model *model, struct mp_torch_history *history,
                                      struct mp_frag *frag, struct mp_error *error)
{
    if (!history->traced)
        return mp_fail(error, MP_UNSUPPORTED,
                       "there is no allocator's trace to replay: only PyTorch's snapshots have one, if "
                       "_record_memory_history() was on and the file does not contradict itself");
    frag->replay.recorded = true;
    mp_torch_replay_recorded(model, history, MP_TORCH_TO_THE_END, NULL, &frag->replay.result);
    return MP_OK;
}

static enum mp_status replay_settings(const struct mp_model *model, const struct mp_torch_history *history,
                                      const char *text, struct mp_frag *frag, struct mp_error *error)
{
    struct mp_frag_replay *replay = &frag->replay;
    struct mp_torch_settings settings = history->settings;
    struct mp_torch_replay same;
    enum mp_status status = mp_torch_settings_parse(&settings, text, error);
    if (status) return status;
    if (!history->steps.count && !history->base.count)
        return mp_fail(error, MP_UNSUPPORTED, "there is nothing to replay: the track has no blocks");
    uint64_t total = model->devices.at[model->tracks.at[frag->track].device].total_bytes;
    bool ran_out = frag->oom.event != MP_NONE && frag->known && frag->oom.device_free != MP_BYTES_UNKNOWN;
    uint64_t capacity = ran_out ? frag_capacity(frag) : mp_torch_room(model, frag->track, recorded_peak(model, frag));
    if (total == MP_BYTES_UNKNOWN) total = (uint64_t)1 << 40;
    replay->capacity = capacity;
    mp_torch_replay_with(model, history, &settings, capacity, total, MP_TORCH_TO_THE_END, &replay->result);
    mp_torch_replay_with(model, history, &history->settings, capacity, total, MP_TORCH_TO_THE_END, &same);
    uint64_t recorded = recorded_peak(model, frag);
    replay->recorded_reserved = recorded;
    replay->asked = history->asked;
    replay->compare_reserved = recorded && recorded < same.reserved_peak ? recorded : same.reserved_peak;
    for (size_t i = 0; i < history->base.count; i++)
        replay->base_bytes += history->base.at[i].requested;
    return MP_OK;
}

static enum mp_status find_replay(const struct mp_model *model, const struct mp_frag_query *query,
                                  struct mp_torch_history *history, struct mp_frag *frag, struct mp_error *error)
{
    const char *settings = query->replay;
    if (!settings && query->advise && history->traced && !history->settings.expandable)
        settings = "expandable_segments:True";
    if (!settings) return MP_OK;
    frag->replay.settings = mp_text_copy(settings);
    if (strcmp(settings, "recorded") != 0) return replay_settings(model, history, settings, frag, error);
    /* memprof's own recordings have no allocator trace, only blocks and marks, so their totals are compared. */
    bool is_reserved = model->sums.at[frag->track].reserved_peak_bytes != MP_BYTES_UNKNOWN;
    if (!history->traced && !model->calls.count && history->steps.count && is_reserved)
        return replay_settings(model, history, "", frag, error);
    return replay_recorded(model, history, frag, error);
}

/* ---- streams: bytes of the segments of one stream and pool. PyTorch's allocator gives them to no other stream or
 * pool. */

struct made {
    struct mp_frag_segment segment;
    uint64_t stream, largest; /* bytes of a block */
    uint32_t stack;
};

static struct mp_frag_segment *segment_of(struct mp_frag *frag, uint64_t address)
{
    size_t before = MP_COUNT_BEFORE(frag->segments.count, i, frag->segments.at[i].address <= address);
    struct mp_frag_segment *segment = before ? &frag->segments.at[before - 1] : NULL;
    return segment && address - segment->address < segment->bytes ? segment : NULL;
}

/* The largest block that ever lay in a segment counts as its cause. The last block shows the stream if the allocator
 * does not. */
static struct made *find_made(const struct mp_model *model, const struct mp_placements *placements,
                              struct mp_frag *frag)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    struct made *made = mp_alloc_zeroed(frag->segments.count + 1, sizeof *made);
    for (size_t i = 0; i < frag->segments.count; i++)
        made[i] = (struct made){.segment = frag->segments.at[i], .stream = frag->segments.at[i].stream};
    for (uint32_t i = 0; i < blocks->count; i++) {
        uint64_t stream = mp_placed(placements->stream, i);
        if (blocks->track[i] != frag->track || blocks->bytes[i] == MP_BYTES_UNKNOWN ||
            (blocks->alloc_event[i] != MP_NONE && blocks->alloc_event[i] >= frag->events))
            continue;
        const struct mp_frag_segment *segment = segment_of(frag, blocks->address[i]);
        if (!segment) continue;
        struct made *of = &made[segment - frag->segments.at];
        if (stream != of->stream && segment->stream != MP_BYTES_UNKNOWN && stream != MP_PLACE_UNKNOWN) continue;
        if (stream != of->stream && stream != MP_PLACE_UNKNOWN)
            *of = (struct made){.segment = *segment, .stream = stream};
        if (blocks->bytes[i] <= of->largest) continue;
        of->largest = blocks->bytes[i];
        of->stack = blocks->stack[i];
    }
    return made;
}

MP_ORDER(by_free, struct mp_frag_stream, MP_FALLING(free_bytes) ?: MP_RISING(stream) ?: MP_RISING(pool))

MP_ORDER(by_stream, struct made, MP_RISING(stream) ?: MP_RISING(segment.pool) ?: MP_RISING(stack))

static void add_rows(struct made *made, struct mp_frag *frag)
{
    uint64_t of_stack = 0; /* bytes of segments */
    struct mp_frag_stream *row = NULL;
    if (frag->segments.count) qsort(made, frag->segments.count, sizeof *made, by_stream);
    for (size_t i = 0; i < frag->segments.count; i++) {
        const struct mp_frag_segment *segment = &made[i].segment;
        bool fresh = !row || row->stream != made[i].stream || row->pool != segment->pool;
        if (fresh) {
            const struct mp_frag_stream new_row = {.stream = made[i].stream, .pool = segment->pool};
            mp_vec_add(&frag->streams, new_row);
            row = &frag->streams.at[frag->streams.count - 1];
        }
        if (fresh || made[i].stack != made[i - 1].stack) of_stack = 0;
        of_stack += segment->bytes;
        if (of_stack > row->made_bytes && made[i].stack) {
            row->made_bytes = of_stack;
            row->stack = made[i].stack;
        }
        row->segments++;
        row->reserved += segment->bytes;
        row->free_bytes += segment->bytes - segment->held;
    }
    if (frag->streams.count) qsort(frag->streams.at, frag->streams.count, sizeof *frag->streams.at, by_free);
}

static bool has_streams(const struct mp_model *model, const struct mp_placements *placements, uint16_t track)
{
    uint64_t first = MP_PLACE_UNKNOWN;
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        uint64_t stream = mp_placed(placements->stream, i);
        if (model->blocks.track[i] != track || stream == MP_PLACE_UNKNOWN) continue;
        if (first != MP_PLACE_UNKNOWN && stream != first) return true;
        first = stream;
    }
    return false;
}

/* Both replays know no frees that wait for a stream, so they compare with each other. */
static void replay_one_stream(const struct mp_model *model, struct mp_torch_history *history, struct mp_frag *frag)
{
    struct mp_torch_replay as_is, one;
    mp_torch_replay_with(model, history, &history->settings, MP_TORCH_UNLIMITED, MP_TORCH_UNLIMITED,
                         MP_TORCH_TO_THE_END, &as_is);
    mp_vec_each (struct mp_torch_step, step, &history->steps)
        step->stream = 0;
    mp_vec_each (struct mp_torch_base, base, &history->base)
        base->stream = 0;
    mp_torch_replay_with(model, history, &history->settings, MP_TORCH_UNLIMITED, MP_TORCH_UNLIMITED,
                         MP_TORCH_TO_THE_END, &one);
    frag->streams_peak = as_is.reserved_peak;
    frag->one_stream_peak = one.reserved_peak;
}

static void find_streams(const struct mp_model *model, const struct mp_placements *placements,
                         struct mp_torch_history *history, struct mp_frag *frag)
{
    struct made *made = find_made(model, placements, frag);
    add_rows(made, frag);
    free(made);
    if (has_streams(model, placements, frag->track)) replay_one_stream(model, history, frag);
}

enum mp_status mp_frag_find(const struct mp_model *model, const struct mp_frag_query *query, struct mp_frag *frag,
                            struct mp_error *error)
{
    struct mp_torch_history history = {0};
    *frag = (struct mp_frag){.track = query->track, .oom = {.event = MP_NONE}};
    if (mp_model_sample_of(model, query->track))
        return mp_fail(error, MP_UNSUPPORTED,
                       "the recording has a sample of its blocks (--sample): the memory between them is not known");
    struct mp_placements placements;
    mp_placements_find(model, &placements);
    frag->oom.event = find_oom(model, query);
    bool untraced = query->replay || frag->oom.event != MP_NONE || has_streams(model, &placements, query->track);
    mp_torch_history_make(model, query->track, untraced, &history);
    find_moment(model, query, &history, frag);
    if (frag->oom.event != MP_NONE)
        frag->wanted = model->notes.at[model->events.subject[frag->oom.event]].bytes;
    else
        frag->wanted = largest_block(model, query->track);
    if (frag->known) {
        sum_up(&history, frag);
        find_pins(model, frag);
    } else {
        frag->allocated = allocated_at(model, query->track, frag->events);
    }
    enum mp_status status = MP_OK;
    if (frag->oom.event != MP_NONE) status = frag_judge_oom(model, &history, frag, error);
    if (!status) status = find_replay(model, query, &history, frag, error);
    if (!status && frag->known) find_streams(model, &placements, &history, frag);
    mp_placements_free(&placements);
    mp_torch_history_free(&history);
    if (status) mp_frag_free(frag);
    return status;
}

void mp_frag_free(struct mp_frag *frag)
{
    for (size_t i = 0; i < frag->pins.count; i++)
        mp_sites_free(&frag->pins.at[i].sites);
    mp_vec_free(&frag->pins);
    mp_vec_free(&frag->segments);
    mp_vec_free(&frag->streams);
    mp_vec_free(&frag->oom.would_fit);
    mp_torch_moment_free(&frag->layout.moment);
    free(frag->replay.settings);
    frag->replay.settings = NULL;
}
