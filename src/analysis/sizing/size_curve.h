/*
 * A plan's highest memory at any batch: replays its events in order through plain sums. At another batch, the peak may
 * be at another moment. A call takes some 5 ns for each event. Pure.
 */
#pragma once

#include "analysis/sizing/size_plan.h"

/* Bytes at the peak with low, likely and high sizes. Each peak may be at another moment. */
struct mp_size_height {
    double likely, low, high;
    double varies;   /* unsolved bytes in `high`, as seen at the probes */
    uint32_t moment; /* moment of the likely peak: number of past events of the source */
};

struct mp_size_height mp_size_curve_at(const struct mp_size_plan *plan, double batch);
