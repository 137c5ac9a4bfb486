/* Saves any model as a recording, so that an imported file can be kept and read again. */
#pragma once

#include "base/error.h"
#include "model/model.h"

/* Writes to `fd`, an empty file, and closes it in any case. The recording loads as an equal model with two exceptions.
 * Blocks of the base may come earlier. Losses of an incomplete model (mp_model_incomplete()) are no longer reported as
 * damage. MP_IO, MP_NO_MEMORY, MP_LIMIT. */
enum mp_status mp_exchange_save(const struct mp_model *model, int fd, struct mp_error *error);
