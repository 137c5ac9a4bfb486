/*
 * Decides which blocks a sample keeps (base/sampling.h), and remembers which kept blocks are live. The decision needs
 * the size alone, before anything else is known of a block. Never allocates except for one mapping; may be called in
 * hooks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* A thread's position in its sequence of allocated bytes. The next sampled byte is `left` bytes ahead, exponentially
 * distributed. */
struct mp_sampler {
    uint64_t random;
    uint64_t left;
    uint32_t generation; /* of the session in which the sampler was started; 0: none */
};

void mp_sampler_start(struct mp_sampler *sampler, uint64_t seed, uint32_t mean);
/* Counts a block of `bytes`. True if the sample leaves the block out; false if it keeps the block. */
static inline bool mp_sampler_passes(struct mp_sampler *sampler, uint64_t bytes)
{
    if (sampler->left < bytes) return false;
    sampler->left -= bytes;
    return true;
}
/* Draws the distance to the next sampled byte. Call it after the sample has kept a block. */
void mp_sampler_next(struct mp_sampler *sampler, uint32_t mean);

/* The kept blocks that are live, of all threads, in a set without a lock. A forked child has a copy. */
/* Adds a block. False: there is no room for it. */
bool mp_sampled_add(uint16_t track, uint64_t address);
/* Removes a block. False: certainly no kept block has that address. */
bool mp_sampled_remove(uint16_t track, uint64_t address);
