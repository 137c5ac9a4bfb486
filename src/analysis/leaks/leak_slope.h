/*
 * How much a growing place keeps per step. Its staying blocks are divided by site and size: those that come again and
 * again are the growth; those that came in one or two steps only (gradients and an optimizer's state of the first step
 * at the line of backward(), a copy of the best weights) are not. So the rate is the slope of the place's contents,
 * whatever it held at first. Pure.
 */
#ifndef MP_ANALYSIS_LEAK_SLOPE_H
#define MP_ANALYSIS_LEAK_SLOPE_H

#include "analysis/leaks/leak_rule.h"

struct mp_leak_slope {
    uint32_t births, first, last; /* steps in which the growth came: their number, the first and the last */
    uint64_t bytes, blocks;       /* of the growth, at the last boundary */
    uint32_t site;                /* the one that brought most of it; 0: none */
    double bytes_per_step, blocks_per_step;
};

/* Lives in order of birth, as for mp_leak_judge(). */
void mp_leak_slope_find(const struct mp_leak_life *lives, size_t count, uint32_t last, struct mp_leak_slope *slope);

#endif
