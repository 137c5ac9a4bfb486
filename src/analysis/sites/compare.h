/*
 * Two recordings, row by row: the memory of each at its peak, at its end and allocated in all, and the difference in
 * one of these. Rows are sites, equal as in analysis/sites/flames.h, or groups, equal by name. Files and libraries
 * count without their folders, threads without their numbers. Pure; the result is the caller's.
 */
#ifndef MP_ANALYSIS_COMPARE_H
#define MP_ANALYSIS_COMPARE_H

#include "analysis/sites/flames.h"
#include "analysis/sites/groups.h"
#include "analysis/sites/moved.h"

struct mp_compare_query {
    const struct mp_model *models[MP_SIDES];
    struct mp_profile_query asks[MP_SIDES]; /* track, window and filter of each */
    enum mp_profile_of sense;               /* by which rows are listed: peak, outstanding or allocated */
    struct mp_grouping grouping;            /* the kind of rows; categories are made here. Sorted by growth: the largest
                                             * increase comes first, the largest decrease last; else by the size of the
                                             * change */
};

struct mp_compare_row {
    struct mp_profile_value values[MP_SIDES];
    uint32_t stacks[MP_SIDES]; /* in the side's recording, one of the stacks summed up here; MP_NONE: none, or a
                                * group */
    uint32_t group;            /* string id in mp_compare.groups; MP_NONE: unknown, or a site */
    uint32_t found;            /* counts rows as they are found */
};

struct mp_compare {
    struct mp_profile_value sums[MP_SIDES][MP_PROFILE_SENSES];
    MP_VEC(struct mp_compare_row) rows; /* those that differ, in the requested order */
    struct mp_intern groups;
    struct mp_moved moved; /* of sites: code that moved to other lines, and is compared as the same */
};

void mp_compare_make(const struct mp_compare_query *query, struct mp_compare *compare);
void mp_compare_free(struct mp_compare *compare);

/* The growth of a row from before to after; negative where it shrank. */
static inline int64_t mp_compare_delta(const struct mp_compare_row *row)
{
    return (int64_t)(row->values[MP_AFTER].bytes - row->values[MP_BEFORE].bytes);
}

/* True if `after` exceeds `before` by more than allowed: by `bytes` or, with `percent` not negative, by that part of
 * `before`. */
bool mp_compare_grew(uint64_t before, uint64_t after, uint64_t bytes, double percent);

#endif
