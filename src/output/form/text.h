/*
 * Text for people: the parts of every text report. Names from a recording pass through mp_text_clean(), so that no file
 * can send control sequences to a terminal. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/vec.h"

enum mp_style { MP_PLAIN, MP_BOLD, MP_DIM };

struct mp_document;

struct mp_text {
    struct mp_buffer *out; /* if `document` is set: the lines since its last heading or table */
    bool color;
    struct mp_document *document; /* NULL: text for a terminal */
    const char *columns;          /* the user's choice of columns for tables; NULL: each table's own */
};

/* Appends the formatted text. Arguments of %s are cleaned (mp_text_clean()). In the format `...` is bold and ^...^
 * dim. */
void mp_say(struct mp_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Begins a part: in a document with a heading; in text with an empty line and bold words, and mp_say() continues that
 * line. */
void mp_heading(struct mp_text *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes a line "^3 more; -n 20 shows more^" if rows were left out. */
void mp_say_more(struct mp_text *text, size_t left_out, size_t limit);
/* The number of shown rows of `count`; limit 0: all. */
static inline size_t mp_shown(size_t count, size_t limit)
{
    return limit && limit < count ? limit : count;
}

/* These make texts for the arguments of a call. Each stays valid until its thread has made 15 more. */
const char *mp_bytes(uint64_t bytes);
const char *mp_delta(int64_t bytes); /* with its sign */
const char *mp_count(uint64_t count);
const char *mp_counted(uint64_t count, const char *noun); /* "1 block", "12 345 blocks", "2 processes" */
const char *mp_time(uint64_t ns);

/* Appends in a style, which applies to the text but not to line breaks at its ends. The formatted text is appended
 * unchanged: clean names first. */
void mp_text_put(struct mp_text *text, enum mp_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Appends a name of unknown origin: control characters become '?', invalid UTF-8 becomes U+FFFD. */
void mp_text_clean(struct mp_buffer *out, const char *name);

/*
 * Rows of cells, aligned when printed. A cell is made with mp_table_cell(), the row ends with mp_table_end_row(). The
 * width of a cell is counted in characters.
 */
struct mp_table_cell {
    size_t start, size, width; /* in `texts`; characters */
    unsigned char column, style;
    bool wide; /* extends over the following columns and claims no width */
};

struct mp_table {
    const char *columns; /* one letter each: 'l' or 'r' */
    struct mp_buffer texts;
    MP_VEC(struct mp_table_cell) cells;
    unsigned column;
};

void mp_table_start(struct mp_table *table, const char *columns);
void mp_table_cell(struct mp_table *table, enum mp_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The last cell of its row. */
void mp_table_wide(struct mp_table *table, enum mp_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void mp_table_skip(struct mp_table *table, unsigned columns);
void mp_table_end_row(struct mp_table *table);
/* Prints with two blanks before each row and between columns, and frees the table. */
void mp_table_finish(struct mp_table *table, struct mp_text *text);

/*
 * A report as a document for other people: Markdown as GitHub and GitLab show it, one self-contained HTML page, or CSV,
 * which has only the first table. The same calls make all three forms. Texts may hold any characters. Reports write
 * into `text`, as they do for a terminal. One thread at a time.
 */

enum mp_document_form { MP_MARKDOWN, MP_HTML, MP_CSV };

struct mp_document {
    struct mp_buffer *out;
    enum mp_document_form form;
    const char *columns; /* of the open table */
    unsigned column, tables;
    struct mp_text text;
    struct mp_buffer lines; /* of `text` */
};

void mp_document_start(struct mp_document *document, struct mp_buffer *out, enum mp_document_form form,
                       const char *title);
/* Flushes the lines, too. */
void mp_document_end(struct mp_document *document);
void mp_document_heading(struct mp_document *document, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Begins a table. `columns` has an 'l' or 'r' for each column, and `heads` a text for each. Cells follow row by row. */
void mp_document_table(struct mp_document *document, const char *columns, const char *const *heads);
void mp_document_cell(struct mp_document *document, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes a cell. On a page a bar of length `part` / `whole` is drawn behind it; no bar if `whole` is 0. */
void mp_document_bar(struct mp_document *document, uint64_t part, uint64_t whole, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* Writes a number as a cell, unchanged. Texts, but not numbers, get an apostrophe if a spreadsheet would take them for
 * a formula. */
void mp_document_number(struct mp_document *document, const char *number);
void mp_document_end_table(struct mp_document *document);
/* True if the report is written as CSV. */
static inline bool mp_is_csv(const struct mp_text *text)
{
    return text->document && text->document->form == MP_CSV;
}
/* Writes each line of a text report as a paragraph, and empties the buffer. */
void mp_document_lines(struct mp_document *document, struct mp_buffer *lines);
