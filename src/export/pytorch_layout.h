/*
 * The layout of a track's blocks in a snapshot: segments, and the lives of blocks in them. A life has one size, and an
 * address that no other life has at the same time. Only for pytorch.c. One thread at a time.
 */
#pragma once

#include "base/vec.h"
#include "model/track.h"

/* A block for as long as it has one size: a resized block has several lives. */
struct mp_pytorch_life {
    uint64_t address, bytes;
    uint32_t begin, end; /* events; MP_NONE: before the first event, or after the last */
    uint32_t block, stack;
};

/* The lives of a track's blocks, by block, then time. */
struct mp_pytorch_lives {
    MP_VEC(struct mp_pytorch_life) all;
    MP_VEC(uint32_t) next; /* per block of the model: the next or present life, + 1; 0: none */
    uint64_t unknown_sizes;
};

/* A segment at the end. */
struct mp_layout_segment {
    uint64_t address, bytes;
    uint32_t stack;
    bool expandable;
};

struct mp_layout {
    struct mp_pytorch_lives lives;
    struct mp_pytorch_lives ranges; /* ranges of the layer below; none if the segments are made up */
    MP_VEC(uint32_t)
    first_in;                                  /* by range: the first block of the model that lay in the range; MP_NONE:
                                                * none */
    MP_VEC(struct mp_layout_segment) segments; /* by address; they do not overlap */
    MP_VEC(uint32_t) held;                     /* lives that last to the end, by address, without overlaps */
    uint64_t moved_blocks;
};

/* Makes the layout of `track`. `memory` is the memory of the layer below on the same device. */
void mp_layout_make(const struct mp_model *model, uint16_t track, const struct mp_track_memory *memory,
                    struct mp_layout *layout);
void mp_layout_free(struct mp_layout *layout);

/* Finds the lives that an event about a block ends and begins (MP_NONE: none). Call it once for each event, in
 * order. */
void mp_pytorch_lives_follow(struct mp_pytorch_lives *lives, uint32_t block, uint32_t event, uint32_t *ended,
                             uint32_t *begun);
