/*
 * A buffer that only grows is replaced by a larger one in every step. The old block ends after the new one begins,
 * because it is copied into the new one. So a birth in every step is no evidence. If many other sites grow too, the
 * batch grows, and the buffer is no leak. The same holds for a group of blocks that each step makes anew, with one more
 * each time: a hook that is added again and again keeps one block for each hook. Pure.
 */
#pragma once

#include "analysis/leaks/leak_places.h"
#include "analysis/leaks/leak_slope.h"

/* How a place grows: the rule's result, and the rate. */
struct mp_leak_growing {
    struct mp_leak_evidence evidence;
    struct mp_leak_slope slope;
    bool regrown; /* a block, or a group of blocks, is replaced by a larger one each time */
};

/* Fills *growing if the place has a block, or a group of blocks, that is replaced by a larger one each time. */
bool mp_leak_regrows(const struct mp_model *model, const struct mp_leak_places *places,
                     const struct mp_leak_place *place, struct mp_leak_growing *growing);
/* True if one in eight sites that allocate in most steps allocates more in the last third of the steps than in the
 * first. */
bool mp_leak_work_grows(const struct mp_model *model, const struct mp_steps *steps,
                        const struct mp_leak_places *places);
