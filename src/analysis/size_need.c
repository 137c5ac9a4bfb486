#include "analysis/size_need.h"

#include <math.h>

#define FIRST_MAX    (UINT64_C(1) << 40) /* no batch is larger */
#define EVENTS_TRIED 4000000u            /* of all replays in search of the largest */
#define TRIES_LEAST  8

static uint64_t whole_bytes(double bytes)
{
    return bytes <= 0 ? 0 : bytes >= 9e18 ? (uint64_t)9e18 : (uint64_t)bytes;
}

/* ---- how far the method is from the record ---------------------------------------------------------------------- */

/* A probe that took another way counts where it needed more than is said of the way of the others. */
static double miss(const struct mp_size_probed *probed, double said, double recorded)
{
    if (said <= 0 || (!probed->used && recorded < said)) return 0;
    return fabs(said - recorded) / said;
}

static void check_allocated(struct mp_size_needing *needing, const struct mp_size_probed *probed, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        double said = mp_size_curve_at(&needing->fit->curve, probed[i].at).likely;
        needing->error = fmax(needing->error, miss(&probed[i], said, (double)probed[i].allocated));
    }
}

static double check_reserved(struct mp_size_needing *needing, const struct mp_size_probed *probed, size_t count,
                             const struct mp_torch_settings *settings)
{
    double error = 0;
    for (size_t i = 0; i < count; i++) {
        struct mp_size_held said = {0};
        if (!mp_size_reserved_at(&needing->reserving, probed[i].at, MP_SIZE_LIKELY, settings, &said))
            needing->failed = true;
        error = fmax(error, miss(&probed[i], (double)said.reserved, (double)probed[i].reserved));
    }
    return error;
}

/* With the settings that agree with the record better: recordings do not all say which they had. */
static void choose_settings(struct mp_size_needing *needing, const struct mp_size_probed *probed, size_t count)
{
    needing->settings = needing->reserving.recorded;
    struct mp_torch_settings expandable = needing->settings;
    expandable.expandable = !expandable.expandable;
    needing->reserved_error = check_reserved(needing, probed, count, &needing->settings);
    if (!(needing->reserved_error > 0)) return;
    double error = check_reserved(needing, probed, count, &expandable);
    if (error >= needing->reserved_error) return;
    needing->reserved_error = error;
    needing->settings = expandable;
}

bool mp_size_needing_make(const struct mp_size_fit *fit, const struct mp_size_probed *probed, size_t count,
                          uint64_t limit, struct mp_size_needing *needing)
{
    *needing = (struct mp_size_needing){.fit = fit, .limit = limit, .reserves = mp_size_reserves(&fit->plan)};
    needing->outside_least = needing->outside_most = MP_BYTES_UNKNOWN;
    for (size_t i = 0; i < count; i++) {
        needing->reserves = needing->reserves && probed[i].reserved != MP_BYTES_UNKNOWN;
        if (probed[i].device == MP_BYTES_UNKNOWN || probed[i].device < probed[i].reserved) continue;
        uint64_t outside = probed[i].device - probed[i].reserved;
        bool first = needing->outside_least == MP_BYTES_UNKNOWN;
        if (first || outside < needing->outside_least) needing->outside_least = outside;
        if (first || outside > needing->outside_most) needing->outside_most = outside;
    }
    const struct mp_model *model = fit->plan.source->model;
    needing->blocks = needing->reserves && model->tracks.at[fit->plan.source->track].size_basis == MP_BASIS_BLOCK;
    if (!needing->blocks) check_allocated(needing, probed, count);
    if (!needing->reserves) return true;
    if (!mp_size_reserving_make(&fit->plan, &needing->reserving)) return false;
    choose_settings(needing, probed, count);
    return !needing->failed;
}

void mp_size_needing_free(struct mp_size_needing *needing)
{
    mp_size_reserving_free(&needing->reserving);
}

const char *mp_size_binds(const struct mp_size_needing *needing)
{
    if (!needing->reserves) return "allocated";
    return needing->outside_most == MP_BYTES_UNKNOWN ? "reserved" : "device";
}

/* ---- the need --------------------------------------------------------------------------------------------------- */

static struct mp_size_held held_at(struct mp_size_needing *needing, struct mp_size_point at, enum mp_size_bound bound)
{
    struct mp_size_held held = {0};
    if (!mp_size_reserved_at(&needing->reserving, at, bound, &needing->settings, &held)) needing->failed = true;
    return held;
}

/* What the allocator holds and what is beside it, over the bounds of what is allocated. */
static void add_reserved(struct mp_size_needing *needing, bool exact, struct mp_size_need *need)
{
    uint64_t low, high;
    struct mp_size_held likely = held_at(needing, need->at, MP_SIZE_LIKELY);
    low = high = need->reserved = likely.reserved;
    if (needing->blocks) need->allocated = likely.allocated;
    if (!exact) {
        uint64_t least = held_at(needing, need->at, MP_SIZE_LOW).reserved;
        uint64_t most = held_at(needing, need->at, MP_SIZE_HIGH).reserved;
        if (least < low) low = least;
        if (most > high) high = most;
    }
    low = whole_bytes((double)low * (1 - needing->reserved_error));
    high = whole_bytes(ceil((double)high * (1 + needing->reserved_error)));
    /* It holds at least what it hands out. */
    need->low = low > need->low ? low : need->low;
    need->high = high > need->high ? high : need->high;
    if (needing->outside_most == MP_BYTES_UNKNOWN) return;
    need->device = need->reserved + needing->outside_most;
    need->low += needing->outside_least;
    need->high += needing->outside_most;
}

static void judge(const struct mp_size_needing *needing, struct mp_size_need *need)
{
    need->fits = need->high <= needing->limit ? MP_FITS_YES : need->low > needing->limit ? MP_FITS_NO : MP_FITS_UNSURE;
}

/* The allocated part of it, which costs nothing. */
static struct mp_size_need allocated_at(const struct mp_size_needing *needing, struct mp_size_point at, bool *exact)
{
    struct mp_size_height height = mp_size_curve_at(&needing->fit->curve, at);
    struct mp_size_need need = {.at = at,
                                .allocated = whole_bytes(height.likely + 0.5),
                                .reserved = MP_BYTES_UNKNOWN,
                                .device = MP_BYTES_UNKNOWN,
                                .low = whole_bytes(height.low * (1 - needing->error) + 0.01),
                                .high = whole_bytes(ceil(height.high * (1 + needing->error) - 0.01))};
    *exact = height.high - height.low < 0.5;
    judge(needing, &need);
    return need;
}

struct mp_size_need mp_size_need_at(struct mp_size_needing *needing, struct mp_size_point at)
{
    bool exact;
    struct mp_size_need need = allocated_at(needing, at, &exact);
    if (!needing->reserves) return need;
    add_reserved(needing, exact, &need);
    judge(needing, &need);
    return need;
}

/* ---- the largest ------------------------------------------------------------------------------------------------ */

static bool allocated_fits(const struct mp_size_needing *needing, uint64_t first, uint64_t second)
{
    bool exact;
    return allocated_at(needing, (struct mp_size_point){first, second}, &exact).fits == MP_FITS_YES;
}

static bool fits(struct mp_size_needing *needing, uint64_t first, uint64_t second)
{
    return mp_size_need_at(needing, (struct mp_size_point){first, second}).fits == MP_FITS_YES;
}

/* Of the allocated bytes alone: no larger one can fit. */
static struct mp_size_largest bound_largest(const struct mp_size_needing *needing, uint64_t second)
{
    struct mp_size_largest largest = {.second = second};
    uint64_t above = 1;
    while (above <= FIRST_MAX && allocated_fits(needing, above, second)) {
        largest.first = above;
        above *= 2;
    }
    largest.endless = above > FIRST_MAX;
    while (!largest.endless && above - largest.first > 1) {
        uint64_t middle = largest.first + (above - largest.first) / 2;
        if (allocated_fits(needing, middle, second))
            largest.first = middle;
        else
            above = middle;
    }
    return largest;
}

/* How many replays may be tried: few where they take long. */
static uint64_t tries(const struct mp_size_needing *needing)
{
    uint64_t events = needing->reserving.sequence.count + 1;
    return events > EVENTS_TRIED / TRIES_LEAST ? TRIES_LEAST
           : events < EVENTS_TRIED / 256       ? 256
                                               : EVENTS_TRIED / events;
}

/* What the allocator holds does not only rise: segments are made in steps, and what one size leaves over another may
 * use. So replays begin at the bound of the allocated bytes and go down, one by one or in even steps, to the first that
 * fits; between that and the step above it is halved. */
struct mp_size_largest mp_size_find_largest(struct mp_size_needing *needing, uint64_t second)
{
    struct mp_size_largest largest = bound_largest(needing, second);
    if (!needing->reserves || largest.endless) return largest;
    uint64_t above = largest.first + 1, most = tries(needing), lower = largest.first / 2;
    uint64_t step = (largest.first - lower) / most + 1;
    while (largest.first && !fits(needing, largest.first, second)) {
        above = largest.first;
        if (above <= lower) { /* half of it and nothing: in larger steps */
            lower = above / 2;
            step = (above - lower) / most + 1;
        }
        largest.first = above > step ? above - step : 0;
    }
    while (above - largest.first > 1) {
        uint64_t middle = largest.first + (above - largest.first) / 2;
        if (fits(needing, middle, second))
            largest.first = middle;
        else
            above = middle;
    }
    return largest;
}

uint64_t mp_size_find_expandable(struct mp_size_needing *needing, uint64_t second)
{
    if (!needing->reserves || needing->settings.expandable) return 0;
    needing->settings.expandable = true;
    struct mp_size_largest largest = mp_size_find_largest(needing, second);
    needing->settings.expandable = false;
    return largest.endless ? 0 : largest.first;
}
