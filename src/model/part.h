/*
 * As much of a recording as one question needs: its tables, and its events from the last base before a track's peak, or
 * before a window, to that window's end (docs/FORMAT.md, "Finding without reading"). Where the question looks, the
 * model equals a full one: the blocks live then with their births, the steps, the regions open then, the highest level
 * of each track, the coverage. Everything outside was not looked at, including damage there.
 *
 * A block born before the base has its alloc event at its birth, from an unknown thread. After the part, only events
 * that mark steps are there. So the model cannot say which thread or region a block belongs to, how it ended, or
 * whether the driver's memory beneath it was unmapped.
 */
#ifndef MP_MODEL_PART_H
#define MP_MODEL_PART_H

#include "base/error.h"
#include "model/model.h"

struct mp_part_query {
    const char *track;     /* as --track names it; NULL: the default one */
    const char *from, *to; /* as mp_window_make() has them; both NULL: the peak of all */
};

/* Any status but MP_OK means that the part alone cannot answer (MP_NOT_FOUND: the file has no such notes, steps that
 * nobody marked, readings of a device, ...): read the whole file, and learn from that what is wrong. The caller owns
 * the model. */
enum mp_status mp_model_load_part(const char *path, const struct mp_part_query *ask, struct mp_model **model,
                                  struct mp_error *error);

#endif
