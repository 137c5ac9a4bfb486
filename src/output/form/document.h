/*
 * A report as a document for other people: Markdown as GitHub and GitLab show it, one self-contained HTML page, or CSV,
 * which has the first table alone. Calls to these functions state the contents once for all; texts may hold anything.
 * Reports write into `text`, as they do for a terminal. One thread at a time.
 */
#ifndef MP_OUTPUT_DOCUMENT_H
#define MP_OUTPUT_DOCUMENT_H

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
/* `columns`: 'l' or 'r' for each; as many heads; then come the cells, row by row. */
void mp_document_table(struct mp_document *document, const char *columns, const char *const *heads);
void mp_document_cell(struct mp_document *document, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* A cell, in a page with a bar behind it as long as `part` is of `whole` (0: nothing). */
void mp_document_bar(struct mp_document *document, uint64_t part, uint64_t whole, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
/* A number that is written as it is: not what a spreadsheet may take for a formula. */
void mp_document_number(struct mp_document *document, const char *number);
void mp_document_end_table(struct mp_document *document);
/* True where the report is written as CSV. */
static inline bool mp_is_csv(const struct mp_text *text)
{
    return text->document && text->document->form == MP_CSV;
}
/* Lines of a text report, a paragraph each; empties the buffer. */
void mp_document_lines(struct mp_document *document, struct mp_buffer *lines);

#endif
