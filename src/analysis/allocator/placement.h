/*
 * Requests to PyTorch's caching allocator, block by block, with the stream, and the pool that it took it from:
 * where the recording has its history or segments. A history may lack blocks; of those the others of the same site,
 * module and size tell, where they all agree. Pure; the result is the caller's.
 */
#ifndef MP_ANALYSIS_PLACEMENT_H
#define MP_ANALYSIS_PLACEMENT_H

#include "model/model.h"

#define MP_PLACE_UNKNOWN UINT64_MAX

/* Columns are NULL where nothing is known of any block: ask mp_placed(). */
struct mp_placements {
    uint64_t *stream, *pool; /* by block: as in struct mp_segment; MP_PLACE_UNKNOWN */
    uint64_t *requested;     /* by block; MP_PLACE_UNKNOWN */
    bool *usual;             /* by block: it is what the others of its site have */
};

static inline uint64_t mp_placed(const uint64_t *column, uint32_t block)
{
    return column ? column[block] : MP_PLACE_UNKNOWN;
}
static inline bool mp_placed_as_usual(const struct mp_placements *placements, uint32_t block)
{
    return placements->usual && placements->usual[block];
}

/* False where memory is short. */
bool mp_placements_find(const struct mp_model *model, struct mp_placements *placements);
void mp_placements_free(struct mp_placements *placements);

/* Of a track's blocks that live at a moment (so many events have happened): what was asked for, and how far that is
 * known. All 0 where the recording has no history of the track's allocator. */
struct mp_rounding {
    uint64_t bytes;           /* of all */
    uint64_t known_bytes;     /* of those whose request is known; */
    uint64_t usual_bytes;     /* of these, where it is that of the site's others */
    uint64_t requested_bytes; /* what the known ones had been asked for */
};
static inline bool mp_rounding_is_whole(const struct mp_rounding *rounding)
{
    return rounding->known_bytes && rounding->known_bytes == rounding->bytes;
}
bool mp_rounding_at(const struct mp_model *model, uint16_t track, uint32_t moment, struct mp_rounding *rounding);

#endif
