/*
 * Requests to PyTorch's caching allocator, block by block, with stream and pool, if the recording has its history or
 * segments. A history may lack a block. The block then gets the request of the other blocks of its site, module and
 * size, if these agree. Pure; the result is the caller's.
 */
#pragma once

#include "model/model.h"

#define MP_PLACE_UNKNOWN UINT64_MAX

/* A column is NULL if nothing is known for any block: use mp_placed(). */
struct mp_placements {
    uint64_t *stream, *pool; /* by block: as in struct mp_segment; MP_PLACE_UNKNOWN */
    uint64_t *requested;     /* by block; MP_PLACE_UNKNOWN */
    bool *usual;             /* by block: taken from other blocks of its site */
};

static inline uint64_t mp_placed(const uint64_t *column, uint32_t block)
{
    return column ? column[block] : MP_PLACE_UNKNOWN;
}
static inline bool mp_placed_as_usual(const struct mp_placements *placements, uint32_t block)
{
    return placements->usual && placements->usual[block];
}

void mp_placements_find(const struct mp_model *model, struct mp_placements *placements);
void mp_placements_free(struct mp_placements *placements);

/* The requests for a track's blocks that live at a moment (a number of events), and how many are known. All 0: the
 * recording has no history of the track's allocator. */
struct mp_rounding {
    uint64_t bytes;           /* of all blocks */
    uint64_t known_bytes;     /* bytes of blocks with a known request */
    uint64_t usual_bytes;     /* the part of known_bytes that is known from other blocks of the site */
    uint64_t requested_bytes; /* sum of the requests for the blocks in known_bytes */
};
static inline bool mp_rounding_is_whole(const struct mp_rounding *rounding)
{
    return rounding->known_bytes && rounding->known_bytes == rounding->bytes;
}
void mp_rounding_at(const struct mp_model *model, uint16_t track, uint32_t moment, struct mp_rounding *rounding);
