/*
 * Reserved bytes over time of each private pool of a caching allocator (a CUDA graph's, a MemPool's). A segment belongs
 * to a pool if the pool's blocks lay in it, or if the allocator says so. Pure; the result is the caller's.
 */
#pragma once

#include "analysis/sites/placement.h"
#include "model/model.h"

/* From time_ns on, the pool has `bytes`. */
struct mp_pool_point {
    uint64_t time_ns, bytes;
};

struct mp_pool_line {
    uint64_t pool;                       /* as in struct mp_segment */
    uint64_t most;                       /* bytes */
    MP_VEC(struct mp_pool_point) points; /* in order of time, each time once; at most MP_POOL_POINTS */
};

/* Pools with the highest bytes first, at most MP_POOL_LINES of them. */
struct mp_pool_lines {
    MP_VEC(struct mp_pool_line) all;
};

#define MP_POOL_LINES  32
#define MP_POOL_POINTS 8192 /* with more points, two neighbours become one with the higher bytes */

/* `track`: a caching allocator's; other tracks have no lines. A segment is in no line if no block of a known pool lay
 * in it, or if more than 65 536 lived at once. */
void mp_pool_lines_find(const struct mp_model *model, uint16_t track, const struct mp_placements *placements,
                        struct mp_pool_lines *lines);
void mp_pool_lines_free(struct mp_pool_lines *lines);
