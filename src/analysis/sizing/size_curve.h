/*
 * How high a plan's memory goes at any point. The plan is followed once, in the order in which the largest probe
 * allocated and freed; the level at each local peak is itself a sum of monomials and of what is opaque. Levels that
 * others cover everywhere are dropped, so that asking costs little. The peak may be at another moment at another point.
 * Pure.
 */
#ifndef MP_ANALYSIS_SIZE_CURVE_H
#define MP_ANALYSIS_SIZE_CURVE_H

#include "analysis/sizing/size_plan.h"

struct mp_size_moment {
    uint32_t event;            /* the moment after that many events of the source */
    bool steady;               /* what is opaque at it adds up to something that is not */
    struct mp_size_sum opaque; /* that */
};

struct mp_size_curve {
    const struct mp_size_plan *plan;
    /* Columns of a level: likely, low and high factors of each term in use; then, for each growth in use, what is
     * opaque and grows so, at each probe. */
    size_t columns;
    unsigned char terms[MP_SIZE_TERMS], growths[MP_SIZE_TERMS];
    size_t term_count, growth_count;
    int64_t *value_columns; /* per value of the plan */
    MP_VEC(struct mp_size_moment) moments;
    MP_VEC(int64_t) levels; /* `columns` for each moment */
    MP_VEC(size_t) sums;    /* moments whose opaque part is steady, each sum once */
};

/* Bytes at the peak. The three may be reached at different moments. */
struct mp_size_height {
    double likely, low, high, opaque;
    uint32_t moment; /* of the likely one: events of the source that have happened */
};

/* `left_out`, per block of the plan's model: it is as if it were not there; NULL: all are. */
void mp_size_curve_make(const struct mp_size_plan *plan, const unsigned char *left_out, struct mp_size_curve *curve);
struct mp_size_height mp_size_curve_at(const struct mp_size_curve *curve, struct mp_size_point at);
void mp_size_curve_free(struct mp_size_curve *curve);

/* The same for one value of the plan. */
struct mp_size_bounds mp_size_value_at(const struct mp_size_plan *plan, uint32_t value, struct mp_size_point at);
/* How many blocks there would be in place of one of the plan; 1 where their number does not change. */
double mp_size_copies_at(const struct mp_size_plan *plan, uint32_t value, struct mp_size_point at);

#endif
