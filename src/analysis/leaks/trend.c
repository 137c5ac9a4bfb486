#include "analysis/leaks/trend.h"

#include <math.h>
#include <stdlib.h>

#include "base/memory.h"
#include "base/order.h"

#define POINTS_MAX 200 /* 20 000 pairs */

MP_ORDER(ascending, double, MP_COMPARE(*a, *b))

static size_t point(size_t i, size_t points, size_t count)
{
    return points == count ? i : i * (count - 1) / (points - 1);
}

/* The variance of Kendall's S without a trend; `values` are sorted. */
static double variance(const double *values, size_t count)
{
    double n = (double)count, sum = n * (n - 1) * (2 * n + 5);
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i; end < count && values[end] == values[i];)
            end++;
        double t = (double)(end - i);
        sum -= t * (t - 1) * (2 * t + 5);
    }
    return sum / 18;
}

void mp_trend_find(const uint32_t *at, size_t count, struct mp_trend *trend)
{
    size_t points = count < POINTS_MAX ? count : POINTS_MAX, pairs = 0;
    *trend = (struct mp_trend){0};
    if (points < 2) return;
    double *slopes = mp_alloc(points * (points - 1) / 2 * sizeof *slopes), *values = mp_alloc(points * sizeof *values);
    double rises = 0;
    for (size_t i = 0; i < points; i++) {
        size_t from = point(i, points, count);
        values[i] = at[from];
        for (size_t k = i + 1; k < points; k++) {
            size_t to = point(k, points, count);
            double change = (double)at[to] - (double)at[from];
            rises += (change > 0) - (change < 0);
            slopes[pairs++] = change / (double)(to - from);
        }
    }
    qsort(values, points, sizeof *values, ascending);
    qsort(slopes, pairs, sizeof *slopes, ascending);
    double spread = variance(values, points);
    trend->slope = slopes[pairs / 2];
    if (spread > 0) trend->z = (rises - (rises > 0) + (rises < 0)) / sqrt(spread);
    free(slopes);
    free(values);
}
