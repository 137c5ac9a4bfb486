/*
 * One description of a table, of which all its forms are made: aligned text, a table of a document (Markdown, HTML,
 * CSV) and an array of JSON objects. People may choose its columns and their order; JSON has all that have a key.
 */
#ifndef MP_OUTPUT_COLUMNS_H
#define MP_OUTPUT_COLUMNS_H

#include <math.h>
#include <stddef.h>

#include "base/json.h"
#include "output/form/document.h"
#include "output/form/text.h"
#include "output/report/sites.h"

enum mp_unit {
    MP_NAME,           /* a text, NULL: null in JSON, nothing for people; left aligned, as the next ones */
    MP_STRING,         /* the number of one of the model's strings */
    MP_STRING_OR_NONE, /* the same; 0: as NULL above */
    MP_WORD,           /* a number that `word` of the column names */
    MP_TRACK,          /* the number of a track: its id */
    MP_ADDRESS,        /* "0x7f00" */
    MP_SITE,           /* a stack; for people the last column of text */
    MP_COUNT,          /* this and all that follow: MP_BYTES_UNKNOWN, and MP_NONE of 4 bytes, is null, "-" */
    MP_BYTES,
    MP_CHANGE,   /* bytes with their sign */
    MP_DURATION, /* ns */
    MP_FLAG,     /* true or false */
    MP_REAL,     /* `real`; NAN is null */
    MP_SHARE,    /* of `whole`: "12.5 %", in HTML with a bar; a fraction in JSON and CSV */
};

/* One value, which comes with the column's style. */
struct mp_value {
    uint64_t number, whole;
    double real;
    const char *text;             /* of numbers: instead, for people; of a site: in the place of an empty stack */
    struct mp_buffer made;        /* the same, made by a getter */
    struct mp_site site;          /* of MP_SITE */
    const struct mp_model *model; /* of its stack, where it is not the rows' */
    enum mp_style style;
    bool absent; /* JSON: this object lacks the key */
};

/* Columns end with one without title and key. */
struct mp_column {
    const char *title, *key; /* for people, NULL: only where chosen, under its key; in JSON, NULL: not there */
    enum mp_unit unit;
    unsigned short offset, width; /* of the member that is the value: a text or an unsigned number of 1 to 8 bytes */
    unsigned char place;          /* for people: before columns of a higher place; JSON has the list's order */
    unsigned short only, unknown; /* bits of the caller's own, as in `without` and `unknown` of the rows */
    bool not_in_text, zero_is_none;
    bool right; /* aligned there, though a text */
    bool wide;  /* text: the last column, which claims no width, as a stack does */
    bool inner; /* of what `inner` of the rows finds for a row; where it finds nothing, unknown */
    enum mp_style style;
    const char *(*word)(unsigned number);
    const char *noun;                                                     /* of a count without a head: "3 blocks" */
    void (*get)(struct mp_value *value, const void *of, const void *row); /* instead of a member; `of`: the rows' */
    void (*put)(struct mp_json *json, const char *key, const void *of, const void *row); /* JSON alone: any value */
};
#define MP_MEMBER(type, member) .offset = offsetof(type, member), .width = sizeof(((type *)NULL)->member)
#define MP_COLUMNS_MAX          32

/* A getter that is one statement about `row`, which is of this type. */
#define MP_GETTER(name, type, row, ...)                                                                                \
    static void name(struct mp_value *value, const void *of, const void *at)                                           \
    {                                                                                                                  \
        const type *row = at;                                                                                          \
        (void)of;                                                                                                      \
        __VA_ARGS__;                                                                                                   \
    }

/* How a stack reads: its line and the user's line that called it, the user's lines, or all frames. */
enum mp_stacks { MP_ONE_LINE, MP_STACKS, MP_FULL_STACKS };

struct mp_rows {
    const struct mp_column *columns;
    const void *at, *of;
    size_t size, count, first; /* of a row; of rows; the first one shown */
    const uint32_t *order;     /* the rows' numbers in `at`; NULL: as they are */
    const void *(*inner)(const void *of, const void *row);
    const struct mp_model *model;   /* for strings and stacks */
    unsigned without, json_without; /* columns with such a bit are left out for people unless chosen; in JSON */
    unsigned never;                 /* columns with such a bit are not there at all */
    unsigned unknown;               /* the numbers of columns with such a bit are not known */
    const char *shown;   /* names of the columns that are shown unless the user chose some; NULL: by `without` */
    const char *heading; /* written before the table, where that is; "": an empty line; NULL: nothing */
    const char *word;    /* the title of a column whose title is "group" */
    bool flat;           /* JSON: each object in a line */
    bool untitled;       /* text: without heads */
    enum mp_stacks stacks;
    unsigned apart_by;                 /* how rows with the same site are distinguished: enum mp_apart_by */
    const struct mp_site_apart *apart; /* the same, as the caller has it for each row shown; NULL: made */
    bool not_apart;                    /* rows that read alike stay so */
    const struct mp_sites *sites;      /* for the modules of sites; NULL: none are known */
    /* Text, behind a stack or another wide cell: more rows, which begin with so many empty cells. */
    void (*below)(struct mp_table *table, unsigned columns, const void *of, const void *row);
};
#define MP_ROWS(described, rows, row_count, ...)                                                                       \
    (struct mp_rows)                                                                                                   \
    {                                                                                                                  \
        .columns = described, .at = rows, .size = sizeof *(rows), .count = row_count, __VA_ARGS__                      \
    }

/* For people, in the form that the text has: nothing where it has no rows, or none of the columns that the user chose.
 * CSV has the first table alone, even without rows. Returns whether it was written. */
bool mp_rows_text(struct mp_text *text, const struct mp_rows *rows);
void mp_rows_json(struct mp_json *json, const char *key, const struct mp_rows *rows);
/* The same into an array that is open. */
void mp_elements_json(struct mp_json *json, const struct mp_rows *rows);
/* The first row as an object of its own; null where there is none. */
void mp_object_json(struct mp_json *json, const char *key, const struct mp_rows *rows);

/* The tables of which users choose columns. */
extern const struct mp_column mp_site_columns[], mp_finding_columns[], mp_holders_columns[], mp_step_columns[],
    mp_region_columns[], mp_segment_columns[], mp_pin_columns[], mp_compare_columns[], mp_compared_columns[],
    mp_device_columns[], mp_track_columns[], mp_sample_columns[], mp_process_columns[], mp_job_site_columns[],
    mp_job_finding_columns[], mp_job_step_columns[], mp_job_compare_columns[], mp_compared_job_columns[],
    mp_change_columns[];

/* Checks that each name of a list with commas is a column of one of the tables, which end with NULL. If not, the error
 * lists the columns. */
enum mp_status mp_columns_check(const char *names, const struct mp_column *const *tables, struct mp_error *error);

#endif
