/*
 * The segments of a caching allocator at a moment, with the blocks in them. They come from a replay if the recording
 * has the allocator's trace. Otherwise from the segments listed in the file, or from blocks of the layer below. Pure;
 * the result is the caller's.
 */
#pragma once

#include "analysis/allocator/torch_replay.h"

enum mp_layout_source {
    MP_LAYOUT_REPLAYED, /* exact */
    MP_LAYOUT_LISTED,   /* exact */
    MP_LAYOUT_PLACED    /* streams and pools are unknown; a block may take up to 1 MiB more than it seems */
};

struct mp_torch_layout {
    enum mp_layout_source source;
    struct mp_torch_moment moment; /* the blocks' ids have no meaning; use owners */
};

/* `event`: the number of past events. The history must be the track's. False: the recording does not say what the
 * allocator held. */
bool mp_torch_layout_at(const struct mp_model *model, struct mp_torch_history *history, uint32_t event,
                        struct mp_torch_layout *layout);
