/*
 * Several recordings made into one: those that agree with each other, their places, the plan of the largest, its curve.
 * Pure.
 */
#ifndef MP_ANALYSIS_SIZE_FIT_H
#define MP_ANALYSIS_SIZE_FIT_H

#include "analysis/size_curve.h"

struct mp_size_fit {
    struct mp_size_source sources[MP_SIZE_PROBES_MAX]; /* those used, in rising order */
    struct mp_size_points points;
    struct mp_size_sites sites;
    struct mp_size_plan plan;
    struct mp_size_curve curve;
};

enum mp_size_fit_result {
    MP_SIZE_FITTED,
    MP_SIZE_OTHER_PROGRAM, /* the recordings have too few places in common */
    MP_SIZE_OTHER_WAY,     /* the largest takes another way (an algorithm chosen by size) than the others */
    MP_SIZE_NO_MEMORY,
};

/* `points` and `sources` in rising order. used[i] becomes false for one that took another way than the others: without
 * it the rest agrees. *common: the share of the allocations at places that all recordings have. */
enum mp_size_fit_result mp_size_fit_make(const struct mp_size_points *points, const struct mp_size_source *sources,
                                         bool *used, double *common, struct mp_size_fit *fit);
void mp_size_fit_free(struct mp_size_fit *fit);

#endif
