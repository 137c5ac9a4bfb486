/* A server's plan, as text and as JSON; see view.h. */
#pragma once

#include <stdbool.h>

#include "base/buffer.h"
#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"

/* Only for recordings of a server of language models: the object "server"; a part of text that begins with an empty
 * line (false: none); a sentence on what its KV cache holds or lacks (false: none). */
void mp_server_json(struct mp_json *json, const struct mp_model *model);
bool mp_server_text(struct mp_text *text, const struct mp_model *model);
bool mp_server_sentence(struct mp_buffer *out, const struct mp_model *model, bool *lacks);
