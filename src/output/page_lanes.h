/*
 * In which stream and in which pool of a caching allocator each block was allocated, where a recording has the
 * allocator's own trace or its segments. A *lane* is a pair of the two.
 */
#ifndef MP_OUTPUT_PAGE_LANES_H
#define MP_OUTPUT_PAGE_LANES_H

#include "model/model.h"

struct mp_page_lane {
    uint64_t stream, pool; /* as in struct mp_segment */
};

struct mp_page_lanes {
    struct mp_page_lane *at; /* in order of first use */
    size_t count, room;
    uint32_t *of_block; /* by block of the model: its lane, from 1; 0: not known */
};

/* False where memory is short. The caller frees them, also then. */
bool mp_page_lanes_find(const struct mp_model *model, struct mp_page_lanes *lanes);
void mp_page_lanes_free(struct mp_page_lanes *lanes);

#endif
