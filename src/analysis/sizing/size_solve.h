/*
 * One size as a function of the batch B, solved from the probes. Six forms are tried, from a constant over b*B, c*B^2,
 * a + b*B and b*B + c*B^2 to a + c*B^2. The simplest form that agrees with every probe is taken. Agreement proves a
 * form that has fewer terms than there are batches. Pure.
 *
 * An example, with probes at batches 4, 8 and 12:
 *
 *     seen 2096, 4144, 6192       48 + 512*B: two probes give both factors, the third agrees. At 16: 8240
 *     seen 64, 256, 576           4*B^2: one probe gives the factor, two agree. At 16: 1024
 *     seen 64, 127, 191           opaque: no form agrees
 *
 * If only block sizes are known, each size is an interval. Requests of 400*B bytes (1600, 3200, 4800) appear as
 * multiples of 512 (2048, 3584, 5120). The intervals are [1537, 2048], [3073, 3584] and [4609, 5120]. Every factor of
 * b*B from 384.25 to 426.6 agrees with all three. The size at batch 16 then lies between 6148 (low) and 6826 (high).
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MP_SIZE_PROBES_MAX 16

/* The batches of the probes, ascending. A repeated batch does not prove how sizes grow. */
struct mp_size_batches {
    double at[MP_SIZE_PROBES_MAX];
    size_t count, different;
};

/* The factors of 1, B and B^2, in bytes. */
#define MP_SIZE_TERMS 3
struct mp_size_sum {
    double term[MP_SIZE_TERMS];
};
double mp_size_sum_at(const struct mp_size_sum *sum, double batch);

/* The bounds in bytes of one size at each probe; equal if it is known exactly. */
struct mp_size_seen {
    double low[MP_SIZE_PROBES_MAX], high[MP_SIZE_PROBES_MAX];
};

struct mp_size_solution {
    bool proved; /* otherwise `likely` is the nearest line, and the bounds are not set */
    struct mp_size_sum likely, low, high;
};

void mp_size_solve(const struct mp_size_batches *batches, const struct mp_size_seen *seen,
                   struct mp_size_solution *solution);
