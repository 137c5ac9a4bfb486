/*
 * What the times say in which a program used PyTorch's private pools: only then does a pool get memory, for captures or
 * as the program asks; and what it hands out at another time puts it back to what it was.
 */
#ifndef MP_ANALYSIS_TORCH_USES_H
#define MP_ANALYSIS_TORCH_USES_H

#include "analysis/allocator/torch_history.h"
#include "analysis/sites/placement.h"

/* A pool served requests between two events of the model. */
struct mp_torch_use {
    uint32_t pool; /* index in the history's */
    uint32_t begin, end;
};
struct mp_torch_uses {
    struct mp_torch_use *at;
    size_t count, room;
};

/* Corrects the pools of a history's steps, and marks those that put a pool back. `driver`: the track of the segments,
 * MP_TRACK_NONE; `known`: what PyTorch's history told. Pools of which no use is known are left alone. Puts the uses in
 * order, those that overlap as one. */
void mp_torch_follow_uses(const struct mp_model *model, uint16_t driver, struct mp_torch_uses *uses,
                          const struct mp_placements *known, struct mp_torch_history *history);

#endif
