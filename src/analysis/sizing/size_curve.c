#include "analysis/sizing/size_curve.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"
#include "base/map.h"
#include "base/memory.h"

#define SUMS   64
#define COVERS 32 /* levels that were not covered lately are held against each new one */

struct mp_size_bounds mp_size_value_at(const struct mp_size_plan *plan, uint32_t number, struct mp_size_point at)
{
    const struct mp_size_value *value = &plan->values.at[number];
    double monomials[MP_SIZE_TERMS];
    if (value->solution.kind == MP_SIZE_OPAQUE) return mp_size_bound(&plan->points, value->seen, value->growth, at);
    mp_size_monomials(at, monomials);
    return (struct mp_size_bounds){mp_size_sum_at(&value->solution.likely, monomials),
                                   mp_size_sum_at(&value->solution.low, monomials),
                                   mp_size_sum_at(&value->solution.high, monomials)};
}

double mp_size_copies_at(const struct mp_size_plan *plan, uint32_t number, struct mp_size_point at)
{
    const struct mp_size_value *value = &plan->values.at[number];
    double last = value->alive[plan->points.count - 1], monomials[MP_SIZE_TERMS];
    struct mp_size_solution solution;
    struct mp_size_seen seen;
    if (!(last > 0)) return 1;
    memcpy(seen.low, value->alive, sizeof seen.low);
    memcpy(seen.high, value->alive, sizeof seen.high);
    mp_size_solve(&plan->points, &seen, &solution);
    mp_size_monomials(at, monomials);
    double alive =
        solution.kind == MP_SIZE_OPAQUE
            ? mp_size_bound(&plan->points, value->alive, mp_size_growth(&plan->points, value->alive), at).likely
            : mp_size_sum_at(&solution.likely, monomials);
    return fmax(alive / last, 0);
}

static void choose_columns(const struct mp_size_plan *plan, struct mp_size_curve *curve)
{
    bool used[MP_SIZE_TERMS] = {0}, grows[MP_SIZE_TERMS] = {0};
    for (size_t i = 0; i < plan->values.count; i++) {
        const struct mp_size_value *value = &plan->values.at[i];
        if (value->solution.kind == MP_SIZE_OPAQUE) grows[value->growth] = true;
        for (size_t term = 0; term < MP_SIZE_TERMS; term++)
            used[term] = used[term] || value->solution.low.term[term] || value->solution.high.term[term];
    }
    for (unsigned char term = 0; term < MP_SIZE_TERMS; term++) {
        if (used[term]) curve->terms[curve->term_count++] = term;
        if (grows[term]) curve->growths[curve->growth_count++] = term;
    }
    curve->columns = 3 * curve->term_count + curve->growth_count * plan->points.count;
    if (!curve->columns) curve->columns = 1;
}

static void fill_columns(const struct mp_size_plan *plan, struct mp_size_curve *curve)
{
    curve->value_columns = mp_alloc_zeroed(plan->values.count * curve->columns + 1, sizeof *curve->value_columns);
    for (size_t i = 0; i < plan->values.count; i++) {
        const struct mp_size_value *value = &plan->values.at[i];
        int64_t *to = curve->value_columns + i * curve->columns;
        for (size_t term = 0; term < curve->term_count; term++) {
            *to++ = value->solution.likely.term[curve->terms[term]];
            *to++ = value->solution.low.term[curve->terms[term]];
            *to++ = value->solution.high.term[curve->terms[term]];
        }
        if (value->solution.kind != MP_SIZE_OPAQUE) continue;
        for (size_t growth = 0; growth < curve->growth_count; growth++)
            for (size_t probe = 0; probe < plan->points.count; probe++, to++)
                if (curve->growths[growth] == value->growth) *to = (int64_t)(value->seen[probe] * MP_SIZE_UNIT);
    }
}

/* ---- levels ----------------------------------------------------------------------------------------------------- */

struct following {
    struct mp_size_curve *curve;
    const unsigned char *left_out; /* per block; NULL: none */
    int64_t *level;
    struct mp_map seen; /* hash of a level */
    size_t covers[COVERS], cover_count, next_cover;
};

/* Whether one level is nowhere below another: each factor at least as large, the same opaque part. */
static bool covers(const struct mp_size_curve *curve, const int64_t *above, const int64_t *below)
{
    size_t factors = 3 * curve->term_count;
    for (size_t i = 0; i < factors; i++)
        if (above[i] < below[i]) return false;
    return !memcmp(above + factors, below + factors, (curve->columns - factors) * sizeof *above);
}

static bool is_covered(struct following *following)
{
    const struct mp_size_curve *curve = following->curve;
    for (size_t i = 0; i < following->cover_count; i++)
        if (covers(curve, curve->levels.at + following->covers[i] * curve->columns, following->level)) return true;
    return false;
}

static void keep_level(struct following *following, uint32_t event)
{
    struct mp_size_curve *curve = following->curve;
    bool fresh;
    if (is_covered(following)) return;
    uint64_t hash = mp_hash_bytes(following->level, curve->columns * sizeof *following->level) | 1;
    mp_map_at(&following->seen, hash, &fresh);
    if (!fresh) return;
    following->covers[following->next_cover] = curve->moments.count;
    following->next_cover = (following->next_cover + 1) % COVERS;
    if (following->cover_count < COVERS) following->cover_count++;
    struct mp_size_moment moment = {.event = event};
    mp_vec_room_for(&curve->levels, curve->columns);
    mp_vec_add(&curve->moments, moment);
    memcpy(curve->levels.at + curve->levels.count, following->level, curve->columns * sizeof *following->level);
    curve->levels.count += curve->columns;
}

/* Sizes that somebody made up may not fit: what is added modulo 2^64 is taken off again as exactly. */
static void add(struct following *following, uint32_t block, int64_t sign)
{
    const struct mp_size_curve *curve = following->curve;
    const int64_t *of = curve->value_columns + (size_t)curve->plan->value_of[block] * curve->columns;
    for (size_t i = 0; i < curve->columns; i++)
        following->level[i] = (int64_t)((uint64_t)following->level[i] + (uint64_t)sign * (uint64_t)of[i]);
}

static bool counts(const struct following *following, uint32_t block)
{
    return following->curve->plan->value_of[block] != MP_NONE && !(following->left_out && following->left_out[block]);
}

static void follow(struct following *following)
{
    const struct mp_size_plan *plan = following->curve->plan;
    const struct mp_model *model = plan->source->model;
    bool risen = true;
    uint32_t last = 0;
    for (uint32_t block = 0; block < model->blocks.count; block++)
        if (counts(following, block) && model->blocks.alloc_event[block] == MP_NONE) add(following, block, 1);
    for (uint32_t event = 0; event < model->events.count; event++) {
        unsigned type = model->events.type[event];
        if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE) continue;
        uint32_t block = model->events.subject[event];
        if (!counts(following, block)) continue;
        if (type == MP_EVENT_FREE && risen) keep_level(following, last);
        risen = type == MP_EVENT_ALLOC;
        last = event + 1;
        add(following, block, risen ? 1 : -1);
    }
    if (risen) keep_level(following, last);
}

/* Drops the levels that another of those kept covers. */
static void thin(struct mp_size_curve *curve)
{
    size_t kept = 0;
    for (size_t i = 0; i < curve->moments.count; i++) {
        const int64_t *level = curve->levels.at + i * curve->columns;
        bool covered = false;
        for (size_t j = i + 1; j < curve->moments.count && j < i + COVERS && !covered; j++)
            covered = covers(curve, curve->levels.at + j * curve->columns, level);
        if (covered) continue;
        curve->moments.at[kept] = curve->moments.at[i];
        memmove(curve->levels.at + kept++ * curve->columns, level, curve->columns * sizeof *level);
    }
    curve->moments.count = kept;
    curve->levels.count = kept * curve->columns;
}

static const int64_t *opaque_of(const struct mp_size_curve *curve, size_t moment)
{
    return curve->levels.at + moment * curve->columns + 3 * curve->term_count;
}

/* The opaque total at each probe, in bytes. */
static void add_growths(const struct mp_size_curve *curve, size_t moment, double bytes[MP_SIZE_PROBES_MAX])
{
    const int64_t *seen = opaque_of(curve, moment);
    for (size_t probe = 0; probe < curve->plan->points.count; probe++)
        bytes[probe] = 0;
    for (size_t growth = 0; growth < curve->growth_count; growth++)
        for (size_t probe = 0; probe < curve->plan->points.count; probe++)
            bytes[probe] += (double)*seen++ / MP_SIZE_UNIT;
}

/* Whether sizes were nowhere below others. */
static bool is_above(const struct mp_size_curve *curve, const double *above, const double *below)
{
    for (size_t probe = 0; probe < curve->plan->points.count; probe++)
        if (above[probe] < below[probe]) return false;
    return true;
}

static bool is_known_sum(const struct mp_size_curve *curve, const double *bytes)
{
    double known[MP_SIZE_PROBES_MAX];
    for (size_t i = 0; i < curve->sums.count; i++) {
        add_growths(curve, curve->sums.at[i], known);
        if (is_above(curve, known, bytes) && is_above(curve, bytes, known)) return true;
    }
    return false;
}

/* Sizes that vary alone may be steady in sum: the parts that a batch is split into. */
static void solve_sums(struct mp_size_curve *curve)
{
    for (size_t i = 0; curve->growth_count && i < curve->moments.count; i++) {
        struct mp_size_moment *moment = &curve->moments.at[i];
        struct mp_size_seen together;
        struct mp_size_solution solution;
        add_growths(curve, i, together.low);
        add_growths(curve, i, together.high);
        mp_size_solve(&curve->plan->points, &together, &solution);
        moment->steady = solution.kind == MP_SIZE_SOLVED;
        moment->opaque = solution.likely;
        if (moment->steady && curve->sums.count < SUMS && !is_known_sum(curve, together.low))
            mp_vec_add(&curve->sums, i);
    }
}

void mp_size_curve_make(const struct mp_size_plan *plan, const unsigned char *left_out, struct mp_size_curve *curve)
{
    *curve = (struct mp_size_curve){.plan = plan};
    choose_columns(plan, curve);
    struct following following = {
        .curve = curve, .left_out = left_out, .level = mp_alloc_zeroed(curve->columns, sizeof *following.level)};
    fill_columns(plan, curve);
    follow(&following);
    thin(curve);
    solve_sums(curve);
    free(following.level);
    mp_map_free(&following.seen);
}

void mp_size_curve_free(struct mp_size_curve *curve)
{
    free(curve->value_columns);
    mp_vec_free(&curve->moments);
    mp_vec_free(&curve->levels);
    mp_vec_free(&curve->sums);
}

/* ---- asking ----------------------------------------------------------------------------------------------------- */

/* Parts are no more than the sum that they belong to: the least one that was nowhere below them. */
static double most_by_sums(const struct mp_size_curve *curve, size_t index, const double *monomials)
{
    double most = INFINITY, parts[MP_SIZE_PROBES_MAX], sum[MP_SIZE_PROBES_MAX];
    add_growths(curve, index, parts);
    for (size_t i = 0; i < curve->sums.count; i++) {
        add_growths(curve, curve->sums.at[i], sum);
        if (is_above(curve, sum, parts))
            most = fmin(most, mp_size_sum_at(&curve->moments.at[curve->sums.at[i]].opaque, monomials));
    }
    return most;
}

/* The probe that was made there; points.count: none. */
static size_t find_probe(const struct mp_size_points *points, struct mp_size_point at)
{
    size_t probe = 0;
    while (probe < points->count && (points->at[probe].first != at.first || points->at[probe].second != at.second))
        probe++;
    return probe;
}

static struct mp_size_bounds opaque_at(const struct mp_size_curve *curve, size_t index, struct mp_size_point at,
                                       const double *monomials)
{
    const struct mp_size_moment *moment = &curve->moments.at[index];
    const int64_t *seen = opaque_of(curve, index);
    struct mp_size_bounds all = {0};
    size_t probe = find_probe(&curve->plan->points, at);
    if (probe < curve->plan->points.count) {
        double bytes[MP_SIZE_PROBES_MAX];
        add_growths(curve, index, bytes);
        return (struct mp_size_bounds){bytes[probe], bytes[probe], bytes[probe]};
    }
    if (moment->steady) {
        double sum = mp_size_sum_at(&moment->opaque, monomials);
        return (struct mp_size_bounds){sum, sum, sum};
    }
    for (size_t growth = 0; growth < curve->growth_count; growth++) {
        double bytes[MP_SIZE_PROBES_MAX];
        for (probe = 0; probe < curve->plan->points.count; probe++)
            bytes[probe] = (double)*seen++ / MP_SIZE_UNIT;
        struct mp_size_bounds bounds = mp_size_bound(&curve->plan->points, bytes, curve->growths[growth], at);
        all.likely += bounds.likely, all.low += bounds.low, all.high += bounds.high;
    }
    double most = most_by_sums(curve, index, monomials);
    return (struct mp_size_bounds){fmin(all.likely, most), fmin(all.low, most), fmin(all.high, most)};
}

struct mp_size_height mp_size_curve_at(const struct mp_size_curve *curve, struct mp_size_point at)
{
    struct mp_size_height height = {0};
    double monomials[MP_SIZE_TERMS];
    mp_size_monomials(at, monomials);
    for (size_t i = 0; i < curve->moments.count; i++) {
        const int64_t *level = curve->levels.at + i * curve->columns;
        double sums[3] = {0};
        for (size_t term = 0; term < curve->term_count; term++)
            for (size_t which = 0; which < 3; which++)
                sums[which] += (double)*level++ * monomials[curve->terms[term]];
        struct mp_size_bounds opaque =
            curve->growth_count ? opaque_at(curve, i, at, monomials) : (struct mp_size_bounds){0};
        double likely = sums[0] / MP_SIZE_UNIT + opaque.likely;
        if (likely > height.likely) {
            height.likely = likely;
            height.opaque = opaque.likely;
            height.moment = curve->moments.at[i].event;
        }
        height.low = fmax(height.low, sums[1] / MP_SIZE_UNIT + opaque.low);
        height.high = fmax(height.high, sums[2] / MP_SIZE_UNIT + opaque.high);
    }
    return height;
}
