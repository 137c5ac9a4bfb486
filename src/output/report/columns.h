/*
 * One description of a table, of which its forms are made: aligned text, a table of a document (Markdown, HTML) and an
 * array of JSON objects. For tables whose forms say the same; where each has other words or another order, they are
 * written out.
 */
#ifndef MP_OUTPUT_COLUMNS_H
#define MP_OUTPUT_COLUMNS_H

#include <stddef.h>

#include "base/json.h"
#include "output/report/document.h"
#include "output/report/text.h"

enum mp_unit {
    MP_NAME,           /* a text, NULL: null in JSON, nothing for people; left aligned, as the next two */
    MP_STRING,         /* the number of one of the model's strings */
    MP_STRING_OR_NONE, /* the same; 0: as NULL above */
    MP_COUNT,          /* this and all that follow: MP_BYTES_UNKNOWN is null, "-" */
    MP_BYTES,
    MP_DURATION, /* ns */
    MP_FLAG,     /* in JSON alone */
    MP_SHARE,    /* of `whole`, for people alone: "12.5 %"; in HTML with a bar */
};

/* One value, which comes with the column's style. */
struct mp_value {
    uint64_t number, whole;
    const char *text;      /* of numbers: instead, for people */
    struct mp_buffer made; /* the same, made by a getter */
    enum mp_style style;
};

/* Columns end with one without title and key. */
struct mp_column {
    const char *title, *key; /* for people, NULL: in JSON alone; the other way round */
    enum mp_unit unit;
    unsigned char offset, width; /* of the member that is the value: a text or an unsigned number of 1, 4 or 8 bytes */
    unsigned char place;         /* for people: before columns of a higher place; JSON has the list's order */
    unsigned char only;          /* a bit of the caller's own, as in `without` */
    bool not_in_text;
    enum mp_style style;
    void (*get)(struct mp_value *value, const void *of, const void *row); /* instead of a member; `of`: the rows' */
};
#define MP_MEMBER(type, member) .offset = offsetof(type, member), .width = sizeof(((type *)NULL)->member)
#define MP_COLUMNS_MAX          16

struct mp_rows {
    const struct mp_column *columns;
    const void *at, *of;
    size_t size, count, first;      /* of a row; of rows; the first one shown */
    const struct mp_model *model;   /* for strings */
    unsigned without, json_without; /* columns with such a bit are left out for people; in JSON */
    bool flat;                      /* JSON: each object in a line */
    void (*members)(struct mp_json *json, const void *of, size_t row); /* more members of an object; may be NULL */
};
#define MP_ROWS(described, rows, row_count, ...)                                                                       \
    (struct mp_rows)                                                                                                   \
    {                                                                                                                  \
        .columns = described, .at = rows, .size = sizeof *(rows), .count = row_count, __VA_ARGS__                      \
    }

void mp_rows_text(struct mp_text *text, const struct mp_rows *rows);
void mp_rows_document(struct mp_document *document, const struct mp_rows *rows);
void mp_rows_json(struct mp_json *json, const char *key, const struct mp_rows *rows);

#endif
