/*
 * The places of a track's blocks in a snapshot: each block's life with one size, at an address where no other block
 * lives then, and the segments around them. For pytorch_export.c. One thread at a time.
 */
#ifndef MP_EXCHANGE_PYTORCH_LAYOUT_H
#define MP_EXCHANGE_PYTORCH_LAYOUT_H

#include "base/vec.h"
#include "model/track.h"

/* A block for as long as it has one size: a resized block has several lives. */
struct mp_pytorch_life {
    uint64_t address, bytes;
    uint32_t begin, end; /* events; MP_NONE: before the first, after the last */
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
    struct mp_pytorch_lives ranges;            /* handed out by the layer below; none where the segments were made up */
    MP_VEC(uint32_t) first_in;                 /* by range: the first block that lay in it, of the model; MP_NONE */
    MP_VEC(struct mp_layout_segment) segments; /* by address; they do not overlap */
    MP_VEC(uint32_t) held;                     /* lives that last to the end, by address; they do not overlap either */
    uint64_t moved_blocks;
};

/* `memory`: of the layer below on the same device. */
void mp_layout_make(const struct mp_model *model, uint16_t track, const struct mp_track_memory *memory,
                    struct mp_layout *layout);
void mp_layout_free(struct mp_layout *layout);

/* The lives that an event about a block ends and begins (MP_NONE: none). Give the events in order, each once. */
void mp_pytorch_lives_follow(struct mp_pytorch_lives *lives, uint32_t block, uint32_t event, uint32_t *ended,
                             uint32_t *begun);

#endif
