#include "output/page/page_columns.h"

#include <stdio.h>

#include "base/varint.h"

void mp_page_runs_end(struct mp_page_runs *runs)
{
    if (!runs->length) return;
    mp_varint_append(&runs->to, runs->value);
    mp_varint_append(&runs->to, runs->length);
    runs->count++;
    runs->length = 0;
}

void mp_page_runs_add(struct mp_page_runs *runs, uint64_t value)
{
    if (value != runs->value) mp_page_runs_end(runs);
    runs->value = value;
    runs->length++;
}

void mp_page_add_time(struct mp_buffer *to, uint64_t *last, uint64_t time)
{
    if (time < *last) time = *last;
    mp_varint_append(to, time - *last);
    *last = time;
}

enum mp_status mp_page_columns_add(struct mp_page_columns *columns, const char *prefix, const struct mp_page_row *rows,
                                   size_t count, struct mp_error *error)
{
    for (size_t i = 0; i < count; i++) {
        struct mp_page_column column = {.count = rows[i].count};
        snprintf(column.name, sizeof column.name, "%s.%s", prefix, rows[i].name);
        enum mp_status status = mp_pack(rows[i].raw, &column.packed, error);
        if (status) return status;
        mp_buffer_free(rows[i].raw);
        mp_vec_add(columns, column);
    }
    return MP_OK;
}

void mp_page_columns_free(struct mp_page_columns *columns)
{
    for (size_t i = 0; i < columns->count; i++)
        mp_packed_free(&columns->at[i].packed);
    mp_vec_free(columns);
}
