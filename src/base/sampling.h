/*
 * Poisson sampling by bytes: of blocks of `size` bytes the share 1 - exp(-size / mean) is kept, each on its own, and a
 * kept one stands for size / (1 - exp(-size / mean)) bytes: the sum of these is an unbiased estimate of the sum of all
 * sizes (Horvitz-Thompson). The larger a block the nearer to itself; none stands for less than `mean`. Pure.
 */
#ifndef MP_BASE_SAMPLING_H
#define MP_BASE_SAMPLING_H

#include <stdint.h>

#define MP_SAMPLE_KEY "sample" /* the mean in a recording's configuration; 0 or none: every block is kept */

/* Bytes that a kept block of that size stands for, rounded. */
uint64_t mp_sampling_estimate(uint64_t size, uint64_t mean);
/* The size of a kept block by what it stands for, near enough (2 bytes and rounding). */
double mp_sampling_size(uint64_t estimate, uint64_t mean);
/* The share of a kept block in the estimated variance of a sum of estimates: size^2 (1 - p) / p^2. */
double mp_sampling_variance(uint64_t estimate, uint64_t mean);

#endif
