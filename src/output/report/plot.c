#include "output/report/plot.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/sites/level.h"
#include "base/memory.h"
#include "base/units.h"

#define MARKS_Y   6
#define MARKS_MAX 32
#define COLUMNS   480 /* of the curve, each two units wide */

double mp_plot_x(const struct mp_plot *plot, double value)
{
    double span = plot->most_x - plot->from_x;
    return plot->left + (plot->width - plot->left - plot->right) * (value - plot->from_x) / span;
}

double mp_plot_y(const struct mp_plot *plot, double bytes)
{
    return plot->top + (plot->height - plot->top - plot->bottom) * (1 - fmin(bytes / plot->most_y, 1.02));
}

double mp_plot_step(double most)
{
    double step = pow(10, floor(log10(most / 5)));
    return most / step > 25 ? step * 5 : most / step > 12 ? step * 2 : step;
}

void mp_plot_start(struct mp_buffer *out, const struct mp_plot *plot, const char *shows)
{
    mp_buffer_printf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", plot->width, plot->height,
                     shows);
}

void mp_plot_sizes(struct mp_buffer *out, const struct mp_plot *plot)
{
    char number[MP_UNIT_TEXT];
    double unit = pow(1024, floor(log2(plot->most_y) / 10));
    double step = mp_plot_step(plot->most_y / unit) * unit;
    for (double bytes = 0; bytes <= plot->most_y; bytes += step) {
        double y = mp_plot_y(plot, bytes);
        mp_buffer_printf(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", plot->left,
                         plot->width - plot->right, y, y);
        mp_buffer_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", plot->left - MARKS_Y, y + 4,
                         mp_format_bytes(number, (uint64_t)bytes));
    }
}

void mp_plot_end(struct mp_buffer *out)
{
    mp_buffer_append_text(out, "</svg>\n");
}

/* The most of each column. A level holds until the next event, so what lived when a column began counts in it. */
static uint64_t *highest_by_column(const struct mp_model *model, uint16_t track, const struct mp_window *window,
                                   uint64_t span)
{
    uint64_t *highest = mp_alloc_zeroed(COLUMNS, sizeof *highest);
    struct mp_level level = mp_level_start(model, track);
    uint32_t event = 0;
    for (; event < window->first && event < model->events.count; event++)
        mp_level_apply(&level, model, track, event);
    size_t column = 0;
    highest[0] = level.bytes;
    for (; event < window->last && event < model->events.count; event++) {
        uint64_t before = level.bytes, ns = model->events.time_ns[event];
        if (!mp_level_apply(&level, model, track, event)) continue;
        size_t to = ns <= window->from_ns ? 0 : (size_t)((double)(ns - window->from_ns) / (double)span * COLUMNS);
        if (to >= COLUMNS) to = COLUMNS - 1;
        while (column < to)
            highest[++column] = before;
        if (level.bytes > highest[column]) highest[column] = level.bytes;
    }
    while (++column < COLUMNS)
        highest[column] = level.bytes;
    return highest;
}

/* Marks at round times, all in the unit of the distance between two, with as many digits as that needs. */
static void put_times(struct mp_buffer *out, const struct mp_plot *plot)
{
    static const struct {
        double ns;
        const char *name;
    } units[] = {{3600e9, "h"}, {60e9, "min"}, {1e9, "s"}, {1e6, "ms"}, {1e3, "us"}, {1, "ns"}};
    double span = plot->most_x - plot->from_x;
    size_t i = 0;
    while (units[i].ns > span && units[i].ns > 1)
        i++;
    double step = mp_plot_step(span / units[i].ns), first = ceil(plot->from_x / units[i].ns / step);
    int digits = step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
    for (int k = 0; k < MARKS_MAX; k++) {
        double value = (first + k) * step;
        if (value * units[i].ns > plot->most_x) break;
        mp_buffer_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.*f %s</text>\n",
                         mp_plot_x(plot, value * units[i].ns), plot->height - plot->bottom + 20, digits, value,
                         units[i].name);
    }
}

static void put_curve(struct mp_buffer *out, const struct mp_plot *plot, const uint64_t *highest)
{
    double wide = (plot->most_x - plot->from_x) / COLUMNS, floor_y = mp_plot_y(plot, 0);
    static const char *const classes[] = {"band", "curve"};
    for (int line = 0; line < 2; line++) {
        mp_buffer_printf(out, "<path class=\"%s\" d=\"M", classes[line]);
        if (!line) mp_buffer_printf(out, "%d %.1f ", plot->left, floor_y);
        for (size_t i = 0; i < COLUMNS; i++) {
            if (i && i + 1 < COLUMNS && highest[i] == highest[i - 1] && highest[i] == highest[i + 1]) continue;
            double from = plot->from_x + wide * (double)i, y = mp_plot_y(plot, (double)highest[i]);
            mp_buffer_printf(out, "%.1f %.1f %.1f %.1f ", mp_plot_x(plot, from), y, mp_plot_x(plot, from + wide), y);
        }
        if (!line) mp_buffer_printf(out, "%d %.1f Z", plot->width - plot->right, floor_y);
        mp_buffer_append_text(out, "\"/>\n");
    }
}

void mp_curve_picture(struct mp_buffer *out, const struct mp_model *model, const struct mp_peak *peak,
                      const struct mp_window *window)
{
    char number[MP_UNIT_TEXT];
    uint64_t to_ns = window->to_ns < model->duration_ns ? window->to_ns : model->duration_ns;
    if (!peak->bytes || to_ns <= window->from_ns) return;
    struct mp_plot plot = {.width = 960, .height = 240, .left = 90, .right = 20, .top = 28, .bottom = 34};
    plot.from_x = (double)window->from_ns, plot.most_x = (double)to_ns, plot.most_y = (double)peak->bytes;
    uint64_t *highest = highest_by_column(model, peak->track, window, to_ns - window->from_ns);
    mp_plot_start(out, &plot, "Allocated memory over time");
    mp_plot_sizes(out, &plot);
    put_times(out, &plot);
    put_curve(out, &plot, highest);
    double x = mp_plot_x(&plot, (double)peak->ns);
    mp_buffer_printf(out,
                     "<circle class=\"at\" cx=\"%.1f\" cy=\"%d\" r=\"4\"/><text class=\"name\" x=\"%.1f\" y=\"%d\" ", x,
                     plot.top, x, plot.top - 10);
    mp_buffer_printf(out, "text-anchor=\"%s\">%s</text>\n",
                     x < plot.left + 30      ? "start"
                     : x > plot.width - 60.0 ? "end"
                                             : "middle",
                     mp_format_bytes(number, peak->bytes));
    mp_plot_end(out);
    free(highest);
}
