#include "analysis/sizing/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/device/device_use.h"
#include "analysis/sizing/size_plan.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/units.h"
#include "model/steps_infer.h"
#include "model/track.h"

/* ---- checks of the probes ---------------------------------------------------------------------------------------- */

/* A refusal of the driver counts if the allocator reports it, too. */
static bool is_below_allocator(const struct mp_model *model, size_t track)
{
    for (size_t i = 0; i < model->tracks.count; i++)
        if (model->tracks.at[i].layer == MP_LAYER_TORCH && mp_track_below(model, (uint16_t)i) == track) return true;
    return false;
}

static enum mp_status check_run(const struct mp_size_probe *probe, struct mp_error *error)
{
    const struct mp_model *model = probe->model;
    if (mp_model_incomplete(model))
        return mp_fail(error, MP_UNSUPPORTED,
                       "%s is cut or damaged, or lost events: its peak may be missing; record it again", probe->name);
    if (model->how.known && (model->how.by_signal || model->how.status))
        return mp_fail(error, MP_UNSUPPORTED, "the run of %s failed (%s): it does not show the need of a whole run",
                       probe->name, mp_model_text(model, model->how.text));
    for (size_t i = 0; i < model->sums.count; i++)
        if (model->sums.at[i].ooms && !is_below_allocator(model, i))
            return mp_fail(error, MP_UNSUPPORTED, "the run of %s ran out of memory; probe smaller values", probe->name);
    return MP_OK;
}

static enum mp_status check_batches(const struct mp_size_probe *const *probes, size_t count, struct mp_error *error)
{
    if (count < 2)
        return mp_fail(error, MP_INVALID,
                       "one recording does not show how memory grows; give three of different batches");
    if (count > MP_SIZE_PROBES_MAX)
        return mp_fail(error, MP_INVALID, "there are %zu recordings; give at most %d", count, MP_SIZE_PROBES_MAX);
    if (probes[0]->batch == probes[count - 1]->batch)
        return mp_fail(error, MP_INVALID, "all recordings are of batch %llu; give some of other batches",
                       (unsigned long long)probes[0]->batch);
    return MP_OK;
}

static enum mp_status find_track(const struct mp_size_probe *probe, const char *name, uint16_t *track,
                                 struct mp_error *error)
{
    *track = name ? mp_track_find(probe->model, name) : mp_track_default(probe->model);
    if (*track != MP_TRACK_NONE) return MP_OK;
    if (!name) return mp_fail(error, MP_UNSUPPORTED, "%s holds no allocation", probe->name);
    return mp_fail(error, MP_UNSUPPORTED, "%s has no track %s", probe->name, name);
}

MP_ORDER_OF_POINTERS(rising, struct mp_size_probe, MP_RISING(batch) ?: MP_COMPARE(a, b))

/* Sorts the question's probes by batch, and finds the track in each. Both arrays have MP_SIZE_PROBES_MAX members. Fails
 * with a sentence if a probe is incomplete, failed, or lacks the track. */
static enum mp_status order_probes(const struct mp_size_question *question, const struct mp_size_probe **probes,
                                   struct mp_size_source *sources, struct mp_error *error)
{
    char id[MP_TRACK_ID_MAX];
    const char *name = question->track;
    for (size_t i = 0; i < question->count && i < MP_SIZE_PROBES_MAX; i++)
        probes[i] = &question->probes[i];
    if (question->count <= MP_SIZE_PROBES_MAX) qsort(probes, question->count, sizeof *probes, rising);
    enum mp_status status = check_batches(probes, question->count, error);
    for (size_t i = question->count; i-- && !status;) {
        sources[i].model = probes[i]->model;
        status = check_run(probes[i], error);
        if (!status) status = find_track(probes[i], name, &sources[i].track, error);
        if (!status && !name) name = mp_track_id(probes[i]->model, sources[i].track, id);
    }
    return status;
}

/* ---- totals of the probes --------------------------------------------------------------------------------------- */

MP_ORDER(by_time, uint64_t, MP_COMPARE(*a, *b))

static void describe_steps(const struct mp_model *model, struct mp_size_probed *probed)
{
    struct mp_steps steps = {0};
    mp_steps_find(model, &steps);
    uint64_t *times = mp_alloc_zeroed(steps.count + 1, sizeof *times);
    for (size_t i = 0; i < steps.count; i++)
        times[i] = steps.at[i].end_ns - steps.at[i].start_ns;
    if (steps.count) {
        qsort(times, steps.count, sizeof *times, by_time);
        probed->step_ns = times[steps.count / 2];
    }
    probed->steps = (uint32_t)steps.count;
    probed->step_source = mp_steps_source(&steps);
    free(times);
    mp_steps_free(&steps);
}

/* Bytes of the device that this process uses, if known. */
static void find_device(const struct mp_model *model, uint16_t track, uint64_t reserved, uint64_t *device)
{
    struct mp_device_uses uses = {0};
    mp_device_uses_find(model, &uses);
    mp_vec_each (const struct mp_device_use, use, &uses) {
        if (use->device != model->tracks.at[track].device || use->in_use_bytes == MP_BYTES_UNKNOWN) continue;
        uint64_t held = 0;
        for (size_t part = 0; part < use->parts.count; part++)
            if (use->parts.at[part].kind == MP_PART_TENSORS || use->parts.at[part].kind == MP_PART_CACHED)
                held += use->parts.at[part].bytes;
        uint64_t others = use->others_bytes == MP_BYTES_UNKNOWN ? 0 : use->others_bytes;
        if (reserved != MP_BYTES_UNKNOWN && use->in_use_bytes >= held + others)
            *device = reserved + (use->in_use_bytes - held - others);
    }
    mp_device_uses_free(&uses);
}

static struct mp_size_probed describe_probe(const struct mp_size_probe *probe, uint16_t track)
{
    const struct mp_model_track_sum *sum = &probe->model->sums.at[track];
    struct mp_size_probed probed = {.name = probe->name,
                                    .batch = probe->batch,
                                    .allocated = sum->peak_bytes,
                                    .reserved = sum->reserved_peak_bytes,
                                    .device = MP_BYTES_UNKNOWN,
                                    .step_ns = MP_BYTES_UNKNOWN};
    for (size_t i = 0; i < probe->model->blocks.count; i++)
        probed.blocks += probe->model->blocks.track[i] == track;
    find_device(probe->model, track, probed.reserved, &probed.device);
    describe_steps(probe->model, &probed);
    return probed;
}

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

#define LITTLE_UNSOLVED 0.01 /* share of the largest probe's peak that may be unsolved without notice */

/* The largest relative error at the probes: how far the record lay below and above the prediction. */
struct error_at_probes {
    double below, above;
};

struct predictor {
    const struct mp_size_plan *plan;
    const struct mp_size_probed *probed; /* all probes, also those of which the plan is not made */
    size_t probed_count;
    uint64_t limit;
    bool proved;
    struct error_at_probes error; /* of allocated bytes */
    /* The caching allocator, if the track is one and the probes say what it reserved. */
    bool reserves, blocks; /* blocks: blocks: recorded sizes are those of blocks, not of requests */
    struct mp_size_pool pool;
    struct mp_torch_settings settings; /* the settings that give the smallest errors at the probes */
    struct error_at_probes reserved_error;
    uint64_t outside_least, outside_most; /* device memory outside of the allocator at the probes; MP_BYTES_UNKNOWN */
};

static double last_batch(const struct predictor *predictor)
{
    return predictor->plan->batches.at[predictor->plan->batches.count - 1];
}

/* ---- errors at the probes --------------------------------------------------------------------------------------- */

static void add_miss(double said, uint64_t recorded, struct error_at_probes *error)
{
    if (!(said > 0)) return;
    error->below = fmax(error->below, 1 - (double)recorded / said);
    error->above = fmax(error->above, (double)recorded / said - 1);
}

static void check_allocated(struct predictor *predictor, const struct mp_size_probed *probed, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (probed[i].apart) continue;
        struct mp_size_height height = mp_size_curve_at(predictor->plan, (double)probed[i].batch);
        double recorded = (double)probed[i].allocated;
        add_miss(fmin(fmax(recorded, height.low), height.high), probed[i].allocated, &predictor->error);
    }
}

static struct error_at_probes check_reserved(struct predictor *predictor, const struct mp_size_probed *probed,
                                             size_t count, const struct mp_torch_settings *settings)
{
    struct error_at_probes error = {0};
    for (size_t i = 0; i < count; i++)
        if (!probed[i].apart)
            add_miss((double)mp_size_reserved_at(&predictor->pool, (double)probed[i].batch, MP_SIZE_LIKELY, settings)
                         .reserved,
                     probed[i].reserved, &error);
    return error;
}

/* Tries with and without expandable segments, since not all recordings say whether they had them. */
static void choose_settings(struct predictor *predictor, const struct mp_size_probed *probed, size_t count)
{
    predictor->settings = predictor->pool.recorded;
    struct mp_torch_settings other = predictor->settings;
    other.expandable = !other.expandable;
    predictor->reserved_error = check_reserved(predictor, probed, count, &predictor->settings);
    if (!(predictor->reserved_error.above > 0)) return;
    struct error_at_probes error = check_reserved(predictor, probed, count, &other);
    if (error.above >= predictor->reserved_error.above) return;
    predictor->reserved_error = error;
    predictor->settings = other;
}

static void measure_outside(struct predictor *predictor, const struct mp_size_probed *probed)
{
    if (probed->device == MP_BYTES_UNKNOWN || probed->device < probed->reserved) return;
    uint64_t outside = probed->device - probed->reserved;
    predictor->outside_least = min_of(predictor->outside_least, outside); /* MP_BYTES_UNKNOWN is the highest number */
    bool first = predictor->outside_most == MP_BYTES_UNKNOWN;
    predictor->outside_most = first ? outside : max_of(predictor->outside_most, outside);
}

/* `probed`: what all probes recorded; those that are `apart` are not in the plan. Plan and array must outlive the
 * predictor. */
static void make_predictor(const struct mp_size_plan *plan, const struct mp_size_probed *probed, size_t count,
                           uint64_t limit, struct predictor *predictor)
{
    const struct mp_model *model = plan->source->model;
    bool any_apart = false;
    uint64_t last = 0; /* bytes of the plan's largest probe */
    *predictor = (struct predictor){
        .plan = plan, .probed = probed, .probed_count = count, .limit = limit, .reserves = mp_size_reserves(plan)};
    predictor->outside_least = predictor->outside_most = MP_BYTES_UNKNOWN;
    double varies = mp_size_curve_at(plan, last_batch(predictor)).varies;
    for (size_t i = 0; i < count; i++) {
        any_apart |= probed[i].apart;
        if (!probed[i].apart) last = probed[i].allocated;
        predictor->reserves = predictor->reserves && probed[i].reserved != MP_BYTES_UNKNOWN;
        measure_outside(predictor, &probed[i]);
    }
    predictor->proved = !any_apart && plan->batches.different > 2 && varies <= LITTLE_UNSOLVED * (double)last;
    predictor->blocks = predictor->reserves && model->tracks.at[plan->source->track].size_basis == MP_BASIS_BLOCK;
    if (!predictor->blocks) check_allocated(predictor, probed, count);
    if (!predictor->reserves) return;
    mp_size_pool_make(plan, &predictor->pool);
    choose_settings(predictor, probed, count);
}

static void free_predictor(struct predictor *predictor)
{
    mp_size_pool_free(&predictor->pool);
}

/* "allocated", "reserved" or "device" */
static const char *binds(const struct predictor *predictor)
{
    if (!predictor->reserves) return "allocated";
    return predictor->outside_most == MP_BYTES_UNKNOWN ? "reserved" : "device";
}

/* ---- the need --------------------------------------------------------------------------------------------------- */

static uint64_t reserved_at(struct predictor *predictor, uint64_t batch, enum mp_size_bound bound)
{
    return mp_size_reserved_at(&predictor->pool, (double)batch, bound, &predictor->settings).reserved;
}

/* Adds reserved memory, and memory outside of the allocator, to the bounds of allocated bytes. */
static void add_reserved(struct predictor *predictor, bool exact, struct mp_size_need *need)
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

static void judge(const struct predictor *predictor, struct mp_size_need *need)
{
    bool trusted = predictor->proved || (double)need->batch <= last_batch(predictor);
    need->fits = need->low > predictor->limit                ? MP_FITS_NO
                 : need->high <= predictor->limit && trusted ? MP_FITS_YES
                                                             : MP_FITS_UNSURE;
}

/* The probes of a batch: their sum as a need. False: there is none. */
static bool recorded_at(const struct predictor *predictor, uint64_t batch, struct mp_size_need *need)
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
static struct mp_size_need allocated_at(const struct predictor *predictor, uint64_t batch, bool *exact)
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

static struct mp_size_need need_at(struct predictor *predictor, uint64_t batch)
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

enum measure { SURE, AS_PROBED }; /* for certain, or with all sizes the likely ones */

static bool allocated_fits(const struct predictor *predictor, uint64_t batch, enum measure measure)
{
    bool exact;
    struct mp_size_need need;
    if (recorded_at(predictor, batch, &need)) return need.allocated <= predictor->limit;
    need = allocated_at(predictor, batch, &exact);
    return measure == SURE ? need.fits == MP_FITS_YES : need.allocated <= predictor->limit;
}

static bool fits(struct predictor *predictor, uint64_t batch, enum measure measure)
{
    if (measure == SURE) return need_at(predictor, batch).fits == MP_FITS_YES;
    uint64_t outside = predictor->outside_most == MP_BYTES_UNKNOWN ? 0 : predictor->outside_most;
    return reserved_at(predictor, batch, MP_SIZE_LIKELY) + outside <= predictor->limit;
}

/* The largest batch by allocated bytes: no larger one can fit. */
static uint64_t bound_largest(const struct predictor *predictor, enum measure measure)
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
static uint64_t find_largest_batch(struct predictor *predictor, enum measure measure)
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

#define SAME_LEAST 0.5 /* if a smaller share of the allocations is at common sites, the programs differ */

struct sizing {
    const struct mp_size_question *question;
    struct mp_size_answer *answer;
    const struct mp_size_probe *probes[MP_SIZE_PROBES_MAX];                      /* in rising order */
    struct mp_size_source sources[MP_SIZE_PROBES_MAX], used[MP_SIZE_PROBES_MAX]; /* used: in the plan */
    struct mp_size_alignment alignment;
    struct mp_size_plan plan;
    struct predictor predictor;
};

const char *mp_size_fits_name(unsigned fits)
{
    static const char *const names[] = {"no", "unsure", "yes"};
    return names[fits];
}

static void note(struct mp_size_answer *answer, const char *text)
{
    mp_vec_add(&answer->notes, mp_text_copy(text));
}

/* ---- needs ------------------------------------------------------------------------------------------------------ */

static void add_need(struct sizing *sizing, uint64_t batch)
{
    struct mp_size_answer *answer = sizing->answer;
    size_t before = 0;
    while (before < answer->needs.count && answer->needs.at[before].batch < batch)
        before++;
    if (!batch || (before < answer->needs.count && answer->needs.at[before].batch == batch)) return;
    mp_vec_room_for(&answer->needs, 1);
    memmove(answer->needs.at + before + 1, answer->needs.at + before,
            (answer->needs.count++ - before) * sizeof *answer->needs.at);
    answer->needs.at[before] = need_at(&sizing->predictor, batch);
}

static void find_largest(struct sizing *sizing)
{
    struct mp_size_answer *answer = sizing->answer;
    struct predictor *predictor = &sizing->predictor;
    uint64_t last = sizing->probes[sizing->question->count - 1]->batch;
    answer->largest = find_largest_batch(predictor, SURE);
    answer->about = find_largest_batch(predictor, AS_PROBED);
    answer->endless = answer->largest == UINT64_MAX;
    if (answer->about < answer->largest) answer->about = answer->largest;
    if (answer->largest > last && predictor->reserves)
        answer->room = mp_size_scratch_room(&sizing->plan, (double)answer->largest);
    if (answer->endless || !predictor->reserves || predictor->settings.expandable) return;
    predictor->settings.expandable = true;
    uint64_t expandable = find_largest_batch(predictor, AS_PROBED);
    predictor->settings.expandable = false;
    if (expandable > answer->about && expandable != UINT64_MAX) answer->expandable = expandable;
}

static void find_needs(struct sizing *sizing)
{
    const struct mp_size_answer *answer = sizing->answer;
    for (size_t i = 0; i < sizing->question->predict_count; i++)
        add_need(sizing, sizing->question->predict[i]);
    if (answer->endless) return;
    add_need(sizing, answer->largest);
    uint64_t last = answer->about == UINT64_MAX ? answer->largest : answer->about;
    add_need(sizing, last);
    add_need(sizing, last + 1);
}

/* Fills the plot, from zero to a third beyond the answer. */
static void find_plot(struct sizing *sizing)
{
    struct mp_size_answer *answer = sizing->answer;
    size_t points = sizing->question->plot_points;
    uint64_t top = sizing->probes[sizing->question->count - 1]->batch;
    if (answer->about != UINT64_MAX && answer->about + answer->about / 3 > top) top = answer->about + answer->about / 3;
    if (answer->needs.count && answer->needs.at[answer->needs.count - 1].batch > top)
        top = answer->needs.at[answer->needs.count - 1].batch;
    for (size_t i = 1; i <= points; i++) {
        uint64_t batch = (uint64_t)llround((double)top * (double)i / (double)points);
        if (!batch || (answer->plot.count && answer->plot.at[answer->plot.count - 1].batch == batch)) continue;
        mp_vec_add(&answer->plot, need_at(&sizing->predictor, batch));
    }
}

/* ---- sites ------------------------------------------------------------------------------------------------------ */

MP_ORDER(by_bytes, struct mp_size_site, MP_FALLING(bytes) ?: MP_RISING(stack))

static bool lives_at(const struct mp_model *model, uint32_t block, uint32_t moment)
{
    uint32_t born = model->blocks.alloc_event[block], died = model->blocks.free_event[block];
    return (born == MP_NONE || born < moment) && died >= moment;
}

/* The sites at a batch's peak. */
static void find_sites(struct sizing *sizing, uint64_t batch)
{
    struct mp_size_answer *answer = sizing->answer;
    const struct mp_model *model = answer->model;
    uint32_t moment = mp_size_curve_at(&sizing->plan, (double)batch).moment;
    uint32_t *site_of = mp_alloc_zeroed(model->stacks.count + 1, sizeof *site_of); /* + 1 */
    double opaque = 0;
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        uint32_t value = sizing->plan.value_of[block], stack = model->blocks.stack[block];
        if (value == MP_NONE || !lives_at(model, block, moment)) continue;
        if (stack >= model->stacks.count) stack = 0;
        if (!site_of[stack]) {
            struct mp_size_site fresh = {.stack = stack};
            mp_vec_add(&answer->sites, fresh);
            site_of[stack] = (uint32_t)answer->sites.count;
        }
        struct mp_size_site *site = &answer->sites.at[site_of[stack] - 1];
        double bytes = mp_size_value_at(&sizing->plan, value, (double)batch).likely;
        site->bytes += (uint64_t)llround(bytes);
        site->blocks++;
        site->per_sample += mp_size_value_at(&sizing->plan, value, (double)batch + 1).likely - bytes;
        if (!sizing->plan.values.at[value].opaque) continue;
        site->opaque = true;
        opaque += bytes;
    }
    if (answer->sites.count) qsort(answer->sites.at, answer->sites.count, sizeof *answer->sites.at, by_bytes);
    answer->opaque = (uint64_t)llround(opaque);
    answer->opaque_sites = sizing->plan.opaque_sites;
    free(site_of);
}

/* ---- the pipeline ----------------------------------------------------------------------------------------------- */

/* Takes the probes that are not apart. */
static struct mp_size_batches take_probes(struct sizing *sizing)
{
    struct mp_size_batches batches = {0};
    for (size_t i = 0; i < sizing->question->count; i++) {
        if (sizing->answer->probes.at[i].apart) continue;
        sizing->used[batches.count] = sizing->sources[i];
        batches.at[batches.count] = (double)sizing->probes[i]->batch;
        batches.different += !batches.count || batches.at[batches.count] != batches.at[batches.count - 1];
        batches.count++;
    }
    return batches;
}

static uint32_t blocks_at(const struct sizing *sizing, size_t probe, uint32_t site)
{
    const uint32_t *first = sizing->alignment.of[probe].first;
    return first[site + 1] - first[site];
}

/* True if two runs took the same path: they made as many blocks at each site. */
static bool is_same_path(const struct sizing *sizing, size_t one, size_t other)
{
    for (uint32_t site = 0; site < sizing->alignment.sites; site++)
        if (blocks_at(sizing, one, site) != blocks_at(sizing, other, site)) return false;
    return true;
}

/* The path that most batches took; of several, the one with the largest batch. Returns a probe of it; SIZE_MAX: all
 * probes took one path, or no two batches did. */
static size_t find_path(const struct sizing *sizing)
{
    size_t count = sizing->question->count, best = SIZE_MAX, most = 1;
    for (size_t i = 0; i < count; i++) {
        size_t different = 0, members = 0;
        uint64_t last = 0;
        for (size_t k = 0; k < count; k++) {
            if (!is_same_path(sizing, i, k)) continue;
            members++;
            different += sizing->probes[k]->batch != last;
            last = sizing->probes[k]->batch;
        }
        if (members == count) return SIZE_MAX;
        if (different < 2 || different < most) continue;
        most = different;
        best = i;
    }
    return best;
}

/* Sets where the path of a probe leaves that of another one. */
static void find_where(const struct sizing *sizing, size_t probe, size_t usual, struct mp_size_probed *probed)
{
    const size_t tried[] = {probe, usual}; /* a run may also lack blocks that the others have */
    probed->apart = true;
    for (size_t i = 0; i < 2; i++) {
        const struct mp_model *model = sizing->sources[tried[i]].model;
        for (uint32_t block = 0; block < model->blocks.count; block++) {
            uint32_t site = sizing->alignment.of[tried[i]].site[block];
            if (site == MP_NONE || blocks_at(sizing, probe, site) == blocks_at(sizing, usual, site)) continue;
            probed->of = model;
            probed->where = model->blocks.stack[block];
            return;
        }
    }
}

/* Leaves out probes that took another path, if the sizes at those that took the same are solved, and at all are not: a
 * further probe makes no answer worse. */
static void leave_out(struct sizing *sizing)
{
    struct mp_size_answer *answer = sizing->answer;
    const struct mp_size_probed *last = &answer->probes.at[answer->probes.count - 1];
    double of_all = mp_size_curve_at(&sizing->plan, (double)last->batch).varies;
    size_t usual = of_all > LITTLE_UNSOLVED * (double)last->allocated ? find_path(sizing) : SIZE_MAX;
    if (usual == SIZE_MAX) return;
    for (size_t i = 0; i < answer->probes.count; i++)
        if (!is_same_path(sizing, i, usual)) find_where(sizing, i, usual, &answer->probes.at[i]);
    struct mp_size_batches batches = take_probes(sizing);
    struct mp_size_alignment alignment;
    struct mp_size_plan plan;
    mp_size_align(sizing->used, batches.count, &alignment);
    mp_size_plan_make(&batches, sizing->used, &alignment, &plan);
    double varies = mp_size_curve_at(&plan, batches.at[batches.count - 1]).varies;
    of_all = mp_size_curve_at(&sizing->plan, batches.at[batches.count - 1]).varies;
    if (plan.depends && varies < of_all) {
        mp_size_plan_free(&sizing->plan);
        mp_size_alignment_free(&sizing->alignment);
        sizing->plan = plan;
        sizing->alignment = alignment;
        return;
    }
    mp_size_plan_free(&plan);
    mp_size_alignment_free(&alignment);
    for (size_t i = 0; i < answer->probes.count; i++)
        answer->probes.at[i].apart = false;
    take_probes(sizing);
}

static enum mp_status make_plan(struct sizing *sizing, struct mp_error *error)
{
    struct mp_size_answer *answer = sizing->answer;
    size_t count = sizing->question->count;
    char peak[MP_UNIT_TEXT];
    for (size_t i = 0; i < count; i++)
        mp_vec_add(&answer->probes, describe_probe(sizing->probes[i], sizing->sources[i].track));
    struct mp_size_batches batches = take_probes(sizing);
    mp_size_align(sizing->sources, count, &sizing->alignment);
    if (sizing->alignment.common < SAME_LEAST)
        return mp_fail(error, MP_UNSUPPORTED,
                       "%s and %s are not of one program doing the same: only %.0f %% of the allocations come from "
                       "sites that all recordings have",
                       sizing->probes[0]->name, sizing->probes[count - 1]->name, 100 * sizing->alignment.common);
    mp_size_plan_make(&batches, sizing->used, &sizing->alignment, &sizing->plan);
    if (batches.different > 2) leave_out(sizing);
    answer->model = sizing->plan.source->model;
    answer->track = sizing->plan.source->track;
    answer->batches = sizing->plan.batches.different;
    if (sizing->plan.depends) return MP_OK;
    return mp_fail(error, MP_UNSUPPORTED,
                   "memory does not depend on the batch: each allocation has the same size in all recordings (peak "
                   "%s); did the program get the value?",
                   mp_format_bytes(peak, answer->probes.at[0].allocated));
}

static void add_notes(struct sizing *sizing)
{
    struct mp_size_answer *answer = sizing->answer;
    const struct predictor *predictor = &sizing->predictor;
    uint32_t steps = UINT32_MAX;
    for (size_t i = 0; i < answer->probes.count; i++)
        if (answer->probes.at[i].steps < steps) steps = answer->probes.at[i].steps;
    if (!steps)
        note(answer,
             "not every probe has steps: whether the first one differs (optimizer state, warm-up) is not known");
    else if (steps < 2)
        note(answer,
             "the probes made one step: they do not show what a second one adds (optimizer state that is made at "
             "the end of the first); record two or more");
    if (answer->batches < 3)
        note(answer, answer->probes.count < 3
                         ? "a proof needs three recordings: with two, no larger batch is certain to fit"
                         : "a proof needs recordings of three batches that take one path");
    if (predictor->reserves && answer->outside_most == MP_BYTES_UNKNOWN)
        note(answer, "the recordings do not show the device's memory outside PyTorch (context, libraries): leave room "
                     "for it with --margin");
    if (predictor->reserves && predictor->settings.expandable)
        note(answer, "reserved memory is predicted with expandable segments, as recorded");
    if (mp_size_reserves(&sizing->plan) && !predictor->reserves)
        note(answer,
             "the recordings do not show PyTorch's reserved memory, which exceeds the predicted allocated memory");
}

static void answer_all(struct sizing *sizing)
{
    struct mp_size_answer *answer = sizing->answer;
    make_predictor(&sizing->plan, answer->probes.at, answer->probes.count, answer->limit, &sizing->predictor);
    answer->binds = binds(&sizing->predictor);
    answer->proved = sizing->predictor.proved;
    answer->outside_least = sizing->predictor.outside_least;
    answer->outside_most = sizing->predictor.outside_most;
    find_largest(sizing);
    find_needs(sizing);
    find_plot(sizing);
    add_notes(sizing);
    uint64_t at = answer->about ? answer->about : 1;
    find_sites(sizing, at == UINT64_MAX ? sizing->probes[answer->probes.count - 1]->batch : at);
}

enum mp_status mp_size_find(const struct mp_size_question *question, struct mp_size_answer *answer,
                            struct mp_error *error)
{
    struct sizing sizing = {.question = question, .answer = answer};
    *answer = (struct mp_size_answer){.capacity = question->capacity, .margin = question->margin};
    answer->limit = question->margin < question->capacity ? question->capacity - question->margin : 0;
    enum mp_status status = order_probes(question, sizing.probes, sizing.sources, error);
    if (!status) status = make_plan(&sizing, error);
    if (!status) answer_all(&sizing);
    free_predictor(&sizing.predictor);
    mp_size_plan_free(&sizing.plan);
    mp_size_alignment_free(&sizing.alignment);
    if (status) mp_size_answer_free(answer);
    return status;
}

void mp_size_answer_free(struct mp_size_answer *answer)
{
    for (size_t i = 0; i < answer->notes.count; i++)
        free(answer->notes.at[i]);
    mp_vec_free(&answer->notes);
    mp_vec_free(&answer->probes);
    mp_vec_free(&answer->needs);
    mp_vec_free(&answer->plot);
    mp_vec_free(&answer->sites);
}
