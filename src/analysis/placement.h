/*
 * On which stream and in which pool of PyTorch's caching allocator blocks lie, where the recording has that allocator's
 * own trace or its segments. Pure; the result is the caller's.
 */
#ifndef MP_ANALYSIS_PLACEMENT_H
#define MP_ANALYSIS_PLACEMENT_H

#include "model/model.h"

#define MP_PLACE_UNKNOWN UINT64_MAX

struct mp_placements {
    uint64_t *stream, *pool; /* by block: as in struct mp_segment; MP_PLACE_UNKNOWN */
};

/* False where memory is short. */
bool mp_placements_find(const struct mp_model *model, struct mp_placements *placements);
void mp_placements_free(struct mp_placements *placements);

#endif
