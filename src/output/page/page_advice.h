/* Changes that would save memory, on a page: their words in the header, their curves as columns. */
#pragma once

#include "analysis/advise/advise.h"
#include "base/error.h"
#include "base/json.h"
#include "output/page/page_columns.h"

/* Writes the changes as "advice"; null without changes. */
void mp_page_advice_json(struct mp_json *json, const struct mp_model *model, const struct mp_advise *advise);
/* Adds the changes' curves. Only for a page of the whole recording. */
enum mp_status mp_page_advice_add(const struct mp_model *model, const struct mp_advise *advise,
                                  struct mp_page_columns *columns, struct mp_error *error);
