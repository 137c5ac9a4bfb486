/*
 * A recording as PyTorch's memory snapshot, for memory_viz and everything else that reads these. Devices keep their
 * ordinals: cuda:1 is device 1. Each has the entries of its uppermost track, segments that hold every block that any
 * entry names, as the viewer wants it, and the blocks that live at the end in them; steps and regions become
 * annotations. Where PyTorch's own history told what was asked for, sizes of entries are that, and streams and pools are
 * the blocks'. Segments that the allocator told of are written block by block as it did; of the layer below only memory
 * in which a block of the allocator ever lay is a segment. Frees have stacks of their own where those are known, else
 * their allocs', as PyTorch writes them. The allocator's settings are there where the program told them.
 *
 * What a snapshot has no place for is left out: other tracks, threads, sampled counters. What it must have and a
 * recording does not is made up so that no sum changes: where no track tells of segments, blocks near one another get
 * one around them; blocks whose address is not known, or is that of another live one, get one of their own; and how
 * much was free at an out-of-memory is 0 where that is not known (analysis/device/device_free.h).
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
 * MP_IO, MP_NO_MEMORY. */
enum mp_status mp_pytorch_export(const struct mp_model *model, bool as_json, FILE *out,
                                 struct mp_pytorch_exported *exported, struct mp_error *error);

#endif
