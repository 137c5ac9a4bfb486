/*
 * How many bytes a growing place keeps per step. Pure.
 *
 * Some blocks stay without being growth: the first step's gradients and optimizer state, or a copy of the best weights.
 * The rule therefore sums each site's staying blocks by the step of their birth. These sums are the site's amounts. A
 * site grows if it has more than MP_LEAK_FEW_STEPS of them, MP_LEAK_LATE_MIN in the later half. An amount is
 * exceptional if it is at least twice as large as all but MP_LEAK_FEW_STEPS other amounts. It then counts as the
 * median. The rate is the sum of all amounts but the last step's, divided by the steps from the first amount to the
 * last. If no site grows, all amounts count.
 *
 * For instance a site keeps 1000 bytes in each of the steps 0 to 60, and in step 0 it also makes 24 gradients of 1000
 * bytes. Its amounts are 25 000, 1000, 1000, ... and all but three are at most 1000: the first is exceptional and
 * counts as 1000. The rate is 60 * 1000 / (60 - 0) = 1000 bytes a step. A cache of masks that grow by 64 bytes each
 * step has the amounts 64, 128, ... 3840. Twice the fourth largest is 7296, so no amount is exceptional, and the rate
 * is their mean.
 *
 * A line through the amounts shows whether the rate changes: by more than MP_LEAK_RATE_PART of its mean over all steps,
 * and more than MP_LEAK_TRENDS times the line's standard error. The masks' line has the change 64 and the error 0, so
 * their bytes are quadratic. No forecast holds if the rate falls, or if the line is too far from the mean of one of
 * MP_LEAK_OFF_PARTS parts of the steps: by more than chance and MP_LEAK_OFF_PART of the rate. With amounts of 1, 4, 9,
 * ... 3600 the mean is 1230 and the change 61. In the middle of the first ten steps, the line is at -296, but the mean
 * of their amounts is 38.
 */
#pragma once

#include "analysis/leaks/leak_rule.h"

struct mp_leak_slope {
    uint32_t births, first, last; /* steps with growth: their number, the first and the last */
    uint64_t bytes, blocks;       /* bytes and blocks of the growth at the last boundary */
    uint32_t site;                /* the site with most of the growth; 0: none */
    double bytes_per_step, blocks_per_step;
    double change; /* bytes by which a step's amount exceeds the amount of the step before; 0: no trend */
    bool uneven;   /* the rate changes, and not by the same amount in each step: no forecast holds */
};

/* Sets change and uneven from each step's bytes. */
void mp_leak_slope_change(const uint64_t *bytes, uint32_t count, struct mp_leak_slope *slope);
/* The rate at the last boundary, and the bytes `steps` later. */
double mp_leak_slope_rate(const struct mp_leak_slope *slope);
double mp_leak_slope_at(const struct mp_leak_slope *slope, double steps);
/* `lives` are in order of birth, as for mp_leak_judge(). */
void mp_leak_slope_find(const struct mp_leak_life *lives, size_t count, uint32_t last, struct mp_leak_slope *slope);
