/*
 * Pairs the allocations of two steps of one program. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mp_step_block {
    uint32_t stack, module, block, born;
    uint64_t bytes;
    bool fixed; /* its size does not depend on the batch */
};

/* to[i]: the index in `later` of the same block as first[i]; SIZE_MAX: none. */
void mp_steps_align(const struct mp_step_block *first, size_t first_count, const struct mp_step_block *later,
                    size_t later_count, size_t *to);
