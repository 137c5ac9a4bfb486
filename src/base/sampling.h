/*
 * Poisson sampling by bytes: of blocks of `size` bytes the share 1 - exp(-size / mean) is kept, each independently. A
 * kept block stands for size / (1 - exp(-size / mean)) bytes; the sum of these is an unbiased estimate of the sum of
 * all sizes (Horvitz-Thompson). The larger a block, the closer it stands to its own size; none stands for less than
 * `mean`. Pure.
 */
#ifndef MP_BASE_SAMPLING_H
#define MP_BASE_SAMPLING_H

#include <stdint.h>

#define MP_HOST_KEY   "host"   /* the same of the layer malloc, which is always a sample */
#define MP_SAMPLE_KEY "sample" /* the mean in a recording's configuration; 0 or none: every block is kept */

/* The bytes that a kept block of that size stands for, rounded. */
uint64_t mp_sampling_estimate(uint64_t size, uint64_t mean);
/* The size of a kept block, from its estimate, nearly exact (2 bytes and rounding). */
double mp_sampling_size(uint64_t estimate, uint64_t mean);
/* A kept block's share in the estimated variance of a sum of estimates: size^2 (1 - p) / p^2. */
double mp_sampling_variance(uint64_t estimate, uint64_t mean);

#endif
