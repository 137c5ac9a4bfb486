/*
 * The segments of a caching allocator at a moment, with the blocks in them. They come from a replay where the recording
 * has the allocator's own trace, from the segments that a file lists at its end, or from the blocks of the layer below
 * and those inside them. Pure; the result is the caller's.
 */
#ifndef MP_ANALYSIS_TORCH_LAYOUT_H
#define MP_ANALYSIS_TORCH_LAYOUT_H

#include "analysis/allocator/torch_replay.h"

enum mp_layout_source {
    MP_LAYOUT_REPLAYED, /* exact */
    MP_LAYOUT_LISTED,   /* exact */
    MP_LAYOUT_PLACED    /* streams and pools are unknown; a block may take up to 1 MiB more than it seems */
};

struct mp_torch_layout {
    enum mp_layout_source source;
    struct mp_torch_moment moment; /* its blocks' ids mean nothing; owners do */
};

/* `event`: the number of events that have happened. The history is the track's. False: the recording does not say what
 * the allocator held. */
bool mp_torch_layout_at(const struct mp_model *model, struct mp_torch_history *history, uint32_t event,
                        struct mp_torch_layout *layout);

#endif
