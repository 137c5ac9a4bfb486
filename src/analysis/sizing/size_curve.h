/*
 * How high a plan's memory goes at any batch. The plan is followed once, in the order in which the largest probe
 * allocated and freed; the level at each local peak is itself a sum of a, b*B and c*B^2. Levels that others cover
 * everywhere are dropped, so that asking costs little. The peak may be at another moment at another batch. Pure.
 */
#ifndef MP_ANALYSIS_SIZE_CURVE_H
#define MP_ANALYSIS_SIZE_CURVE_H

#include "analysis/sizing/size_plan.h"

struct mp_size_level {
    struct mp_size_sum likely, low, high;
    int64_t varies; /* bytes, in units of MP_SIZE_UNIT, that grow by mp_size_growth() in the high one */
};

struct mp_size_moment {
    struct mp_size_level level;
    uint32_t event; /* the moment after that many events of the source */
};

struct mp_size_curve {
    const struct mp_size_plan *plan;
    MP_VEC(struct mp_size_moment) moments;
    double varies; /* the most bytes of a moment at the probes that did not solve, with what may be queued */
};

/* Bytes at the peak. The three may be reached at different moments. */
struct mp_size_height {
    double likely, low, high;
    uint32_t moment; /* of the likely one: events of the source that have happened */
};

/* The plan must stay. */
void mp_size_curve_make(const struct mp_size_plan *plan, struct mp_size_curve *curve);
struct mp_size_height mp_size_curve_at(const struct mp_size_curve *curve, double batch);
void mp_size_curve_free(struct mp_size_curve *curve);

#endif
