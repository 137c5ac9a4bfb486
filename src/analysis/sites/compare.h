/*
 * Compares two recordings row by row: their memory at the peak, at the end and allocated in all, and the difference in
 * one of these. Rows are sites or groups. Sites are equal as in analysis/sites/flames.h, groups by name. Files and
 * libraries count without their folders, threads without their numbers. Pure; the result is the caller's.
 */
#pragma once

#include "analysis/sites/flames.h"
#include "analysis/sites/groups.h"

struct mp_compare_query {
    const struct mp_model *models[MP_SIDES];
    struct mp_profile_query asks[MP_SIDES]; /* each recording's track, window and filter */
    enum mp_profile_of sense;               /* rows are sorted by this: peak, outstanding or allocated */
    struct mp_grouping grouping;            /* the kind of rows; mp_compare_make() makes the categories. If sorted by
                                             * growth, the largest increase comes first and the largest decrease last;
                                             * otherwise the largest change comes first */
};

struct mp_compare_row {
    struct mp_profile_value values[MP_SIDES];
    uint32_t stacks[MP_SIDES]; /* one of the row's stacks, in the side's recording; MP_NONE: none, or a group */
    uint32_t group;            /* string id in mp_compare.groups; MP_NONE: unknown, or a site */
    uint32_t found;            /* number of rows found */
};

struct mp_compare {
    struct mp_profile_value sums[MP_SIDES][MP_PROFILE_SENSES];
    MP_VEC(struct mp_compare_row) rows; /* rows that differ, in the requested order */
    struct mp_intern groups;
    struct mp_moved moved; /* for sites: code that moved to other lines and counts as the same */
};

void mp_compare_make(const struct mp_compare_query *query, struct mp_compare *compare);
void mp_compare_free(struct mp_compare *compare);

/* The growth of a row from before to after; negative if it shrank. */
static inline int64_t mp_compare_delta(const struct mp_compare_row *row)
{
    return (int64_t)(row->values[MP_AFTER].bytes - row->values[MP_BEFORE].bytes);
}

/* True if `after` exceeds `before` by more than `bytes`, or if `percent` is not negative, by more than that part of
 * `before`. */
bool mp_compare_grew(uint64_t before, uint64_t after, uint64_t bytes, double percent);
