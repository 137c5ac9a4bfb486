/* UTF-8: reading bytes of unknown origin, and writing characters. Pure; inline; never allocates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MP_UTF8_BAD UINT32_MAX
#define MP_UTF8_MAX 4 /* bytes of a character */

/* Returns the length of the character at `at`, where `left` bytes (at least 1) are left, and sets *point to its code
 * point. Sets MP_UTF8_BAD for a byte that begins no valid character. Over-long forms, surrogates and code points above
 * U+10FFFF are not valid. */
static inline size_t mp_utf8_next(const unsigned char *at, size_t left, uint32_t *point)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    unsigned char first = at[0];
    size_t length = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
    *point = first;
    if (length == 1) return 1;
    if (length && length <= left) {
        uint32_t value = first & (0x7fu >> length);
        size_t i = 1;
        for (; i < length && at[i] >> 6 == 2; i++)
            value = value << 6 | (at[i] & 0x3f);
        if (i == length && value >= least[length] && value <= 0x10ffff && (value < 0xd800 || value > 0xdfff)) {
            *point = value;
            return length;
        }
    }
    *point = MP_UTF8_BAD;
    return 1;
}

/* True if a character is invisible and changes how others are read. These are marks of direction (U+202E reverses the
 * text after it), characters of zero width, breaks of lines and paragraphs, and tags. Controls below U+00A0 are not
 * among them. */
static inline bool mp_utf8_is_hidden(uint32_t point)
{
    static const struct {
        uint32_t first, last;
    } hidden[] = {{0xad, 0xad},     {0x34f, 0x34f},   {0x61c, 0x61c},   {0x115f, 0x1160},  {0x17b4, 0x17b5},
                  {0x180b, 0x180f}, {0x200b, 0x200f}, {0x2028, 0x202e}, {0x2060, 0x206f},  {0x3164, 0x3164},
                  {0xfeff, 0xfeff}, {0xffa0, 0xffa0}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff}};
    for (size_t i = 0; point >= 0xad && i < sizeof hidden / sizeof *hidden; i++)
        if (point >= hidden[i].first && point <= hidden[i].last) return true;
    return false;
}

/* Writes one character to `to` (MP_UTF8_MAX bytes of room) and returns the number of bytes. A lone surrogate is written
 * like any other character (WTF-8). */
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
