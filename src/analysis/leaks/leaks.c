#include "analysis/leaks/leaks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/leaks/leak_causes.h"
#include "analysis/leaks/leak_finding.h"
#include "analysis/leaks/leak_hidden.h"
#include "analysis/leaks/leak_limits.h"
#include "analysis/leaks/leak_places.h"
#include "analysis/leaks/leak_regrown.h"
#include "analysis/leaks/leak_slope.h"
#include "analysis/leaks/leak_twins.h"
#include "analysis/sites/level.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "model/stack.h"
#include "model/stack_facts.h"
#include "model/steps_infer.h"
#include "model/track.h"

/* Blocks of one stack that were made after the last step and freed at the program's exit. */
struct behind {
    uint32_t stack, first;
    uint64_t kept, early, bytes; /* early: blocks made in the first half of the events after the last step */
    uint64_t older, most_older;  /* blocks that the last step left; the most at one time before */
};

/* Counts the block as made or freed, if its site is among those found. */
static void count_older(const struct mp_model *model, const struct mp_map *by_site, uint32_t block, bool is_made,
                        struct behind *found)
{
    uint64_t site = (uint64_t)model->blocks.track[block] << 32 | model->blocks.stack[block];
    const uint64_t *at = mp_map_find(by_site, site + 1);
    if (!at) return;
    struct behind *place = &found[*at];
    place->older += is_made ? 1 : (uint64_t)-1;
    if (place->older > place->most_older) place->most_older = place->older;
}

/* Adds a finding of class retained_once for each site whose blocks were made after the last step, again and again, and
 * freed from the event `teardown` on. A site that had kept half as many before, and has dropped nearly all, drops
 * these, too. Returns their number. */
static size_t leak_find_behind(const struct mp_model *model, const struct mp_steps *steps,
                               const struct mp_leak_places *places, uint32_t teardown,
                               struct mp_leak_findings *findings)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    uint32_t from = steps->at[steps->count - 1].end;
    size_t before = findings->count;
    MP_VEC(struct behind) found = {0};
    struct mp_map by_site = {0};
    for (uint32_t i = 0; i < blocks->count; i++) {
        uint32_t born = blocks->alloc_event[i];
        if (born == MP_NONE || born < from || born >= teardown || blocks->bytes[i] == MP_BYTES_UNKNOWN) continue;
        bool fresh, kept = blocks->free_event[i] >= teardown;
        uint64_t *at = mp_map_at(&by_site, ((uint64_t)blocks->track[i] << 32 | blocks->stack[i]) + 1, &fresh);
        if (fresh) *at = found.count;
        if (fresh) mp_vec_add(&found, ((struct behind){.stack = blocks->stack[i], .first = i}));
        found.at[*at].kept += kept;
        found.at[*at].early += kept && born - from < (teardown - from) / 2;
        found.at[*at].bytes += kept ? blocks->bytes[i] : 0;
    }
    for (uint32_t i = 0; found.count && i < blocks->count; i++)
        if (blocks->alloc_event[i] == MP_NONE) count_older(model, &by_site, i, true, found.at);
    for (uint32_t event = 0; found.count && event < from; event++) {
        uint8_t type = model->events.type[event];
        if (type == MP_EVENT_ALLOC || type == MP_EVENT_FREE)
            count_older(model, &by_site, model->events.subject[event], type == MP_EVENT_ALLOC, found.at);
    }
    mp_vec_each (const struct behind, place, &found) {
        if (place->most_older * 2 >= place->kept && place->older * MP_LEAK_EXCEPTIONS <= place->most_older) continue;
        if (place->kept < MP_LEAK_BIRTHS || place->early * 4 < place->kept || place->bytes < MP_LEAK_WORTH_BYTES)
            continue;
        const struct mp_leak_finding finding = {.class = MP_LEAK_RETAINED_ONCE,
                                                .confidence = MP_LEAK_PROBABLE,
                                                .why.test = MP_LEAK_BY_REST,
                                                .track = blocks->track[place->first],
                                                .stack = place->stack,
                                                .bytes = place->bytes,
                                                .blocks = place->kept,
                                                .first_step = places->first_step + places->steps,
                                                .eta_oom_steps = UINT64_MAX};
        mp_vec_add(findings, finding);
    }
    mp_map_free(&by_site);
    mp_vec_free(&found);
    return findings->count - before;
}

/* True if nearly all blocks have a new size: the site makes a block when a size first appears. */
static bool has_new_sizes(const struct mp_leak_places *places, const struct mp_leak_place *place)
{
    struct mp_map sizes = {0};
    size_t stay = 0;
    for (size_t i = place->first; i < place->first + place->count; i++) {
        if (places->lives[i].death < places->last) continue;
        stay++;
        mp_map_at(&sizes, places->lives[i].bytes + 1, NULL);
    }
    bool yes = stay >= MP_LEAK_BIRTHS && (stay - sizes.count) * MP_LEAK_EXCEPTIONS <= stay;
    mp_map_free(&sizes);
    return yes;
}

static bool is_segment(const struct mp_stack_line *line)
{
    return (line->function && strstr(line->function, "CachingAllocator")) ||
           (line->module && strstr(line->module, "libc10_cuda"));
}

/* True for a segment that a caching allocator divides into blocks: another track has these blocks one by one. */
static bool leak_is_segment(const struct mp_model *model, const struct mp_leak_place *place)
{
    struct mp_stack_lines lines = {0};
    bool segment = false, driver = model->tracks.at[place->track].layer == MP_LAYER_DRIVER;
    if (driver) mp_stack_resolve(model, place->stack, &lines);
    for (size_t i = 0; i < lines.count && !segment; i++)
        segment = is_segment(&lines.at[i]);
    mp_stack_lines_free(&lines);
    return segment;
}

static enum mp_leak_class leak_classify(const struct mp_model *model, const struct mp_leak_places *places,
                                        const struct mp_leak_place *place, const struct mp_leak_evidence *evidence)
{
    static const enum mp_leak_class by_kind[MP_KINDS] = {
        [MP_KIND_PINNED] = MP_LEAK_PINNED, [MP_KIND_HANDLE] = MP_LEAK_HANDLE, [MP_KIND_GRAPH] = MP_LEAK_GRAPH_POOL};
    struct mp_stack_lines lines = {0};
    if (leak_is_segment(model, place)) return MP_LEAK_FRAGMENTATION;
    bool python = false, driver = model->tracks.at[place->track].layer == MP_LAYER_DRIVER;
    mp_stack_resolve(model, place->stack, &lines);
    for (size_t i = 0; i < lines.count; i++)
        python |= lines.at[i].language == MP_PYTHON && !lines.at[i].cut;
    bool unknown = !lines.count && !driver; /* who called */
    mp_stack_lines_free(&lines);
    if (place->kind < MP_KINDS && by_kind[place->kind] != MP_LEAK_RETENTION) return by_kind[place->kind];
    if (model->tracks.at[place->track].layer == MP_LAYER_MALLOC) return MP_LEAK_NATIVE;
    if (has_new_sizes(places, place)) return MP_LEAK_SHAPE_CACHE;
    if (evidence->sawtooth) return MP_LEAK_CYCLE;
    return unknown || python ? MP_LEAK_RETENTION : MP_LEAK_NATIVE;
}

/* A line without a file does not count: the first line of a multiprocessing process is not the user's. */
static bool has_user_line(const struct mp_stack_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        if (lines->at[i].user && *lines->at[i].file != '<') return true;
    return false;
}

/* By stack: true if it has a line of the user. Nodes come after their parents. */
static bool *find_working(const struct mp_model *model)
{
    bool *working = mp_alloc_zeroed(model->stacks.count + 1, sizeof *working);
    bool *by_frame = mp_alloc_zeroed(model->frames.count + 1, sizeof *by_frame);
    struct mp_stack_lines lines = {0};
    for (uint32_t frame = 0; frame < model->frames.count; frame++) {
        mp_stack_resolve_frame(model, frame, &lines);
        by_frame[frame] = has_user_line(&lines);
    }
    for (uint32_t stack = 1; stack < model->stacks.count; stack++) {
        const struct mp_stack_node *node = &model->stacks.at[stack];
        working[stack] = working[node->parent] || (node->frame != MP_FRAME_CUT && by_frame[node->frame]);
    }
    mp_stack_lines_free(&lines);
    free(by_frame);
    return working;
}

static bool is_work(const struct mp_model *model, const bool *working, uint32_t event)
{
    return model->events.type[event] == MP_EVENT_ALLOC && working[model->blocks.stack[model->events.subject[event]]];
}

/* The event from which on the program made less than half as many allocations as in a step. It is the window's end if
 * the program went on, or if its end is not known. If stacks of the steps have lines of the user, only allocations with
 * such lines count: Python itself allocates as it ends. */
static uint32_t leak_teardown(const struct mp_model *model, const struct mp_steps *steps,
                              const struct mp_leak_places *places, const struct mp_window *window)
{
    const struct mp_step *at = steps->at + places->first_step;
    uint32_t last = places->last, event = window->last;
    uint64_t allocs = 0, after = 0;
    if (event < model->events.count || !(model->how.known || model->how.text)) return event; /* the program went on */
    bool *working = find_working(model);
    for (uint32_t i = at[0].first; i < at[last].first; i++)
        allocs += is_work(model, working, i);
    if (!allocs) { /* no stack of the steps has a line of the user: all allocations count */
        memset(working, true, model->stacks.count + 1);
        for (uint32_t i = at[0].first; i < at[last].first; i++)
            allocs += is_work(model, working, i);
    }
    while (event > at[last].first && after * 2 * last < allocs)
        after += is_work(model, working, --event);
    free(working);
    return event;
}

/* One track's reserved and allocated bytes at each boundary. */
struct held {
    uint64_t *reserved, *allocated;
    bool known;
};

static void follow(const struct mp_model *model, const struct mp_step *steps, uint32_t last, uint16_t track,
                   struct held *held)
{
    struct mp_level level = mp_level_start(model, track);
    uint64_t reserved = 0;
    uint32_t next = 0;
    for (uint32_t event = 0; event < model->events.count && next <= last; event++) {
        if (event == steps[next].first) {
            held->reserved[next] = reserved;
            held->allocated[next++] = level.bytes;
        }
        if (model->events.type[event] == MP_EVENT_RESERVED && model->events.track[event] == track) {
            reserved = model->notes.at[model->events.subject[event]].bytes;
            held->known = true;
        }
        mp_level_apply(&level, model, track, event);
    }
}

/* True if reserved bytes rose in many steps, also in the later half, while allocated bytes did not follow. */
static bool is_fragmenting(const struct held *held, uint32_t last, struct mp_leak_finding *finding)
{
    uint32_t start = last / 8, rises = 0, late = 0;
    if (last < MP_LEAK_STEPS || !held->known) return false;
    for (uint32_t k = start + 1; k <= last; k++) {
        if (held->reserved[k] <= held->reserved[k - 1]) continue;
        if (!rises++) finding->first_step = k;
        late += k > start + (last - start) / 2;
    }
    uint64_t before = held->reserved[start], now = held->reserved[last];
    if (rises < MP_LEAK_RISES || late < MP_LEAK_LATE_RISES || now < before + before / MP_LEAK_RISE_PART) return false;
    uint64_t allocated = held->allocated[start], rest = (now - before) / MP_LEAK_RISE_PART;
    if (held->allocated[last] > allocated + rest) return false;
    finding->bytes = now - before;
    finding->births = rises;
    finding->blocks_per_step = 0;
    finding->bytes_per_step = (double)(now - before) / (last - start);
    return true;
}

/* Adds a finding for each fragmenting track whose allocator reports its total. `only`: MP_TRACK_NONE: all tracks. */
static void leak_find_fragmentation(const struct mp_model *model, const struct mp_steps *steps, uint16_t only,
                                    const struct mp_leak_places *places, struct mp_leak_findings *findings)
{
    if (!places->enough) return;
    for (uint16_t track = 0; track < model->tracks.count; track++) {
        if (model->sums.at[track].reserved_peak_bytes == MP_BYTES_UNKNOWN) continue;
        if (only != MP_TRACK_NONE && only != track) continue;
        size_t count = (size_t)places->last + 1;
        struct held held = {mp_alloc_zeroed(count, sizeof(uint64_t)), mp_alloc_zeroed(count, sizeof(uint64_t)), false};
        struct mp_leak_finding finding = {.class = MP_LEAK_FRAGMENTATION,
                                          .confidence = MP_LEAK_PROBABLE,
                                          .why.test = MP_LEAK_BY_RESERVED,
                                          .track = track,
                                          .eta_oom_steps = UINT64_MAX};
        follow(model, steps->at + places->first_step, places->last, track, &held);
        if (is_fragmenting(&held, places->last, &finding)) mp_vec_add(findings, finding);
        free(held.reserved);
        free(held.allocated);
    }
}

/* Context for the judgement of one track. */
struct judge {
    const struct mp_model *model;
    const struct mp_leaks_query *query;
    const struct mp_steps *steps;
    struct mp_leak_places places;
    uint32_t teardown; /* the event from which on the program only exits */
    bool growth_known, growth_is_general;
    bool one_loop; /* nobody marked the steps, and there is no training: all steps may be one request */
    bool building; /* and no module ran: all steps may be a model's construction */
    struct mp_leak_signs signs;
    struct mp_leaks *leaks;
};

/* True if most blocks that stayed to the last boundary were freed while the program still worked. */
static bool was_cleared(const struct judge *judge, const struct mp_leak_place *place, uint32_t births)
{
    const struct mp_model_blocks *blocks = &judge->model->blocks;
    uint32_t kept = 0, last_birth = MP_NONE;
    for (size_t i = place->first; i < place->first + place->count; i++) {
        const struct mp_leak_life *life = &judge->places.lives[i];
        if (life->death < judge->places.last || blocks->free_event[judge->places.blocks[i]] < judge->teardown) continue;
        kept += life->birth != last_birth;
        last_birth = life->birth;
    }
    return kept * 2 < births;
}

/* Steps until the device is full. The device's highest level so far, on any track, is needed in any case. */
static uint64_t steps_to_full(const struct mp_model *model, const struct mp_leak_finding *finding, double rate)
{
    uint32_t device = model->tracks.at[finding->track].device;
    uint64_t total = model->devices.at[device].total_bytes, highest = 0;
    if (!total || total == MP_BYTES_UNKNOWN || rate <= 0 || finding->uneven) return UINT64_MAX;
    for (size_t i = 0; i < model->tracks.count; i++)
        if (model->tracks.at[i].device == device && model->sums.at[i].peak_bytes > highest)
            highest = model->sums.at[i].peak_bytes;
    if (highest >= total) return 0;
    double left = (double)(total - highest); /* rate * steps + change / 2 * steps^2 = left */
    return (uint64_t)(2 * left / (rate + sqrt(rate * rate + 2 * finding->change * left)));
}

static bool steps_are_given(const struct mp_steps *steps)
{
    return steps->source && strcmp(steps->source, "inferred") != 0;
}

/* True if backward or an optimizer ran. Without them an unmarked loop may be one request of many rounds, in which a
 * cache of keys and values rightly grows. */
static bool trains(const struct mp_model *model)
{
    for (size_t i = 0; i < model->frames.count; i++)
        if (model->frames.at[i].raw.language == MP_BACKWARD) return true;
    for (size_t i = 0; i < model->lines.count; i++) {
        enum mp_torch_file file = mp_torch_file(mp_model_text(model, model->lines.at[i].file));
        if (file == MP_TORCH_FILE_OPTIMIZES || file == MP_TORCH_FILE_RUNS) return true;
    }
    return false;
}

/* True if the steps are those of a constructor: nobody marked them, and no module ran yet. For instance a list of
 * layers is built until memory is short. */
static bool is_building(const struct judge *judge)
{
    const struct mp_model *model = judge->model;
    const uint32_t *facts = mp_stack_facts(model)->of_stack;
    for (uint32_t block = 0; judge->one_loop && block < model->blocks.count; block++)
        if (facts[model->blocks.stack[block]] &
            (MP_FACT_FORWARD | MP_FACT_BACKWARD | MP_FACT_OPTIMIZER | MP_FACT_CALLS_MODULE))
            return false;
    return judge->one_loop;
}

/* True if all steps may be one request, whose results grow until it ends. Nobody marked the loop, it does not train,
 * and most of the staying blocks were free at the last look, or without looks, at the end. A server function's real
 * leak disappears in the same way, so the two cannot be distinguished. */
static bool may_be_request(const struct judge *judge, const struct mp_leak_place *place)
{
    const struct mp_model *model = judge->model;
    uint64_t stayed = 0, freed = 0;
    bool looked = model->looks.count, heap = model->tracks.at[place->track].layer == MP_LAYER_MALLOC;
    if (!judge->one_loop || !(looked || heap)) return false;
    uint32_t end = looked ? mp_model_events_before(model, model->looks.at[model->looks.count - 1].time_ns, true)
                          : (uint32_t)model->events.count;
    for (size_t i = place->first; i < place->first + place->count; i++) {
        if (judge->places.lives[i].death < judge->places.last) continue;
        stayed++;
        freed += model->blocks.free_event[judge->places.blocks[i]] < end;
    }
    return freed * 2 > stayed;
}

static void add_stacks(const struct judge *judge, const struct mp_leak_place *place, struct mp_leak_finding *finding)
{
    struct mp_leaks *leaks = judge->leaks;
    struct mp_map stays = {0}; /* by stack + 1: number of blocks */
    finding->first_stack = leaks->stacks.count;
    for (size_t i = place->first; i < place->first + place->count; i++) {
        uint32_t stack = judge->model->blocks.stack[judge->places.blocks[i]];
        if (judge->places.lives[i].death < judge->places.last) continue;
        if (++*mp_map_at(&stays, (uint64_t)stack + 1, NULL) == MP_LEAK_BIRTHS) mp_vec_add(&leaks->stacks, stack);
    }
    finding->stack_count = leaks->stacks.count - finding->first_stack;
    mp_map_free(&stays);
}

static struct mp_leak_finding finding_of(const struct judge *judge, const struct mp_leak_place *place,
                                         const struct mp_leak_growing *growing)
{
    const struct mp_leak_slope *slope = &growing->slope;
    struct mp_leak_finding finding = {
        .track = place->track,
        .stack = slope->site ? slope->site : place->stack,
        .bytes = slope->bytes,
        .blocks = slope->blocks,
        .births = slope->births,
        .first_step = judge->places.first_step + slope->first + 1,
        .bytes_per_step = slope->bytes_per_step,
        .blocks_per_step = slope->blocks_per_step,
        .change = slope->change,
        .uneven = slope->uneven,
        .regrown = growing->regrown,
        .eta_oom_steps = UINT64_MAX,
        .confidence = MP_LEAK_PROBABLE,
        .why = {.test = growing->regrown ? MP_LEAK_BY_REGROWTH : MP_LEAK_BY_GROWTH,
                .z = growing->evidence.z,
                .steps = judge->places.last - slope->first,
                .old_freed = !growing->evidence.none_freed},
        .class = MP_LEAK_RETAINED_ONCE,
    };
    for (size_t i = place->first; i < place->first + place->count; i++)
        finding.why.freed += judge->places.lives[i].death < judge->places.last;
    return finding;
}

static void add_finding(struct judge *judge, const struct mp_leak_place *place, struct mp_leak_finding *finding)
{
    struct mp_suppression *suppression = mp_suppressions_find(judge->query->suppressions, judge->model, place->stack);
    if (!suppression) {
        add_stacks(judge, place, finding);
        mp_vec_add(&judge->leaks->findings, *finding);
        return;
    }
    suppression->findings++;
    suppression->bytes += finding->bytes;
    judge->leaks->suppressed_findings++;
    judge->leaks->suppressed_bytes += finding->bytes;
}

static void take_finding(struct judge *judge, const struct mp_leak_place *place, const struct mp_leak_growing *growing)
{
    const struct mp_leak_evidence *evidence = &growing->evidence;
    struct mp_leak_finding finding = finding_of(judge, place, growing);
    finding.untrained = judge->one_loop;
    if (evidence->growth == MP_GROWTH_ONCE) {
        finding.bytes_per_step = finding.blocks_per_step = 0;
        finding.why.test = MP_LEAK_BY_REST;
    } else {
        finding.class = leak_classify(judge->model, &judge->places, place, evidence);
        if (finding.class != MP_LEAK_FRAGMENTATION)
            finding.eta_oom_steps = steps_to_full(judge->model, &finding, mp_leak_slope_rate(&growing->slope));
        if (!finding.uneven) finding.at_twice = (uint64_t)mp_leak_slope_at(&growing->slope, judge->places.last);
        finding.maybe_request = mp_leak_is_leak(&finding) && may_be_request(judge, place);
    }
    add_finding(judge, place, &finding);
}

/* Few repetitions, but whole ones. */
static bool take_twins(struct judge *judge, const struct mp_leak_place *place, const struct mp_leak_growing *growing)
{
    struct mp_leak_twins twins;
    bool named = judge->steps->source && !strcmp(judge->steps->source, "function");
    if (growing->evidence.births + 1 < MP_LEAK_TWINS || judge->one_loop || judge->steps->guessed ||
        (judge->signs.steps < judge->signs.needed && !named) ||
        !mp_leak_twins_find(judge->model, judge->steps, &judge->places, place, judge->teardown, named, &twins))
        return false;
    struct mp_leak_finding finding = finding_of(judge, place, growing);
    finding.class = leak_classify(judge->model, &judge->places, place, &growing->evidence);
    if (finding.class == MP_LEAK_FRAGMENTATION) return false;
    finding.why.test = MP_LEAK_BY_TWINS;
    finding.why.z = 0; /* of few steps */
    finding.why.steps = judge->places.last - twins.first;
    finding.twins.whole = twins.whole;
    finding.twins.of = twins.of;
    finding.twins.bytes = twins.bytes;
    finding.twins.apart = twins.apart;
    finding.births = twins.whole;
    finding.first_step = judge->places.first_step + twins.first + 1;
    finding.bytes = twins.bytes * twins.whole;
    finding.blocks = twins.blocks * twins.whole;
    finding.bytes_per_step = (double)twins.bytes / twins.apart;
    finding.blocks_per_step = (double)twins.blocks / twins.apart;
    finding.change = 0;
    finding.uneven = false;
    finding.at_twice = 2 * finding.bytes;
    finding.eta_oom_steps = steps_to_full(judge->model, &finding, finding.bytes_per_step);
    add_finding(judge, place, &finding);
    return true;
}

/* True if many places allocate more and more: then the batch or the work grows, not one buffer. */
static bool everything_grows(struct judge *judge)
{
    if (!judge->growth_known) judge->growth_is_general = mp_leak_work_grows(judge->model, judge->steps, &judge->places);
    judge->growth_known = true;
    return judge->growth_is_general;
}

/* Unless this is a leak, a place that grows so counts as a cache. If the batch or the work grows, only a buffer that is
 * copied from its predecessor counts. */
static void judge_regrown(struct judge *judge, const struct mp_leak_place *place, struct mp_leak_growing *growing)
{
    if (!mp_leak_regrows(judge->model, &judge->places, place, growing)) return;
    bool general = everything_grows(judge);
    if (growing->evidence.growth == MP_GROWTH_LEAK && !general && !judge->one_loop) return;
    growing->evidence.growth = MP_GROWTH_NONE;
    if (general && !(mp_stack_facts(judge->model)->of_stack[place->stack] & MP_FACT_JOINS)) return;
    judge->signs.caches++;
    judge->signs.cache = place->stack;
}

MP_ORDER(by_birth, struct mp_leak_life, MP_RISING(birth))

/* How many more blocks a place has at the last boundary than at an earlier one. */
static int64_t grown_since(const struct judge *judge, const struct mp_leak_place *place, uint32_t first)
{
    int64_t grown = 0;
    for (size_t i = place->first; i < place->first + place->count; i++) {
        const struct mp_leak_life *life = &judge->places.lives[i];
        grown += life->death >= judge->places.last;
        grown -= life->birth < first && life->death >= first;
    }
    return grown;
}

/* Judges the blocks of a place together with the blocks of another line that they replace: these shrink meanwhile by at
 * least half as much. Once a buffer is full, new entries come from the line that replaces old ones. */
static void judge_with_replaced(const struct judge *judge, const struct mp_leak_place *place,
                                struct mp_leak_evidence *evidence)
{
    const struct mp_leak_places *places = &judge->places;
    MP_VEC(struct mp_leak_life) lives = {0};
    int64_t grown = grown_since(judge, place, evidence->first);
    mp_vec_each (const struct mp_leak_place, other, &places->at) {
        if (other->track != place->track || other->kind != place->kind || other == place) continue;
        if (-grown_since(judge, other, evidence->first) * 2 < grown) continue;
        mp_vec_add_all(&lives, places->lives + other->first, other->count);
    }
    if (lives.count) {
        struct mp_leak_evidence together;
        mp_vec_add_all(&lives, places->lives + place->first, place->count);
        qsort(lives.at, lives.count, sizeof *lives.at, by_birth);
        mp_leak_judge(lives.at, lives.count, places->last, &together);
        evidence->growth = together.growth == MP_GROWTH_ONCE ? MP_GROWTH_NONE : together.growth;
    }
    mp_vec_free(&lives);
}

/* True if blocks once filled most of what PyTorch's allocator reserved on the track's device. */
static bool are_segments_needed(const struct mp_model *model, uint16_t driver)
{
    for (uint16_t track = 0; track < model->tracks.count; track++) {
        const struct mp_model_track_sum *sums = &model->sums.at[track];
        if (model->tracks.at[track].device == model->tracks.at[driver].device &&
            model->tracks.at[track].layer == MP_LAYER_TORCH && sums->reserved_peak_bytes != MP_BYTES_UNKNOWN)
            return (double)sums->peak_bytes >= MP_LEAK_SEGMENTS_USED * (double)sums->reserved_peak_bytes;
    }
    return false;
}

/* True if the staying blocks are gradients or an optimizer's state, each of another parameter. They grow while more
 * parameters take part, as in gradual unfreezing, and no further. A second optimizer's state has the same names. */
static bool is_of_parameters(const struct judge *judge, const struct mp_leak_place *place)
{
    const struct mp_model *model = judge->model;
    uint32_t last = judge->steps->at[judge->places.first_step + judge->places.last].first;
    struct mp_map names = {0};
    size_t staying = 0, labelled = 0;
    bool of_parameters = true;
    for (size_t i = place->first; of_parameters && i < place->first + place->count; i++) {
        if (judge->places.lives[i].death < judge->places.last) continue;
        const struct mp_model_label *label = mp_model_label_at(model, judge->places.blocks[i], last);
        staying++;
        if (!label || !label->name) continue;
        labelled++;
        of_parameters = label->role == MP_ROLE_OPTIMIZER_STATE || label->role == MP_ROLE_GRADIENT;
        if (of_parameters) mp_map_at(&names, (uint64_t)label->role << 32 | label->name, &of_parameters);
    }
    mp_map_free(&names);
    return of_parameters && labelled * 2 > staying; /* the newest may wait for their labels */
}

static void judge_place(struct judge *judge, const struct mp_leak_place *place)
{
    struct mp_leak_growing growing = {.regrown = false};
    const struct mp_leak_evidence *evidence = &growing.evidence;
    const struct mp_leak_life *lives = judge->places.lives + place->first;
    mp_leak_judge(lives, place->count, judge->places.last, &growing.evidence);
    if (evidence->growth == MP_GROWTH_LEAK) judge_with_replaced(judge, place, &growing.evidence);
    if (evidence->growth != MP_GROWTH_NONE) mp_leak_slope_find(lives, place->count, judge->places.last, &growing.slope);
    if (evidence->growth != MP_GROWTH_LEAK) judge_regrown(judge, place, &growing);
    bool grows = evidence->growth == MP_GROWTH_LEAK && judge->signs.steps >= judge->signs.needed;
    if (!grows && take_twins(judge, place, &growing)) return;
    if (judge->building && evidence->growth != MP_GROWTH_NONE &&
        (mp_stack_facts(judge->model)->of_stack[place->stack] & MP_FACT_MAKES_PARAMETERS)) {
        judge->signs.built++;
        return;
    }
    if (evidence->growth == MP_GROWTH_NONE || (!growing.regrown && was_cleared(judge, place, evidence->births))) return;
    if (is_of_parameters(judge, place)) return;
    /* Segments that their blocks need: these have a track of their own. */
    if (leak_is_segment(judge->model, place) && (!grows || are_segments_needed(judge->model, place->track))) return;
    if (evidence->growth == MP_GROWTH_ONCE && growing.slope.bytes < MP_LEAK_WORTH_BYTES) return;
    bool again = evidence->births > 1u + (evidence->first < MP_LEAK_WARM_UP); /* behind the warm-up */
    judge->signs.few += evidence->growth == MP_GROWTH_FEW || (evidence->growth == MP_GROWTH_LEAK && !grows) ||
                        (evidence->growth == MP_GROWTH_ONCE && again);
    judge->signs.paused += evidence->growth == MP_GROWTH_PAUSED;
    if (grows || evidence->growth == MP_GROWTH_ONCE) take_finding(judge, place, &growing);
}

/* Drops fragmentation that leaking blocks cause by filling segments. */
static void drop_consequences(const struct mp_model *model, struct mp_leaks *leaks)
{
    size_t kept = 0;
    for (size_t i = 0; i < leaks->findings.count; i++) {
        const struct mp_leak_finding *finding = &leaks->findings.at[i];
        bool drop = false;
        for (size_t k = 0; k < leaks->findings.count && finding->class == MP_LEAK_FRAGMENTATION; k++) {
            const struct mp_leak_finding *other = &leaks->findings.at[k];
            drop |= mp_leak_is_leak(other) &&
                    model->tracks.at[other->track].device == model->tracks.at[finding->track].device &&
                    model->tracks.at[other->track].layer != MP_LAYER_DRIVER;
        }
        if (!drop) leaks->findings.at[kept++] = *finding;
    }
    leaks->findings.count = kept;
}

/* Makes growth of the process that belongs to blocks of no leak an unsure one. */
static void drop_followers(struct mp_leaks *leaks, struct mp_leak_finding *unsure)
{
    size_t kept = 0;
    for (size_t i = 0; i < leaks->findings.count; i++) {
        const struct mp_leak_finding *finding = &leaks->findings.at[i];
        if (!finding->follows)
            leaks->findings.at[kept++] = *finding;
        else if (finding->bytes > unsure->bytes)
            *unsure = *finding;
    }
    leaks->findings.count = kept;
}

/* The bytes by which the level between steps rises until the end: in each part of the later half, the lowest level is
 * higher than in the part before. 0: it rests, or fell. */
static uint64_t level_growth(const struct judge *judge)
{
    uint32_t last = judge->places.last, parts = last < 2 * MP_LEAK_LEVEL_PARTS ? last / 2 : MP_LEAK_LEVEL_PARTS, k = 0;
    uint64_t lowest[MP_LEAK_LEVEL_PARTS];
    if (!judge->places.enough || parts < 2) return 0;
    memset(lowest, 0xff, sizeof lowest);
    const struct mp_step *steps = &judge->steps->at[judge->places.first_step];
    struct mp_level *levels = mp_alloc_zeroed(judge->model->tracks.count, sizeof *levels);
    for (uint16_t track = 0; track < judge->model->tracks.count; track++)
        levels[track] = mp_level_start(judge->model, track);
    for (uint32_t event = 0; k < last && event < judge->model->events.count; event++) {
        while (k < last && event == steps[k].first) {
            uint64_t level = 0, *low = &lowest[(uint64_t)k++ * parts / last];
            for (uint16_t track = 0; track < judge->model->tracks.count; track++)
                if (judge->query->track == MP_TRACK_NONE || judge->query->track == track) level += levels[track].bytes;
            if (level < *low) *low = level;
        }
        if (judge->model->events.type[event] <= MP_EVENT_RESIZE)
            mp_level_apply(&levels[judge->model->events.track[event]], judge->model, judge->model->events.track[event],
                           event);
    }
    free(levels);
    for (uint32_t part = parts / 2; part < parts; part++)
        if (lowest[part] <= lowest[part - 1]) return 0;
    return lowest[parts - 1] - lowest[parts / 2 - 1];
}

static void find_growing(struct judge *judge)
{
    const struct mp_leaks_query *query = judge->query;
    struct mp_leaks *leaks = judge->leaks;
    struct mp_leak_signs *signs = &judge->signs;
    mp_leak_places_find(judge->model, judge->steps, query->track, &query->window, query->filter, &judge->places);
    signs->steps = judge->places.steps;
    signs->needed = judge->steps->guessed ? MP_LEAK_GUESSED_STEPS : MP_LEAK_STEPS;
    if (judge->places.enough)
        judge->teardown = leak_teardown(judge->model, judge->steps, &judge->places, &judge->query->window);
    judge->one_loop = judge->places.enough && !steps_are_given(judge->steps) && !trains(judge->model);
    judge->building = is_building(judge);
    bool guess = judge->steps->guessed && judge->places.last + 1 < MP_LEAK_GUESSED_STEPS;
    for (size_t i = 0; !guess && i < judge->places.at.count; i++)
        judge_place(judge, &judge->places.at.at[i]);
    if (!guess && !query->filter)
        leak_find_fragmentation(judge->model, judge->steps, query->track, &judge->places, &leaks->findings);
    if (!guess && !query->filter && query->track == MP_TRACK_NONE)
        mp_leak_find_hidden(judge->model, judge->steps, &judge->places, &leaks->findings, &signs->unsure_growth);
    leaks->places = judge->places.at.count;
    drop_consequences(judge->model, leaks);
    if (judge->places.enough && steps_are_given(judge->steps) && !query->filter)
        signs->behind = leak_find_behind(judge->model, judge->steps, &judge->places, judge->teardown, &leaks->findings);
    leaks->causes =
        mp_leak_causes_find(judge->model, judge->steps, leaks->stacks.at, &leaks->holders, &leaks->findings);
    if (!leaks->causes) drop_followers(leaks, &signs->unsure_growth);
    mp_vec_each (const struct mp_leak_finding, finding, &leaks->findings) {
        leaks->leaks += mp_leak_is_leak(finding);
        signs->filling += finding->class == MP_LEAK_BOUNDED && !finding->most;
        signs->kept += finding->class == MP_LEAK_KEPT && finding->eta_oom_steps <= MP_LEAK_KEPT_STEPS;
        signs->garbage += finding->class == MP_LEAK_GARBAGE && !finding->why.freed;
    }
    signs->findings = leaks->findings.count;
    signs->leaks = leaks->leaks;
    uint64_t grown = level_growth(judge);
    leaks->grows = grown && (!judge->steps->guessed || grown >= MP_LEAK_WORTH_BYTES);
    signs->grows = grown >= MP_LEAK_WORTH_BYTES && !query->filter && !leaks->suppressed_findings;
    leaks->caches = signs->caches;
    leaks->unsure_growth = signs->unsure_growth;
    leaks->verdict = mp_leak_verdict(judge->model, judge->steps, signs, leaks->reason, sizeof leaks->reason);
    mp_leak_places_free(&judge->places);
}

/* Converts the steps in the evidence to the program's own steps, if one of these covers several. */
static void count_in_own_steps(const struct mp_steps *steps, struct mp_leaks *leaks)
{
    double each = steps->each;
    if (steps->running) leaks->step_count = steps->total;
    leaks->running = steps->running;
    for (size_t i = 0; i < leaks->findings.count; i++)
        leaks->findings.at[i].first_step += steps->before;
    for (size_t i = 0; i < leaks->findings.count && steps->each > 1; i++) {
        struct mp_leak_finding *finding = &leaks->findings.at[i];
        finding->first_step = (finding->first_step - 1) * steps->each + 1;
        finding->bytes_per_step /= each;
        finding->sum.bytes_per_step /= each;
        finding->change /= each * each;
        finding->twins.apart *= each;
        finding->blocks_per_step /= each;
        finding->sum.blocks_per_step /= each;
        if (finding->eta_oom_steps != UINT64_MAX) finding->eta_oom_steps *= steps->each;
    }
}

enum mp_status mp_leaks_find(const struct mp_model *model, const struct mp_leaks_query *query, struct mp_leaks *leaks,
                             struct mp_error *error)
{
    *leaks = (struct mp_leaks){.verdict = MP_VERDICT_UNKNOWN};
    struct mp_steps steps = {0};
    struct judge judge = {.model = model, .query = query, .steps = &steps, .leaks = leaks};
    mp_steps_find(model, &steps);
    leaks->step_count = (uint32_t)steps.count;
    leaks->step_source = mp_steps_source(&steps);
    find_growing(&judge);
    count_in_own_steps(&steps, leaks);
    const struct mp_lasting_query lasting = {query->track, query->window, query->grouping, query->filter};
    mp_lasting_sites_at(model, &lasting, query->window.last, &steps, &leaks->outstanding);
    mp_lasting_find(model, &lasting, &steps, &leaks->held);
    if (leaks->verdict == MP_VERDICT_UNKNOWN && !leaks->findings.count) mp_holders_find(model, false, &leaks->holders);
    mp_steps_free(&steps);
    return MP_OK;
}

void mp_leaks_free(struct mp_leaks *leaks)
{
    mp_vec_free(&leaks->findings);
    mp_vec_free(&leaks->stacks);
    mp_holders_free(&leaks->holders);
    mp_sites_free(&leaks->outstanding);
    mp_sites_free(&leaks->held.sites);
}
