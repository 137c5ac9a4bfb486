/*
 * How high a plan's memory goes at any batch: its events in order, replayed through plain sums. The peak may be at
 * another moment at another batch. A call takes some 5 ns for each event. Pure.
 */
#ifndef MP_ANALYSIS_SIZE_CURVE_H
#define MP_ANALYSIS_SIZE_CURVE_H

#include "analysis/sizing/size_plan.h"

/* Bytes at the peak. Each may be reached at another moment. */
struct mp_size_height {
    double likely, low, high;
    double varies;   /* of the high one, bytes that did not solve, as seen at the probes */
    uint32_t moment; /* of the likely one: events of the source that have happened */
};

struct mp_size_height mp_size_curve_at(const struct mp_size_plan *plan, double batch);

#endif
