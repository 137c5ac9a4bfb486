/*
 * Columns of a page on their way into it: bytes that grow, and how the rows of one group become compressed columns.
 */
#ifndef MP_OUTPUT_PAGE_COLUMNS_H
#define MP_OUTPUT_PAGE_COLUMNS_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/vec.h"
#include "output/page/page_pack.h"

struct mp_page_column {
    char name[24];
    uint64_t count; /* entries, which is not bytes */
    struct mp_packed packed;
};

struct mp_page_columns {
    struct mp_page_column *at;
    size_t count, room;
};

/* The same value again and again, as pairs of value and length. */
struct mp_page_runs {
    struct mp_buffer to;
    uint64_t value, length, count; /* of the run that goes on; of runs that ended */
};

void mp_page_runs_add(struct mp_page_runs *runs, uint64_t value);
void mp_page_runs_end(struct mp_page_runs *runs);

/* Appends a time (in units) as the distance from *last; one that lies before *last is taken to be *last. */
void mp_page_add_time(struct mp_buffer *to, uint64_t *last, uint64_t time);

struct mp_page_row {
    const char *name;
    struct mp_buffer *raw;
    uint64_t count;
};

/* Compresses the rows as the next columns, "prefix.name" each; what is compressed is freed. */
enum mp_status mp_page_columns_add(struct mp_page_columns *columns, const char *prefix, const struct mp_page_row *rows,
                                   size_t count, struct mp_error *error);
void mp_page_columns_free(struct mp_page_columns *columns);

#endif
