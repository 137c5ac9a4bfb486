/* Joins PyTorch's history with the recorded blocks. One thread at a time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/history/history.h"

/* Fills alloc_of[entry] with an index into allocs, or MP_NONE. Both lists are in their allocator's order, and shorter
 * than 2^20; times of `allocs` never decrease. Sets *pairs to the number of pairs. False if memory is short. */
bool mp_history_join(const struct mp_history_alloc *allocs, size_t alloc_count, const struct mp_history_entry *entries,
                     size_t entry_count, uint32_t *alloc_of, size_t *pairs);
