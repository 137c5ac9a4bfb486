/*
 * LEB128 integers and zig-zag, as in Protocol Buffers' wire format. Inline: they are the inner loop of reading and
 * writing events.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

#define MP_VARINT_MAX 10 /* bytes of the longest 64-bit varint */

static inline uint64_t mp_zigzag(int64_t value)
{
    return ((uint64_t)value << 1) ^ (uint64_t)(value >> 63);
}

static inline int64_t mp_unzigzag(uint64_t value)
{
    return (int64_t)(value >> 1) ^ -(int64_t)(value & 1);
}

/* Writes at most MP_VARINT_MAX bytes at `to` and returns the byte past them. */
static inline unsigned char *mp_varint_put(unsigned char *to, uint64_t value)
{
    while (value >= 0x80) {
        *to++ = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    *to++ = (unsigned char)value;
    return to;
}

static inline void mp_varint_append(struct mp_buffer *buffer, uint64_t value)
{
    unsigned char *to = mp_buffer_room(buffer, MP_VARINT_MAX);
    if (to) mp_buffer_grew(buffer, (size_t)(mp_varint_put(to, value) - to));
}

/* Reads one integer from [*at, end) and moves *at past it; false at the end of the data or on over-long input. */
static inline bool mp_varint_get(const unsigned char **at, const unsigned char *end, uint64_t *value)
{
    uint64_t result = 0;
    const unsigned char *from = *at;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        if (from == end) return false;
        unsigned char byte = *from++;
        result |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) {
            *at = from;
            *value = result;
            return true;
        }
    }
    return false;
}
