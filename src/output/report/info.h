/* `memprof info` as text and as JSON; see view.h. */
#pragma once

#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"
#include "output/report/view.h"

void mp_info_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_view *view);
void mp_info_text(struct mp_text *text, const struct mp_model *model, const struct mp_view *view);
