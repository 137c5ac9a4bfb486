/*
 * How much a place that grows keeps a step. What stays of it is taken apart by site and size: what comes again and
 * again is the growth, and what came in a step or two only (gradients and an optimizer's state of the first step at the
 * line of backward(), a copy of the best weights) is not. So the rate is the slope of what the place holds, whatever it
 * held at first. Pure.
 */
#ifndef MP_ANALYSIS_LEAK_SLOPE_H
#define MP_ANALYSIS_LEAK_SLOPE_H

#include "analysis/leaks/leak_rule.h"

struct mp_leak_slope {
    uint32_t births, first, last; /* steps in which the growth came: how many, the first and the last of them */
    uint64_t bytes, blocks;       /* of the growth, at the last boundary */
    uint32_t site;                /* that brought most of it; 0: none */
    double bytes_per_step, blocks_per_step;
};

/* Lives in order of birth, as for mp_leak_judge(). */
void mp_leak_slope_find(const struct mp_leak_life *lives, size_t count, uint32_t last, struct mp_leak_slope *slope);

#endif
