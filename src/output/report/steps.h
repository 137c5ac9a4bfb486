/* `memprof steps` as text and as JSON; see view.h. */
#pragma once

#include "analysis/sites/steps.h"
#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"
#include "output/report/view.h"

/* `groups`: the steps' bytes by group, or NULL. */
void mp_steps_json(struct mp_json *json, const char *key, const struct mp_model *model,
                   const struct mp_step_report *report, const struct mp_step_groups *groups,
                   const struct mp_view *view);
void mp_steps_text(struct mp_text *text, const struct mp_model *model, const struct mp_step_report *report,
                   const struct mp_step_groups *groups, const struct mp_view *view);

/* Writes the table of regions. `heading` and `shown` are as in struct mp_rows; `shown` NULL: all columns. */
void mp_regions_text(struct mp_text *text, const struct mp_model *model, const struct mp_step_report *report,
                     const char *heading, const char *shown);
