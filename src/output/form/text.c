#include "output/form/text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "base/utf8.h"
#include "output/form/html.h"

static const char *const style_begin[] = {"", "\033[1m", "\033[2m"};
#define STYLE_END "\033[0m"

static void append_formatted(struct mp_buffer *out, const char *format, va_list arguments)
{
    char *made = mp_text_make_of(format, arguments);
    mp_buffer_append_text(out, made);
    free(made);
}

void mp_text_put(struct mp_text *text, enum mp_style style, const char *format, ...)
{
    struct mp_buffer made = {0};
    va_list arguments;
    va_start(arguments, format);
    append_formatted(&made, format, arguments);
    va_end(arguments);
    size_t first = 0, end = made.size;
    while (first < end && made.data[first] == '\n')
        first++;
    while (end > first && made.data[end - 1] == '\n')
        end--;
    bool styled = text->color && style != MP_PLAIN && first < end;
    mp_buffer_append(text->out, made.data, first);
    if (styled) mp_buffer_append_text(text->out, style_begin[style]);
    mp_buffer_append(text->out, made.data + first, end - first);
    if (styled) mp_buffer_append_text(text->out, STYLE_END);
    mp_buffer_append(text->out, made.data + end, made.size - end);
    mp_buffer_free(&made);
}

static void append_clean(struct mp_buffer *out, const unsigned char *at, size_t left)
{
    while (left) {
        uint32_t point;
        size_t size = mp_utf8_next(at, left, &point);
        if (point == MP_UTF8_BAD)
            mp_buffer_append_text(out, "\xef\xbf\xbd");
        else if (point < 0x20 || (point >= 0x7f && point < 0xa0) || mp_utf8_is_hidden(point))
            mp_buffer_append_text(out, "?");
        else
            mp_buffer_append(out, at, size);
        at += size;
        left -= size;
    }
}

void mp_text_clean(struct mp_buffer *out, const char *name)
{
    append_clean(out, (const unsigned char *)name, strlen(name));
}

/* ---- sentences -------------------------------------------------------------------------------------------------- */

#define NUMBERS 16

static char *number_room(void)
{
    static _Thread_local char rooms[NUMBERS][2 * MP_UNIT_TEXT];
    static _Thread_local unsigned next;
    return rooms[next++ % NUMBERS];
}

const char *mp_bytes(uint64_t bytes)
{
    return mp_format_bytes(number_room(), bytes);
}

const char *mp_delta(int64_t bytes)
{
    return mp_format_signed_bytes(number_room(), bytes);
}

const char *mp_count(uint64_t count)
{
    return mp_format_count(number_room(), count);
}

const char *mp_counted(uint64_t count, const char *noun)
{
    char *to = number_room();
    size_t length = strlen(noun);
    const char *plural = count == 1 ? "" : length && noun[length - 1] == 's' ? "es" : "s";
    mp_format_count(to, count);
    snprintf(to + strlen(to), MP_UNIT_TEXT, " %s%s", noun, plural);
    return to;
}

const char *mp_time(uint64_t ns)
{
    return mp_format_duration(number_room(), ns);
}

/* A va_list in a struct: it may be an array, whose address cannot be passed on. */
struct values {
    va_list list;
};

/* Appends one value. `conversion` begins with '%' and ends before `end`. */
static void put_value(struct mp_buffer *out, const char *conversion, const char *end, struct values *values)
{
    char made[512], of[16];
    size_t length = (size_t)(end - conversion), longs = 0;
    if (end[-1] == 's') {
        size_t most = end[-2] == '*' ? (size_t)va_arg(values->list, int) : SIZE_MAX;
        const char *text = va_arg(values->list, const char *);
        append_clean(out, (const unsigned char *)text, most == SIZE_MAX ? strlen(text) : strnlen(text, most));
        return;
    }
    if (end[-1] == '%' || length >= sizeof of) {
        mp_buffer_append_text(out, "%");
        return;
    }
    memcpy(of, conversion, length);
    of[length] = '\0';
    for (const char *at = conversion; at < end; at++)
        longs += *at == 'l' || *at == 'z';
    if (strchr("efg", end[-1]))
        snprintf(made, sizeof made, of, va_arg(values->list, double));
    else if (longs)
        snprintf(made, sizeof made, of, va_arg(values->list, unsigned long long));
    else
        snprintf(made, sizeof made, of, va_arg(values->list, unsigned));
    mp_buffer_append_text(out, made);
}

static void say(struct mp_buffer *out, bool color, const char *format, struct values *values)
{
    bool styled = false;
    for (const char *at = format; *at; at++) {
        if (*at == '`' || *at == '^') {
            if (color) mp_buffer_append_text(out, styled ? STYLE_END : style_begin[*at == '`' ? MP_BOLD : MP_DIM]);
            styled = !styled;
        } else if (*at == '%') {
            const char *end = at + 1 + strspn(at + 1, "-+ #0123456789.*lz") + 1;
            put_value(out, at, end, values);
            at = end - 1;
        } else {
            mp_buffer_append(out, at, 1);
        }
    }
}

void mp_say(struct mp_text *text, const char *format, ...)
{
    struct values values;
    va_start(values.list, format);
    say(text->out, text->color, format, &values);
    va_end(values.list);
}

void mp_heading(struct mp_text *text, const char *format, ...)
{
    struct values values;
    struct mp_buffer made = {0};
    va_start(values.list, format);
    say(&made, false, format, &values);
    va_end(values.list);
    if (text->document) {
        mp_document_lines(text->document, text->out);
        mp_document_heading(text->document, "%s", mp_buffer_text(&made));
    } else {
        mp_text_put(text, MP_BOLD, "\n%s", mp_buffer_text(&made));
    }
    mp_buffer_free(&made);
}

void mp_say_more(struct mp_text *text, size_t left_out, size_t limit)
{
    if (left_out) mp_say(text, "^%zu more; -n %zu shows more^\n", left_out, limit * 2);
}

/* ---- tables ----------------------------------------------------------------------------------------------------- */

void mp_table_start(struct mp_table *table, const char *columns)
{
    *table = (struct mp_table){.columns = columns};
}

static size_t count_characters(const unsigned char *text, size_t size)
{
    size_t count = 0;
    for (size_t i = 0; i < size; i++)
        count += text[i] >> 6 != 2;
    return count;
}

static void add_cell(struct mp_table *table, enum mp_style style, bool wide, const char *format, va_list arguments)
{
    struct mp_buffer raw = {0};
    append_formatted(&raw, format, arguments);
    struct mp_table_cell cell = {.start = table->texts.size,
                                 .column = (unsigned char)table->column,
                                 .style = (unsigned char)style,
                                 .wide = wide};
    append_clean(&table->texts, raw.data, raw.size);
    mp_buffer_free(&raw);
    cell.size = table->texts.size - cell.start;
    cell.width = count_characters(table->texts.data + cell.start, cell.size);
    mp_vec_add(&table->cells, cell);
    table->column++;
}

void mp_table_cell(struct mp_table *table, enum mp_style style, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_cell(table, style, false, format, arguments);
    va_end(arguments);
}

void mp_table_wide(struct mp_table *table, enum mp_style style, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    add_cell(table, style, true, format, arguments);
    va_end(arguments);
}

void mp_table_skip(struct mp_table *table, unsigned columns)
{
    while (columns--)
        mp_table_cell(table, MP_PLAIN, "%s", "");
}

void mp_table_end_row(struct mp_table *table)
{
    table->column = 0;
}

static void put_blanks(struct mp_buffer *out, size_t count)
{
    while (count--)
        mp_buffer_append_text(out, " ");
}

/* Trailing blanks are never written: pending blanks come before the next cell that has text. */
static void print_cells(const struct mp_table *table, struct mp_text *text, const size_t *widths)
{
    size_t due = 0;
    for (size_t i = 0; i < table->cells.count; i++) {
        const struct mp_table_cell *cell = &table->cells.at[i];
        if (!cell->column) {
            if (i) mp_buffer_append_text(text->out, "\n");
            due = 0;
        }
        due += 2;
        size_t padding = cell->wide || cell->width > widths[cell->column] ? 0 : widths[cell->column] - cell->width;
        bool right = table->columns[cell->column] == 'r';
        if (right) due += padding;
        if (cell->size) {
            put_blanks(text->out, due);
            mp_text_put(text, cell->style, "%.*s", (int)cell->size, (const char *)table->texts.data + cell->start);
            due = 0;
        }
        if (!right) due += padding;
    }
    if (table->cells.count) mp_buffer_append_text(text->out, "\n");
}

void mp_table_finish(struct mp_table *table, struct mp_text *text)
{
    size_t widths[256] = {0};
    mp_vec_each (const struct mp_table_cell, cell, &table->cells) {
        if (!cell->wide && cell->width > widths[cell->column]) widths[cell->column] = cell->width;
    }
    print_cells(table, text, widths);
    mp_buffer_free(&table->texts);
    mp_vec_free(&table->cells);
}

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
    mp_buffer_text(lines);
    for (char *rest = (char *)lines->data, *line; rest && (line = strsep(&rest, "\n"));) {
        line += strspn(line, " ,;:"); /* the line's beginning may have become a heading */
        if (*line) put_paragraph(document, "%s", line);
    }
    mp_buffer_clear(lines);
}
