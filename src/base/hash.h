/* 64-bit mixing and hashing for tables; not for integrity. Never allocates; may be called in the program. */
#ifndef MP_BASE_HASH_H
#define MP_BASE_HASH_H

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

#endif
