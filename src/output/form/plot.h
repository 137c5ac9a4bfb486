/*
 * Pictures in pages without a script: an SVG plot of bytes over another quantity, and the curve of a report. Texts are
 * not escaped: pass only memprof's own. A shortage of memory marks the buffer as failed. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "model/model.h"
#include "model/window.h"

/* Coordinates are in the picture's units, from its upper left corner. The margins have room for the axes' texts. */
struct mp_plot {
    int width, height, left, right, top, bottom;
    double from_x, most_x, most_y; /* values at the plot's left, right and upper edge; at the lower edge y is 0 */
};

double mp_plot_x(const struct mp_plot *plot, double value);
/* Values above the upper edge are drawn just above it. */
double mp_plot_y(const struct mp_plot *plot, double bytes);
/* The distance between marks: the least of 1, 2 or 5 times a power of ten that makes at most `count` steps up to
 * `most`. */
double mp_plot_step(double most, int count);
/* Begins the picture's element. `shows` describes the picture for screen readers. */
void mp_plot_start(struct mp_buffer *out, const struct mp_plot *plot, const char *shows);
void mp_plot_sizes(struct mp_buffer *out, const struct mp_plot *plot);
void mp_plot_end(struct mp_buffer *out);

struct mp_drawn_curve {
    const struct mp_model *model;
    uint16_t track;
    const struct mp_window *window;
    const char *name; /* used if there are two curves */
    uint64_t peak;    /* the report's peak, which may count only filtered blocks */
};

/* Draws one curve, or two: before and after. A column shows the track's maximum of allocated bytes. Time 0 of each
 * curve is its window's beginning. Nothing is drawn for windows without length. Returns whether a curve exceeds its
 * `peak`. */
bool mp_curves_picture(struct mp_buffer *out, const struct mp_drawn_curve *curves, size_t count);
