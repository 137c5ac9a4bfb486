/*
 * The rule that decides whether the blocks of one place in a program are a leak. Time is counted in boundaries between
 * steps, from 0: boundary N is where step N+1 begins. All boundaries lie at the same phase of a step. Pure.
 *
 * A block stays if it lives at the last boundary and is older than its site's blocks usually get. A place leaks if
 *
 *     its staying blocks were born in MP_LEAK_BIRTHS steps or more
 *     the number of its live blocks rises: Mann-Kendall's z is above MP_LEAK_SIGNIFICANT,
 *         and Theil and Sen's slope above 0
 *     it is not full: growth has not stopped, does not slow down, does not only refill what was freed,
 *         and reached a new maximum of late
 *
 * For instance one block stays from each of the steps 10 to 29, and the last boundary is 30. The blocks live at the
 * boundaries 11 to 30 are 1, 2, ... 20: 20 distinct births. All 190 pairs of these numbers rise, so Kendall's S is 190,
 * its variance without a trend 20 * 19 * 45 / 18 = 950, and z = 189 / sqrt(950) = 6.1. The median of the slopes is one
 * block a step. The births lie one step apart. A pause of more than 3 * 1 + 1 steps since the last birth would be a
 * stop; there is none. The later half brought as much as the earlier one. The verdict is a leak. In a ring buffer of 12
 * entries, 12 blocks would be live from boundary 22 on. Eight boundaries without a new maximum are more than 3 * 1 + 1,
 * so the ring is full and no leak.
 *
 * The constants are in leak_limits.h.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/leaks/leak_limits.h"

/* A block that lived at a boundary. It is counted at the boundaries after `birth`, up to `death`. Both are steps,
 * counted from 0. If the block died in the last step or never, `death` is at least the last boundary. */
struct mp_leak_life {
    uint32_t birth, death;
    uint64_t bytes;
    uint32_t site; /* number of its stack */
};
/* For qsort(): by site, then by birth. */
int mp_leak_life_by_site(const void *left, const void *right);

enum mp_leak_growth {
    MP_GROWTH_NONE,   /* no block stays, or the staying blocks seem bounded */
    MP_GROWTH_ONCE,   /* the staying blocks came in a few steps, one of them after the warm-up and old. In addition, one
                       * of them came late, or no old block was ever freed, or all came in the later half */
    MP_GROWTH_FEW,    /* keeps growing, but with fewer than MP_LEAK_BIRTHS births */
    MP_GROWTH_PAUSED, /* grew in many steps, but not in the last ones: it may be full */
    MP_GROWTH_LEAK,
};

struct mp_leak_evidence {
    enum mp_leak_growth growth;
    uint32_t births;      /* distinct steps in which the staying blocks were born */
    uint32_t first, last; /* the first and the last of these steps */
    double z;             /* Mann-Kendall's z of the live count, over the steps since the first */
    bool sawtooth;        /* most blocks were freed now and then, but the growth began again */
    bool none_freed;      /* no block that grew old was ever freed */
};

/* `lives` are in order of birth. The rule judges at the boundary `last`. */
void mp_leak_judge(const struct mp_leak_life *lives, size_t count, uint32_t last, struct mp_leak_evidence *evidence);

/* True for a queue that gets more than is taken out: the oldest blocks are freed first, and get older and older before.
 * For instance each step puts in three blocks and takes out one. After 60 steps the freed ones reached 36 steps, after
 * 30 only 18. No age is usual then, so every live block stays. */
bool mp_leak_is_backlog(const struct mp_leak_life *lives, size_t count, uint32_t last);

/* Nine in ten of the freed blocks that outlived a step were at most this old, in steps. `else_age` is the result if
 * too few were freed, and 0 for a backlog. */
uint32_t mp_leak_usual_age(const struct mp_leak_life *lives, size_t count, uint32_t last, uint32_t else_age);

/* A trend of a short series, robust against outliers: Mann-Kendall's test, and Theil and Sen's slope. */
struct mp_trend {
    double z;     /* Mann-Kendall's, corrected for ties; above 3.09 the rise is chance in fewer than 1 of 1000 cases */
    double slope; /* the median slope between any two points: change per point */
};

/* The trend of at[0..count). A long series is thinned to evenly spaced points. */
void mp_trend_find(const uint32_t *at, size_t count, struct mp_trend *trend);
