/*
 * Makes one chunk of a file: the caller adds columns, which then become bytes together. One thread at a time.
 */
#pragma once

#include <zstd.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/vec.h"
#include "format/column.h"
#include "format/layout.h"

struct mp_chunk_out {
    struct mp_buffer raw;   /* the columns, one after the other */
    MP_VEC(size_t) breaks;  /* offsets in raw where the zstd frame begins a new block */
    struct mp_buffer bytes; /* the finished chunk */
    struct mp_column columns[MP_COLUMNS];
    size_t column_count;
    ZSTD_CCtx *zstd;
};

bool mp_chunk_out_init(struct mp_chunk_out *out);
void mp_chunk_out_free(struct mp_chunk_out *out);

/* Starts a new chunk. */
void mp_chunk_out_clear(struct mp_chunk_out *out);
/* Adds a column. An empty column is left out. `name` must be a literal. */
void mp_chunk_out_column(struct mp_chunk_out *out, const char *name, enum mp_encoding wanted, const uint64_t *values,
                         size_t count);
/* Makes a column of the bytes that the caller appended to out->raw after the first `before` bytes. */
void mp_chunk_out_took_bytes(struct mp_chunk_out *out, const char *name, size_t before);
/* Compresses the added columns into out->bytes. */
enum mp_status mp_chunk_out_finish(struct mp_chunk_out *out, enum mp_chunk_kind kind, uint32_t sequence,
                                   const struct mp_chunk_meta *meta, struct mp_error *error);

/* Gives a finished chunk another sequence number. */
void mp_chunk_renumber(unsigned char *chunk, size_t size, uint32_t sequence);
