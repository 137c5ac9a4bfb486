/* Any model as a recording: what an importer made can be kept, and read again as if it had been recorded. */
#ifndef MP_EXCHANGE_SAVE_H
#define MP_EXCHANGE_SAVE_H

#include "base/error.h"
#include "model/model.h"

/* Writes to fd, an empty file, which is closed whatever is returned. Loaded again, the recording gives an equal model:
 * only blocks of the base may come earlier in order, and what an incomplete model (mp_model_incomplete()) has lost is
 * no longer told as damage. MP_IO, MP_NO_MEMORY, MP_LIMIT. */
enum mp_status mp_exchange_save(const struct mp_model *model, int fd, struct mp_error *error);

#endif
