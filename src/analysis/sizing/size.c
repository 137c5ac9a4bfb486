#include "analysis/sizing/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/sizing/size_need.h"
#include "analysis/sizing/size_plan.h"
#include "analysis/sizing/size_probes.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/units.h"

#define SAME_LEAST 0.5 /* if a smaller share of the allocations is at common sites, the programs differ */

struct sizing {
    const struct mp_size_question *question;
    struct mp_size_answer *answer;
    const struct mp_size_probe *probes[MP_SIZE_PROBES_MAX]; /* in rising order */
    struct mp_size_source sources[MP_SIZE_PROBES_MAX];
    struct mp_size_alignment alignment;
    struct mp_size_plan plan;
    struct mp_size_predictor predictor;
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
    answer->needs.at[before] = mp_size_need_at(&sizing->predictor, batch);
}

static void find_largest(struct sizing *sizing)
{
    struct mp_size_answer *answer = sizing->answer;
    struct mp_size_predictor *predictor = &sizing->predictor;
    uint64_t last = sizing->probes[sizing->question->count - 1]->batch;
    answer->largest = mp_size_find_largest(predictor, MP_SIZE_SURE);
    answer->about = mp_size_find_largest(predictor, MP_SIZE_AS_PROBED);
    answer->endless = answer->largest == UINT64_MAX;
    if (answer->about < answer->largest) answer->about = answer->largest;
    if (answer->largest > last && predictor->reserves)
        answer->room = mp_size_scratch_room(&sizing->plan, (double)answer->largest);
    if (answer->endless || !predictor->reserves || predictor->settings.expandable) return;
    predictor->settings.expandable = true;
    uint64_t expandable = mp_size_find_largest(predictor, MP_SIZE_AS_PROBED);
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
        mp_vec_add(&answer->plot, mp_size_need_at(&sizing->predictor, batch));
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

static struct mp_size_batches list_batches(const struct sizing *sizing)
{
    struct mp_size_batches batches = {.count = sizing->question->count};
    for (size_t i = 0; i < batches.count; i++) {
        batches.at[i] = (double)sizing->probes[i]->batch;
        batches.different += !i || batches.at[i] != batches.at[i - 1];
    }
    return batches;
}

static enum mp_status make_plan(struct sizing *sizing, struct mp_error *error)
{
    struct mp_size_answer *answer = sizing->answer;
    size_t count = sizing->question->count;
    char peak[MP_UNIT_TEXT];
    struct mp_size_batches batches = list_batches(sizing);
    mp_size_align(sizing->sources, count, &sizing->alignment);
    if (sizing->alignment.common < SAME_LEAST)
        return mp_fail(error, MP_UNSUPPORTED,
                       "%s and %s are not of one program doing the same: only %.0f %% of the allocations come from "
                       "sites that all recordings have",
                       sizing->probes[0]->name, sizing->probes[count - 1]->name, 100 * sizing->alignment.common);
    mp_size_plan_make(&batches, sizing->sources, &sizing->alignment, &sizing->plan);
    answer->model = sizing->plan.source->model;
    answer->track = sizing->plan.source->track;
    answer->batches = batches.different;
    for (size_t i = 0; i < count; i++)
        mp_vec_add(&answer->probes, mp_size_probe_describe(sizing->probes[i], sizing->sources[i].track));
    if (sizing->plan.depends) return MP_OK;
    return mp_fail(error, MP_UNSUPPORTED,
                   "memory does not depend on the batch: each allocation has the same size in all recordings (peak "
                   "%s); did the program get the value?",
                   mp_format_bytes(peak, answer->probes.at[0].allocated));
}

static void add_notes(struct sizing *sizing)
{
    struct mp_size_answer *answer = sizing->answer;
    const struct mp_size_predictor *predictor = &sizing->predictor;
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
        note(answer, "a proof needs three recordings: with two, no larger batch is certain to fit");
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
    mp_size_predictor_make(&sizing->plan, answer->probes.at, answer->probes.count, answer->limit, &sizing->predictor);
    answer->binds = mp_size_binds(&sizing->predictor);
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
    enum mp_status status = mp_size_probes_order(question, sizing.probes, sizing.sources, error);
    if (!status) status = make_plan(&sizing, error);
    if (!status) answer_all(&sizing);
    mp_size_predictor_free(&sizing.predictor);
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
