/*
 * The allocations and frees of a plan in their order, shortened: of a long run of steps that all do the same, each
 * freeing what a step before it made, only the first few are kept. What comes after frees the blocks of the last one
 * kept in place of those of the last one left out. Pure.
 */
#ifndef MP_ANALYSIS_SIZE_SEQUENCE_H
#define MP_ANALYSIS_SIZE_SEQUENCE_H

#include "analysis/size_plan.h"

struct mp_size_operation {
    uint32_t block; /* of the plan's model */
    bool frees;
};

struct mp_size_sequence {
    struct mp_size_operation *at;
    size_t count, room;
};

bool mp_size_sequence_make(const struct mp_size_plan *plan, struct mp_size_sequence *sequence);
void mp_size_sequence_free(struct mp_size_sequence *sequence);

#endif
