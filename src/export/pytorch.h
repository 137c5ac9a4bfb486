/*
 * A recording as PyTorch's memory snapshot, for memory_viz and other readers. Devices keep their ordinals: cuda:1 is
 * device 1. Each device has the entries of its uppermost track. Its segments cover every block that an entry names, as
 * the viewer requires, and list the blocks live at the end. Steps and regions become annotations. If the recording has
 * requests from PyTorch's own history, entries have requested sizes, streams and pools. If it has the allocator's own
 * list of segments, these are written block by block as listed. Memory of the layer below is a segment only if it ever
 * contained a block of the allocator. A free has its own stack if it is known, else its alloc's, as in PyTorch's own
 * snapshots. The allocator's settings are written if the recording has them.
 *
 * A snapshot has no place for other tracks, threads or sampled counters. Facts that a snapshot needs, but the recording
 * lacks, are made up so that no sum changes. If no track has segments, a segment is put around neighbouring blocks. A
 * block gets a new address if its own is unknown or equals that of another live block. The free memory at an
 * out-of-memory is 0 if it is unknown (analysis/device/device_free.h).
 */
#pragma once

#include <stdio.h>

#include "base/error.h"
#include "model/model.h"

struct mp_pytorch_exported {
    uint16_t moved;         /* a track of the CPU, written as device 0 because no other device has a track;
                             * MP_TRACK_NONE: none */
    uint64_t left_out;      /* tracks with events that no device of the snapshot shows */
    uint64_t unknown_sizes; /* number of blocks left out because their sizes are not known */
    uint64_t moved_blocks;  /* number of blocks that got another address */
};

/* Writes to `out`, which stays open: a pickle of protocol 4, or JSON. Errors: MP_NOT_FOUND (the recording has no
 * track), MP_IO. */
enum mp_status mp_pytorch_export(const struct mp_model *model, bool as_json, FILE *out,
                                 struct mp_pytorch_exported *exported, struct mp_error *error);
