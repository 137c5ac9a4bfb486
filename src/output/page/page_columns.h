/*
 * A page's columns under construction: buffers that grow, then become compressed columns.
 */
#pragma once

#include "base/buffer.h"
#include "base/error.h"
#include "base/vec.h"
#include "output/page/page_pack.h"

struct mp_page_column {
    char name[24];
    uint64_t count; /* entries, not bytes */
    struct mp_packed packed;
};

struct mp_page_columns {
    struct mp_page_column *at;
    size_t count, room;
};

/* Repeated values, as pairs of value and length. */
struct mp_page_runs {
    struct mp_buffer to;
    uint64_t value, length, count; /* `value`, `length`: of the current run; `count`: number of ended runs */
};

void mp_page_runs_add(struct mp_page_runs *runs, uint64_t value);
void mp_page_runs_end(struct mp_page_runs *runs);

/* Appends a time (in units) as its distance from *last; a time before *last counts as *last. */
void mp_page_add_time(struct mp_buffer *to, uint64_t *last, uint64_t time);

struct mp_page_row {
    const char *name;
    struct mp_buffer *raw;
    uint64_t count;
};

/* Compresses the rows as the next columns, "prefix.name" each, and frees the uncompressed rows. */
enum mp_status mp_page_columns_add(struct mp_page_columns *columns, const char *prefix, const struct mp_page_row *rows,
                                   size_t count, struct mp_error *error);
void mp_page_columns_free(struct mp_page_columns *columns);
