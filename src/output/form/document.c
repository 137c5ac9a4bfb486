#include "output/form/document.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "output/form/html.h"

/* Characters that Markdown interprets: anywhere, and at the beginning of a text. */
static const char markdown_marks[] = "\\`*_[]<>|~&", markdown_first[] = "#+-=";

/* A cell that a spreadsheet would take for a formula gets an apostrophe in front, which marks it as text. */
static void put_quoted(struct mp_buffer *out, const char *text, size_t length)
{
    bool formula = length && strchr("=+-@", *text), quoted = memchr(text, '"', length) || memchr(text, ',', length);
    mp_buffer_append_text(out, quoted ? "\"" : "");
    mp_buffer_append_text(out, formula ? "'" : "");
    for (size_t i = 0; i < length; i++)
        mp_buffer_append(out, text[i] == '"' ? "\"\"" : &text[i], text[i] == '"' ? 2 : 1);
    mp_buffer_append_text(out, quoted ? "\"" : "");
}

static void put_escaped(struct mp_document *document, const char *text)
{
    if (document->form == MP_HTML) {
        mp_html_text(document->out, text);
        return;
    }
    struct mp_buffer clean = {0};
    mp_text_clean(&clean, text);
    if (document->form == MP_CSV) {
        if (clean.size) put_quoted(document->out, (const char *)clean.data, clean.size);
        mp_buffer_free(&clean);
        return;
    }
    for (size_t i = 0; i < clean.size; i++) {
        char byte = (char)clean.data[i];
        if (byte && (strchr(markdown_marks, byte) || (!i && strchr(markdown_first, byte))))
            mp_buffer_append_text(document->out, "\\");
        mp_buffer_append(document->out, &byte, 1);
    }
    mp_buffer_free(&clean);
}

static void put_format(struct mp_document *document, const char *format, va_list values)
{
    char *text = mp_text_make_of(format, values);
    put_escaped(document, text);
    free(text);
}

/* Writes one text as a line of Markdown or an element of HTML. */
static void put_element(struct mp_document *document, const char *markdown, const char *element, const char *format,
                        va_list values)
{
    if (document->form == MP_CSV) return;
    if (document->form == MP_MARKDOWN)
        mp_buffer_append_text(document->out, markdown);
    else
        mp_buffer_printf(document->out, "<%s>", element);
    put_format(document, format, values);
    if (document->form == MP_MARKDOWN)
        mp_buffer_append_text(document->out, "\n\n");
    else
        mp_buffer_printf(document->out, "</%s>\n", element);
}

static void put_title(struct mp_document *document, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    put_element(document, "## ", "h1", format, values);
    va_end(values);
}

void mp_document_start(struct mp_document *document, struct mp_buffer *out, enum mp_document_form form,
                       const char *title)
{
    *document = (struct mp_document){.out = out, .form = form};
    document->text = (struct mp_text){.out = &document->lines, .document = document};
    if (form == MP_HTML) mp_html_start(out, title);
    put_title(document, "%s", title);
}

void mp_document_end(struct mp_document *document)
{
    mp_document_lines(document, &document->lines);
    mp_buffer_free(&document->lines);
    if (document->form == MP_HTML) mp_html_end(document->out);
}

void mp_document_heading(struct mp_document *document, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    put_element(document, "### ", "h2", format, values);
    va_end(values);
}

static void put_paragraph(struct mp_document *document, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    put_element(document, "", "p", format, values);
    va_end(values);
}

/* Each form's text before and after the row of heads and other rows, and between cells. */
static const struct {
    const char *start, *heads_end, *row, *row_end, *cell_end, *last_end, *end;
} marks[] = {
    [MP_MARKDOWN] = {"|", "\n", "|", "\n", "|", "|", "\n"},
    [MP_HTML] = {"<table>\n<thead><tr>", "</tr></thead>\n", "<tr>", "</tr>\n", "</td>", "</td>", "</table>\n"},
    [MP_CSV] = {"", "\r\n", "", "\r\n", ",", "", ""},
};

void mp_document_table(struct mp_document *document, const char *columns, const char *const *heads)
{
    struct mp_buffer *out = document->out;
    document->columns = columns;
    document->tables++;
    mp_buffer_append_text(out, marks[document->form].start);
    for (size_t i = 0; columns[i]; i++) {
        if (document->form == MP_HTML) mp_buffer_printf(out, "<th scope=\"col\" class=\"%c\">", columns[i]);
        put_escaped(document, heads[i]);
        mp_buffer_append_text(out, document->form == MP_HTML ? "</th>"
                                   : columns[i + 1]          ? marks[document->form].cell_end
                                                             : marks[document->form].last_end);
    }
    mp_buffer_append_text(out, marks[document->form].heads_end);
    if (document->form != MP_MARKDOWN) return;
    mp_buffer_append_text(out, "|");
    for (size_t i = 0; columns[i]; i++)
        mp_buffer_append_text(out, columns[i] == 'r' ? "--:|" : "---|");
    mp_buffer_append_text(out, "\n");
}

static void start_cell(struct mp_document *document, const char *attributes)
{
    if (!document->column) mp_buffer_append_text(document->out, marks[document->form].row);
    if (document->form == MP_HTML)
        mp_buffer_printf(document->out, "<td class=\"%c%s>", document->columns[document->column], attributes);
}

static void end_cell(struct mp_document *document)
{
    bool last = !document->columns[++document->column];
    mp_buffer_append_text(document->out, last ? marks[document->form].last_end : marks[document->form].cell_end);
    if (!last) return;
    document->column = 0;
    mp_buffer_append_text(document->out, marks[document->form].row_end);
}

void mp_document_cell(struct mp_document *document, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    start_cell(document, "\"");
    put_format(document, format, values);
    end_cell(document);
    va_end(values);
}

void mp_document_bar(struct mp_document *document, uint64_t part, uint64_t whole, const char *format, ...)
{
    char attributes[64];
    va_list values;
    va_start(values, format);
    snprintf(attributes, sizeof attributes, " share\" style=\"--part:%.1f%%\"",
             whole ? 100.0 * (double)part / (double)whole : 0.0);
    start_cell(document, attributes);
    put_format(document, format, values);
    end_cell(document);
    va_end(values);
}

void mp_document_number(struct mp_document *document, const char *number)
{
    start_cell(document, "\"");
    mp_buffer_append_text(document->out, number);
    end_cell(document);
}

void mp_document_end_table(struct mp_document *document)
{
    mp_buffer_append_text(document->out, marks[document->form].end);
}

void mp_document_lines(struct mp_document *document, struct mp_buffer *lines)
{
    mp_buffer_append(lines, "", 1);
    for (char *rest = (char *)lines->data, *line; rest && (line = strsep(&rest, "\n"));) {
        line += strspn(line, " ,;:"); /* the line's beginning may have become a heading */
        if (*line) put_paragraph(document, "%s", line);
    }
    mp_buffer_clear(lines);
}
