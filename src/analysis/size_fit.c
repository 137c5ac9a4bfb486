#include "analysis/size_fit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAME_LEAST   0.5   /* of the allocations are at places that all have, or the programs are not the same */
#define UNSOLVED     0.01  /* of the bytes did not solve: somebody may have taken another way */
#define SOLVED       0.001 /* and if without him no more than this does not, he has */
#define UNLIKE_LEAST 0.02  /* of the largest one's allocations are more or fewer than another's at the same places */

/* The part that is used, its places and its plan. */
static bool make_plan(const struct mp_size_points *points, const struct mp_size_source *sources, const bool *used,
                      struct mp_size_fit *fit)
{
    *fit = (struct mp_size_fit){.points.two = points->two};
    for (size_t i = 0; i < points->count; i++) {
        if (!used[i]) continue;
        size_t to = fit->points.count++;
        fit->sources[to] = sources[i];
        fit->points.at[to] = points->at[i];
        memcpy(fit->points.monomials[to], points->monomials[i], sizeof *points->monomials);
    }
    return mp_size_sites_make(fit->sources, fit->points.count, &fit->sites) &&
           mp_size_plan_make(&fit->points, fit->sources, &fit->sites, &fit->plan);
}

/* The share of the bytes whose sizes are not proved by one probe more than they have terms. */
static double unsolved(const struct mp_size_fit *fit)
{
    const struct mp_model *model = fit->plan.source->model;
    double all = 0, open = 0;
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        uint32_t value = fit->plan.value_of[block];
        if (value == MP_NONE) continue;
        double bytes = (double)mp_size_bytes(model, block);
        all += bytes;
        if (fit->plan.values.at[value].solution.kind != MP_SIZE_SOLVED) open += bytes;
    }
    return all > 0 ? open / all : 0;
}

/* Whether the largest allocates more or less often than the one before it, as far as that is not a matter of how many
 * steps there were. */
static bool is_unlike(const struct mp_size_fit *fit)
{
    const struct mp_size_places *last = &fit->sites.of[fit->points.count - 1], *before = last - 1;
    double differ = 0, all = 0;
    for (uint32_t place = 0; place < fit->sites.places; place++) {
        double mine = last->first[place + 1] - last->first[place];
        double theirs = before->first[place + 1] - before->first[place];
        differ += fabs(mine - theirs);
        all += mine + theirs;
    }
    return differ > UNLIKE_LEAST * all;
}

/* How much does not solve without one of them. */
static bool without(const struct mp_size_points *points, const struct mp_size_source *sources, size_t left_out,
                    double *open)
{
    bool used[MP_SIZE_PROBES_MAX];
    struct mp_size_fit fit;
    for (size_t i = 0; i < points->count; i++)
        used[i] = i != left_out;
    bool done = make_plan(points, sources, used, &fit);
    *open = done ? unsolved(&fit) : 1;
    mp_size_fit_free(&fit);
    return done;
}

/* Which one, left out, makes the rest agree; points->count: none. */
static bool find_odd(const struct mp_size_points *points, const struct mp_size_source *sources, size_t *odd)
{
    *odd = points->count;
    for (size_t i = 0; i < points->count; i++) {
        double open;
        if (!without(points, sources, i, &open)) return false;
        if (open > SOLVED) continue;
        *odd = i;
        return true;
    }
    return true;
}

enum mp_size_fit_result mp_size_fit_make(const struct mp_size_points *points, const struct mp_size_source *sources,
                                         bool *used, double *common, struct mp_size_fit *fit)
{
    size_t odd = points->count;
    for (size_t i = 0; i < points->count; i++)
        used[i] = true;
    if (!make_plan(points, sources, used, fit)) return MP_SIZE_NO_MEMORY;
    *common = fit->sites.common;
    if (*common < SAME_LEAST) return MP_SIZE_OTHER_PROGRAM;
    if (points->count > 2 && unsolved(fit) > UNSOLVED && !find_odd(points, sources, &odd)) return MP_SIZE_NO_MEMORY;
    if (odd == points->count - 1 && is_unlike(fit)) return MP_SIZE_OTHER_WAY;
    if (odd < points->count - 1) {
        mp_size_fit_free(fit);
        used[odd] = false;
        if (!make_plan(points, sources, used, fit)) return MP_SIZE_NO_MEMORY;
    }
    return mp_size_curve_make(&fit->plan, &fit->curve) ? MP_SIZE_FITTED : MP_SIZE_NO_MEMORY;
}

void mp_size_fit_free(struct mp_size_fit *fit)
{
    mp_size_curve_free(&fit->curve);
    mp_size_plan_free(&fit->plan);
    mp_size_sites_free(&fit->sites);
    *fit = (struct mp_size_fit){0};
}
