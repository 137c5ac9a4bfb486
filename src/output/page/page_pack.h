/*
 * The packing of bytes in the page. Columns are compressed with raw deflate, which every browser inflates by itself.
 * They follow one another as one run of base64, cut into <script> elements below a browser's longest string.
 */
#pragma once

#include <stdio.h>

#include "base/buffer.h"
#include "base/error.h"

/* A compressed column. */
struct mp_packed {
    unsigned char *data; /* owned by this struct */
    size_t size, raw_size;
};

/* Compresses `raw`. MP_LIMIT if zlib refuses. */
enum mp_status mp_pack(const struct mp_buffer *raw, struct mp_packed *packed, struct mp_error *error);
void mp_packed_free(struct mp_packed *packed);

/* The number of elements that mp_packed_write() makes for `bytes` bytes. */
size_t mp_packed_scripts(size_t bytes);
/* Writes the columns as the elements `d0`, `d1`, ... A failed write is left to ferror(). */
void mp_packed_write(const struct mp_packed *columns, size_t count, FILE *out);
