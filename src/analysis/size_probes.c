#include "analysis/size_probes.h"

#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "model/track.h"

#define FALL_MOST 0.001 /* by which a peak may be lower at a larger batch */

static char *point_text(char *to, size_t room, const struct mp_size_question *question, struct mp_size_point at)
{
    if (question->two)
        snprintf(to, room, "%llux%llu", (unsigned long long)at.first, (unsigned long long)at.second);
    else
        snprintf(to, room, "%llu", (unsigned long long)at.first);
    return to;
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
        if (model->sums.at[i].ooms)
            return mp_fail(error, MP_UNSUPPORTED, "the run of %s ran out of memory; probe smaller values", probe->name);
    return MP_OK;
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
    for (size_t i = 0; i < question->count; i++)
        for (size_t j = 0; j < i; j++)
            if (probes[i]->at.first == probes[j]->at.first && probes[i]->at.second == probes[j]->at.second)
                return mp_fail(error, MP_INVALID, "two recordings are given for %s; give others of other sizes",
                               point_text(text, sizeof text, question, probes[i]->at));
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

enum mp_status mp_size_probes_check(const struct mp_size_probe *const *probes, const struct mp_size_question *question,
                                    struct mp_size_source *sources, struct mp_error *error)
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

enum mp_status mp_size_probes_answer(const struct mp_size_probe *const *probes, const struct mp_size_answer *answer,
                                     const struct mp_size_plan *plan, struct mp_error *error)
{
    char lower[MP_UNIT_TEXT], higher[MP_UNIT_TEXT];
    if (!plan->depends)
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
        return mp_fail(error, MP_UNSUPPORTED,
                       "memory falls from %s in %s to %s in %s, which is larger: the program takes another way there, "
                       "and nothing can be said of sizes beyond",
                       mp_format_bytes(higher, below->allocated), probes[i - 1]->name,
                       mp_format_bytes(lower, above->allocated), probes[i]->name);
    }
    return MP_OK;
}
