/*
 * A picture of text: lines of runs in styles. No line exceeds the canvas's width, whatever text is put in. Characters
 * that would move the text after them are removed: control characters, marks of direction, many combining marks. Widths
 * are in columns of the terminal (East Asian letters take two). Without `utf8`, all other characters than ASCII become
 * '?'. With `utf8`, the locale must have been set. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/vec.h"

enum mp_top_style {
    MP_TOP_PLAIN,
    MP_TOP_BOLD,
    MP_TOP_DIM,
    MP_TOP_WARNING,
    MP_TOP_ALLOCATED, /* this style and the next ones are for parts of a bar */
    MP_TOP_RESERVED,
    MP_TOP_OTHERS,
    MP_TOP_FREE,
    MP_TOP_STYLES
};

struct mp_top_run {
    size_t start, size; /* in `text` */
    enum mp_top_style style;
};

struct mp_top_canvas {
    unsigned width;
    bool utf8;
    struct mp_buffer text;
    MP_VEC(struct mp_top_run) runs;
    MP_VEC(size_t) lines; /* index of each line's first run */
    unsigned column;
};

void mp_top_canvas_clear(struct mp_top_canvas *canvas, unsigned width, bool utf8);
void mp_top_line(struct mp_top_canvas *canvas); /* begins the next line */
void mp_top_put(struct mp_top_canvas *canvas, enum mp_top_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Puts text into exactly `width` columns, or fewer at the line's end. Longer text is cut, with a mark at its end.
 * Shorter text is filled up with blanks: at its left if `right`, else at its right. */
void mp_top_put_in(struct mp_top_canvas *canvas, enum mp_top_style style, unsigned width, bool right, const char *text);
void mp_top_fill_to(struct mp_top_canvas *canvas, unsigned column); /* blanks */
void mp_top_repeat(struct mp_top_canvas *canvas, enum mp_top_style style, const char *text, unsigned times);
/* The columns that a text would take. */
unsigned mp_top_width(const struct mp_top_canvas *canvas, const char *text);
void mp_top_canvas_free(struct mp_top_canvas *canvas);
