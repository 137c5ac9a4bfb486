/*
 * Columns: arrays of integers as bytes, before compression. The file names each column's encoding, so a writer may
 * choose another encoding without a new version. Pure; any thread.
 *
 * For instance the values 1000, 1000, 1016, 1032 become, as hexadecimal bytes:
 *
 *     varint    e8 07  e8 07  f8 07  88 08
 *     delta     d0 0f  00  20  20                   zig-zag: +1000 is 2000, +0 is 0, +16 is 32
 *     run       e8 07 02  f8 07 01  88 08 01        1000 twice, 1016 once, 1032 once
 *     planes    e8 e8 f8 08  03 03 03 04            lowest bytes 0xe8, 0xe8, 0xf8, 0x08; then the next ones
 *     constant  e8 07                               only if all four were 1000
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"

enum mp_encoding {
    MP_ENCODING_CONSTANT, /* one varint: the value that all entries have */
    MP_ENCODING_VARINT,   /* LEB128 */
    MP_ENCODING_DELTA,    /* difference from the previous value (first: from 0), modulo 2^64, as zig-zag varint */
    MP_ENCODING_RUN,      /* pairs of varints: value, repetitions */
    MP_ENCODING_PLANES,   /* the lowest bytes of all values, then the next higher bytes of all, ... */
    MP_ENCODING_BYTES,    /* unchanged: text and other runs of bytes */
    MP_ENCODINGS
};

struct mp_column {
    const char *name; /* not NUL-terminated if it comes from a file */
    size_t name_length;
    enum mp_encoding encoding;
    size_t count, bytes;
    const unsigned char *data; /* reading only */
};

const char *mp_encoding_name(enum mp_encoding encoding);
/* Returns MP_ENCODINGS for an unknown name. */
enum mp_encoding mp_encoding_find(const char *name, size_t length);

/* The most bytes that `count` values can take; the reader refuses longer columns. */
size_t mp_column_bound(enum mp_encoding encoding, size_t count);

/* Appends values as `wanted`, or as constant or run if that is plainly smaller. Returns the encoding chosen. */
enum mp_encoding mp_column_encode(struct mp_buffer *to, const uint64_t *values, size_t count, enum mp_encoding wanted);

/* Decodes all of a column's values, each at most UINT64_MAX >> (64 - bits). False if the bytes do not decode to such
 * values. `to` has room for column->count elements of `bits` bits (8, 16, 32 or 64). */
bool mp_column_decode(const struct mp_column *column, void *to, unsigned bits);
