#include "analysis/sizing/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/sizing/size_curve.h"
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
    const struct mp_size_probe *probes[MP_SIZE_PROBES_MAX];                      /* in rising order */
    struct mp_size_source sources[MP_SIZE_PROBES_MAX], used[MP_SIZE_PROBES_MAX]; /* used: in the plan */
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
    size_t usual = of_all > MP_SIZE_LITTLE * (double)last->allocated ? find_path(sizing) : SIZE_MAX;
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
        mp_vec_add(&answer->probes, mp_size_probe_describe(sizing->probes[i], sizing->sources[i].track));
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
