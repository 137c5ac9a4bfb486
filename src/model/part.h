/*
 * As much of a recording as one question needs: its tables, and of its events those from the last base before the peak
 * of a track, or before a window, to its end (docs/FORMAT.md, "Finding without reading"). The model is as a full one where
 * that question looks: the blocks live then with their births, the steps, the regions open then, the highest level of
 * each track, what coverage says. What lies outside was not looked at, damage there neither.
 *
 * What was born before the base has its alloc event at its birth, of an unknown thread; what came after the part is not
 * there but for what marks steps. So which thread or region a block is of, and how it ended, is not to be asked.
 */
#ifndef MP_MODEL_PART_H
#define MP_MODEL_PART_H

#include "base/error.h"
#include "model/model.h"

struct mp_part_query {
    const char *track;     /* as --track names it; NULL: the default one */
    const char *from, *to; /* as mp_window_make() has them; both NULL: the peak of all */
};

/* Any status but MP_OK: the part alone cannot tell (MP_NOT_FOUND: the file has no such notes, steps that nobody marked,
 * readings of a device, ...): read it all, and learn there what is wrong. The model is the caller's. */
enum mp_status mp_model_load_part(const char *path, const struct mp_part_query *ask, struct mp_model **model,
                                  struct mp_error *error);

#endif
