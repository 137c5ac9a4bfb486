#include "cli/top/top_canvas.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <wchar.h>

#include "base/memory.h"
#include "base/utf8.h"

#define MARKS_MOST 2 /* most combining marks on one character */

void mp_top_canvas_clear(struct mp_top_canvas *canvas, unsigned width, bool utf8)
{
    mp_buffer_clear(&canvas->text);
    canvas->runs.count = canvas->lines.count = 0;
    canvas->width = width;
    canvas->utf8 = utf8;
    canvas->column = 0;
}

void mp_top_line(struct mp_top_canvas *canvas)
{
    size_t first = canvas->runs.count;
    mp_vec_add(&canvas->lines, first);
    canvas->column = 0;
}

/* One character of a name, in the form in which it is shown. */
struct shown {
    char bytes[4];
    size_t size;    /* 0: the character is left out */
    unsigned width; /* 0: a mark on the character before it */
};

/* True for characters whose width differs between terminals: parts of composed emoji, and their selectors. */
static bool is_unsteady(uint32_t point)
{
    return (point >= 0xfe00 && point <= 0xfe0f) || (point >= 0x1f1e6 && point <= 0x1f1ff) ||
           (point >= 0x1f3fb && point <= 0x1f3ff);
}

/* Decodes the next character. *marks counts the marks on the previous character; negative: there is no previous
 * character. */
static size_t next(const struct mp_top_canvas *canvas, const char *at, int *marks, struct shown *shown)
{
    uint32_t point;
    size_t size = mp_utf8_next((const unsigned char *)at, strlen(at), &point);
    bool plain = point >= ' ' && point < 0x7f;
    bool showable = canvas->utf8 && point != MP_UTF8_BAD && point >= 0xa0 && !mp_utf8_is_hidden(point);
    int width = plain ? 1 : showable && !is_unsteady(point) ? wcwidth((wchar_t)point) : -1;
    *shown = (struct shown){"?", 1, 1};
    if (!width && *marks >= 0) {
        bool fits = (*marks)++ < MARKS_MOST;
        *shown = (struct shown){.size = fits ? size : 0};
        if (fits) memcpy(shown->bytes, at, size);
        return size;
    }
    *marks = 0;
    if (width <= 0) return size;
    memcpy(shown->bytes, at, size);
    shown->size = size;
    shown->width = (unsigned)width;
    return size;
}

/* Appends the part of `text` that fits into `room` columns. Returns its columns; *end is the text's rest. */
static unsigned put_raw(struct mp_top_canvas *canvas, enum mp_top_style style, const char *text, unsigned room,
                        const char **end)
{
    struct mp_top_run run = {.start = canvas->text.size, .style = style};
    unsigned used = 0;
    int marks = -1;
    while (*text) {
        struct shown shown;
        size_t size = next(canvas, text, &marks, &shown);
        if (used + shown.width > room) break;
        mp_buffer_append(&canvas->text, shown.bytes, shown.size);
        used += shown.width;
        text += size;
    }
    run.size = canvas->text.size - run.start;
    if (run.size) mp_vec_add(&canvas->runs, run);
    canvas->column += used;
    *end = text;
    return used;
}

unsigned mp_top_width(const struct mp_top_canvas *canvas, const char *text)
{
    unsigned used = 0;
    int marks = -1;
    struct shown shown;
    while (*text) {
        text += next(canvas, text, &marks, &shown);
        used += shown.width;
    }
    return used;
}

static unsigned room_of(const struct mp_top_canvas *canvas)
{
    return canvas->width > canvas->column ? canvas->width - canvas->column : 0;
}

void mp_top_put_in(struct mp_top_canvas *canvas, enum mp_top_style style, unsigned width, bool right, const char *text)
{
    unsigned begin = canvas->column, needed = mp_top_width(canvas, text);
    const char *end;
    if (width > room_of(canvas)) width = room_of(canvas);
    if (right && needed < width) mp_top_fill_to(canvas, begin + width - needed);
    if (needed > width && width) {
        put_raw(canvas, style, text, width - 1, &end);
        put_raw(canvas, style, canvas->utf8 ? "…" : "~", 1, &end);
    } else {
        put_raw(canvas, style, text, width, &end);
    }
    mp_top_fill_to(canvas, begin + width);
}

void mp_top_put(struct mp_top_canvas *canvas, enum mp_top_style style, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    char *text = mp_text_make_of(format, arguments);
    va_end(arguments);
    unsigned needed = mp_top_width(canvas, text), room = room_of(canvas);
    mp_top_put_in(canvas, style, needed < room ? needed : room, false, text);
    free(text);
}

void mp_top_fill_to(struct mp_top_canvas *canvas, unsigned column)
{
    struct mp_top_run run = {.start = canvas->text.size, .style = MP_TOP_PLAIN};
    for (; canvas->column < column && canvas->column < canvas->width; canvas->column++)
        mp_buffer_append_text(&canvas->text, " ");
    run.size = canvas->text.size - run.start;
    if (run.size) mp_vec_add(&canvas->runs, run);
}

void mp_top_repeat(struct mp_top_canvas *canvas, enum mp_top_style style, const char *text, unsigned times)
{
    struct mp_top_run run = {.start = canvas->text.size, .style = style};
    for (; times && room_of(canvas); times--, canvas->column++)
        mp_buffer_append_text(&canvas->text, text);
    run.size = canvas->text.size - run.start;
    if (run.size) mp_vec_add(&canvas->runs, run);
}

void mp_top_canvas_free(struct mp_top_canvas *canvas)
{
    mp_buffer_free(&canvas->text);
    mp_vec_free(&canvas->runs);
    mp_vec_free(&canvas->lines);
}
