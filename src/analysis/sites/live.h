/* The blocks live at a moment. Pure; the results are the caller's. */
#pragma once

#include "model/filter.h"
#include "model/model.h"
#include "model/track.h"

struct mp_live_block {
    uint64_t bytes; /* its size at the moment; MP_BYTES_UNKNOWN: unknown */
    uint32_t block;
};

struct mp_live_blocks {
    struct mp_live_block *at;
    size_t count, room;
    uint32_t moment;
};

/* Blocks of `track` that `filter` picks and that live after `moment` events. MP_TRACK_NONE: all tracks of
 * mp_tracks_meant(). */
void mp_live_blocks_at(const struct mp_model *model, uint16_t track, uint32_t moment, const struct mp_filter *filter,
                       struct mp_live_blocks *live);
void mp_live_blocks_free(struct mp_live_blocks *live);
