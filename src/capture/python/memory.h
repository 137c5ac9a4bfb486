/* Reading an interpreter's memory at byte offsets. Never allocates; any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline const char *mp_load_pointer(const char *base, size_t offset)
{
    const char *value;
    memcpy(&value, base + offset, sizeof value);
    return value;
}

static inline uint32_t mp_load_u32(const char *base, size_t offset)
{
    uint32_t value;
    memcpy(&value, base + offset, sizeof value);
    return value;
}

static inline int64_t mp_load_i64(const char *base, size_t offset)
{
    int64_t value;
    memcpy(&value, base + offset, sizeof value);
    return value;
}

/* Encodes code points as UTF-8. A lone surrogate is written like any other character (WTF-8). Never allocates. */

#define MP_UTF8_MAX 4

/* Writes one character to `to` (MP_UTF8_MAX bytes of room) and returns the number of bytes. */
static inline size_t mp_utf8_encode(char *to, uint32_t character)
{
    if (character < 0x80) {
        to[0] = (char)character;
        return 1;
    }
    size_t width = character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;
    for (size_t i = width - 1; i > 0; i--, character >>= 6)
        to[i] = (char)(0x80 | (character & 0x3f));
    to[0] = (char)((0xf00 >> width & 0xff) | character);
    return width;
}
