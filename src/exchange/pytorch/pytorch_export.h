/*
 * A recording as PyTorch's memory snapshot, for memory_viz and everything else that reads these. Devices keep their
 * ordinals: cuda:1 is device 1. Each device has the entries of its uppermost track. Its segments hold every block that
 * any entry names, as the viewer wants it, and contain the blocks live at the end. Steps and regions become
 * annotations. Where PyTorch's own history has the requests, entries have the requested sizes, and the blocks' streams
 * and pools. Segments from the allocator's own list are written block by block as it has them. Memory of the layer
 * below is a segment only if a block of the allocator ever lay in it. Frees have stacks of their own where those are
 * known, else their allocs', as PyTorch writes them. The allocator's settings are written where the recording has them.
 *
 * A snapshot has no place for other tracks, threads or sampled counters. Facts that it must have and a recording lacks
 * are made up so that no sum changes. If no track has segments, neighbouring blocks get one around them. A block whose
 * address is unknown, or is another live block's, gets an address of its own. The free memory at an out-of-memory is 0
 * if it is unknown (analysis/device/device_free.h).
 */
#ifndef MP_EXCHANGE_PYTORCH_EXPORT_H
#define MP_EXCHANGE_PYTORCH_EXPORT_H

#include <stdio.h>

#include "base/error.h"
#include "model/model.h"

struct mp_pytorch_exported {
    uint16_t moved;         /* a track of the CPU that was written as device 0, as there is no other; MP_TRACK_NONE */
    uint64_t left_out;      /* tracks with events that no device of the snapshot shows */
    uint64_t unknown_sizes; /* blocks left out: their sizes are not known */
    uint64_t moved_blocks;  /* blocks that got another address */
};

/* Writes to `out`, which stays open: a pickle of protocol 4, or JSON. MP_NOT_FOUND where the recording has no track;
 * MP_IO. */
enum mp_status mp_pytorch_export(const struct mp_model *model, bool as_json, FILE *out,
                                 struct mp_pytorch_exported *exported, struct mp_error *error);

#endif
