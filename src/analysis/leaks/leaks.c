#include "analysis/leaks/leaks.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/leaks/leak_class.h"
#include "analysis/leaks/leak_fragmentation.h"
#include "analysis/leaks/leak_hidden.h"
#include "analysis/leaks/leak_places.h"
#include "analysis/leaks/leak_slope.h"
#include "analysis/leaks/leak_teardown.h"
#include "analysis/sites/growth.h"
#include "analysis/sites/level.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/units.h"
#include "model/stack.h"
#include "model/stack_facts.h"
#include "model/steps_infer.h"
#include "model/steps_loop.h"
#include "model/track.h"

/*
 * A buffer that only grows is replaced by a larger one in every step. The old block ends after the new one begins,
 * because it is copied into the new one. So a birth in every step is no evidence. If many other sites grow too, the
 * batch grows, and the buffer is no leak. Pure.
 */

#define STEPS_MIN  24 /* a buffer that grows in fewer steps proves nothing: it may be a warm-up or a schedule */
#define THINGS_MAX 4

/* The bytes and blocks of a place at each boundary. */
struct levels {
    uint64_t *bytes;
    uint32_t *blocks;
};

static void make_levels(const struct mp_leak_life *lives, size_t count, uint32_t last, struct levels *levels)
{
    *levels = (struct levels){mp_alloc_zeroed((size_t)last + 2, sizeof *levels->bytes),
                              mp_alloc_zeroed((size_t)last + 2, sizeof *levels->blocks)};
    for (size_t i = 0; i < count; i++) {
        uint32_t end = lives[i].death < last ? lives[i].death + 1 : last + 1;
        levels->bytes[lives[i].birth + 1] += lives[i].bytes;
        levels->blocks[lives[i].birth + 1]++;
        levels->bytes[end] -= lives[i].bytes; /* may wrap around; so does the sum, which is right again */
        levels->blocks[end]--;
    }
    for (uint32_t k = 1; k <= last; k++) {
        levels->bytes[k] += levels->bytes[k - 1];
        levels->blocks[k] += levels->blocks[k - 1];
    }
}

/* The number of steps that made the place larger. It is 0 if the number of blocks changed since `first`, if a step made
 * the place smaller, or if the place is full. */
static uint32_t count_larger(const struct levels *levels, uint32_t first, uint32_t last)
{
    uint32_t larger = 0, when = first, widest = 0;
    for (uint32_t k = first + 1; k <= last; k++) {
        if (levels->blocks[k] != levels->blocks[last]) return 0;
        if (levels->bytes[k] < levels->bytes[k - 1]) return 0;
        if (levels->bytes[k] == levels->bytes[k - 1]) continue;
        if (larger++ && k - when > widest) widest = k - when;
        when = k;
    }
    return last - when <= 2 * widest ? larger : 0;
}

/* True if nine in ten blocks lived until their replacement was made. */
static bool are_replaced(const struct mp_model *model, const struct mp_leak_places *places,
                         const struct mp_leak_place *place, uint32_t at_once)
{
    size_t replaced = 0;
    for (size_t i = 0; i + at_once < place->count; i++) {
        const uint32_t *block = &places->blocks[place->first + i];
        replaced += model->blocks.free_event[block[0]] > model->blocks.alloc_event[block[at_once]];
    }
    return replaced * 10 >= (place->count - at_once) * 9;
}

/* How a place grows: the rule's result, and the rate. */
struct growth {
    struct mp_leak_evidence evidence;
    struct mp_leak_slope slope;
    bool regrown; /* one block, replaced by a larger one each time */
};

/* Fills *growth if the place has a block that is replaced by a larger one each time. */
static bool regrows(const struct mp_model *model, const struct mp_leak_places *places,
                    const struct mp_leak_place *place, struct growth *growth)
{
    struct levels levels = {0};
    uint32_t last = places->last, first = last;
    if (place->count < MP_LEAK_BIRTHS || last < MP_LEAK_BIRTHS) return false;
    make_levels(places->lives + place->first, place->count, last, &levels);
    while (first && levels.blocks[first - 1] == levels.blocks[last])
        first--;
    uint32_t steps = last - first, at_once = levels.blocks[last];
    uint32_t larger = steps * 2 >= last && at_once && at_once <= THINGS_MAX ? count_larger(&levels, first, last) : 0;
    bool yes = larger >= MP_LEAK_BIRTHS && are_replaced(model, places, place, at_once);
    if (yes) {
        *growth = (struct growth){
            .evidence = {.growth = larger < STEPS_MIN ? MP_GROWTH_FEW : MP_GROWTH_LEAK,
                         .births = steps,
                         .first = first,
                         .last = last},
            .slope = {.births = steps,
                      .first = first,
                      .last = last,
                      .bytes = levels.bytes[last],
                      .blocks = at_once,
                      .bytes_per_step = (double)(levels.bytes[last] - levels.bytes[first]) / steps},
            .regrown = true,
        };
        for (uint32_t k = last; k > first; k--)
            levels.bytes[k] -= levels.bytes[k - 1];
        mp_leak_slope_change(levels.bytes + first + 1, steps, &growth->slope);
    }
    free(levels.bytes);
    free(levels.blocks);
    return yes;
}

struct site_sum {
    uint64_t early, late; /* bytes */
    uint32_t early_allocs, late_allocs;
};

static void sum_third(const struct mp_model *model, uint32_t first, uint32_t end, bool late, struct site_sum *sites)
{
    for (uint32_t event = first; event < end; event++) {
        if (model->events.type[event] != MP_EVENT_ALLOC) continue;
        uint32_t block = model->events.subject[event];
        struct site_sum *site = &sites[model->blocks.stack[block]];
        uint64_t bytes = model->blocks.bytes[block] == MP_BYTES_UNKNOWN ? 0 : model->blocks.bytes[block];
        *(late ? &site->late : &site->early) += bytes;
        ++*(late ? &site->late_allocs : &site->early_allocs);
    }
}

/* True if one in eight sites that allocate in most steps allocates more in the last third of the steps than in the
 * first. */
static bool is_growth_general(const struct mp_model *model, const struct mp_steps *steps,
                              const struct mp_leak_places *places)
{
    const struct mp_step *at = steps->at + places->first_step;
    uint32_t third = places->last / 3, all = 0, grown = 0;
    struct site_sum *sites = mp_alloc_zeroed(model->stacks.count + 1, sizeof *sites);
    sum_third(model, at[0].first, at[third].first, false, sites);
    sum_third(model, at[places->last - third].first, at[places->last].first, true, sites);
    for (size_t i = 0; i < model->stacks.count; i++) {
        const struct site_sum *site = &sites[i];
        if (site->early_allocs * 2 < third || site->late_allocs * 2 < third) continue;
        all++;
        grown += (double)site->late / site->late_allocs > 1.02 * (double)site->early / site->early_allocs;
    }
    free(sites);
    return grown * 8 >= all && all >= 8;
}

#define CERTAIN_BIRTHS 16
#define CERTAIN_Z      5.0        /* one chance in three million */
#define WORTH_BYTES    (1u << 20) /* smaller blocks that are retained once are not reported */

/* Context for the judgement of one track. */
struct judge {
    const struct mp_model *model;
    const struct mp_leaks_query *query;
    const struct mp_steps *steps;
    struct mp_leak_places places;
    uint32_t teardown; /* the event from which on the program only exits */
    bool growth_known, growth_is_general;
    bool one_loop;  /* nobody marked the steps, and there is no training: all steps may be one request */
    size_t few;     /* places that grew in too few steps */
    size_t paused;  /* places that grew, but not lately */
    size_t behind;  /* sites that kept blocks after the last step */
    uint32_t cache; /* stack of one of the caches */
    struct mp_leaks *leaks;
};

static void sites_at(const struct mp_model *model, const struct mp_leaks_query *query, uint32_t moment,
                     const struct mp_steps *steps, struct mp_sites *sites)
{
    struct mp_live_blocks live = {0};
    mp_live_blocks_at(model, query->track, moment, query->filter, &live);
    mp_sites_make(model, &live, steps, &query->grouping, sites);
    mp_live_blocks_free(&live);
}

static void find_held(const struct mp_model *model, const struct mp_leaks_query *query, const struct mp_steps *steps,
                      struct mp_leaks *leaks)
{
    uint32_t moment;
    mp_growth_moment(model, query->track, &query->window, steps, query->filter, &moment);
    leaks->held_moment = moment;
    leaks->held_ns = moment == query->window.last ? query->window.to_ns : model->events.time_ns[moment - 1];
    sites_at(model, query, moment, steps, &leaks->held);
}

/* True if a site still holds at least half as many blocks. */
static bool lasts(const struct mp_map *later, const struct mp_site *site)
{
    const uint64_t *blocks = mp_map_find(later, ((uint64_t)site->track << 32 | site->stack) + 1);
    return blocks && *blocks * 2 >= site->blocks;
}

static void put_lasting_first(const struct mp_map *later, struct mp_leaks *leaks)
{
    size_t count = leaks->held.count, passing = 0;
    struct mp_site *others = mp_alloc((count + 1) * sizeof *others);
    for (size_t i = 0; i < count; i++) {
        if (lasts(later, &leaks->held.at[i]))
            leaks->held.at[leaks->held_lasting++] = leaks->held.at[i];
        else
            others[passing++] = leaks->held.at[i];
    }
    memcpy(leaks->held.at + leaks->held_lasting, others, passing * sizeof *others);
    free(others);
}

/* Without steps, blocks that end soon may be born in many parts of a recording. A growing site must therefore still
 * hold its blocks at the last allocation. */
static void find_lasting(const struct mp_model *model, const struct mp_leaks_query *query, const struct mp_steps *steps,
                         struct mp_leaks *leaks)
{
    uint32_t moment = query->window.last;
    while (moment > query->window.first && model->events.type[moment - 1] != MP_EVENT_ALLOC)
        moment--;
    if (moment <= leaks->held_moment || query->grouping.by != MP_GROUP_STACK) {
        leaks->held_lasting = leaks->held.count;
        return;
    }
    struct mp_sites sites;
    struct mp_map later = {0};
    sites_at(model, query, moment, steps, &sites);
    for (size_t i = 0; i < sites.count; i++)
        *mp_map_at(&later, ((uint64_t)sites.at[i].track << 32 | sites.at[i].stack) + 1, NULL) = sites.at[i].blocks;
    put_lasting_first(&later, leaks);
    mp_map_free(&later);
    mp_sites_free(&sites);
}

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

/* True if all steps may be one request, whose results grow until it ends. Nobody marked the loop, it does not train,
 * and at the last look most of the staying blocks were free. A server function's real leak disappears in the same way,
 * so the two cannot be distinguished. */
static bool may_be_request(const struct judge *judge, const struct mp_leak_place *place)
{
    const struct mp_model *model = judge->model;
    uint64_t stayed = 0, freed = 0;
    if (!judge->one_loop || !model->looks.count) return false;
    uint32_t end = mp_model_events_before(model, model->looks.at[model->looks.count - 1].time_ns, true);
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

static void take_finding(struct judge *judge, const struct mp_leak_place *place, const struct growth *growth)
{
    const struct mp_leak_evidence *evidence = &growth->evidence;
    const struct mp_leak_slope *slope = &growth->slope;
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
        .regrown = growth->regrown,
        .eta_oom_steps = UINT64_MAX,
        .certain = evidence->births >= CERTAIN_BIRTHS && evidence->z > CERTAIN_Z && evidence->none_freed,
        .class = MP_LEAK_RETAINED_ONCE,
    };
    if (evidence->growth == MP_GROWTH_ONCE) finding.bytes_per_step = finding.blocks_per_step = 0;
    if (evidence->growth == MP_GROWTH_LEAK) {
        finding.class = mp_leak_classify(judge->model, &judge->places, place, evidence);
        finding.eta_oom_steps = steps_to_full(judge->model, &finding, mp_leak_slope_rate(slope));
        if (!slope->uneven) finding.at_twice = (uint64_t)mp_leak_slope_at(slope, judge->places.last);
        finding.maybe_request = mp_leak_is_leak(&finding) && may_be_request(judge, place);
        finding.certain = finding.certain && !finding.maybe_request;
    }
    struct mp_suppression *suppression = mp_suppressions_find(judge->query->suppressions, judge->model, place->stack);
    if (!suppression) {
        add_stacks(judge, place, &finding);
        mp_vec_add(&judge->leaks->findings, finding);
        return;
    }
    suppression->findings++;
    suppression->bytes += finding.bytes;
    judge->leaks->suppressed_findings++;
    judge->leaks->suppressed_bytes += finding.bytes;
}

/* True if many places allocate more and more: then the batch or the work grows, not one buffer. */
static bool everything_grows(struct judge *judge)
{
    if (!judge->growth_known) judge->growth_is_general = is_growth_general(judge->model, judge->steps, &judge->places);
    judge->growth_known = true;
    return judge->growth_is_general;
}

/* Unless this is a leak, a place that grows so counts as a cache. If the batch or the work grows, only a buffer that is
 * copied from its predecessor counts. */
static void judge_regrown(struct judge *judge, const struct mp_leak_place *place, struct growth *growth)
{
    if (!regrows(judge->model, &judge->places, place, growth)) return;
    bool general = everything_grows(judge);
    if (growth->evidence.growth == MP_GROWTH_LEAK && !general && !judge->one_loop) return;
    growth->evidence.growth = MP_GROWTH_NONE;
    if (general && !(mp_stack_facts(judge->model)->of_stack[place->stack] & MP_FACT_JOINS)) return;
    judge->leaks->caches++;
    judge->cache = place->stack;
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

static void judge_place(struct judge *judge, const struct mp_leak_place *place)
{
    struct growth growth = {.regrown = false};
    const struct mp_leak_evidence *evidence = &growth.evidence;
    const struct mp_leak_life *lives = judge->places.lives + place->first;
    mp_leak_judge(lives, place->count, judge->places.last, &growth.evidence);
    if (evidence->growth == MP_GROWTH_LEAK) judge_with_replaced(judge, place, &growth.evidence);
    if (evidence->growth != MP_GROWTH_NONE) mp_leak_slope_find(lives, place->count, judge->places.last, &growth.slope);
    if (evidence->growth != MP_GROWTH_LEAK) judge_regrown(judge, place, &growth);
    if (evidence->growth == MP_GROWTH_NONE || (!growth.regrown && was_cleared(judge, place, evidence->births))) return;
    if (evidence->growth == MP_GROWTH_ONCE && growth.slope.bytes < WORTH_BYTES) return;
    judge->few += evidence->growth == MP_GROWTH_FEW || (evidence->growth == MP_GROWTH_ONCE && evidence->births > 1);
    judge->paused += evidence->growth == MP_GROWTH_PAUSED;
    if (evidence->growth != MP_GROWTH_FEW && evidence->growth != MP_GROWTH_PAUSED) take_finding(judge, place, &growth);
}

/* Hidden leaks come last: other leaks may cause them, since leaked blocks leave holes in the heap. */
MP_ORDER(by_rate, struct mp_leak_finding,
         MP_COMPARE(mp_leak_is_leak(b), mp_leak_is_leak(a))
         ?: MP_COMPARE(a->class == MP_LEAK_HIDDEN, b->class == MP_LEAK_HIDDEN) ?: MP_FALLING(bytes_per_step)
         ?: MP_FALLING(bytes) ?: MP_RISING(track) ?: MP_RISING(stack))

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

/* ---- causes, from the holders */

/* The holder of most bytes of a site, if the program is known to hold them; else NULL. */
static const struct mp_holder *holder_of(const struct mp_leaks *leaks, const struct mp_holders_site *site)
{
    const struct mp_holder *holder = site && site->count ? &leaks->holders.holders.at[site->first] : NULL;
    bool known = holder && ((holder->certain && holder->kind < MP_HOLDER_NATIVE) || mp_holder_is_cycle(holder) ||
                            mp_holder_is_native_graph(holder->path));
    return known ? holder : NULL;
}

static bool is_site_bounded(const struct mp_leaks *leaks, const struct mp_holders_site *site, uint64_t *entries,
                            uint64_t *most)
{
    const struct mp_holder *holder = holder_of(leaks, site);
    return holder && mp_holder_is_bounded(holder, entries, most) && holder->bytes * 10 >= site->bytes * 9;
}

static bool are_stacks_bounded(const struct mp_leaks *leaks, const struct mp_leak_finding *finding)
{
    uint64_t entries, most;
    for (size_t i = finding->first_stack; i < finding->first_stack + finding->stack_count; i++)
        if (!is_site_bounded(leaks, mp_holders_of(&leaks->holders, finding->track, leaks->stacks.at[i]), &entries,
                             &most))
            return false;
    return true;
}

/* Growth that ends at a container's bound is no leak, unless memory runs out first. If blocks were born in more steps
 * than the container has entries, it is the entries that grow. */
static void find_bound(const struct judge *judge, struct mp_leak_finding *finding)
{
    uint64_t entries, most;
    if (finding->regrown || !mp_leak_is_leak(finding) || finding->class == MP_LEAK_HIDDEN) return;
    if (!is_site_bounded(judge->leaks, finding->held, &entries, &most) || !are_stacks_bounded(judge->leaks, finding))
        return;
    if ((uint64_t)finding->births * 9 > entries * 10) return;
    double each = (double)finding->held->bytes / (double)entries;
    uint64_t now = each > 0 ? (uint64_t)((double)finding->bytes / each + 0.5) : most;
    finding->entries = now < most ? now : most;
    finding->most = most;
    finding->to_come = (uint64_t)((double)(most - finding->entries) * each);
    if (finding->eta_oom_steps != UINT64_MAX &&
        (double)finding->to_come > (double)finding->eta_oom_steps * finding->bytes_per_step)
        return;
    finding->class = MP_LEAK_BOUNDED;
    if (finding->at_twice > finding->bytes + finding->to_come) finding->at_twice = finding->bytes + finding->to_come;
    finding->eta_oom_steps = UINT64_MAX;
}

static bool share_cause(const struct mp_leaks *leaks, const struct mp_leak_finding *a, const struct mp_leak_finding *b)
{
    const struct mp_holder *one = holder_of(leaks, a->held), *other = holder_of(leaks, b->held);
    bool alike = mp_leak_is_leak(a) ? mp_leak_is_leak(b) : a->class == b->class;
    if (!one || !other || !alike) return false;
    size_t length = mp_holder_root(one->path);
    return length == mp_holder_root(other->path) && !memcmp(one->path, other->path, length);
}

MP_ORDER(by_cause, struct mp_leak_finding, MP_RISING(cause) ?: by_rate(a, b))

/* Sums up the findings of each cause, and sorts them: the highest finding of a cause comes first. */
static void find_causes(const struct judge *judge)
{
    struct mp_leaks *leaks = judge->leaks;
    size_t count = leaks->findings.count;
    struct mp_leak_finding *at = leaks->findings.at;
    if (!count) return;
    mp_holders_find(judge->model, false, &leaks->holders);
    for (size_t i = 0; i < count; i++) {
        at[i].held = at[i].stack ? mp_holders_of(&leaks->holders, at[i].track, at[i].stack) : NULL;
        const struct mp_holder *holder = holder_of(leaks, at[i].held);
        if (at[i].class == MP_LEAK_RETENTION && holder && mp_holder_awaits_gc(holder)) at[i].class = MP_LEAK_CYCLE;
        /* Python's collector does not free what a name leads to. */
        if (at[i].class == MP_LEAK_CYCLE && holder && !mp_holder_is_cycle(holder)) at[i].class = MP_LEAK_RETENTION;
        find_bound(judge, &at[i]);
    }
    qsort(at, count, sizeof *at, by_rate);
    for (size_t i = 0, causes = 0; i < count; i++) {
        size_t first = 0;
        while (first < i && !(at[first].sum.sites && share_cause(leaks, &at[first], &at[i])))
            first++;
        at[i].cause = first < i ? at[first].cause : (uint32_t)causes++;
        at[first].sum.sites++;
        at[first].sum.bytes += at[i].bytes;
        at[first].sum.blocks += at[i].blocks;
        at[first].sum.bytes_per_step += at[i].bytes_per_step;
        at[first].sum.blocks_per_step += at[i].blocks_per_step;
        at[i].follows = i && at[i].class == MP_LEAK_HIDDEN && at[i].bytes_per_step < at[0].sum.bytes_per_step;
        leaks->causes += first == i && mp_leak_is_leak(&at[i]) && !at[i].follows;
    }
    qsort(at, count, sizeof *at, by_cause);
}

/* Blocks of one stack that were made after the last step and freed at the program's exit. */
struct behind {
    uint32_t stack, first;
    uint64_t kept, early, bytes; /* early: blocks made in the first half of the events after the last step */
};

/* Sites that grow after the last step, such as outputs of an evaluation: no boundary between steps follows, so the rule
 * cannot judge them. */
static void find_behind(struct judge *judge)
{
    const struct mp_model_blocks *blocks = &judge->model->blocks;
    uint32_t from = judge->steps->at[judge->steps->count - 1].end;
    MP_VEC(struct behind) found = {0};
    struct mp_map places = {0};
    for (uint32_t i = 0; i < blocks->count; i++) {
        uint32_t born = blocks->alloc_event[i];
        if (born == MP_NONE || born < from || born >= judge->teardown || blocks->bytes[i] == MP_BYTES_UNKNOWN) continue;
        bool fresh, kept = blocks->free_event[i] >= judge->teardown;
        uint64_t *at = mp_map_at(&places, ((uint64_t)blocks->track[i] << 32 | blocks->stack[i]) + 1, &fresh);
        if (fresh) *at = found.count;
        if (fresh) mp_vec_add(&found, ((struct behind){.stack = blocks->stack[i], .first = i}));
        found.at[*at].kept += kept;
        found.at[*at].early += kept && born - from < (judge->teardown - from) / 2;
        found.at[*at].bytes += kept ? blocks->bytes[i] : 0;
    }
    mp_vec_each (const struct behind, place, &found) {
        if (place->kept < MP_LEAK_BIRTHS || place->early * 4 < place->kept || place->bytes < WORTH_BYTES) continue;
        const struct mp_leak_finding finding = {.class = MP_LEAK_RETAINED_ONCE,
                                                .track = blocks->track[place->first],
                                                .stack = place->stack,
                                                .bytes = place->bytes,
                                                .blocks = place->kept,
                                                .first_step = judge->places.first_step + judge->places.steps,
                                                .eta_oom_steps = UINT64_MAX};
        mp_vec_add(&judge->leaks->findings, finding);
        judge->behind++;
    }
    mp_map_free(&places);
    mp_vec_free(&found);
}

static uint32_t steps_needed(const struct judge *judge)
{
    return judge->steps->guessed ? MP_LEAK_GUESSED_STEPS : MP_LEAK_STEPS;
}

/* True if the minimum between steps is higher in the last third than in the first. The first few steps, which make
 * lasting blocks, do not count. Guessed steps may be parts of steps, so the minimum must at least double, and rise by
 * WORTH_BYTES. */
static bool level_grows(const struct judge *judge)
{
    uint32_t last = judge->places.last, third = last / 3, k = 0;
    uint64_t level = 0, first = UINT64_MAX, end = UINT64_MAX;
    if (!judge->places.enough || third < 2) return false;
    const struct mp_step *steps = &judge->steps->at[judge->places.first_step];
    struct mp_level *levels = mp_alloc_zeroed(judge->model->tracks.count, sizeof *levels);
    for (uint16_t track = 0; track < judge->model->tracks.count; track++)
        levels[track] = mp_level_start(judge->model, track);
    for (uint32_t event = 0; k <= last; event++) {
        if (event == steps[k].first) {
            level = 0;
            for (uint16_t track = 0; track < judge->model->tracks.count; track++)
                if (judge->query->track == MP_TRACK_NONE || judge->query->track == track) level += levels[track].bytes;
            if (k > 1 && k <= third && level < first) first = level;
            if (k > last - third && level < end) end = level;
            k++;
        }
        if (judge->model->events.type[event] <= MP_EVENT_RESIZE)
            mp_level_apply(&levels[judge->model->events.track[event]], judge->model, judge->model->events.track[event],
                           event);
    }
    free(levels);
    return end > first && (!judge->steps->guessed || (end > 2 * first && end - first >= WORTH_BYTES));
}

#define SAY(leaks, ...) snprintf((leaks)->reason, sizeof(leaks)->reason, __VA_ARGS__)

static void tell_unsure_growth(struct mp_leaks *leaks)
{
    char grown[MP_UNIT_TEXT], each[MP_UNIT_TEXT];
    SAY(leaks,
        "the process grew by %s, %s a step, outside of recorded blocks (NumPy, Python objects, malloc); snapshot "
        "--host records what keeps it, a longer recording whether it goes on",
        mp_format_bytes(grown, leaks->unsure_growth.bytes),
        mp_format_bytes(each, (uint64_t)leaks->unsure_growth.bytes_per_step));
}

static void tell_caches(const struct judge *judge)
{
    struct mp_stack_lines lines = {0};
    struct mp_buffer site = {0};
    mp_stack_resolve(judge->model, judge->cache, &lines);
    mp_frame_headline(&site, &lines);
    SAY(judge->leaks,
        "%zu site%s one buffer anew, larger, in round after round, as a cache does within one request: %.*s; "
        "record more rounds or requests to tell",
        judge->leaks->caches, judge->leaks->caches == 1 ? " makes" : "s make", (int)(site.size < 80 ? site.size : 80),
        (const char *)site.data);
    mp_buffer_free(&site);
    mp_stack_lines_free(&lines);
}

static void give_verdict(const struct judge *judge)
{
    struct mp_leaks *leaks = judge->leaks;
    uint32_t steps = judge->places.steps, needed = steps_needed(judge);
    for (size_t i = 0; i < leaks->findings.count; i++)
        leaks->leaks += mp_leak_is_leak(&leaks->findings.at[i]);
    leaks->verdict = leaks->leaks ? MP_VERDICT_LEAK : MP_VERDICT_UNKNOWN;
    if (leaks->leaks) return;
    bool native = judge->model->stacks.count > 1 && mp_loop_language(judge->model) == MP_NATIVE;
    if (!judge->steps->count)
        SAY(leaks, "%s",
            judge->steps->running
                ? "the program marks no steps; memprof snapshot --pid PID writes a file in which leaks looks for "
                  "its loop"
            : !mp_model_was_recorded(judge->model)
                ? "the file shows no loop, and growth is measured from one step to the next"
            : native ? "no steps were found; call memprof_step() in the loop (memprof.h), or mark it by NVTX and "
                       "record with --step-range NAME"
                     : "no steps were found; call libmemprof.step() in the loop, or record with --step-at FUNCTION");
    else if (steps < needed)
        SAY(leaks, "too few steps: %u%s, %u needed", steps,
            judge->steps->guessed ? " inferred from the order of allocations" : "", needed);
    else if (judge->few)
        SAY(leaks, "%zu site%s grew, but in fewer than %d steps; record longer to tell", judge->few,
            judge->few == 1 ? "" : "s", MP_LEAK_BIRTHS);
    else if (judge->behind)
        SAY(leaks,
            "%zu site%s kept blocks again and again behind the last step, as an evaluation does that keeps its "
            "outputs",
            judge->behind, judge->behind == 1 ? "" : "s");
    else if (judge->paused)
        SAY(leaks, "%zu site%s grew until shortly before the end and may be full; record longer to tell", judge->paused,
            judge->paused == 1 ? "" : "s");
    else if (leaks->unsure_growth.bytes)
        tell_unsure_growth(leaks);
    else if (leaks->caches)
        tell_caches(judge);
    else if (mp_damage_any(&judge->model->damage))
        SAY(leaks, "nothing keeps growing in the part of the file that could be read");
    else if (leaks->grows && judge->steps->guessed && !leaks->findings.count)
        SAY(leaks,
            "memory grew, but no site in most of %u steps inferred from the order of allocations; call %s in the loop",
            steps, native ? "memprof_step()" : "libmemprof.step()");
    else
        leaks->verdict = MP_VERDICT_CLEAN;
}

static void find_growing(struct judge *judge)
{
    const struct mp_leaks_query *query = judge->query;
    mp_leak_places_find(judge->model, judge->steps, query->track, &query->window, query->filter, &judge->places);
    if (judge->places.enough)
        judge->teardown = mp_leak_teardown(judge->model, judge->steps, &judge->places, &judge->query->window);
    judge->one_loop = judge->places.enough && !steps_are_given(judge->steps) && !trains(judge->model);
    bool guess = judge->steps->guessed && judge->places.last + 1 < MP_LEAK_GUESSED_STEPS;
    for (size_t i = 0; !guess && i < judge->places.at.count; i++)
        judge_place(judge, &judge->places.at.at[i]);
    if (!guess && !query->filter)
        mp_leak_find_fragmentation(judge->model, judge->steps, query->track, &judge->places, judge->leaks);
    if (!guess && !query->filter && query->track == MP_TRACK_NONE)
        mp_leak_find_hidden(judge->model, judge->steps, &judge->places, judge->leaks);
    judge->leaks->places = judge->places.at.count;
    drop_consequences(judge->model, judge->leaks);
    if (judge->places.enough && steps_are_given(judge->steps) && !query->filter) find_behind(judge);
    find_causes(judge);
    judge->leaks->grows = level_grows(judge);
    give_verdict(judge);
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
    sites_at(model, query, query->window.last, &steps, &leaks->outstanding);
    find_held(model, query, &steps, leaks);
    find_lasting(model, query, &steps, leaks);
    if (leaks->verdict == MP_VERDICT_UNKNOWN && !leaks->findings.count) mp_holders_find(model, false, &leaks->holders);
    mp_steps_free(&steps);
    return MP_OK;
}

const char *mp_verdict_name(enum mp_verdict verdict)
{
    static const char *const names[] = {"leak", "clean", "unknown"};
    return names[verdict];
}

void mp_leaks_free(struct mp_leaks *leaks)
{
    mp_vec_free(&leaks->findings);
    mp_vec_free(&leaks->stacks);
    mp_holders_free(&leaks->holders);
    mp_sites_free(&leaks->outstanding);
    mp_sites_free(&leaks->held);
}
