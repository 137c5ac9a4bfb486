/* `memprof info` as text and as JSON; see view.h. */
#pragma once

#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"
#include "output/report/view.h"

void mp_info_json(struct mp_json *json, const char *key, const struct mp_model *model, const struct mp_view *view);
void mp_info_text(struct mp_text *text, const struct mp_model *model, const struct mp_view *view);

/* What takes a file's bytes, as text and as JSON; see view.h. */

/* Bytes of the file by kind of chunk: under the key "sizes", as a table. For recordings only. */
void mp_sizes_json(struct mp_json *json, const struct mp_model *model);
void mp_sizes_text(struct mp_text *text, const struct mp_model *model);
