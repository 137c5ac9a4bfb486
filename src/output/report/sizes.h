/* What takes a file's bytes, as text and as JSON; see view.h. */
#pragma once

#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"

/* Bytes of the file by kind of chunk: under the key "sizes", as a table. For recordings only. */
void mp_sizes_json(struct mp_json *json, const struct mp_model *model);
void mp_sizes_text(struct mp_text *text, const struct mp_model *model);
