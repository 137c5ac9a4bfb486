#include "analysis/sizing/size_need.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define SAME_LEAST   0.5   /* of the allocations are at places that all have, or the programs are not the same */
#define UNSOLVED     0.01  /* of the bytes did not solve: somebody may have taken another way */
#define SOLVED       0.001 /* and if without him no more than this does not, he has */
#define UNLIKE_LEAST 0.02  /* of the largest one's allocations are more or fewer than another's at the same places */

/* The part that is used, its places and its plan. */
static void make_plan(const struct mp_size_points *points, const struct mp_size_source *sources,
                      const struct mp_size_repeats *repeats, const bool *used, struct mp_size_fit *fit)
{
    *fit = (struct mp_size_fit){.points.two = points->two};
    for (size_t i = 0; i < points->count; i++) {
        if (!used[i]) continue;
        size_t to = fit->points.count++;
        fit->sources[to] = sources[i];
        fit->points.at[to] = points->at[i];
        memcpy(fit->points.monomials[to], points->monomials[i], sizeof *points->monomials);
    }
    fit->count = fit->points.count;
    for (size_t i = 0; i < repeats->count; i++)
        if (used[repeats->of[i]]) fit->sources[fit->count++] = repeats->sources[i];
    mp_size_sites_make(fit->sources, fit->count, &fit->sites);
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
static double without(const struct mp_size_points *points, const struct mp_size_source *sources,
                      const struct mp_size_repeats *repeats, size_t left_out)
{
    bool used[MP_SIZE_PROBES_MAX];
    struct mp_size_fit fit;
    for (size_t i = 0; i < points->count; i++)
        used[i] = i != left_out;
    make_plan(points, sources, repeats, used, &fit);
    double open = unsolved(&fit);
    mp_size_fit_free(&fit);
    return open;
}

/* Which one, left out, makes the rest agree; points->count: none. */
static size_t find_odd(const struct mp_size_points *points, const struct mp_size_source *sources,
                       const struct mp_size_repeats *repeats)
{
    for (size_t i = 0; i < points->count; i++)
        if (without(points, sources, repeats, i) <= SOLVED) return i;
    return points->count;
}

bool mp_size_fit_make(const struct mp_size_points *points, const struct mp_size_source *sources,
                      const struct mp_size_repeats *repeats, bool *used, double *common, struct mp_size_fit *fit)
{
    size_t odd = points->count;
    for (size_t i = 0; i < points->count; i++)
        used[i] = true;
    make_plan(points, sources, repeats, used, fit);
    *common = fit->sites.common;
    if (*common < SAME_LEAST) return false;
    if (points->count > 2 && unsolved(fit) > UNSOLVED) odd = find_odd(points, sources, repeats);
    if (odd == points->count - 1 && !is_unlike(fit)) odd = points->count;
    if (odd < points->count) {
        mp_size_fit_free(fit);
        used[odd] = false;
        make_plan(points, sources, repeats, used, fit);
    }
    mp_size_chance_find(&fit->plan, fit->sources, fit->count, &fit->sites, &fit->chance);
    mp_size_curve_make(&fit->plan, NULL, &fit->curve);
    if (fit->chance.loads) mp_size_curve_make(&fit->plan, fit->chance.received, &fit->bare);
    if (fit->chance.threads) mp_size_curve_make(&fit->plan, fit->chance.beside, &fit->rest);
    return true;
}

struct mp_size_height mp_size_fit_at(const struct mp_size_fit *fit, struct mp_size_point at, double *by_chance)
{
    struct mp_size_height height = mp_size_curve_at(&fit->curve, at);
    double lower, higher, high = height.high;
    if (fit->chance.threads) {
        struct mp_size_height rest = mp_size_curve_at(&fit->rest, at);
        height.low = fmin(height.low, rest.low);
        height.high = fmax(height.high, rest.high + mp_size_chance_threads(&fit->chance, at));
    }
    mp_size_chance_batches(&fit->chance, at, &lower, &higher);
    height.low = fmax(height.low - lower, 0);
    if (fit->chance.loads) height.low = fmax(height.low, mp_size_curve_at(&fit->bare, at).low);
    height.high += higher;
    *by_chance = height.high - high;
    return height;
}

void mp_size_fit_free(struct mp_size_fit *fit)
{
    mp_size_curve_free(&fit->curve);
    mp_size_curve_free(&fit->bare);
    mp_size_curve_free(&fit->rest);
    mp_size_chance_free(&fit->chance);
    mp_size_plan_free(&fit->plan);
    mp_size_sites_free(&fit->sites);
    *fit = (struct mp_size_fit){0};
}

#define FIRST_MAX    (UINT64_C(1) << 40) /* no batch is larger */
#define EVENTS_TRIED 4000000u            /* of all replays in search of the largest */
#define TRIES_LEAST  8

static uint64_t whole_bytes(double bytes)
{
    return bytes <= 0 ? 0 : bytes >= 9e18 ? (uint64_t)9e18 : (uint64_t)bytes;
}

/* ---- how far the method is from the record ---------------------------------------------------------------------- */

/* A probe that took another way counts where it needed more than is said of the way of the others; one beyond the
 * others also where it needed less, since still larger ones may do as it did. */
static void add_miss(const struct mp_size_predictor *predictor, const struct mp_size_probed *probed, double said,
                     double recorded, struct mp_size_error *error)
{
    const struct mp_size_points *points = &predictor->fit->points;
    struct mp_size_point last = points->at[points->count - 1];
    if (said <= 0) return;
    double differ = fabs(said - recorded) / said;
    bool beyond = probed->at.first > last.first || probed->at.second > last.second; /* of those used */
    if (probed->used || recorded > said) error->above = fmax(error->above, differ);
    if (probed->used || (recorded < said && beyond)) error->below = fmax(error->below, differ);
}

static void check_allocated(struct mp_size_predictor *predictor, const struct mp_size_probed *probed, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double by_chance, recorded = (double)probed[i].allocated;
        struct mp_size_height height = mp_size_fit_at(predictor->fit, probed[i].at, &by_chance);
        double said = height.likely;
        if (by_chance > 0) said = fmin(fmax(recorded, height.low), height.high);
        add_miss(predictor, &probed[i], said, recorded, &predictor->error);
    }
}

static struct mp_size_error check_reserved(struct mp_size_predictor *predictor, const struct mp_size_probed *probed,
                                           size_t count, const struct mp_torch_settings *settings)
{
    struct mp_size_error error = {0};
    for (size_t i = 0; i < count; i++) {
        struct mp_size_held said = {0};
        mp_size_reserved_at(&predictor->pool, probed[i].at, MP_SIZE_LIKELY, MP_SIZE_NO_SCRATCH, settings, &said);
        add_miss(predictor, &probed[i], (double)said.reserved, (double)probed[i].reserved, &error);
    }
    return error;
}

/* With the settings that agree with the record better: recordings do not all say which they had. */
static void choose_settings(struct mp_size_predictor *predictor, const struct mp_size_probed *probed, size_t count)
{
    predictor->settings = predictor->pool.recorded;
    struct mp_torch_settings expandable = predictor->settings;
    expandable.expandable = !expandable.expandable;
    predictor->reserved_error = check_reserved(predictor, probed, count, &predictor->settings);
    if (!(predictor->reserved_error.above > 0)) return;
    struct mp_size_error error = check_reserved(predictor, probed, count, &expandable);
    if (error.above >= predictor->reserved_error.above) return;
    predictor->reserved_error = error;
    predictor->settings = expandable;
}

void mp_size_predictor_make(const struct mp_size_fit *fit, const struct mp_size_probed *probed, size_t count,
                            uint64_t limit, struct mp_size_predictor *predictor)
{
    *predictor = (struct mp_size_predictor){.fit = fit, .limit = limit, .reserves = mp_size_reserves(&fit->plan)};
    predictor->outside_least = predictor->outside_most = MP_BYTES_UNKNOWN;
    if (fit->points.count == 2 && count == 2) {
        predictor->unsolved = unsolved(fit);
        predictor->unlike = is_unlike(fit);
    }
    for (size_t i = 0; i < count; i++) {
        predictor->reserves = predictor->reserves && probed[i].reserved != MP_BYTES_UNKNOWN;
        if (probed[i].device == MP_BYTES_UNKNOWN || probed[i].device < probed[i].reserved) continue;
        uint64_t outside = probed[i].device - probed[i].reserved;
        bool first = predictor->outside_least == MP_BYTES_UNKNOWN;
        if (first || outside < predictor->outside_least) predictor->outside_least = outside;
        if (first || outside > predictor->outside_most) predictor->outside_most = outside;
    }
    const struct mp_model *model = fit->plan.source->model;
    predictor->blocks = predictor->reserves && model->tracks.at[fit->plan.source->track].size_basis == MP_BASIS_BLOCK;
    if (!predictor->blocks) check_allocated(predictor, probed, count);
    if (!predictor->reserves) return;
    mp_size_pool_make(&fit->plan, &predictor->pool);
    choose_settings(predictor, probed, count);
}

void mp_size_predictor_free(struct mp_size_predictor *predictor)
{
    mp_size_pool_free(&predictor->pool);
}

const char *mp_size_binds(const struct mp_size_predictor *predictor)
{
    if (!predictor->reserves) return "allocated";
    return predictor->outside_most == MP_BYTES_UNKNOWN ? "reserved" : "device";
}

/* ---- the need --------------------------------------------------------------------------------------------------- */

static uint64_t max_of(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

static uint64_t min_of(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static bool is_beyond(const struct mp_size_predictor *predictor, struct mp_size_point at)
{
    const struct mp_size_points *points = &predictor->fit->points;
    struct mp_size_point last = points->at[points->count - 1];
    return at.first > last.first || at.second > last.second;
}

static struct mp_size_held held_at(struct mp_size_predictor *predictor, struct mp_size_point at,
                                   enum mp_size_bound bound, enum mp_size_scratch scratch)
{
    struct mp_size_held held = {0};
    mp_size_reserved_at(&predictor->pool, at, bound, scratch, &predictor->settings, &held);
    return held;
}

/* Reserved memory and the memory beside it, over the bounds of allocated bytes. */
static void add_reserved(struct mp_size_predictor *predictor, bool exact, struct mp_size_need *need)
{
    uint64_t low, high;
    bool beyond = is_beyond(predictor, need->at);
    double by_chance;
    struct mp_size_held likely = held_at(predictor, need->at, MP_SIZE_LIKELY, MP_SIZE_NO_SCRATCH);
    mp_size_fit_at(predictor->fit, need->at, &by_chance);
    low = high = need->reserved = likely.reserved;
    if (predictor->blocks) need->allocated = likely.allocated;
    if (!exact) {
        uint64_t least = held_at(predictor, need->at, MP_SIZE_LOW, MP_SIZE_NO_SCRATCH).reserved;
        if (least < low) low = least;
        high = max_of(high, held_at(predictor, need->at, MP_SIZE_HIGH, MP_SIZE_NO_SCRATCH).reserved);
    }
    if (beyond && !predictor->as_probed) {
        for (enum mp_size_scratch scratch = MP_SIZE_SCRATCH_BY_EACH; scratch < MP_SIZE_SCRATCH_END; scratch++)
            high = max_of(high, held_at(predictor, need->at, MP_SIZE_HIGH, scratch).reserved);
    }
    low = whole_bytes((double)low * (1 - predictor->reserved_error.below));
    high = whole_bytes(ceil((double)high * (1 + predictor->reserved_error.above) + by_chance));
    /* It holds at least what it hands out. Beyond the probes that is all that is sure: which cached segment serves a
     * request of another size, only that run decides. */
    if (low > need->low && !beyond && !(predictor->unlike && predictor->unsolved > 0)) need->low = low;
    need->high = max_of(high, need->high);
    if (predictor->outside_most == MP_BYTES_UNKNOWN) return;
    need->device = need->reserved + predictor->outside_most;
    need->low += predictor->outside_least;
    need->high += predictor->outside_most;
}

static double share_of(struct mp_size_point at, struct mp_size_point of)
{
    double share = (double)at.first / (double)of.first;
    return of.second ? share * (double)at.second / (double)of.second : share;
}

static bool is_point(struct mp_size_point one, struct mp_size_point other)
{
    return one.first == other.first && one.second == other.second;
}

/* Between two probes that did not do the same, nobody knows which one's way a size takes, nor how much of what looks
 * determined is so by chance: it may need as much as either, or in proportion to it. */
static void widen_inside(const struct mp_size_predictor *predictor, struct mp_size_point at, struct mp_size_need *need)
{
    double by_chance, said = (double)need->allocated, least = said, most = said;
    for (size_t i = 0; i < 2; i++) {
        struct mp_size_point probe = predictor->fit->points.at[i];
        if (is_point(at, probe)) return; /* it was seen */
        double seen = mp_size_fit_at(predictor->fit, probe, &by_chance).likely, even = seen * share_of(at, probe);
        least = fmin(least, fmin(seen, even));
        most = fmax(most, fmax(seen, even));
    }
    need->low = min_of(need->low, whole_bytes(least));
    need->high = max_of(need->high, whole_bytes(ceil(most)));
}

/* Of two probes nobody knows whether what they do not determine goes on at all, and where they did not do the same,
 * whether it goes on in a line or as a square. */
static void widen(const struct mp_size_predictor *predictor, struct mp_size_point at, struct mp_size_need *need)
{
    const struct mp_size_point *first = &predictor->fit->points.at[0], *last = &predictor->fit->points.at[1];
    double by_chance, unsolved = predictor->unsolved;
    if (!(unsolved > 0)) return;
    if (!is_beyond(predictor, at)) {
        if (predictor->unlike) widen_inside(predictor, at, need);
        return;
    }
    double times = fmax((double)at.first / (double)last->first, 1), before = (double)first->first / (double)last->first;
    if (last->second) {
        times *= fmax((double)at.second / (double)last->second, 1);
        before *= (double)first->second / (double)last->second;
    }
    double one = mp_size_fit_at(predictor->fit, *first, &by_chance).likely;
    double two = mp_size_fit_at(predictor->fit, *last, &by_chance).likely;
    double low = (double)need->low - unsolved * two * (times - 1);
    need->low = max_of(whole_bytes(low), min_of(need->low, whole_bytes(two)));
    if (!predictor->unlike) return;
    double high = (double)need->high + unsolved * two * (times * times - times);
    if (before < 1) high = fmax(high, two + fmax(two - one, 0) * (times * times - 1) / (1 - before * before));
    need->high = whole_bytes(ceil(high));
}

static void judge(const struct mp_size_predictor *predictor, struct mp_size_need *need)
{
    need->fits = need->high <= predictor->limit ? MP_FITS_YES
                 : need->low > predictor->limit ? MP_FITS_NO
                                                : MP_FITS_UNSURE;
}

/* The allocated part of it, which costs nothing. */
static struct mp_size_need allocated_at(const struct mp_size_predictor *predictor, struct mp_size_point at, bool *exact)
{
    double by_chance;
    struct mp_size_height height = mp_size_fit_at(predictor->fit, at, &by_chance);
    struct mp_size_need need = {.at = at,
                                .allocated = whole_bytes(height.likely + 0.5),
                                .reserved = MP_BYTES_UNKNOWN,
                                .device = MP_BYTES_UNKNOWN,
                                .low = whole_bytes(height.low * (1 - predictor->error.below) + 0.01),
                                .high = whole_bytes(ceil(height.high * (1 + predictor->error.above) - 0.01))};
    *exact = height.high - height.low < 0.5;
    need.low = min_of(need.low, need.allocated);
    need.high = max_of(need.high, need.allocated);
    widen(predictor, at, &need);
    if (!predictor->reserves && mp_size_reserves(&predictor->fit->plan) && is_beyond(predictor, at) &&
        !predictor->as_probed)
        need.high += mp_size_scratch_most(&predictor->fit->plan, at);
    judge(predictor, &need);
    return need;
}

/* A replay that would hand out millions of blocks is not made: no real question needs one. */
static bool is_bearable(const struct mp_size_predictor *predictor, struct mp_size_point at)
{
    return mp_size_pool_work(&predictor->pool, at) <= mp_size_work_most(&predictor->pool);
}

struct mp_size_need mp_size_need_at(struct mp_size_predictor *predictor, struct mp_size_point at)
{
    bool exact;
    struct mp_size_need need = allocated_at(predictor, at, &exact);
    if (!predictor->reserves || !is_bearable(predictor, at)) return need;
    add_reserved(predictor, exact, &need);
    judge(predictor, &need);
    return need;
}

/* ---- the largest ------------------------------------------------------------------------------------------------ */

static bool allocated_fits(const struct mp_size_predictor *predictor, uint64_t first, uint64_t second)
{
    bool exact;
    return allocated_at(predictor, (struct mp_size_point){first, second}, &exact).fits == MP_FITS_YES;
}

static bool fits(struct mp_size_predictor *predictor, uint64_t first, uint64_t second)
{
    struct mp_size_point at = {first, second};
    return is_bearable(predictor, at) && mp_size_need_at(predictor, at).fits == MP_FITS_YES;
}

/* By the allocated bytes alone: no larger one can fit. */
static struct mp_size_largest bound_largest(const struct mp_size_predictor *predictor, uint64_t second)
{
    struct mp_size_largest largest = {.second = second};
    uint64_t above = 1;
    for (size_t i = 0; i < predictor->fit->points.count; i++) { /* bounds between probes may be wider than at them */
        struct mp_size_point probe = predictor->fit->points.at[i];
        if (probe.second == second && probe.first > above && allocated_fits(predictor, probe.first, second))
            above = probe.first;
    }
    while (above <= FIRST_MAX && allocated_fits(predictor, above, second)) {
        largest.first = above;
        above *= 2;
    }
    largest.endless = above > FIRST_MAX;
    while (!largest.endless && above - largest.first > 1) {
        uint64_t middle = largest.first + (above - largest.first) / 2;
        if (allocated_fits(predictor, middle, second))
            largest.first = middle;
        else
            above = middle;
    }
    return largest;
}

/* How many replays may be tried: few where they take long. */
static uint64_t tries(const struct mp_size_predictor *predictor, struct mp_size_point at)
{
    uint64_t events = predictor->pool.sequence.count + 1, work = mp_size_pool_work(&predictor->pool, at);
    if (work > mp_size_work_most(&predictor->pool)) work = mp_size_work_most(&predictor->pool);
    if (work > events) events = work;
    return events > EVENTS_TRIED / TRIES_LEAST ? TRIES_LEAST
           : events < EVENTS_TRIED / 256       ? 256
                                               : EVENTS_TRIED / events;
}

/* Reserved memory does not only rise: segments are made in steps, and what one size leaves over another may
 * use. So replays begin at the bound of the allocated bytes and go down, one by one or in even steps, to the first that
 * fits; between that and the step above it is halved. */
static struct mp_size_largest search_largest(struct mp_size_predictor *predictor, uint64_t second)
{
    struct mp_size_largest largest = bound_largest(predictor, second);
    if (!predictor->reserves || largest.endless) return largest;
    uint64_t above = largest.first + 1, most = tries(predictor, (struct mp_size_point){largest.first, second}),
             lower = largest.first / 2;
    uint64_t step = (largest.first - lower) / most + 1;
    while (largest.first && !fits(predictor, largest.first, second)) {
        above = largest.first;
        if (above <= lower) { /* half of it and nothing: in larger steps */
            lower = above / 2;
            step = (above - lower) / most + 1;
        }
        largest.first = above > step ? above - step : 0;
    }
    while (above - largest.first > 1) {
        uint64_t middle = largest.first + (above - largest.first) / 2;
        if (fits(predictor, middle, second))
            largest.first = middle;
        else
            above = middle;
    }
    return largest;
}

struct mp_size_largest mp_size_find_largest(struct mp_size_predictor *predictor, uint64_t second, bool sure)
{
    predictor->as_probed = !sure;
    struct mp_size_largest largest = search_largest(predictor, second);
    predictor->as_probed = false;
    return largest;
}

uint64_t mp_size_find_expandable(struct mp_size_predictor *predictor, uint64_t second)
{
    if (!predictor->reserves || predictor->settings.expandable) return 0;
    predictor->settings.expandable = true;
    struct mp_size_largest largest = mp_size_find_largest(predictor, second, false);
    predictor->settings.expandable = false;
    return largest.endless ? 0 : largest.first;
}
