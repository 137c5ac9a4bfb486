/*
 * Memory that an allocator counts as allocated and that no memory backs: where a pluggable allocator unmaps or frees
 * beneath PyTorch's caching allocator, as serving engines do when they sleep, blocks stay allocated at addresses behind
 * which there is nothing. The driver's tracks show it: the memory at a live block's addresses ended, and none has been
 * mapped there since. Addresses of which the driver's tracks never had anything are not counted.
 *
 * Pure, and safe on any thread; O(n log n) in blocks and events, and nearly nothing where no memory of the driver
 * ended.
 */
#ifndef MP_ANALYSIS_UNBACKED_H
#define MP_ANALYSIS_UNBACKED_H

#include "model/model.h"

struct mp_unbacked {
    uint64_t bytes;      /* after `moment` events */
    uint64_t most_bytes; /* the most at any time; where several events have one time, after the last of them */
    uint64_t most_ns;    /* when that was first reached */
    uint64_t end_bytes;
};

/* Of the blocks of all torch tracks of a device, in bytes. False, and all MP_BYTES_UNKNOWN, where it cannot be known:
 * nothing of the driver's side was recorded, or events are missing, or blocks are a sample. */
bool mp_unbacked_find(const struct mp_model *model, uint32_t device, uint32_t moment, struct mp_unbacked *found);

#endif
