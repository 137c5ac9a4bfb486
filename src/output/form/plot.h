/*
 * Pictures in pages without a script: an SVG plot of bytes over something, and the curve of a report. Texts that go
 * into it are the project's own. A shortage of memory marks the buffer as failed. One thread at a time.
 */
#ifndef MP_OUTPUT_PLOT_H
#define MP_OUTPUT_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buffer.h"
#include "model/model.h"
#include "model/window.h"

/* Places are in the picture's own units, from its upper left corner; the margins hold the axes' texts. */
struct mp_plot {
    int width, height, left, right, top, bottom;
    double from_x, most_x, most_y; /* at the edges of the plot; below, y is 0 */
};

double mp_plot_x(const struct mp_plot *plot, double value);
/* A value above the upper edge stays just above it. */
double mp_plot_y(const struct mp_plot *plot, double bytes);
/* 1, 2 or 5 times a power of ten, the least of which at most `count` steps make `most`. */
double mp_plot_step(double most, int count);
/* The element's start, with what it shows, for readers that see no pictures; and lines across at round sizes. */
void mp_plot_start(struct mp_buffer *out, const struct mp_plot *plot, const char *shows);
void mp_plot_sizes(struct mp_buffer *out, const struct mp_plot *plot);
void mp_plot_end(struct mp_buffer *out);

struct mp_drawn_curve {
    const struct mp_model *model;
    uint16_t track;
    const struct mp_window *window;
    const char *name; /* where there are two */
    uint64_t peak;    /* as in the report's text, which may be of some blocks alone */
};

/* One curve, or two: what was there before, and after. In each column is the most that the track had allocated there;
 * two curves begin with their windows. There is no picture of what takes no time. Returns whether one goes beyond its
 * peak. */
bool mp_curves_picture(struct mp_buffer *out, const struct mp_drawn_curve *curves, size_t count);

#endif
