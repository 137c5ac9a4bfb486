#include "output/report/document.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "output/report/reports.h"
#include "output/report/text.h"

/* The characters with a meaning in Markdown, anywhere and at the beginning of a text. */
static const char markdown_marks[] = "\\`*_[]<>|~&", markdown_first[] = "#+-=";

static const char page_head[] =
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
    "<style>\n"
    ":root { color-scheme: light dark; }\n"
    "body { font: 15px/1.5 system-ui, sans-serif; max-width: 70em; margin: 2em auto; padding: 0 1em; }\n"
    "h1 { font-size: 1.5em; } h2 { font-size: 1.15em; margin: 1.8em 0 0.4em; }\n"
    "table { margin: 0 0 1rem; border-collapse: collapse; font-variant-numeric: tabular-nums; }\n"
    "th, td { padding: 0.15em 1em 0.15em 0; border-bottom: 1px solid #8884; vertical-align: top; overflow-wrap: "
    "anywhere; }\n"
    "th { font-weight: 600; } .r { text-align: right; white-space: nowrap; } .l { text-align: left; }\n"
    "</style>\n";

static void put_escaped(struct mp_document *document, const char *text)
{
    struct mp_buffer clean = {0};
    mp_text_clean(&clean, text);
    for (size_t i = 0; i < clean.size; i++) {
        char byte = (char)clean.data[i];
        if (document->form == MP_MARKDOWN) {
            bool means = byte && (strchr(markdown_marks, byte) || (!i && strchr(markdown_first, byte)));
            if (means) mp_buffer_append_text(document->out, "\\");
            mp_buffer_append(document->out, &byte, 1);
        } else {
            const char *entity = byte == '<' ? "&lt;" : byte == '>' ? "&gt;" : byte == '&' ? "&amp;" : NULL;
            mp_buffer_append(document->out, entity ? entity : &byte, entity ? strlen(entity) : 1);
        }
    }
    mp_buffer_free(&clean);
}

static void put_format(struct mp_document *document, const char *format, va_list values)
{
    char *text = mp_text_make_of(format, values);
    put_escaped(document, text);
    free(text);
}

/* A line or element that holds one text. */
static void put_element(struct mp_document *document, const char *markdown, const char *element, const char *format,
                        va_list values)
{
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
    if (form == MP_HTML) {
        mp_buffer_append_text(out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>");
        put_escaped(document, title);
        mp_buffer_append_text(out, "</title>\n");
        mp_buffer_append_text(out, page_head);
        mp_buffer_append_text(out, "</head>\n<body>\n");
    }
    put_title(document, "%s", title);
}

void mp_document_end(struct mp_document *document)
{
    if (document->form == MP_HTML) mp_buffer_append_text(document->out, "</body>\n</html>\n");
}

void mp_document_heading(struct mp_document *document, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    put_element(document, "### ", "h2", format, values);
    va_end(values);
}

void mp_document_paragraph(struct mp_document *document, const char *format, ...)
{
    va_list values;
    va_start(values, format);
    put_element(document, "", "p", format, values);
    va_end(values);
}

void mp_document_table(struct mp_document *document, const char *columns, const char *const *heads)
{
    struct mp_buffer *out = document->out;
    bool page = document->form == MP_HTML;
    document->columns = columns;
    mp_buffer_append_text(out, page ? "<table>\n<thead><tr>" : "|");
    for (size_t i = 0; columns[i]; i++) {
        if (page) mp_buffer_printf(out, "<th scope=\"col\" class=\"%c\">", columns[i]);
        put_escaped(document, heads[i]);
        mp_buffer_append_text(out, page ? "</th>" : "|");
    }
    mp_buffer_append_text(out, page ? "</tr></thead>\n" : "\n|");
    for (size_t i = 0; !page && columns[i]; i++)
        mp_buffer_append_text(out, columns[i] == 'r' ? "--:|" : "---|");
    mp_buffer_append_text(out, page ? "" : "\n");
}

void mp_document_cell(struct mp_document *document, const char *format, ...)
{
    va_list values;
    bool page = document->form == MP_HTML;
    va_start(values, format);
    if (!document->column) mp_buffer_append_text(document->out, page ? "<tr>" : "|");
    if (page) mp_buffer_printf(document->out, "<td class=\"%c\">", document->columns[document->column]);
    put_format(document, format, values);
    mp_buffer_append_text(document->out, page ? "</td>" : "|");
    va_end(values);
    if (document->columns[++document->column]) return;
    document->column = 0;
    mp_buffer_append_text(document->out, page ? "</tr>\n" : "\n");
}

void mp_document_end_table(struct mp_document *document)
{
    mp_buffer_append_text(document->out, document->form == MP_HTML ? "</table>\n" : "\n");
}

void mp_document_site(struct mp_document *document, const struct mp_model *model, const struct mp_site *site)
{
    struct mp_buffer text = {0};
    mp_site_text(&text, model, site);
    mp_document_cell(document, "%.*s", (int)text.size, (const char *)text.data);
    mp_buffer_free(&text);
}

/* The text report's lines, a paragraph each. */
void mp_document_coverage(struct mp_document *document, const struct mp_model *model)
{
    struct mp_buffer lines = {0};
    struct mp_text text = {.out = &lines};
    mp_coverage_text(&text, model);
    mp_buffer_append(&lines, "", 1);
    mp_document_heading(document, "Coverage");
    for (char *rest = (char *)lines.data, *line; rest && (line = strsep(&rest, "\n"));)
        if (*line) mp_document_paragraph(document, "%s", line + strspn(line, " "));
    mp_buffer_free(&lines);
}
