/* Memory of devices that no recorded block explains, as text and as JSON; see view.h. */
#pragma once

#include "base/json.h"
#include "model/model.h"
#include "output/form/text.h"

/* Uses of each CUDA device ("device_use"); text: a part that begins with an empty line, or nothing. */
void mp_device_uses_json(struct mp_json *json, const struct mp_model *model);
void mp_device_uses_text(struct mp_text *text, const struct mp_model *model);
