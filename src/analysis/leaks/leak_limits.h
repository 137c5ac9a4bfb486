/*
 * The constants by which leaks are judged, in one place. leak_limits.c has the source of each: an aim, a measurement,
 * or a calculation. `memprof leaks --verbose` prints the table. Where a rule says "most", it means more than half.
 * Pure.
 */
#pragma once

#include <stddef.h>

/* leak_rule.h */
#define MP_LEAK_BIRTHS         8
#define MP_LEAK_SUSPECT_BIRTHS 4
#define MP_LEAK_WARM_UP        3
#define MP_LEAK_OLD            8
#define MP_LEAK_SIGNIFICANT    3.09
#define MP_LEAK_STOPPED        3
#define MP_LEAK_PAUSED         2
#define MP_LEAK_EXCEPTIONS     10
#define MP_LEAK_BACKLOG        1.5
#define MP_LEAK_SLOWER_ERRORS  2
/* leaks.h */
#define MP_LEAK_STEPS         12
#define MP_LEAK_GUESSED_STEPS 40
#define MP_LEAK_WORTH_BYTES   (1u << 20)
#define MP_LEAK_LEVEL_PARTS   16
#define MP_LEAK_SEGMENTS_USED 0.8
#define MP_LEAK_RISES         4
#define MP_LEAK_LATE_RISES    2
#define MP_LEAK_RISE_PART     4
/* leak_twins.h */
#define MP_LEAK_TWINS        5
#define MP_LEAK_TWINS_APART  2
#define MP_LEAK_TWINS_DIFFER 16
/* leak_causes.h */
#define MP_LEAK_EACH_STEP   0.9
#define MP_LEAK_SEEN_PART   4
#define MP_LEAK_KEPT_STEPS  1000000
#define MP_LEAK_MAPPED_FROM (32u << 20)
/* leak_regrown.h */
#define MP_LEAK_REGROWN_STEPS 24
#define MP_LEAK_REGROWN_MOST  4
/* leak_hidden.h */
#define MP_LEAK_PARTS          32
#define MP_LEAK_PARTS_PROOF    8
#define MP_LEAK_PARTS_LEAST    5
#define MP_LEAK_SAMPLES_A_PART 3
#define MP_LEAK_READ_WITHIN_MS 100
#define MP_LEAK_HOST_S         2
#define MP_LEAK_GROWN_MIN      (16u << 20)
#define MP_LEAK_GROWN_SOME     (4u << 20)
#define MP_LEAK_GROWN_PLAN     (128u << 20)
#define MP_LEAK_SHARE_MIN      0.05
#define MP_LEAK_BYTES_A_BLOCK  4096
/* leak_slope.h */
#define MP_LEAK_FEW_STEPS 3
#define MP_LEAK_LATE_MIN  2
#define MP_LEAK_RATE_PART 0.1
#define MP_LEAK_OFF_PART  0.05
#define MP_LEAK_TRENDS    4
#define MP_LEAK_OFF_PARTS 6

struct mp_leak_limit {
    const char *name;
    double value;
    const char *unit, *meaning, *source;
};

/* All limits, in the order above. */
const struct mp_leak_limit *mp_leak_limits(size_t *count);
