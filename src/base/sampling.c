#include "base/sampling.h"

#include <math.h>

#define NEWTON_STEPS 60 /* for sizes near the smallest estimate each step only halves the error */

uint64_t mp_sampling_estimate(uint64_t size, uint64_t mean)
{
    if (!size || !mean) return size;
    double kept = -expm1(-(double)size / (double)mean);
    double more = (double)size * (1 / kept - 1); /* added instead of dividing, so that a large size stays exact */
    return size + (uint64_t)(more + 0.5);
}

/* Newton's method for the root x > 0 of x = y (1 - exp(-x)). It starts above the root: the function is convex. */
double mp_sampling_size(uint64_t estimate, uint64_t mean)
{
    if (!mean) return (double)estimate;
    double y = (double)estimate / (double)mean, x = y;
    if (y <= 1) return 0;
    for (int i = 0; i < NEWTON_STEPS; i++) {
        double slope = 1 - y * exp(-x), step = slope > 0 ? (x + y * expm1(-x)) / slope : 0;
        x -= step;
        if (step < 1e-12 * x) break;
    }
    return x * (double)mean;
}

double mp_sampling_variance(uint64_t estimate, uint64_t mean)
{
    if (!mean) return 0;
    return (double)estimate * (double)estimate * exp(-mp_sampling_size(estimate, mean) / (double)mean);
}
