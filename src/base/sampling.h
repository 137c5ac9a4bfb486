/*
 * Poisson sampling by bytes. A block of `size` bytes is kept with the probability 1 - exp(-size / mean), independently
 * of others. A kept block counts as size / (1 - exp(-size / mean)) bytes; the sum of these is an unbiased estimate of
 * the sum of all sizes (Horvitz-Thompson). With a mean of 512 KiB, a kept block of 4 KiB counts as 514 KiB, and one of
 * 4 MiB as 4.0014 MiB. No block counts as less than `mean`. Pure.
 */
#pragma once

#include <stdint.h>

#define MP_HOST_KEY   "host"   /* in a configuration: the mean in bytes for the C allocator, which is always sampled */
#define MP_SAMPLE_KEY "sample" /* in a configuration: the mean in bytes; 0 or absent: all blocks are kept */

/* The bytes as which a kept block of `size` bytes counts, rounded. */
uint64_t mp_sampling_estimate(uint64_t size, uint64_t mean);
/* The size of a kept block, from its estimate; the error is at most 2 bytes and rounding. */
double mp_sampling_size(uint64_t estimate, uint64_t mean);
/* A kept block's share in the estimated variance of a sum of estimates: size^2 (1 - p) / p^2. */
double mp_sampling_variance(uint64_t estimate, uint64_t mean);
