/*
 * The tables of a snapshot file whose rows are C structures. Writer and reader use one description of each table. Pure;
 * any thread.
 */
#pragma once

#include "format/column.h"
#include "format/layout.h"

/* The values that a field may have, within the limit of its width. */
enum mp_field_rule {
    MP_FIELD_ANY = 0,
    /* 1 ... 8 are chunk kinds: the value is an id of that table */
    MP_FIELD_BOOL = 20,
    MP_FIELD_STACK_FRAME, /* a frame, or MP_FRAME_CUT */
    MP_FIELD_PARENT,      /* an earlier stack node; node 0 is its own parent */
    MP_FIELD_BUILD_ID,    /* at most MP_BUILD_ID_MAX */
    MP_FIELD_ACTION,      /* enum mp_torch_action */
    MP_FIELD_STATE,       /* enum mp_torch_state */
    MP_FIELD_SEGMENT,     /* a segment in an earlier row */
};

struct mp_field {
    const char *name;
    uint16_t offset;
    uint8_t width; /* 1, 2, 4, 8: an integer; more: an array of that many bytes */
    uint8_t rule;  /* enum mp_field_rule */
    enum mp_encoding encoding;
    bool optional; /* the column is left out if all values are 0; older versions do not write it */
};

struct mp_table_layout {
    enum mp_chunk_kind kind;
    const char *name; /* for messages */
    size_t row;       /* size of a row in bytes */
    const struct mp_field *fields;
    size_t field_count;
};

/* The layout of a kind of chunk. NULL if that kind is no plain table. */
const struct mp_table_layout *mp_table_of(enum mp_chunk_kind kind);

/* The number of entries read or written so far of each table with ids, by chunk kind. of[0] is unused. */
struct mp_table_counts {
    uint64_t of[MP_CHUNK_STACKS + 1];
    uint64_t segments; /* segments have ids, too, but not every meta map counts them */
};

static inline void mp_table_counts_add(struct mp_table_counts *counts, enum mp_chunk_kind kind, uint64_t count)
{
    if (kind <= MP_CHUNK_STACKS) counts->of[kind] += count;
    if (kind == MP_CHUNK_SEGMENTS) counts->segments += count;
}

/* The most entries that the table of kind `kind` (1 ... 7) may have in a file. The bound is far above the needs of any
 * recording. It is low enough for code that visits every pair of tracks or devices. */
uint64_t mp_table_most(enum mp_chunk_kind kind);

/* True if the id exists. Entry 0 of strings, stacks and modules means "none" and always exists. */
static inline bool mp_id_known(const struct mp_table_counts *counts, enum mp_chunk_kind kind, uint64_t id)
{
    return id < counts->of[kind] ||
           (!id && (kind == MP_CHUNK_STRINGS || kind == MP_CHUNK_STACKS || kind == MP_CHUNK_MODULES));
}

/* Copies one field of `count` rows to integers. */
void mp_table_gather(const struct mp_field *field, const void *rows, size_t row, size_t count, uint64_t *to);
/* True if `values` (of one field, as gathered) obey the field's rule. `first`: the id of the first row. Otherwise *bad
 * is the index of the first value that breaks the rule. */
bool mp_table_check(const struct mp_field *field, const uint64_t *values, size_t count, uint64_t first,
                    const struct mp_table_counts *counts, size_t *bad);
/* The opposite of mp_table_gather(). The values must fit the field's width. */
void mp_table_scatter(const struct mp_field *field, void *rows, size_t row, size_t count, const uint64_t *from);
