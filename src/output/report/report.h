/* `memprof report` as text and as JSON; see view.h. */
#pragma once

#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"
#include "output/report/view.h"

/* The parts of `memprof report`. `peak`, `steps`, `frag` and `advise` are NULL if the recording has no track. */
struct mp_story {
    const struct mp_peak *peak;
    const struct mp_leaks *leaks;
    const struct mp_step_report *steps;
    const struct mp_frag *frag;
    const struct mp_advise *advise;
};

void mp_report_json(struct mp_json *json, const struct mp_model *model, const struct mp_story *story,
                    const struct mp_view *view);
void mp_report_text(struct mp_text *text, const struct mp_model *model, const struct mp_story *story,
                    const struct mp_view *view);
