/*
 * What each private pool of a caching allocator (a CUDA graph's, a MemPool's) has reserved over time: the segments in
 * which blocks of the pool lay, or that the allocator said to be the pool's. Pure; the result is the caller's.
 */
#ifndef MP_ANALYSIS_POOL_LINES_H
#define MP_ANALYSIS_POOL_LINES_H

#include "analysis/sites/placement.h"
#include "model/model.h"

/* From time_ns on, the pool has so many bytes. */
struct mp_pool_point {
    uint64_t time_ns, bytes;
};

struct mp_pool_line {
    uint64_t pool;                       /* as in struct mp_segment */
    uint64_t most;                       /* bytes */
    MP_VEC(struct mp_pool_point) points; /* in order of time, each time once; at most MP_POOL_POINTS */
};

/* The pools that ever had most come first, at most MP_POOL_LINES of them. */
struct mp_pool_lines {
    MP_VEC(struct mp_pool_line) all;
};

#define MP_POOL_LINES  32
#define MP_POOL_POINTS 8192 /* of more, each keeps the most of two that follow one another */

/* `track`: of a caching allocator; others have none. Of segments beyond 65 536 at once, and of those in which no block
 * with a known pool ever lay, the pool is not known: they are in no line. */
void mp_pool_lines_find(const struct mp_model *model, uint16_t track, const struct mp_placements *placements,
                        struct mp_pool_lines *lines);
void mp_pool_lines_free(struct mp_pool_lines *lines);

#endif
