/* Trends of short series, robust against outliers: Mann-Kendall's test, and Theil and Sen's slope. Pure. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mp_trend {
    double z;     /* Mann-Kendall's, corrected for ties; above 3.09 the rise is chance in fewer than 1 of 1000 cases */
    double slope; /* the median slope between any two points: change per point */
};

/* The trend of at[0..count). A long series is thinned to evenly spaced points. */
void mp_trend_find(const uint32_t *at, size_t count, struct mp_trend *trend);
