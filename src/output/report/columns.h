/*
 * One description of a table, from which all its forms are made: aligned text, a table of a document (Markdown, HTML,
 * CSV) and an array of JSON objects. Users may choose the columns and their order; JSON has all columns that have a
 * key. "For people" below means text and documents.
 */
#pragma once

#include <math.h>
#include <stddef.h>

#include "base/json.h"
#include "output/form/text.h"
#include "output/report/sites.h"

enum mp_unit {
    MP_NAME,           /* a text; NULL: null in JSON, empty for people. MP_NAME and MP_STRING are left-aligned */
    MP_STRING,         /* the number of one of the model's strings */
    MP_STRING_OR_NONE, /* the number of one of the model's strings; 0 counts as NULL */
    MP_WORD,           /* a number that `word` of the column names */
    MP_TRACK,          /* the number of a track; its id is shown */
    MP_ADDRESS,        /* "0x7f00" */
    MP_SITE,           /* a stack; the last column in text */
    MP_COUNT,          /* in this unit and the next, unknown values (MP_BYTES_UNKNOWN, or MP_NONE of 4 bytes) are null
                        * or "-" */
    MP_BYTES,
    MP_CHANGE,   /* bytes with their sign */
    MP_DURATION, /* ns */
    MP_FLAG,     /* true or false */
    MP_REAL,     /* `real`; NAN is null */
    MP_SHARE,    /* a share of `whole`: "12.5 %", in HTML with a bar; a fraction in JSON and CSV */
};

/* One value, which comes with the column's style. */
struct mp_value {
    uint64_t number, whole;
    double real;
    const char *text;             /* for people, in place of a number, or of an empty stack */
    struct mp_buffer made;        /* `text`, if a getter has to make it */
    struct mp_site site;          /* for MP_SITE */
    const struct mp_model *model; /* the site's model, if it is not that of the rows */
    enum mp_style style;
    bool absent; /* JSON: this object lacks the key */
};

/* A list of columns ends with a column without title and key. */
struct mp_column {
    const char *title, *key; /* `title` for people (NULL: shown only if the user chooses the key); `key` in JSON (NULL:
                              * not in JSON) */
    enum mp_unit unit;
    unsigned short offset, width; /* of the row's member with the value: a text, or an unsigned number of 1 to 8
                                   * bytes */
    unsigned char place;          /* order for people: lower places come first; JSON has the list's order */
    unsigned short only, unknown; /* the caller's bits, matched with `without`, `json_without`, `never` and `unknown` of
                                   * the rows */
    bool not_in_text, zero_is_none;
    bool right; /* a text that is right-aligned */
    bool wide;  /* text: the last column, without a width of its own, like a stack */
    bool inner; /* the value is a member of the struct that the rows' inner() finds; unknown if it finds none */
    enum mp_style style;
    const char *(*word)(unsigned number);
    const char *noun;                                                     /* without heads, a count is "3 blocks" */
    void (*get)(struct mp_value *value, const void *of, const void *row); /* gives the value in place of the member;
                                                                           * `of`: the rows' `of` */
    void (*put)(struct mp_json *json, const char *key, const void *of, const void *row); /* JSON only: any value */
};
#define MP_MEMBER(type, member) .offset = offsetof(type, member), .width = sizeof(((type *)NULL)->member)
#define MP_COLUMNS_MAX          32

/* Defines a getter of one statement. `row` is the name and `type` the type of the row in it. */
#define MP_GETTER(name, type, row, ...)                                                                                \
    static void name(struct mp_value *value, const void *of, const void *at)                                           \
    {                                                                                                                  \
        const type *row = at;                                                                                          \
        (void)of;                                                                                                      \
        __VA_ARGS__;                                                                                                   \
    }

/* How stacks are shown: as one line (its headline and the user's line that called it), as the user's lines, or as all
 * frames. */
enum mp_stacks { MP_ONE_LINE, MP_STACKS, MP_FULL_STACKS };

struct mp_rows {
    const struct mp_column *columns;
    const void *at, *of;
    size_t size, count, first; /* bytes of a row; number of rows; the first row shown */
    const uint32_t *order;     /* order of rows, as indices into `at`; NULL: as in `at` */
    const void *(*inner)(const void *of, const void *row);
    const struct mp_model *model;   /* for strings and stacks */
    unsigned without, json_without; /* bits of columns that are left out for people (unless chosen), and in JSON */
    unsigned never;                 /* columns with such a bit are left out everywhere */
    unsigned unknown;               /* columns with such a bit have unknown values */
    const char *shown;              /* names of the columns to show, unless the user chose some; NULL: `without`
                                     * decides */
    const char *heading;            /* written before the table, if it has rows; "": an empty line; NULL: nothing */
    const char *word;               /* the title of a column whose title is "group" */
    bool flat;                      /* JSON: each object on one line */
    bool untitled;                  /* text: without heads */
    enum mp_stacks stacks;
    unsigned apart_by;                 /* how rows with the same site are distinguished: enum mp_apart_by */
    const struct mp_site_apart *apart; /* the caller's own distinctions, one per row shown; NULL: found by apart_by */
    bool not_apart;                    /* rows with equal texts are not distinguished */
    const struct mp_sites *sites;      /* gives the modules of sites; NULL: none are known */
    /* Text: adds further rows below a row. Each begins with `columns` empty cells. */
    void (*below)(struct mp_table *table, unsigned columns, const void *of, const void *row);
};
#define MP_ROWS(described, rows, row_count, ...)                                                                       \
    (struct mp_rows)                                                                                                   \
    {                                                                                                                  \
        .columns = described, .at = rows, .size = sizeof *(rows), .count = row_count, __VA_ARGS__                      \
    }

/* Writes the table for people, in the form of `text`. Nothing is written if there are no rows, or no column that the
 * user chose. CSV has only the first table, even without rows. Returns whether the table was written. */
bool mp_rows_text(struct mp_text *text, const struct mp_rows *rows);
void mp_rows_json(struct mp_json *json, const char *key, const struct mp_rows *rows);
/* Writes the rows' objects into an open array. */
void mp_elements_json(struct mp_json *json, const struct mp_rows *rows);
/* Writes the first row as an object; null if there are no rows. */
void mp_object_json(struct mp_json *json, const char *key, const struct mp_rows *rows);

/* The tables of which users choose columns. */
extern const struct mp_column mp_site_columns[], mp_finding_columns[], mp_holders_columns[], mp_step_columns[],
    mp_region_columns[], mp_segment_columns[], mp_pin_columns[], mp_stream_columns[], mp_compare_columns[],
    mp_compared_columns[], mp_device_columns[], mp_track_columns[], mp_sample_columns[], mp_change_columns[];

/* Checks that each name of a list with commas is a column of one of the tables, which end with NULL. If not, the error
 * lists the columns. */
enum mp_status mp_columns_check(const char *names, const struct mp_column *const *tables, struct mp_error *error);
