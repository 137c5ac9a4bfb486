#include "analysis/sizing/size_plan.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/sizing/size_chance.h"
#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"
#include "model/track.h"

#define ROUNDING  512u     /* PyTorch's allocators on devices hand out multiples of it */
#define REMAINDER 1048576u /* and leave up to so much unsplit at the end of a block that is larger than that */

struct planning {
    const struct mp_size_source *sources;
    const struct mp_size_sites *sites;
    struct mp_size_plan *plan;
    struct mp_map known;    /* hash of what was seen to value + 1 */
    size_t last;            /* the largest probe */
    unsigned char *loading; /* per stack of it: mp_size_loading() */
};

/* Bytes of a request, from a track's sizes. */
static void bounds_of(const struct mp_size_source *source, uint64_t bytes, double *low, double *high)
{
    const struct mp_track *track = &source->model->tracks.at[source->track];
    bool rounded = track->size_basis == MP_BASIS_BLOCK && track->layer == MP_LAYER_TORCH &&
                   strcmp(mp_track_device(source->model, source->track), "cpu");
    *low = *high = (double)bytes;
    if (rounded && bytes) *low = (double)bytes - (bytes > REMAINDER ? REMAINDER : ROUNDING) + 1;
}

/* The same of a block, of which PyTorch's own history may have told. */
static void bounds_of_block(const struct mp_size_source *source, uint32_t block, double *low, double *high)
{
    const struct mp_request *request = mp_model_request_of(source->model, block);
    uint64_t bytes = mp_size_bytes(source->model, block);
    bounds_of(source, bytes, low, high);
    if (request && request->bytes <= bytes) *low = *high = (double)request->bytes;
}

/* Nearly always nothing was left unsplit. That three probes agree so by chance is not to be expected. */
static bool solve_tight(const struct mp_size_points *points, const struct mp_size_seen *seen,
                        struct mp_size_solution *solution)
{
    struct mp_size_seen tight = *seen;
    bool tighter = false;
    for (size_t i = 0; i < points->count; i++) {
        if (tight.high[i] - tight.low[i] < ROUNDING) continue;
        tight.low[i] = tight.high[i] - ROUNDING + 1;
        tighter = true;
    }
    if (!tighter) return false;
    mp_size_solve(points, &tight, solution);
    return solution->kind == MP_SIZE_SOLVED;
}

static bool is_same(const struct planning *planning, const struct mp_size_value *value, const struct mp_size_seen *seen)
{
    return !memcmp(value->seen, seen->high, planning->plan->points.count * sizeof *value->seen);
}

static uint64_t hash_seen(const struct planning *planning, const struct mp_size_seen *seen)
{
    size_t bytes = planning->plan->points.count * sizeof *seen->low;
    return mp_hash_step(mp_hash_mix(mp_hash_bytes(seen->low, bytes)), mp_hash_bytes(seen->high, bytes)) | 1;
}

/* The value's number. */
static uint32_t add_value(struct planning *planning, const struct mp_size_value *value)
{
    struct mp_size_value added = *value;
    if (value->solution.kind == MP_SIZE_OPAQUE) added.growth = mp_size_growth(&planning->plan->points, value->seen);
    for (size_t i = 1; i < planning->plan->points.count; i++)
        added.grows = added.grows || value->seen[i] != value->seen[0];
    planning->plan->depends = planning->plan->depends || added.grows;
    mp_vec_add(&planning->plan->values, added);
    return (uint32_t)planning->plan->values.count - 1;
}

/* Solves what was seen, once for all blocks of which the same was seen. */
static uint32_t find_value(struct planning *planning, const struct mp_size_seen *seen)
{
    uint64_t *number = mp_map_at(&planning->known, hash_seen(planning, seen), NULL);
    if (*number && is_same(planning, &planning->plan->values.at[*number - 1], seen)) return (uint32_t)*number - 1;
    struct mp_size_value value = {0};
    if (!solve_tight(&planning->plan->points, seen, &value.solution))
        mp_size_solve(&planning->plan->points, seen, &value.solution);
    memcpy(value.seen, seen->high, planning->plan->points.count * sizeof *value.seen);
    *number = add_value(planning, &value) + 1;
    return (uint32_t)*number - 1;
}

static struct mp_size_sum scale(const struct mp_size_sum *sum, double by)
{
    struct mp_size_sum scaled;
    for (size_t i = 0; i < MP_SIZE_TERMS; i++)
        scaled.term[i] = (int64_t)((double)sum->term[i] * by);
    return scaled;
}

static uint32_t count_of(const struct planning *planning, size_t probe, uint32_t place)
{
    return planning->sites->of[probe].first[place + 1] - planning->sites->of[probe].first[place];
}

static uint32_t block_at(const struct planning *planning, size_t probe, uint32_t place, uint32_t index)
{
    const struct mp_size_places *places = &planning->sites->of[probe];
    return places->order[places->first[place] + index];
}

static void set_value(struct planning *planning, uint32_t block, uint32_t value)
{
    planning->plan->value_of[block] = value;
    enum mp_size_answer_kind kind = planning->plan->values.at[value].solution.kind;
    planning->plan->blocks++;
    planning->plan->opaque_blocks += kind == MP_SIZE_OPAQUE;
    planning->plan->unchecked_blocks += kind == MP_SIZE_UNCHECKED;
    planning->plan->values.at[value].taking |= 1u << mp_size_plan_taking(planning->plan, block);
}

/* ---- places with as many live blocks in every probe ------------------------------------------------------------- */

static void pair_block(struct planning *planning, uint32_t place, uint32_t index)
{
    struct mp_size_seen seen = {0};
    for (size_t probe = 0; probe <= planning->last; probe++) {
        const struct mp_size_source *source = &planning->sources[probe];
        bounds_of_block(source, block_at(planning, probe, place, index), &seen.low[probe], &seen.high[probe]);
    }
    set_value(planning, block_at(planning, planning->last, place, index), find_value(planning, &seen));
}

/* A block that the other probes do not have: as another of its place and size, else known only at the largest. */
static void guess_block(struct planning *planning, uint32_t place, uint32_t index, uint32_t paired)
{
    const struct mp_model *model = planning->sources[planning->last].model;
    uint32_t block = block_at(planning, planning->last, place, index);
    uint64_t bytes = mp_size_bytes(model, block);
    for (uint32_t i = 0; i < paired && i < 64; i++) {
        uint32_t like = block_at(planning, planning->last, place, paired - 1 - i);
        if (mp_size_bytes(model, like) != bytes) continue;
        set_value(planning, block, planning->plan->value_of[like]);
        return;
    }
    struct mp_size_value value = {.solution.kind = MP_SIZE_OPAQUE};
    value.seen[planning->last] = (double)bytes;
    set_value(planning, block, add_value(planning, &value));
}

/* Whether a solved size was nowhere below what was seen of an opaque one. */
static bool was_above(const struct mp_size_points *points, const struct mp_size_value *solved,
                      const struct mp_size_value *opaque)
{
    for (size_t probe = 0; probe < points->count; probe++)
        if (solved->seen[probe] < opaque->seen[probe]) return false;
    return true;
}

/* The least of the solved sizes of this place that an opaque one never exceeded; MP_NONE: none. */
static uint32_t find_limit(const struct planning *planning, uint32_t place, uint32_t value)
{
    const struct mp_size_plan *plan = planning->plan;
    const struct mp_size_value *opaque = &plan->values.at[value];
    uint32_t limit = MP_NONE, count = count_of(planning, planning->last, place);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t other = plan->value_of[block_at(planning, planning->last, place, i)];
        const struct mp_size_value *solved = &plan->values.at[other];
        if (other == limit || solved->solution.kind != MP_SIZE_SOLVED) continue;
        if (!was_above(&plan->points, solved, opaque)) continue;
        if (limit == MP_NONE || was_above(&plan->points, &plan->values.at[limit], solved)) limit = other;
    }
    return limit;
}

/* Where a place makes the same in every step but in one, which made less (a last batch that is not full), that one is
 * bounded by the others. */
static void limit_opaque(struct planning *planning, uint32_t place)
{
    struct mp_size_plan *plan = planning->plan;
    uint32_t mine = count_of(planning, planning->last, place), known = MP_NONE, limited = MP_NONE;
    for (uint32_t i = 0; i < mine; i++) {
        uint32_t *value = &plan->value_of[block_at(planning, planning->last, place, i)];
        if (plan->values.at[*value].solution.kind != MP_SIZE_OPAQUE) continue;
        if (*value != known) {
            known = *value;
            limited = find_limit(planning, place, known);
            if (limited != MP_NONE) {
                struct mp_size_value bounded = plan->values.at[limited];
                double part = plan->values.at[known].seen[planning->last] / bounded.seen[planning->last];
                bounded.solution.low = (struct mp_size_sum){0};
                bounded.solution.likely = scale(&bounded.solution.likely, part);
                limited = add_value(planning, &bounded);
            }
        }
        if (limited == MP_NONE) continue;
        *value = limited;
        plan->opaque_blocks--;
    }
}

/* ---- places that are met more often the larger the batch, but hold no more at once ------------------------------ */

#define RANKS 64

/* The distinct sizes of a place in one probe, ascending; 0 where there are more than RANKS. */
static size_t list_sizes(const struct planning *planning, size_t probe, uint32_t place, uint64_t sizes[RANKS])
{
    size_t count = 0;
    for (uint32_t i = 0; i < count_of(planning, probe, place); i++) {
        uint64_t bytes = mp_size_bytes(planning->sources[probe].model, block_at(planning, probe, place, i));
        size_t at = 0;
        while (at < count && sizes[at] < bytes)
            at++;
        if (at < count && sizes[at] == bytes) continue;
        if (count == RANKS) return 0;
        memmove(sizes + at + 1, sizes + at, (count++ - at) * sizeof *sizes);
        sizes[at] = bytes;
    }
    return count;
}

/* The i-th smallest size against the i-th smallest: right where all of them solve. values[i] is of the i-th smallest
 * at the largest probe. False where it does not go. */
static bool pair_sizes(struct planning *planning, uint32_t place, uint32_t values[RANKS], uint64_t sizes[RANKS])
{
    static const struct mp_size_seen none;
    struct mp_size_seen seen[RANKS];
    size_t count = list_sizes(planning, planning->last, place, sizes);
    bool ranked = count;
    for (size_t rank = 0; rank < count; rank++)
        seen[rank] = none;
    for (size_t probe = 0; ranked && probe <= planning->last; probe++) {
        uint64_t theirs[RANKS];
        ranked = list_sizes(planning, probe, place, theirs) == count;
        for (size_t rank = 0; ranked && rank < count; rank++)
            bounds_of(&planning->sources[probe], theirs[rank], &seen[rank].low[probe], &seen[rank].high[probe]);
    }
    for (size_t rank = 0; ranked && rank < count; rank++) {
        values[rank] = find_value(planning, &seen[rank]);
        ranked = planning->plan->values.at[values[rank]].solution.kind == MP_SIZE_SOLVED;
    }
    return ranked;
}

static bool rank_place(struct planning *planning, uint32_t place)
{
    uint64_t sizes[RANKS];
    uint32_t values[RANKS];
    if (!pair_sizes(planning, place, values, sizes)) return false;
    for (uint32_t i = 0; i < count_of(planning, planning->last, place); i++) {
        uint32_t block = block_at(planning, planning->last, place, i);
        size_t rank = 0;
        while (sizes[rank] != mp_size_bytes(planning->sources[planning->last].model, block))
            rank++;
        set_value(planning, block, values[rank]);
    }
    return true;
}

static void pair_place(struct planning *planning, uint32_t place, uint32_t least)
{
    uint32_t mine = count_of(planning, planning->last, place);
    for (uint32_t i = 0; i < mine && i < least; i++)
        pair_block(planning, place, i);
    for (uint32_t i = least; i < mine; i++)
        guess_block(planning, place, i, least);
    limit_opaque(planning, place);
}

/* ---- places of which more live at once the larger the batch ----------------------------------------------------- */

static void share_place(struct planning *planning, uint32_t place)
{
    struct mp_size_seen together = {0};
    const struct mp_size_source *source = &planning->sources[planning->last];
    uint32_t mine = count_of(planning, planning->last, place), shared = MP_NONE;
    double whole = planning->sites->of[planning->last].live_bytes[place], of_last = -1;
    for (size_t probe = 0; probe <= planning->last; probe++)
        together.low[probe] = together.high[probe] = planning->sites->of[probe].live_bytes[place];
    struct mp_size_solution solution;
    mp_size_solve(&planning->plan->points, &together, &solution);
    for (uint32_t i = 0; i < mine; i++) {
        uint32_t block = block_at(planning, planning->last, place, i);
        double bytes = (double)mp_size_bytes(source->model, block), part = whole > 0 ? bytes / whole : 0;
        if (bytes != of_last) {
            struct mp_size_value value = {.solution.kind = solution.kind};
            value.solution.likely = scale(&solution.likely, part);
            value.solution.low = scale(&solution.low, part);
            value.solution.high = scale(&solution.high, part);
            for (size_t probe = 0; probe <= planning->last; probe++) {
                value.seen[probe] = together.high[probe] * part;
                value.alive[probe] = planning->sites->of[probe].live_blocks[place];
            }
            shared = add_value(planning, &value);
            of_last = bytes;
        }
        set_value(planning, block, shared);
    }
}

/* Batches come in the order of chance: the place's first block is not the other recording's first. */
static bool is_loading(const struct planning *planning, uint32_t place)
{
    const struct mp_model *model = planning->sources[planning->last].model;
    if (!count_of(planning, planning->last, place)) return false;
    uint32_t stack = model->blocks.stack[block_at(planning, planning->last, place, 0)];
    return stack < model->stacks.count && planning->loading[stack];
}

static void plan_place(struct planning *planning, uint32_t place)
{
    uint32_t least = UINT32_MAX;
    bool steady = true;
    for (size_t probe = 0; probe <= planning->last; probe++) {
        uint32_t count = count_of(planning, probe, place);
        if (count < least) least = count;
        if (planning->sites->of[probe].live_blocks[place] != planning->sites->of[planning->last].live_blocks[place])
            steady = false;
    }
    bool equal = true;
    for (size_t probe = 0; probe <= planning->last; probe++)
        equal = equal && count_of(planning, probe, place) == least;
    if (is_loading(planning, place) && rank_place(planning, place)) return;
    if (!equal && !steady)
        share_place(planning, place);
    else if (equal || !rank_place(planning, place))
        pair_place(planning, place, least);
}

void mp_size_plan_make(const struct mp_size_points *points, const struct mp_size_source *sources,
                       const struct mp_size_sites *sites, struct mp_size_plan *plan)
{
    struct planning planning = {.sources = sources, .sites = sites, .plan = plan, .last = points->count - 1};
    planning.loading = mp_size_loading(sources[planning.last].model);
    size_t blocks = sources[planning.last].model->blocks.count;
    *plan = (struct mp_size_plan){.source = &sources[planning.last], .points = *points};
    plan->value_of = mp_alloc((blocks + 1) * sizeof *plan->value_of);
    plan->taking = mp_size_scratch_find(plan->source->model);
    for (size_t i = 0; i < blocks; i++)
        plan->value_of[i] = MP_NONE;
    for (uint32_t place = 0; place < sites->places; place++)
        plan_place(&planning, place);
    mp_map_free(&planning.known);
    free(planning.loading);
}

void mp_size_plan_free(struct mp_size_plan *plan)
{
    mp_vec_free(&plan->values);
    free(plan->value_of);
    free(plan->taking);
}

enum mp_size_taking mp_size_plan_taking(const struct mp_size_plan *plan, uint32_t block)
{
    return plan->taking[plan->source->model->blocks.stack[block]];
}
