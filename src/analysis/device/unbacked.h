/*
 * Blocks that an allocator counts as allocated although no memory backs their addresses. A pluggable allocator may
 * unmap or free beneath PyTorch's caching allocator, as serving engines do when they sleep. The driver's tracks show
 * it: memory at a live block's addresses was freed and not mapped again. Addresses that the driver's tracks never had
 * do not count.
 *
 * Pure, and safe on any thread. O(n log n) in blocks and events, and cheap if no memory of the driver ended.
 */
#pragma once

#include "model/model.h"

struct mp_unbacked {
    uint64_t bytes;      /* after `moment` events */
    uint64_t most_bytes; /* the most at any time; if several events have the same time, only the last one counts */
    uint64_t most_ns;    /* when most_bytes was first reached */
    uint64_t end_bytes;
};

/* Finds the unbacked bytes over the blocks of all torch tracks of a device. False, with all MP_BYTES_UNKNOWN, if the
 * recording has no driver track, lacks events or is a sample. */
bool mp_unbacked_find(const struct mp_model *model, uint32_t device, uint32_t moment, struct mp_unbacked *found);
