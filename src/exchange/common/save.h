/* Saves any model as a recording: an importer's result can be kept, and read again like a recording. */
#ifndef MP_EXCHANGE_SAVE_H
#define MP_EXCHANGE_SAVE_H

#include "base/error.h"
#include "model/model.h"

/* Writes to fd, an empty file, which is closed in any case. Loaded again, the recording gives an equal model, except
 * that blocks of the base may come earlier in order, and that losses of an incomplete model (mp_model_incomplete()) are
 * no longer reported as damage. MP_IO, MP_NO_MEMORY, MP_LIMIT. */
enum mp_status mp_exchange_save(const struct mp_model *model, int fd, struct mp_error *error);

#endif
