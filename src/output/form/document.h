/*
 * A report as a document for other people: Markdown as GitHub and GitLab show it, one self-contained HTML page, or CSV,
 * which has only the first table. The same calls make all three forms. Texts may hold any characters. Reports write
 * into `text`, as they do for a terminal. One thread at a time.
 */
#pragma once

#include "base/buffer.h"
#include "output/form/text.h"

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
