/*
 * Changes that would save memory, as text and as JSON. As output/report/reports.h.
 */
#ifndef MP_OUTPUT_ADVISE_H
#define MP_OUTPUT_ADVISE_H

#include "analysis/advise/advise.h"
#include "output/report/reports.h"

void mp_advise_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_advise *advise,
                    const struct mp_view *view);
void mp_advise_text(struct mp_text *text, const struct mp_model *model, const struct mp_advise *advise,
                    const struct mp_view *view);

#endif
