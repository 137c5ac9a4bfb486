#include "model/window.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "model/steps_infer.h"

static bool parse_part(const char *text, double *part)
{
    char *end;
    *part = strtod(text, &end);
    return end != text && !strcmp(end, "%") && *part >= 0 && *part <= 100;
}

/* A moment that the user gave. */
struct place {
    uint64_t ns;
    uint32_t moment; /* for a step: exactly where it begins or ends; else MP_NONE */
};

static enum mp_status step_place(const struct mp_model *model, const char *text, bool at_end, struct place *place,
                                 struct mp_error *error)
{
    char *end;
    errno = 0;
    unsigned long long number = strtoull(text + strlen("step:"), &end, 10);
    if (*end || errno || end == text + strlen("step:"))
        return mp_fail(error, MP_INVALID, "\"%s\" is not a step; write step:10", text);
    struct mp_steps steps = {0};
    enum mp_status status = MP_OK;
    mp_steps_find(model, &steps);
    if (!steps.count) {
        status = mp_fail(error, MP_INVALID, "\"%s\": the recording has no steps; give a time, as 1.5s or 50%%", text);
    } else if (number <= steps.before || number > steps.before + steps.count) {
        status = mp_fail(error, MP_INVALID, "\"%s\": the recording has steps %u to %zu", text, steps.before + 1,
                         steps.before + steps.count);
    } else {
        const struct mp_step *step = &steps.at[number - steps.before - 1];
        *place = at_end ? (struct place){step->end_ns, step->end} : (struct place){step->start_ns, step->first};
    }
    mp_steps_free(&steps);
    return status;
}

static enum mp_status parse_place(const struct mp_model *model, const char *text, bool at_end, struct place *place,
                                  struct mp_error *error)
{
    double part;
    if (!text) return MP_OK;
    if (!strncmp(text, "step:", 5)) return step_place(model, text, at_end, place, error);
    if (parse_part(text, &part)) {
        place->ns = (uint64_t)((double)model->duration_ns * part / 100);
        return MP_OK;
    }
    if (mp_parse_duration(text, &place->ns)) return MP_OK;
    return mp_fail(error, MP_INVALID, "\"%s\" is not a time; write 1.5s, step:10 or 50%%", text);
}

struct mp_window mp_window_all(const struct mp_model *model)
{
    return (struct mp_window){.last = (uint32_t)model->events.count, .to_ns = model->duration_ns, .whole = true};
}

enum mp_status mp_window_make(const struct mp_model *model, const char *from, const char *to, struct mp_window *window,
                              struct mp_error *error)
{
    struct place begin = {.moment = MP_NONE}, end = {model->duration_ns, MP_NONE};
    enum mp_status status = parse_place(model, from, false, &begin, error);
    if (status == MP_OK) status = parse_place(model, to, true, &end, error);
    if (status != MP_OK) return status;
    *window = (struct mp_window){.from_ns = begin.ns, .to_ns = end.ns, .whole = !from && !to};
    if (window->from_ns > model->duration_ns) {
        char length[MP_UNIT_TEXT];
        return mp_fail(error, MP_INVALID, "--from %s lies after the end: the recording is %s long", from,
                       mp_format_duration(length, model->duration_ns));
    }
    if (window->from_ns > window->to_ns)
        return mp_fail(error, MP_INVALID, "--from %s lies after --to %s", from ? from : "0", to ? to : "100%");
    window->first = !from ? 0 : begin.moment != MP_NONE ? begin.moment : mp_model_events_before(model, begin.ns, false);
    window->last = !to                     ? (uint32_t)model->events.count
                   : end.moment != MP_NONE ? end.moment
                                           : mp_model_events_before(model, end.ns, true);
    return MP_OK;
}

void mp_window_between(const struct mp_model *model, uint64_t from_ns, uint64_t to_ns, struct mp_window *window)
{
    *window = (struct mp_window){.first = mp_model_events_before(model, from_ns, false),
                                 .last = mp_model_events_before(model, to_ns, true),
                                 .from_ns = from_ns,
                                 .to_ns = to_ns};
    window->whole = !window->first && window->last == model->events.count;
}
