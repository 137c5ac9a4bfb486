/*
 * Decides which blocks are kept in a sample (base/sampling.h), and remembers which of those live. The decision needs
 * the size alone, before anything else is known of a block. Never allocates except for one mapping; may be called in
 * hooks.
 */
#ifndef MP_CAPTURE_SAMPLING_H
#define MP_CAPTURE_SAMPLING_H

#include <stdbool.h>
#include <stdint.h>

/* A thread's place in the sequence of bytes: the next kept one lies `left` bytes ahead, exponentially distributed. */
struct mp_sampler {
    uint64_t random;
    uint64_t left;
    uint32_t generation; /* of the session in which it was started; 0: none */
};

void mp_sampler_start(struct mp_sampler *sampler, uint64_t seed, uint32_t mean);
/* True if the next block is kept. `mean` is that of the start. */
static inline bool mp_sampler_passes(struct mp_sampler *sampler, uint64_t bytes)
{
    if (sampler->left < bytes) return false;
    sampler->left -= bytes;
    return true;
}
/* After a block that was kept. */
void mp_sampler_next(struct mp_sampler *sampler, uint32_t mean);

/* The kept blocks that live, of all threads, without a lock. A forked child has a copy. */
/* False: there was no room to remember it. */
bool mp_sampled_add(uint16_t track, uint64_t address);
/* False: the block there was surely not kept. */
bool mp_sampled_remove(uint16_t track, uint64_t address);

#endif
