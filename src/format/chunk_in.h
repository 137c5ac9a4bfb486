/*
 * Takes one chunk of a file apart: its meta and its columns, checked and bounded. One thread at a time.
 */
#pragma once

#include <zstd.h>

#include "base/error.h"
#include "base/vec.h"
#include "format/column.h"
#include "format/layout.h"

struct mp_chunk_in {
    unsigned kind;
    uint32_t sequence;
    struct mp_chunk_meta meta;
    struct mp_column columns[MP_COLUMNS]; /* names point into the chunk's bytes */
    size_t column_count;
    MP_VEC(unsigned char) raw;
    MP_VEC(uint64_t) live_bytes;
    MP_VEC(struct mp_ring_mark) marks;
    ZSTD_DCtx *zstd;
};

/* Reads a chunk's head of MP_HEAD_BYTES at `data`. True if a chunk of a possible length begins there. */
bool mp_chunk_head(const unsigned char *data, uint32_t *sequence, uint32_t *length);
/* True if the checksum of the whole chunk at data holds. */
bool mp_chunk_intact(const unsigned char *data, size_t size);

bool mp_chunk_in_init(struct mp_chunk_in *in);
void mp_chunk_in_free(struct mp_chunk_in *in);

/* Takes apart the intact chunk at `data`, which must stay valid while `in` is used. MP_DAMAGED: its contents break the
 * format. For an unknown kind only kind and sequence are set. */
enum mp_status mp_chunk_in_parse(struct mp_chunk_in *in, const unsigned char *data, size_t size);

/* The number of values in the column of that name; 0 if it is absent. */
size_t mp_chunk_in_count(const struct mp_chunk_in *in, const char *name);
/* The column of that name if it has `count` values; a missing column counts as an empty one. NULL otherwise. */
const struct mp_column *mp_chunk_in_column(const struct mp_chunk_in *in, const char *name, size_t count);
/* As mp_column_decode() of that column; false also if it does not have `count` values. */
bool mp_chunk_in_decode(const struct mp_chunk_in *in, const char *name, size_t count, void *to, unsigned bits);
