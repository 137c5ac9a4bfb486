/*
 * What PyTorch's caching allocator was asked for, block by block, on which stream, and from which pool it took it:
 * where the recording has its history or segments. A history may lack blocks; of those the others of the same site,
 * module and size tell, where they all agree. Pure; the result is the caller's.
 */
#ifndef MP_ANALYSIS_PLACEMENT_H
#define MP_ANALYSIS_PLACEMENT_H

#include "model/model.h"

#define MP_PLACE_UNKNOWN UINT64_MAX

struct mp_placements {
    uint64_t *stream, *pool; /* by block: as in struct mp_segment; MP_PLACE_UNKNOWN */
    uint64_t *requested;     /* by block; MP_PLACE_UNKNOWN */
    bool *usual;             /* by block: it is what the others of its site have */
};

/* False where memory is short. */
bool mp_placements_find(const struct mp_model *model, struct mp_placements *placements);
void mp_placements_free(struct mp_placements *placements);

/* Of the blocks that live at a moment (so many events have happened), what is known of rounding. */
struct mp_rounding {
    uint64_t blocks, bytes;            /* on the track */
    uint64_t known_bytes, usual_bytes; /* of those: whose request is known; of these: as their site's others */
    uint64_t requested_bytes;          /* that was asked for, of the known ones */
    bool whole;                        /* all are known */
};
bool mp_rounding_at(const struct mp_model *model, uint16_t track, uint32_t moment, struct mp_rounding *rounding);

#endif
