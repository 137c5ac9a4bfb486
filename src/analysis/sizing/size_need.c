#include "analysis/sizing/size_need.h"

#include <math.h>
#include <string.h>

#define BATCH_MAX (UINT64_C(1) << 40) /* no batch is larger */
/* Most replays below the bound by allocated bytes; usually few are needed. */
#define STEPS 256

static uint64_t max_of(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

static uint64_t min_of(uint64_t one, uint64_t other)
{
    return one < other ? one : other;
}

static uint64_t whole_bytes(double bytes)
{
    return bytes <= 0 ? 0 : bytes < 1e18 ? (uint64_t)bytes : (uint64_t)1e18;
}

static double last_batch(const struct mp_size_predictor *predictor)
{
    return predictor->plan->batches.at[predictor->plan->batches.count - 1];
}

/* ---- errors at the probes --------------------------------------------------------------------------------------- */

static void add_miss(double said, uint64_t recorded, struct mp_size_error *error)
{
    if (!(said > 0)) return;
    error->below = fmax(error->below, 1 - (double)recorded / said);
    error->above = fmax(error->above, (double)recorded / said - 1);
}

static void check_allocated(struct mp_size_predictor *predictor, const struct mp_size_probed *probed, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (probed[i].apart) continue;
        struct mp_size_height height = mp_size_curve_at(predictor->plan, (double)probed[i].batch);
        double recorded = (double)probed[i].allocated;
        add_miss(fmin(fmax(recorded, height.low), height.high), probed[i].allocated, &predictor->error);
    }
}

static struct mp_size_error check_reserved(struct mp_size_predictor *predictor, const struct mp_size_probed *probed,
                                           size_t count, const struct mp_torch_settings *settings)
{
    struct mp_size_error error = {0};
    for (size_t i = 0; i < count; i++)
        if (!probed[i].apart)
            add_miss((double)mp_size_reserved_at(&predictor->pool, (double)probed[i].batch, MP_SIZE_LIKELY, settings)
                         .reserved,
                     probed[i].reserved, &error);
    return error;
}

/* Tries with and without expandable segments, since not all recordings say whether they had them. */
static void choose_settings(struct mp_size_predictor *predictor, const struct mp_size_probed *probed, size_t count)
{
    predictor->settings = predictor->pool.recorded;
    struct mp_torch_settings other = predictor->settings;
    other.expandable = !other.expandable;
    predictor->reserved_error = check_reserved(predictor, probed, count, &predictor->settings);
    if (!(predictor->reserved_error.above > 0)) return;
    struct mp_size_error error = check_reserved(predictor, probed, count, &other);
    if (error.above >= predictor->reserved_error.above) return;
    predictor->reserved_error = error;
    predictor->settings = other;
}

static void measure_outside(struct mp_size_predictor *predictor, const struct mp_size_probed *probed)
{
    if (probed->device == MP_BYTES_UNKNOWN || probed->device < probed->reserved) return;
    uint64_t outside = probed->device - probed->reserved;
    predictor->outside_least = min_of(predictor->outside_least, outside); /* MP_BYTES_UNKNOWN is the highest number */
    bool first = predictor->outside_most == MP_BYTES_UNKNOWN;
    predictor->outside_most = first ? outside : max_of(predictor->outside_most, outside);
}

void mp_size_predictor_make(const struct mp_size_plan *plan, const struct mp_size_probed *probed, size_t count,
                            uint64_t limit, struct mp_size_predictor *predictor)
{
    const struct mp_model *model = plan->source->model;
    bool any_apart = false;
    uint64_t last = 0; /* bytes of the plan's largest probe */
    *predictor = (struct mp_size_predictor){
        .plan = plan, .probed = probed, .probed_count = count, .limit = limit, .reserves = mp_size_reserves(plan)};
    predictor->outside_least = predictor->outside_most = MP_BYTES_UNKNOWN;
    double varies = mp_size_curve_at(plan, last_batch(predictor)).varies;
    for (size_t i = 0; i < count; i++) {
        any_apart |= probed[i].apart;
        if (!probed[i].apart) last = probed[i].allocated;
        predictor->reserves = predictor->reserves && probed[i].reserved != MP_BYTES_UNKNOWN;
        measure_outside(predictor, &probed[i]);
    }
    predictor->proved = !any_apart && plan->batches.different > 2 && varies <= MP_SIZE_LITTLE * (double)last;
    predictor->blocks = predictor->reserves && model->tracks.at[plan->source->track].size_basis == MP_BASIS_BLOCK;
    if (!predictor->blocks) check_allocated(predictor, probed, count);
    if (!predictor->reserves) return;
    mp_size_pool_make(plan, &predictor->pool);
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

static uint64_t reserved_at(struct mp_size_predictor *predictor, uint64_t batch, enum mp_size_bound bound)
{
    return mp_size_reserved_at(&predictor->pool, (double)batch, bound, &predictor->settings).reserved;
}

/* Adds reserved memory, and memory outside of the allocator, to the bounds of allocated bytes. */
static void add_reserved(struct mp_size_predictor *predictor, bool exact, struct mp_size_need *need)
{
    bool beyond = (double)need->batch > last_batch(predictor);
    struct mp_size_held likely =
        mp_size_reserved_at(&predictor->pool, (double)need->batch, MP_SIZE_LIKELY, &predictor->settings);
    uint64_t low = likely.reserved, high = likely.reserved;
    need->reserved = likely.reserved;
    if (predictor->blocks) need->allocated = likely.allocated;
    if (!exact) {
        low = min_of(low, reserved_at(predictor, need->batch, MP_SIZE_LOW));
        high = max_of(high, reserved_at(predictor, need->batch, MP_SIZE_HIGH));
    }
    if (beyond) high += mp_size_scratch_room(predictor->plan, (double)need->batch);
    low = whole_bytes((double)low * (1 - predictor->reserved_error.below));
    high = whole_bytes(ceil((double)high * (1 + predictor->reserved_error.above)));
    /* The allocator reserves at least the bytes that it hands out. Beyond the probes no lower bound is certain: only
     * the run decides which cached segment serves a request of another size. */
    if (!beyond) need->low = max_of(low, need->low);
    need->high = max_of(high, need->high);
    if (predictor->outside_most == MP_BYTES_UNKNOWN) return;
    need->device = need->reserved + predictor->outside_most;
    need->low += predictor->outside_least;
    need->high += predictor->outside_most;
}

static void judge(const struct mp_size_predictor *predictor, struct mp_size_need *need)
{
    bool trusted = predictor->proved || (double)need->batch <= last_batch(predictor);
    need->fits = need->low > predictor->limit                ? MP_FITS_NO
                 : need->high <= predictor->limit && trusted ? MP_FITS_YES
                                                             : MP_FITS_UNSURE;
}

/* The probes of a batch: their sum as a need. False: there is none. */
static bool recorded_at(const struct mp_size_predictor *predictor, uint64_t batch, struct mp_size_need *need)
{
    bool any = false;
    bool reserved = predictor->reserves, device = predictor->outside_most != MP_BYTES_UNKNOWN;
    *need = (struct mp_size_need){
        .batch = batch, .reserved = MP_BYTES_UNKNOWN, .device = MP_BYTES_UNKNOWN, .low = MP_BYTES_UNKNOWN};
    for (size_t i = 0; i < predictor->probed_count; i++) {
        const struct mp_size_probed *one = &predictor->probed[i];
        if (one->batch != batch) continue;
        /* A probe that does not say what the device needs beyond PyTorch needs as much as the others. */
        uint64_t whole = one->device != MP_BYTES_UNKNOWN ? one->device : one->reserved + predictor->outside_most;
        uint64_t bytes = reserved && device ? whole : reserved ? one->reserved : one->allocated;
        need->allocated = max_of(need->allocated, one->allocated);
        if (reserved) need->reserved = any ? max_of(need->reserved, one->reserved) : one->reserved;
        if (reserved && device) need->device = any ? max_of(need->device, whole) : whole;
        need->low = min_of(need->low, bytes);
        need->high = max_of(need->high, bytes);
        any = true;
    }
    need->fits = need->low > predictor->limit     ? MP_FITS_NO
                 : need->high <= predictor->limit ? MP_FITS_YES
                                                  : MP_FITS_UNSURE;
    return any;
}

/* Predicts only the allocated bytes, which is fast. */
static struct mp_size_need allocated_at(const struct mp_size_predictor *predictor, uint64_t batch, bool *exact)
{
    struct mp_size_height height = mp_size_curve_at(predictor->plan, (double)batch);
    struct mp_size_need need = {.batch = batch,
                                .allocated = whole_bytes(height.likely + 0.5),
                                .reserved = MP_BYTES_UNKNOWN,
                                .device = MP_BYTES_UNKNOWN,
                                .low = whole_bytes(height.low * (1 - predictor->error.below) + 0.01),
                                .high = whole_bytes(ceil(height.high * (1 + predictor->error.above) - 0.01))};
    *exact = height.high - height.low < 0.5;
    need.low = min_of(need.low, need.allocated);
    need.high = max_of(need.high, need.allocated);
    judge(predictor, &need);
    return need;
}

struct mp_size_need mp_size_need_at(struct mp_size_predictor *predictor, uint64_t batch)
{
    bool exact;
    struct mp_size_need need;
    if (recorded_at(predictor, batch, &need)) return need;
    need = allocated_at(predictor, batch, &exact);
    if (!predictor->reserves) return need;
    add_reserved(predictor, exact, &need);
    judge(predictor, &need);
    return need;
}

/* ---- the largest ------------------------------------------------------------------------------------------------ */

static bool allocated_fits(const struct mp_size_predictor *predictor, uint64_t batch, enum mp_size_measure measure)
{
    bool exact;
    struct mp_size_need need;
    if (recorded_at(predictor, batch, &need)) return need.allocated <= predictor->limit;
    need = allocated_at(predictor, batch, &exact);
    return measure == MP_SIZE_SURE ? need.fits == MP_FITS_YES : need.allocated <= predictor->limit;
}

static bool fits(struct mp_size_predictor *predictor, uint64_t batch, enum mp_size_measure measure)
{
    if (measure == MP_SIZE_SURE) return mp_size_need_at(predictor, batch).fits == MP_FITS_YES;
    uint64_t outside = predictor->outside_most == MP_BYTES_UNKNOWN ? 0 : predictor->outside_most;
    return reserved_at(predictor, batch, MP_SIZE_LIKELY) + outside <= predictor->limit;
}

/* The largest batch by allocated bytes: no larger one can fit. */
static uint64_t bound_largest(const struct mp_size_predictor *predictor, enum mp_size_measure measure)
{
    uint64_t largest = 0, above = 1;
    /* Between two probes, a bound may be wider than at either of them. */
    for (size_t i = 0; i < predictor->plan->batches.count; i++) {
        uint64_t batch = (uint64_t)predictor->plan->batches.at[i];
        if (allocated_fits(predictor, batch, measure)) above = batch;
    }
    for (; above <= BATCH_MAX && allocated_fits(predictor, above, measure); above *= 2)
        largest = above;
    if (above > BATCH_MAX) return UINT64_MAX;
    while (above - largest > 1) {
        uint64_t middle = largest + (above - largest) / 2;
        *(allocated_fits(predictor, middle, measure) ? &largest : &above) = middle;
    }
    return largest;
}

/* Reserved memory may also fall with the batch: segments come in whole units, and blocks of one size may use the rests
 * that another leaves. The search therefore begins at the bound by allocated bytes, and goes down in even steps to the
 * first batch that fits. It then halves the interval above. */
uint64_t mp_size_find_largest(struct mp_size_predictor *predictor, enum mp_size_measure measure)
{
    uint64_t largest = bound_largest(predictor, measure), step = largest / STEPS + 1, above = largest + 1;
    if (!predictor->reserves || largest == UINT64_MAX) return largest;
    while (largest && !fits(predictor, largest, measure)) {
        above = largest;
        largest = above > step ? above - step : 0;
    }
    while (above - largest > 1) {
        uint64_t middle = largest + (above - largest) / 2;
        *(fits(predictor, middle, measure) ? &largest : &above) = middle;
    }
    return largest;
}
