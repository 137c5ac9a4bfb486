/* A planned run, as text and as JSON; see view.h. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"

/* Only for recordings of `memprof plan`: the object "plan"; a part of text that begins with an empty line; a sentence
 * for the notes (false: none). */
void mp_plan_json(struct mp_json *json, const struct mp_model *model);
void mp_plan_text(struct mp_text *text, const struct mp_model *model);
bool mp_plan_sentence(struct mp_buffer *out, const struct mp_model *model);

/* Writes, before a report's peak, a plan's device and the sites whose values decide sizes; nothing for other
 * recordings (false). */
bool mp_plan_head_text(struct mp_text *text, const struct mp_model *model);
