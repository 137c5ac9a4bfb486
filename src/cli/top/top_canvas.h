/*
 * A picture of text: lines of runs in styles, none wider than the width, whatever is put into it. Names of unknown
 * origin lose what would move the rest: control characters, marks of direction, piles of combining marks. Widths are
 * those of the terminal (East Asian letters take two columns). Without UTF-8 everything else than ASCII becomes '?'.
 * The locale must have been set where `utf8` is. One thread at a time.
 */
#ifndef MP_CLI_TOP_CANVAS_H
#define MP_CLI_TOP_CANVAS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "base/vec.h"

enum mp_top_style {
    MP_TOP_PLAIN,
    MP_TOP_BOLD,
    MP_TOP_DIM,
    MP_TOP_WARNING,
    MP_TOP_ALLOCATED, /* parts of a bar */
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
    MP_VEC(size_t) lines; /* the first run of each */
    unsigned column;
};

void mp_top_canvas_clear(struct mp_top_canvas *canvas, unsigned width, bool utf8);
void mp_top_line(struct mp_top_canvas *canvas); /* begins the next line */
void mp_top_put(struct mp_top_canvas *canvas, enum mp_top_style style, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Exactly `width` columns, as far as the line has them: cut with a mark of that, or filled with blanks, at the left
 * with `right`. */
void mp_top_put_in(struct mp_top_canvas *canvas, enum mp_top_style style, unsigned width, bool right, const char *text);
void mp_top_fill_to(struct mp_top_canvas *canvas, unsigned column); /* blanks */
void mp_top_repeat(struct mp_top_canvas *canvas, enum mp_top_style style, const char *text, unsigned times);
/* The columns that a text would take. */
unsigned mp_top_width(const struct mp_top_canvas *canvas, const char *text);
void mp_top_canvas_free(struct mp_top_canvas *canvas);

#endif
