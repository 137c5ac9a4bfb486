#include "analysis/sizing/size_plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "model/stack_facts.h"
#include "model/track.h"

#define ROUNDING  512u     /* PyTorch's allocators on devices hand out multiples of this */
#define REMAINDER 1048576u /* and leave a remainder of up to this size unsplit at the end of a block */
#define NEARBY    64       /* earlier blocks of a site to compare a block with */
#define CASES     2.0      /* an unknown size may be this many times the largest one of the probes */

struct planning {
    const struct mp_size_source *sources;
    const struct mp_size_alignment *alignment;
    struct mp_size_plan *plan;
    struct mp_map known; /* hash of a series of sizes, to value + 1 */
    size_t last;         /* the largest probe */
};

/* ---- values ----------------------------------------------------------------------------------------------------- */

/* The factor by which a size without a rule may exceed its largest value at the probes. It is 2, since probes show few
 * cases. Beyond the largest probe it grows with the square of the batch. */
static double size_growth(const struct mp_size_plan *plan, double batch)
{
    double times = fmax(batch / plan->batches.at[plan->batches.count - 1], 1);
    return CASES * times * times;
}

/* Sizes without a rule should not fall at a larger batch. So for a batch up to a probe, the largest size of the probes
 * up to that one counts. */
static double most_seen(const struct mp_size_plan *plan, const struct mp_size_value *value, double batch)
{
    double most = 0;
    const struct mp_size_batches *batches = &plan->batches;
    for (size_t i = 0; i < batches->count && (!i || batches->at[i - 1] < batch || batches->at[i - 1] == batches->at[i]);
         i++)
        most = fmax(most, value->seen[i]);
    return most;
}

struct mp_size_bounds mp_size_value_at(const struct mp_size_plan *plan, uint32_t number, double batch)
{
    const struct mp_size_value *value = &plan->values.at[number];
    double varies = value->opaque ? most_seen(plan, value, batch) * size_growth(plan, batch) : 0;
    return (struct mp_size_bounds){mp_size_sum_at(&value->likely, batch), mp_size_sum_at(&value->low, batch),
                                   mp_size_sum_at(&value->high, batch) + varies};
}

static struct mp_size_sum scale(const struct mp_size_sum *sum, double by)
{
    struct mp_size_sum scaled;
    for (size_t i = 0; i < MP_SIZE_TERMS; i++)
        scaled.term[i] = sum->term[i] * by;
    return scaled;
}

/* Its number. */
static uint32_t add_value(struct planning *planning, const struct mp_size_value *value)
{
    struct mp_size_value added = *value;
    for (size_t i = 1; i <= planning->last; i++)
        added.grows |= value->seen[i] != value->seen[0];
    planning->plan->depends |= added.grows;
    mp_vec_add(&planning->plan->values, added);
    return (uint32_t)planning->plan->values.count - 1;
}

/* Bounds of a size without a rule: from the lowest value at the probes to `varies`. */
static void make_opaque(const struct planning *planning, struct mp_size_value *value)
{
    double least = value->seen[0];
    value->opaque = true;
    for (size_t i = 0; i <= planning->last; i++) {
        value->varies = fmax(value->varies, value->seen[i]);
        least = fmin(least, value->seen[i]);
    }
    value->low = (struct mp_size_sum){{least}};
    value->high = (struct mp_size_sum){{0}};
}

/* First tries sizes without an unsplit remainder, as nearly all blocks have: three probes hardly agree on these by
 * chance. */
static void solve(const struct mp_size_batches *batches, const struct mp_size_seen *seen,
                  struct mp_size_solution *solution)
{
    struct mp_size_seen tight = *seen;
    for (size_t i = 0; i < batches->count; i++)
        tight.low[i] = fmax(tight.low[i], tight.high[i] - ROUNDING + 1);
    mp_size_solve(batches, &tight, solution);
    if (!solution->proved) mp_size_solve(batches, seen, solution);
}

/* Solves each series of sizes once, for all blocks with this series. */
static uint32_t find_value(struct planning *planning, const struct mp_size_seen *seen)
{
    size_t bytes = (planning->last + 1) * sizeof *seen->low;
    uint64_t hash = mp_hash_step(mp_hash_mix(mp_hash_bytes(seen->low, bytes)), mp_hash_bytes(seen->high, bytes)) | 1;
    uint64_t *number = mp_map_at(&planning->known, hash, NULL);
    if (*number && !memcmp(planning->plan->values.at[*number - 1].seen, seen->high, bytes))
        return (uint32_t)*number - 1;
    struct mp_size_solution solution;
    solve(&planning->plan->batches, seen, &solution);
    struct mp_size_value value = {.likely = solution.likely, .low = solution.low, .high = solution.high};
    memcpy(value.seen, seen->high, bytes);
    if (!solution.proved) make_opaque(planning, &value);
    *number = add_value(planning, &value) + 1;
    return (uint32_t)*number - 1;
}

/* ---- blocks that are paired between probes ---------------------------------------------------------------------- */

static uint32_t count_of(const struct planning *planning, size_t probe, uint32_t site)
{
    return planning->alignment->of[probe].first[site + 1] - planning->alignment->of[probe].first[site];
}

static uint32_t block_at(const struct planning *planning, size_t probe, uint32_t site, uint32_t index)
{
    const struct mp_size_places *places = &planning->alignment->of[probe];
    return places->order[places->first[site] + index];
}

/* The bounds of a block's request: both equal it if it is known; else they come from the block's size. */
static void bounds_of_block(const struct mp_size_source *source, uint32_t block, double *low, double *high)
{
    const struct mp_track *track = &source->model->tracks.at[source->track];
    const struct mp_request *request = mp_model_request_of(source->model, block);
    uint64_t bytes = mp_size_bytes(source->model, block);
    bool rounded = track->size_basis == MP_BASIS_BLOCK && track->layer == MP_LAYER_TORCH &&
                   strcmp(mp_track_device(source->model, source->track), "cpu");
    *low = *high = (double)bytes;
    if (rounded && bytes) *low = (double)bytes - (bytes > REMAINDER ? REMAINDER : ROUNDING) + 1;
    if (request && request->bytes <= bytes) *low = *high = (double)request->bytes;
}

/* For a block that other probes lack: guesses the size of an earlier block of its site, else the block's own size at
 * the largest probe.
 */
static uint32_t guess(struct planning *planning, uint32_t site, uint32_t index)
{
    const struct mp_model *model = planning->sources[planning->last].model;
    uint64_t bytes = mp_size_bytes(model, block_at(planning, planning->last, site, index));
    for (uint32_t i = index; i-- && index - i <= NEARBY;) {
        uint32_t like = block_at(planning, planning->last, site, i);
        if (mp_size_bytes(model, like) == bytes) return planning->plan->value_of[like];
    }
    struct mp_size_value value = {0};
    struct mp_size_solution solution;
    struct mp_size_seen seen = {0};
    value.seen[planning->last] = seen.high[planning->last] = (double)bytes;
    mp_size_solve(&planning->plan->batches, &seen, &solution);
    value.likely = solution.likely;
    make_opaque(planning, &value);
    return add_value(planning, &value);
}

static bool is_above(const struct planning *planning, const struct mp_size_value *above,
                     const struct mp_size_value *below)
{
    for (size_t i = 0; i <= planning->last; i++)
        if (above->seen[i] < below->seen[i]) return false;
    return true;
}

/* In the last step, the batch may not be full, so a site may make smaller blocks. Earlier blocks of the site bound
 * these: the smallest earlier size that no probe exceeds. */
static uint32_t limit(struct planning *planning, uint32_t site, uint32_t index, uint32_t number)
{
    const struct mp_size_value *values = planning->plan->values.at, *best = NULL;
    for (uint32_t i = index; i-- && index - i <= NEARBY;) {
        const struct mp_size_value *other =
            &values[planning->plan->value_of[block_at(planning, planning->last, site, i)]];
        if (other->opaque || !is_above(planning, other, &values[number])) continue;
        if (!best || is_above(planning, best, other)) best = other;
    }
    if (!best) return number;
    struct mp_size_value limited = *best;
    limited.low = (struct mp_size_sum){{0}};
    return add_value(planning, &limited);
}

static void pair_blocks(struct planning *planning, uint32_t site, uint32_t paired)
{
    uint32_t known = MP_NONE, limited = MP_NONE;
    for (uint32_t i = 0; i < count_of(planning, planning->last, site); i++) {
        struct mp_size_seen seen = {0};
        for (size_t probe = 0; probe <= planning->last && i < paired; probe++)
            bounds_of_block(&planning->sources[probe], block_at(planning, probe, site, i), &seen.low[probe],
                            &seen.high[probe]);
        uint32_t value = i < paired ? find_value(planning, &seen) : guess(planning, site, i);
        if (planning->plan->values.at[value].opaque) {
            if (value != known) limited = limit(planning, site, i, known = value);
            value = limited;
        }
        planning->plan->value_of[block_at(planning, planning->last, site, i)] = value;
    }
}

/* ---- sites whose blocks are solved as a sum --------------------------------------------------------------------- */

/* Gives each block an equal part of the sum of all live blocks. */
static void share(struct planning *planning, uint32_t site, const struct mp_size_solution *solution, bool at_random)
{
    double whole = planning->alignment->of[planning->last].live_bytes[site], last = -1;
    uint32_t number = MP_NONE;
    for (uint32_t i = 0; i < count_of(planning, planning->last, site); i++) {
        uint32_t block = block_at(planning, planning->last, site, i);
        double bytes = (double)mp_size_bytes(planning->sources[planning->last].model, block);
        if (bytes != last) {
            double part = whole > 0 ? bytes / whole : 0;
            struct mp_size_value value = {.likely = scale(&solution->likely, part),
                                          .low = scale(&solution->low, part),
                                          .high = scale(&solution->high, part),
                                          .at_random = at_random};
            for (size_t probe = 0; probe <= planning->last; probe++)
                value.seen[probe] = planning->alignment->of[probe].live_bytes[site] * part;
            if (at_random || !solution->proved) make_opaque(planning, &value);
            if (at_random) value.low = (struct mp_size_sum){{0}};
            number = add_value(planning, &value);
            last = bytes;
        }
        planning->plan->value_of[block] = number;
    }
}

/* Solves the bytes that live at one time and their number of blocks. If that number grows with the batch, its factors
 * are whole numbers. */
static void share_site(struct planning *planning, uint32_t site)
{
    struct mp_size_seen bytes = {0}, blocks = {0};
    struct mp_size_solution sum, alive;
    double most = 0;
    for (size_t i = 0; i <= planning->last; i++) {
        const struct mp_size_places *places = &planning->alignment->of[i];
        bytes.low[i] = bytes.high[i] = places->live_bytes[site];
        blocks.low[i] = blocks.high[i] = places->live_blocks[site];
        most = fmax(most, places->live_bytes[site]);
    }
    mp_size_solve(&planning->plan->batches, &bytes, &sum);
    mp_size_solve(&planning->plan->batches, &blocks, &alive);
    bool regular =
        alive.proved && alive.likely.term[1] > 0 && !(alive.likely.term[2] > 0) && !planning->alignment->handed[site];
    for (size_t i = 0; i < MP_SIZE_TERMS; i++)
        regular = regular && alive.likely.term[i] == round(alive.likely.term[i]);
    if (!regular) planning->plan->queued += most;
    share(planning, site, &sum, !regular);
}

/* True if each block is born among as many live blocks of its site as its counterparts in the other probes. */
static bool is_in_step(const struct planning *planning, uint32_t site, uint32_t paired)
{
    for (uint32_t i = 0; i < paired; i++) {
        uint32_t mine = planning->alignment->of[0].siblings[block_at(planning, 0, site, i)];
        for (size_t probe = 1; probe <= planning->last; probe++)
            if (planning->alignment->of[probe].siblings[block_at(planning, probe, site, i)] != mine) return false;
    }
    return true;
}

static bool is_steady(const struct planning *planning, uint32_t site)
{
    for (size_t probe = 0; probe < planning->last; probe++)
        if (planning->alignment->of[probe].live_blocks[site] !=
            planning->alignment->of[planning->last].live_blocks[site])
            return false;
    return true;
}

static void plan_site(struct planning *planning, uint32_t site)
{
    uint32_t paired = UINT32_MAX, most = 0;
    for (size_t probe = 0; probe <= planning->last; probe++) {
        uint32_t count = count_of(planning, probe, site);
        paired = count < paired ? count : paired;
        most = count > most ? count : most;
    }
    bool paces = is_in_step(planning, site, paired) && (paired == most || is_steady(planning, site));
    if (!planning->alignment->handed[site] && (paces || !paired))
        pair_blocks(planning, site, paired);
    else
        share_site(planning, site);
    bool opaque = false;
    for (uint32_t i = 0; i < count_of(planning, planning->last, site); i++)
        opaque |=
            planning->plan->values.at[planning->plan->value_of[block_at(planning, planning->last, site, i)]].opaque;
    planning->plan->opaque_sites += opaque;
}

void mp_size_plan_make(const struct mp_size_batches *batches, const struct mp_size_source *sources,
                       const struct mp_size_alignment *alignment, struct mp_size_plan *plan)
{
    struct planning planning = {.sources = sources, .alignment = alignment, .plan = plan, .last = batches->count - 1};
    size_t blocks = sources[planning.last].model->blocks.count;
    *plan = (struct mp_size_plan){.source = &sources[planning.last], .batches = *batches};
    plan->value_of = mp_alloc((blocks + 1) * sizeof *plan->value_of);
    memset(plan->value_of, 0xff, blocks * sizeof *plan->value_of); /* MP_NONE */
    for (uint32_t site = 0; site < alignment->sites; site++)
        plan_site(&planning, site);
    mp_map_free(&planning.known);
    const struct mp_model *model = plan->source->model;
    const struct mp_stack_facts *facts = mp_stack_facts(model);
    for (size_t i = 0; i < blocks && !plan->wide_sums; i++)
        plan->wide_sums = plan->value_of[i] != MP_NONE && facts->of_stack[model->blocks.stack[i]] & MP_FACT_WIDE_SUMS;
}

void mp_size_plan_free(struct mp_size_plan *plan)
{
    mp_vec_free(&plan->values);
    free(plan->value_of);
}

/* ---- the height at a batch ------------------------------------------------------------------------------------- */

struct level {
    double likely, low, high, varies;
};

static void add(struct level *level, const struct level *value, double sign)
{
    level->likely += sign * value->likely;
    level->low += sign * value->low;
    level->high += sign * value->high;
    level->varies += sign * value->varies;
}

static void note_peak(const struct level *level, uint32_t events, struct mp_size_height *height)
{
    if (level->likely > height->likely) height->likely = level->likely, height->moment = events;
    if (level->low > height->low) height->low = level->low;
    if (level->high > height->high) height->high = level->high;
    if (level->varies > height->varies) height->varies = level->varies;
}

struct mp_size_height mp_size_curve_at(const struct mp_size_plan *plan, double batch)
{
    const struct mp_model *model = plan->source->model;
    struct level *values = mp_alloc(plan->values.count * sizeof *values), level = {0};
    struct mp_size_height height = {0};
    for (uint32_t i = 0; i < plan->values.count; i++) {
        struct mp_size_bounds bounds = mp_size_value_at(plan, i, batch);
        const struct mp_size_value *value = &plan->values.at[i];
        values[i] = (struct level){bounds.likely, bounds.low, value->at_random ? 0 : bounds.high,
                                   value->at_random ? 0 : value->varies};
    }
    for (uint32_t block = 0; block < model->blocks.count; block++)
        if (plan->value_of[block] != MP_NONE && model->blocks.alloc_event[block] == MP_NONE)
            add(&level, &values[plan->value_of[block]], 1);
    note_peak(&level, 0, &height);
    for (uint32_t event = 0; event < model->events.count; event++) {
        unsigned type = model->events.type[event];
        if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE) continue;
        uint32_t value = plan->value_of[model->events.subject[event]];
        if (value == MP_NONE) continue;
        add(&level, &values[value], type == MP_EVENT_ALLOC ? 1 : -1);
        if (type == MP_EVENT_ALLOC) note_peak(&level, event + 1, &height);
    }
    free(values);
    height.high += plan->queued * size_growth(plan, batch);
    height.varies += plan->queued;
    return height;
}
