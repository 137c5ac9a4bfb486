#include "analysis/sizing/size.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/device/device_use.h"
#include "analysis/sizing/size_need.h"
#include "analysis/sizing/size_plan.h"
#include "base/memory.h"
#include "base/units.h"
#include "model/steps_infer.h"
#include "model/track.h"

/* Whether recordings can answer a question about sizes, and what is wrong where they cannot. Pure. */

#define FALL_MOST 0.001 /* by which a peak may be lower at a larger batch */

static char *point_text(char *to, size_t room, const struct mp_size_question *question, struct mp_size_point at)
{
    if (question->two)
        snprintf(to, room, "%llux%llu", (unsigned long long)at.first, (unsigned long long)at.second);
    else
        snprintf(to, room, "%llu", (unsigned long long)at.first);
    return to;
}

/* A refusal of the driver counts where the allocator reports it. */
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
                       "%s is cut, damaged or lost events: its peak may be missing; record it again", probe->name);
    if (model->how.known && (model->how.by_signal || model->how.status))
        return mp_fail(error, MP_UNSUPPORTED, "the run of %s failed (%s): it does not show what a whole run needs",
                       probe->name, mp_model_text(model, model->how.text));
    for (size_t i = 0; i < model->sums.count; i++)
        if (model->sums.at[i].ooms && !is_below_allocator(model, i))
            return mp_fail(error, MP_UNSUPPORTED, "the run of %s ran out of memory; probe smaller values", probe->name);
    return MP_OK;
}

/* Whether the one before it, in rising order, is of the same size. */
static bool is_repeat(const struct mp_size_probe *const *probes, size_t index)
{
    return index && probes[index]->at.first == probes[index - 1]->at.first &&
           probes[index]->at.second == probes[index - 1]->at.second;
}

static enum mp_status check_values(const struct mp_size_probe *const *probes, const struct mp_size_question *question,
                                   struct mp_error *error)
{
    char text[64];
    if (question->count < 2)
        return mp_fail(error, MP_INVALID, "one recording does not show how memory grows; give two or, better, three");
    if (question->count > MP_SIZE_PROBES_MAX)
        return mp_fail(error, MP_INVALID, "%zu recordings are more than the %d that are read", question->count,
                       MP_SIZE_PROBES_MAX);
    size_t others = 0;
    for (size_t i = 1; i < question->count; i++)
        others += !is_repeat(probes, i);
    if (!others)
        return mp_fail(error, MP_INVALID, "all recordings are of %s; give others of other sizes",
                       point_text(text, sizeof text, question, probes[0]->at));
    if (!question->two) return MP_OK;
    bool first = false, second = false;
    for (size_t i = 1; i < question->count; i++) {
        first = first || probes[i]->at.first != probes[0]->at.first;
        second = second || probes[i]->at.second != probes[0]->at.second;
    }
    if (!first || !second)
        return mp_fail(error, MP_INVALID, "the %s variable is the same in every recording; leave it out or vary it",
                       first ? "second" : "first");
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

/* Each alone: whole, not failed, of different values, with the track that is asked for (into sources). */
static enum mp_status size_probes_check(const struct mp_size_probe *const *probes,
                                        const struct mp_size_question *question, struct mp_size_source *sources,
                                        struct mp_error *error)
{
    char id[MP_TRACK_ID_MAX];
    const char *name = question->track;
    enum mp_status status = check_values(probes, question, error);
    for (size_t i = question->count; i-- && !status;) {
        sources[i].model = probes[i]->model;
        status = check_run(probes[i], error);
        if (!status) status = find_track(probes[i], name, &sources[i].track, error);
        if (!status && !name) name = mp_track_id(probes[i]->model, sources[i].track, id);
    }
    return status;
}

/* Whether another run there might have taken so much. */
static bool is_by_chance(const struct mp_size_fit *fit, struct mp_size_point at, uint64_t bytes)
{
    double by_chance;
    struct mp_size_height height = mp_size_fit_at(fit, at, &by_chance);
    return by_chance > 0 && height.high >= (double)bytes;
}

/* Whether memory depends on the variables, and rises with them. */
static enum mp_status size_probes_answer(const struct mp_size_probe *const *probes, const struct mp_size_answer *answer,
                                         const struct mp_size_fit *fit, struct mp_error *error)
{
    char lower[MP_UNIT_TEXT], higher[MP_UNIT_TEXT];
    if (!fit->plan.depends)
        return mp_fail(
            error, MP_UNSUPPORTED,
            "memory does not depend on what was varied: every allocation is as large in each recording (peak "
            "%s); was the value passed on to the program?",
            mp_format_bytes(lower, answer->probes.at[0].allocated));
    for (size_t i = 1; i < answer->probes.count; i++) {
        const struct mp_size_probed *below = &answer->probes.at[i - 1], *above = &answer->probes.at[i];
        if (!below->used || !above->used) continue;
        if (above->at.first < below->at.first || above->at.second < below->at.second) continue;
        if ((double)above->allocated >= (double)below->allocated * (1 - FALL_MOST)) continue;
        if (is_repeat(probes, i) || is_by_chance(fit, above->at, below->allocated)) continue;
        return mp_fail(error, MP_UNSUPPORTED,
                       "memory falls from %s in %s to %s in %s, which is larger: the program takes another way there, "
                       "and nothing can be said of sizes beyond",
                       mp_format_bytes(higher, below->allocated), probes[i - 1]->name,
                       mp_format_bytes(lower, above->allocated), probes[i]->name);
    }
    return MP_OK;
}

struct sizing {
    const struct mp_size_question *question;
    struct mp_size_answer *answer;
    const struct mp_size_probe *probes[MP_SIZE_PROBES_MAX]; /* in rising order */
    struct mp_size_source sources[MP_SIZE_PROBES_MAX];
    bool used[MP_SIZE_PROBES_MAX];
    struct mp_size_fit fit;
    struct mp_size_predictor predictor;
};

const char *mp_size_fits_name(enum mp_size_fits fits)
{
    static const char *const names[] = {"no", "unsure", "yes"};
    return names[fits];
}

static void note(struct mp_size_answer *answer, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = mp_text_make_of(format, arguments);
    va_end(arguments);
    mp_vec_add(&answer->notes, text);
}

/* ---- what is asked ---------------------------------------------------------------------------------------------- */

static void add_largest(struct sizing *sizing, uint64_t second)
{
    struct mp_size_answer *answer = sizing->answer;
    for (size_t i = 0; i < answer->largest.count; i++)
        if (answer->largest.at[i].second == second) return;
    struct mp_size_largest largest = mp_size_find_largest(&sizing->predictor, second, false);
    uint64_t expandable = largest.endless ? 0 : mp_size_find_expandable(&sizing->predictor, second);
    if (expandable > largest.first) largest.expandable = expandable;
    largest.sure = largest.endless ? 0 : mp_size_find_largest(&sizing->predictor, second, true).first;
    mp_vec_add(&answer->largest, largest);
}

/* For each value of the second variable that was asked for; where none was, for each that was probed. */
static void find_all_largest(struct sizing *sizing)
{
    const struct mp_size_question *question = sizing->question;
    for (size_t i = 0; i < question->predict_count; i++)
        add_largest(sizing, question->predict[i].second);
    for (size_t i = 0; !question->predict_count && i < question->count; i++)
        add_largest(sizing, sizing->probes[i]->at.second);
}

static void add_need(struct sizing *sizing, struct mp_size_point at)
{
    struct mp_size_answer *answer = sizing->answer;
    size_t before = 0;
    for (; before < answer->needs.count; before++) {
        const struct mp_size_point *known = &answer->needs.at[before].at;
        if (known->second == at.second && known->first == at.first) return;
        if (known->second > at.second || (known->second == at.second && known->first > at.first)) break;
    }
    mp_vec_room_for(&answer->needs, 1);
    memmove(answer->needs.at + before + 1, answer->needs.at + before,
            (answer->needs.count++ - before) * sizeof *answer->needs.at);
    answer->needs.at[before] = mp_size_need_at(&sizing->predictor, at);
}

static void find_needs(struct sizing *sizing)
{
    const struct mp_size_answer *answer = sizing->answer;
    for (size_t i = 0; i < sizing->question->predict_count; i++)
        add_need(sizing, sizing->question->predict[i]);
    for (size_t i = 0; i < answer->largest.count; i++) {
        const struct mp_size_largest *largest = &answer->largest.at[i];
        if (largest->endless) continue;
        if (largest->first) add_need(sizing, (struct mp_size_point){largest->first, largest->second});
        if (largest->sure) add_need(sizing, (struct mp_size_point){largest->sure, largest->second});
        add_need(sizing, (struct mp_size_point){largest->first + 1, largest->second});
    }
}

/* From nothing to a third beyond the largest. */
static void find_plot(struct sizing *sizing)
{
    struct mp_size_answer *answer = sizing->answer;
    const struct mp_size_largest *largest = &answer->largest.at[answer->largest.count - 1];
    size_t points = sizing->question->plot_points;
    uint64_t top = sizing->fit.points.at[sizing->fit.points.count - 1].first;
    if (!largest->endless && largest->first + largest->first / 3 > top) top = largest->first + largest->first / 3;
    for (size_t i = 0; i < answer->needs.count; i++)
        if (answer->needs.at[i].at.first > top && answer->needs.at[i].at.second == largest->second)
            top = answer->needs.at[i].at.first;
    uint64_t last = 0;
    for (size_t i = 1; i <= points; i++) {
        struct mp_size_point at = {top * i / points, largest->second};
        if (at.first == last) continue;
        last = at.first;
        struct mp_size_need need = mp_size_need_at(&sizing->predictor, at);
        mp_vec_add(&answer->plot, need);
    }
}

/* ---- who holds it ----------------------------------------------------------------------------------------------- */

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
static void find_sites(struct sizing *sizing, struct mp_size_point at)
{
    struct mp_size_answer *answer = sizing->answer;
    const struct mp_model *model = answer->model;
    struct mp_size_point next = {at.first + 1, at.second};
    struct mp_size_height height = mp_size_curve_at(&sizing->fit.curve, at);
    uint32_t *site_of = mp_alloc_zeroed(model->stacks.count + 1, sizeof *site_of); /* + 1 */
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        uint32_t value = sizing->fit.plan.value_of[block], stack = model->blocks.stack[block];
        if (value == MP_NONE || !lives_at(model, block, height.moment)) continue;
        if (stack >= model->stacks.count) stack = 0;
        if (!site_of[stack]) {
            struct mp_size_site fresh = {.stack = stack};
            mp_vec_add(&answer->sites, fresh);
            site_of[stack] = (uint32_t)answer->sites.count;
        }
        struct mp_size_site *site = &answer->sites.at[site_of[stack] - 1];
        double bytes = mp_size_value_at(&sizing->fit.plan, value, at).likely;
        site->bytes += (uint64_t)llround(bytes);
        site->blocks++;
        site->per_first += mp_size_value_at(&sizing->fit.plan, value, next).likely - bytes;
        if (sizing->fit.plan.values.at[value].solution.kind == MP_SIZE_OPAQUE) site->opaque = true;
    }
    if (answer->sites.count) qsort(answer->sites.at, answer->sites.count, sizeof *answer->sites.at, by_bytes);
    for (size_t i = 0; i < answer->sites.count; i++)
        answer->opaque_sites += answer->sites.at[i].opaque;
    answer->opaque = (uint64_t)llround(height.opaque);
    free(site_of);
}

/* ---- the probes ------------------------------------------------------------------------------------------------- */

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

static void describe_steps(const struct mp_model *model, struct mp_size_probed *probed)
{
    struct mp_steps steps = {0};
    if (!mp_steps_find(model, &steps)) mp_memory_lacks(0);
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

/* Bytes of the device in use for this process, where known. */
static void find_device(const struct mp_model *model, uint16_t track, uint64_t reserved, uint64_t *device)
{
    struct mp_device_uses uses = {0};
    mp_device_uses_find(model, &uses);
    for (size_t i = 0; i < uses.count; i++) {
        const struct mp_device_use *use = &uses.at[i];
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

static void describe_probe(struct sizing *sizing, size_t index)
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
    find_device(probe->model, sizing->sources[index].track, probed.reserved, &probed.device);
    describe_steps(probe->model, &probed);
    mp_vec_add(&sizing->answer->probes, probed);
}

static enum mp_status order_probes(struct sizing *sizing, struct mp_error *error)
{
    const struct mp_size_question *question = sizing->question;
    for (size_t i = 0; i < question->count; i++)
        sizing->probes[i] = &question->probes[i];
    qsort(sizing->probes, question->count, sizeof *sizing->probes, rising);
    return size_probes_check(sizing->probes, question, sizing->sources, error);
}

/* Each size once, and what repeats one; `used` is per size. */
static void sort_repeats(struct sizing *sizing, struct mp_size_points *points, struct mp_size_source *sources,
                         struct mp_size_repeats *repeats)
{
    for (size_t i = 0; i < sizing->question->count; i++) {
        if (is_repeat(sizing->probes, i)) {
            repeats->of[repeats->count] = points->count - 1;
            repeats->sources[repeats->count++] = sizing->sources[i];
            continue;
        }
        sources[points->count] = sizing->sources[i];
        points->at[points->count] = sizing->probes[i]->at;
        mp_size_monomials(sizing->probes[i]->at, points->monomials[points->count++]);
    }
}

static enum mp_status fit_probes(struct sizing *sizing, struct mp_error *error)
{
    struct mp_size_points points = {.two = sizing->question->two};
    struct mp_size_source sources[MP_SIZE_PROBES_MAX];
    struct mp_size_repeats repeats = {.count = 0};
    bool used[MP_SIZE_PROBES_MAX];
    size_t count = sizing->question->count, size = 0;
    double common;
    sort_repeats(sizing, &points, sources, &repeats);
    if (!mp_size_fit_make(&points, sources, &repeats, used, &common, &sizing->fit))
        return mp_fail(error, MP_UNSUPPORTED,
                       "%s and %s do not come from one program doing the same: %.0f %% of the allocations are made at "
                       "places that all recordings have",
                       sizing->probes[0]->name, sizing->probes[count - 1]->name, 100 * common);
    sizing->answer->model = sizing->fit.plan.source->model;
    sizing->answer->track = sizing->fit.plan.source->track;
    for (size_t i = 0; i < count; i++) {
        size += i && !is_repeat(sizing->probes, i);
        sizing->used[i] = used[size];
        describe_probe(sizing, i);
    }
    mp_size_predictor_make(&sizing->fit, sizing->answer->probes.at, count, sizing->answer->limit, &sizing->predictor);
    return size_probes_answer(sizing->probes, sizing->answer, &sizing->fit, error);
}

/* ---- the answer ------------------------------------------------------------------------------------------------- */

static void add_chance(struct sizing *sizing)
{
    struct mp_size_answer *answer = sizing->answer;
    const struct mp_size_chance *chance = &sizing->fit.chance;
    if (chance->loads && chance->known && chance->ahead)
        note(answer,
             "batches wait in the program as the workers of its DataLoader end them, by chance as many as %llu before "
             "their turn: the bounds hold for any number of them",
             (unsigned long long)chance->ahead);
    if (chance->loads && !chance->known)
        note(answer,
             "batches wait in the program as the workers of its DataLoader end them; the recordings do not say how "
             "many may (an older memprof, or --no-shim): the bounds hold for twice as many as were seen, %llu",
             (unsigned long long)chance->held);
    if (chance->threads)
        note(
            answer,
            "threads beside the main one make blocks that others free: how many wait at once is a matter of chance and "
            "of how long a step takes; the bounds hold where all that were made in a probe wait");
}

static void add_notes(struct sizing *sizing)
{
    struct mp_size_answer *answer = sizing->answer;
    bool stepless = false;
    uint32_t steps = UINT32_MAX;
    for (size_t i = 0; i < answer->probes.count; i++) {
        stepless = stepless || !answer->probes.at[i].steps;
        if (answer->probes.at[i].steps < steps) steps = answer->probes.at[i].steps;
    }
    if (stepless)
        note(answer, "not every probe has steps: whether the first one differs (optimizer state, warm-up) "
                     "cannot be told; what the probes did is counted as a whole");
    else if (steps < 2)
        note(answer, "the probes made one step: what a second one would add (optimizer state that is made at "
                     "the end of the first) was not seen; record two or more");
    for (size_t i = 0; i < answer->probes.count; i++)
        if (!answer->probes.at[i].used)
            note(answer,
                 "%s took another way than the others (other places allocate: an algorithm chosen by "
                 "size?) and is left out; sizes near it may take that way too%s",
                 answer->probes.at[i].name,
                 i + 1 == answer->probes.count ? ", and larger ones: the bounds reach to what it needed" : "");
    add_chance(sizing);
    if (sizing->predictor.reserves && answer->outside_most == MP_BYTES_UNKNOWN)
        note(answer, "what the device needs beside what PyTorch reserves (context, libraries) is not in the "
                     "recordings: it comes on top; leave room for it with --margin");
    if (sizing->predictor.reserves && sizing->predictor.settings.expandable)
        note(answer, "reserved memory is that of expandable segments, as recorded");
    if (mp_size_reserves(&sizing->fit.plan) && !sizing->predictor.reserves)
        note(answer, "the recordings do not say what PyTorch reserved, so only allocated memory is predicted: it "
                     "needs more");
    if (sizing->predictor.unlike && sizing->predictor.unsolved > 0)
        note(answer,
             "the two probes did not do the same: between them the bounds reach to the way of either, beyond them from "
             "what does not grow to squares of the size; a third probe narrows them");
    else if (sizing->fit.points.count == 2 && sizing->fit.plan.unchecked_blocks)
        note(answer, "two probes leave nothing to check the answer with; a third one would");
}

static void answer_all(struct sizing *sizing)
{
    struct mp_size_answer *answer = sizing->answer;
    answer->binds = mp_size_binds(&sizing->predictor);
    answer->checked = sizing->fit.points.count > 2;
    answer->outside_least = sizing->predictor.outside_least;
    answer->outside_most = sizing->predictor.outside_most;
    find_all_largest(sizing);
    find_needs(sizing);
    find_plot(sizing);
    add_notes(sizing);
    const struct mp_size_largest *largest = &answer->largest.at[answer->largest.count - 1];
    struct mp_size_point at = {largest->first ? largest->first : 1, largest->second};
    if (largest->endless) at = sizing->fit.points.at[sizing->fit.points.count - 1];
    find_sites(sizing, at);
}

enum mp_status mp_size_find(const struct mp_size_question *question, struct mp_size_answer *answer,
                            struct mp_error *error)
{
    struct sizing sizing = {.question = question, .answer = answer};
    *answer = (struct mp_size_answer){.capacity = question->capacity, .margin = question->margin};
    answer->limit = question->margin < question->capacity ? question->capacity - question->margin : 0;
    enum mp_status status = order_probes(&sizing, error);
    if (!status) status = fit_probes(&sizing, error);
    if (!status) answer_all(&sizing);
    mp_size_predictor_free(&sizing.predictor);
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
    mp_vec_free(&answer->plot);
    mp_vec_free(&answer->sites);
}
