#include "analysis/size.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/size_fit.h"
#include "analysis/size_probes.h"
#include "analysis/steps_infer.h"
#include "base/units.h"
#include "model/track.h"

#define FIRST_MAX (UINT64_C(1) << 40) /* no batch is larger */

struct sizing {
    const struct mp_size_question *question;
    struct mp_size_answer *answer;
    const struct mp_size_probe *probes[MP_SIZE_PROBES_MAX]; /* in rising order */
    struct mp_size_source sources[MP_SIZE_PROBES_MAX];
    bool used[MP_SIZE_PROBES_MAX];
    struct mp_size_fit fit;
};

const char *mp_size_fits_name(enum mp_size_fits fits)
{
    static const char *const names[] = {"no", "unsure", "yes"};
    return names[fits];
}

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "not enough memory to size");
}

static bool note(struct mp_size_answer *answer, const char *format, ...)
{
    char *text = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&text, format, arguments);
    va_end(arguments);
    if (length < 0) return false;
    if (mp_vec_push(&answer->notes, text)) return true;
    free(text);
    return false;
}

/* ---- the need at a point ------------------------------------------------------------------------------------------
 */

static uint64_t whole_bytes(double bytes)
{
    return bytes <= 0 ? 0 : bytes >= 9e18 ? (uint64_t)9e18 : (uint64_t)bytes;
}

static struct mp_size_need need_at(const struct sizing *sizing, struct mp_size_point at)
{
    const struct mp_size_answer *answer = sizing->answer;
    struct mp_size_height height = mp_size_curve_at(&sizing->fit.curve, at);
    struct mp_size_need need = {.at = at,
                                .allocated = whole_bytes(height.likely + 0.5),
                                .reserved = MP_BYTES_UNKNOWN,
                                .device = MP_BYTES_UNKNOWN,
                                .low = whole_bytes(height.low * (1 - answer->error) + 0.01),
                                .high = whole_bytes(ceil(height.high * (1 + answer->error) - 0.01))};
    need.fits = need.high <= answer->limit ? MP_FITS_YES : need.low > answer->limit ? MP_FITS_NO : MP_FITS_UNSURE;
    return need;
}

static struct mp_size_largest find_largest(const struct sizing *sizing, uint64_t second)
{
    struct mp_size_largest largest = {.second = second};
    uint64_t above = 1;
    while (above <= FIRST_MAX && need_at(sizing, (struct mp_size_point){above, second}).fits == MP_FITS_YES) {
        largest.first = above;
        above *= 2;
    }
    if (above > FIRST_MAX) largest.endless = true;
    while (!largest.endless && above - largest.first > 1) {
        uint64_t middle = largest.first + (above - largest.first) / 2;
        if (need_at(sizing, (struct mp_size_point){middle, second}).fits == MP_FITS_YES)
            largest.first = middle;
        else
            above = middle;
    }
    return largest;
}

/* ---- what is asked ------------------------------------------------------------------------------------------------
 */

static bool add_largest(struct sizing *sizing, uint64_t second)
{
    struct mp_size_answer *answer = sizing->answer;
    for (size_t i = 0; i < answer->largest.count; i++)
        if (answer->largest.at[i].second == second) return true;
    struct mp_size_largest largest = find_largest(sizing, second);
    return mp_vec_push(&answer->largest, largest);
}

/* For each value of the second variable that was asked for; where none was, for each that was probed. */
static bool find_all_largest(struct sizing *sizing)
{
    const struct mp_size_question *question = sizing->question;
    bool done = true;
    for (size_t i = 0; done && i < question->predict_count; i++)
        done = add_largest(sizing, question->predict[i].second);
    for (size_t i = 0; done && !question->predict_count && i < question->count; i++)
        done = add_largest(sizing, sizing->probes[i]->at.second);
    return done;
}

static bool add_need(struct sizing *sizing, struct mp_size_point at)
{
    struct mp_size_answer *answer = sizing->answer;
    size_t before = 0;
    for (; before < answer->needs.count; before++) {
        const struct mp_size_point *known = &answer->needs.at[before].at;
        if (known->second == at.second && known->first == at.first) return true;
        if (known->second > at.second || (known->second == at.second && known->first > at.first)) break;
    }
    if (!mp_vec_reserve(&answer->needs, 1)) return false;
    memmove(answer->needs.at + before + 1, answer->needs.at + before,
            (answer->needs.count++ - before) * sizeof *answer->needs.at);
    answer->needs.at[before] = need_at(sizing, at);
    return true;
}

static bool find_needs(struct sizing *sizing)
{
    const struct mp_size_answer *answer = sizing->answer;
    bool done = true;
    for (size_t i = 0; done && i < sizing->question->predict_count; i++)
        done = add_need(sizing, sizing->question->predict[i]);
    for (size_t i = 0; done && i < answer->largest.count; i++) {
        const struct mp_size_largest *largest = &answer->largest.at[i];
        if (largest->endless) continue;
        if (largest->first) done = add_need(sizing, (struct mp_size_point){largest->first, largest->second});
        done = done && add_need(sizing, (struct mp_size_point){largest->first + 1, largest->second});
    }
    return done;
}

/* ---- who holds it -------------------------------------------------------------------------------------------------
 */

static int by_bytes(const void *left, const void *right)
{
    const struct mp_size_site *a = left, *b = right;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a->stack < b->stack ? -1 : a->stack > b->stack;
}

static bool lives_at(const struct mp_model *model, uint32_t block, uint32_t moment)
{
    uint32_t born = model->blocks.alloc_event[block], died = model->blocks.free_event[block];
    return (born == MP_NONE || born < moment) && died >= moment;
}

/* The places at the peak of `at`. */
static bool find_sites(struct sizing *sizing, struct mp_size_point at)
{
    struct mp_size_answer *answer = sizing->answer;
    const struct mp_model *model = answer->model;
    struct mp_size_point next = {at.first + 1, at.second};
    struct mp_size_height height = mp_size_curve_at(&sizing->fit.curve, at);
    uint32_t *site_of = calloc(model->stacks.count + 1, sizeof *site_of); /* + 1 */
    bool done = site_of;
    for (uint32_t block = 0; done && block < model->blocks.count; block++) {
        uint32_t value = sizing->fit.plan.value_of[block], stack = model->blocks.stack[block];
        if (value == MP_NONE || !lives_at(model, block, height.moment)) continue;
        if (stack >= model->stacks.count) stack = 0;
        if (!site_of[stack]) {
            struct mp_size_site fresh = {.stack = stack};
            if (!(done = mp_vec_push(&answer->sites, fresh))) break;
            site_of[stack] = (uint32_t)answer->sites.count;
        }
        struct mp_size_site *site = &answer->sites.at[site_of[stack] - 1];
        double bytes = mp_size_value_at(&sizing->fit.plan, value, at).likely;
        site->bytes += whole_bytes(bytes + 0.5);
        site->blocks++;
        site->per_first += mp_size_value_at(&sizing->fit.plan, value, next).likely - bytes;
        if (sizing->fit.plan.values.at[value].solution.kind == MP_SIZE_OPAQUE) site->opaque = true;
    }
    if (done && answer->sites.count) qsort(answer->sites.at, answer->sites.count, sizeof *answer->sites.at, by_bytes);
    for (size_t i = 0; done && i < answer->sites.count; i++)
        answer->opaque_sites += answer->sites.at[i].opaque;
    answer->opaque = whole_bytes(height.opaque + 0.5);
    free(site_of);
    return done;
}

/* ---- the probes ---------------------------------------------------------------------------------------------------
 */

static int rising(const void *left, const void *right)
{
    const struct mp_size_point *a = &(*(const struct mp_size_probe *const *)left)->at,
                               *b = &(*(const struct mp_size_probe *const *)right)->at;
    double mine = (double)a->first * (double)a->second, theirs = (double)b->first * (double)b->second;
    if (mine != theirs) return mine < theirs ? -1 : 1;
    return a->first < b->first ? -1 : a->first > b->first;
}

static int by_time(const void *left, const void *right)
{
    uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
    return a < b ? -1 : a > b;
}

static bool describe_steps(const struct mp_model *model, struct mp_size_probed *probed)
{
    struct mp_steps steps = {0};
    bool done = mp_steps_find_or_infer(model, &steps);
    uint64_t *times = done ? calloc(steps.count + 1, sizeof *times) : NULL;
    for (size_t i = 0; times && i < steps.count; i++)
        times[i] = steps.at[i].end_ns - steps.at[i].start_ns;
    if (times && steps.count) {
        qsort(times, steps.count, sizeof *times, by_time);
        probed->step_ns = times[steps.count / 2];
    }
    probed->steps = (uint32_t)steps.count;
    probed->step_source = mp_steps_source(&steps);
    free(times);
    mp_steps_free(&steps);
    return done && times;
}

static bool describe_probe(struct sizing *sizing, size_t index)
{
    const struct mp_size_probe *probe = sizing->probes[index];
    const struct mp_model_track_sum *sum = &probe->model->sums.at[sizing->sources[index].track];
    struct mp_size_probed probed = {.name = probe->name,
                                    .at = probe->at,
                                    .allocated = sum->peak_bytes,
                                    .reserved = sum->reserved_peak_bytes,
                                    .device = MP_BYTES_UNKNOWN,
                                    .step_ns = MP_BYTES_UNKNOWN};
    probed.used = sizing->used[index];
    return describe_steps(probe->model, &probed) && mp_vec_push(&sizing->answer->probes, probed);
}

/* How far the method is from what was recorded where it can be held against it. A probe that took another way counts
 * where it needed more than is said of the way of the others. */
static void check_probes(struct sizing *sizing)
{
    struct mp_size_answer *answer = sizing->answer;
    for (size_t i = 0; i < answer->probes.count; i++) {
        const struct mp_size_probed *probed = &answer->probes.at[i];
        double recorded = (double)probed->allocated;
        double likely = mp_size_curve_at(&sizing->fit.curve, probed->at).likely;
        if (likely <= 0 || (!probed->used && recorded < likely)) continue;
        answer->error = fmax(answer->error, fabs(likely - recorded) / likely);
    }
}

static enum mp_status order_probes(struct sizing *sizing, struct mp_error *error)
{
    const struct mp_size_question *question = sizing->question;
    for (size_t i = 0; i < question->count; i++)
        sizing->probes[i] = &question->probes[i];
    qsort(sizing->probes, question->count, sizeof *sizing->probes, rising);
    return mp_size_probes_check(sizing->probes, question, sizing->sources, error);
}

static enum mp_status refuse(const struct sizing *sizing, enum mp_size_fit_result result, double common,
                             struct mp_error *error)
{
    size_t last = sizing->question->count - 1;
    if (result == MP_SIZE_OTHER_PROGRAM)
        return mp_fail(error, MP_UNSUPPORTED,
                       "%s and %s do not come from one program doing the same: %.0f %% of the allocations are made at "
                       "places that all recordings have",
                       sizing->probes[0]->name, sizing->probes[last]->name, 100 * common);
    if (result == MP_SIZE_OTHER_WAY)
        return mp_fail(error, MP_UNSUPPORTED,
                       "%s took another way than the smaller ones (an algorithm chosen by size?): what still larger "
                       "sizes need cannot be told from these; record one or two more beyond it",
                       sizing->probes[last]->name);
    return no_memory(error);
}

static enum mp_status fit_probes(struct sizing *sizing, struct mp_error *error)
{
    struct mp_size_points points = {.count = sizing->question->count, .two = sizing->question->two};
    double common;
    for (size_t i = 0; i < points.count; i++) {
        points.at[i] = sizing->probes[i]->at;
        mp_size_monomials(points.at[i], points.monomials[i]);
    }
    enum mp_size_fit_result result = mp_size_fit_make(&points, sizing->sources, sizing->used, &common, &sizing->fit);
    if (result != MP_SIZE_FITTED) return refuse(sizing, result, common, error);
    sizing->answer->model = sizing->fit.plan.source->model;
    sizing->answer->track = sizing->fit.plan.source->track;
    for (size_t i = 0; i < points.count; i++)
        if (!describe_probe(sizing, i)) return no_memory(error);
    check_probes(sizing);
    return mp_size_probes_answer(sizing->probes, sizing->answer, &sizing->fit.plan, error);
}

/* ---- the answer ---------------------------------------------------------------------------------------------------
 */

static bool add_notes(struct sizing *sizing)
{
    struct mp_size_answer *answer = sizing->answer;
    bool done = true, stepless = false;
    uint32_t steps = UINT32_MAX;
    for (size_t i = 0; i < answer->probes.count; i++) {
        stepless = stepless || !answer->probes.at[i].steps;
        if (answer->probes.at[i].steps < steps) steps = answer->probes.at[i].steps;
    }
    if (stepless)
        done = note(answer, "not every probe has steps: whether the first one differs (optimizer state, warm-up) "
                            "cannot be told; what the probes did is counted as a whole");
    else if (steps < 2)
        done = note(answer, "the probes made one step: what a second one would add (optimizer state that is made at "
                            "the end of the first) was not seen; record two or more");
    for (size_t i = 0; done && i < answer->probes.count; i++)
        if (!answer->probes.at[i].used)
            done = note(answer,
                        "%s took another way than the others (other places allocate: an algorithm chosen by "
                        "size?) and is left out; sizes near it may take that way too",
                        answer->probes.at[i].name);
    if (done && sizing->fit.points.count == 2 && sizing->fit.plan.unchecked_blocks)
        done = note(answer, "two probes leave nothing to check the answer with; a third one would");
    return done;
}

static enum mp_status answer_all(struct sizing *sizing, struct mp_error *error)
{
    struct mp_size_answer *answer = sizing->answer;
    answer->binds = "allocated";
    if (!find_all_largest(sizing) || !find_needs(sizing) || !add_notes(sizing)) return no_memory(error);
    const struct mp_size_largest *largest = &answer->largest.at[answer->largest.count - 1];
    struct mp_size_point at = {largest->first ? largest->first : 1, largest->second};
    if (largest->endless) at = sizing->fit.points.at[sizing->fit.points.count - 1];
    return find_sites(sizing, at) ? MP_OK : no_memory(error);
}

enum mp_status mp_size_find(const struct mp_size_question *question, struct mp_size_answer *answer,
                            struct mp_error *error)
{
    struct sizing sizing = {.question = question, .answer = answer};
    *answer = (struct mp_size_answer){.capacity = question->capacity, .margin = question->margin};
    answer->limit = question->margin < question->capacity ? question->capacity - question->margin : 0;
    enum mp_status status = order_probes(&sizing, error);
    if (!status) status = fit_probes(&sizing, error);
    if (!status) status = answer_all(&sizing, error);
    mp_size_fit_free(&sizing.fit);
    if (status) mp_size_answer_free(answer);
    return status;
}

void mp_size_answer_free(struct mp_size_answer *answer)
{
    for (size_t i = 0; i < answer->notes.count; i++)
        free(answer->notes.at[i]);
    mp_vec_free(&answer->notes);
    mp_vec_free(&answer->probes);
    mp_vec_free(&answer->largest);
    mp_vec_free(&answer->needs);
    mp_vec_free(&answer->sites);
}
