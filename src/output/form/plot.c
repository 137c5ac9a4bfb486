#include "output/form/plot.h"

#include <math.h>
#include <string.h>

#include "analysis/sites/level.h"
#include "base/units.h"

#define MARKS_Y   6
#define MARKS_MAX 32
#define TIMES     12 /* most marks of an axis */
#define SIZES     6
#define LEGEND_X  260
#define COLUMNS   480 /* columns of the curve, each two units wide */

double mp_plot_x(const struct mp_plot *plot, double value)
{
    double span = plot->most_x - plot->from_x;
    return plot->left + (plot->width - plot->left - plot->right) * (value - plot->from_x) / span;
}

double mp_plot_y(const struct mp_plot *plot, double bytes)
{
    return plot->top + (plot->height - plot->top - plot->bottom) * (1 - fmin(bytes / plot->most_y, 1.02));
}

double mp_plot_step(double most, int count)
{
    double least = most / count, ten = pow(10, floor(log10(least))), times = least / ten;
    return ten * (times <= 1 ? 1 : times <= 2 ? 2 : times <= 5 ? 5 : 10);
}

void mp_plot_start(struct mp_buffer *out, const struct mp_plot *plot, const char *shows)
{
    mp_buffer_printf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"%s\">\n", plot->width, plot->height,
                     shows);
}

/* Draws lines at round sizes. All sizes use one unit, with as many digits as the distance between two lines needs. */
void mp_plot_sizes(struct mp_buffer *out, const struct mp_plot *plot)
{
    static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    int power = plot->most_y < 1024 ? 0 : (int)(log2(plot->most_y) / 10);
    double unit = pow(1024, power), step = mp_plot_step(plot->most_y / unit, SIZES);
    for (int k = 0; k * step * unit <= plot->most_y; k++) {
        double y = mp_plot_y(plot, k * step * unit);
        mp_buffer_printf(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", plot->left,
                         plot->width - plot->right, y, y);
        mp_buffer_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.*f %s</text>\n", plot->left - MARKS_Y,
                         y + 4, step < 1 ? 1 : 0, k * step, names[power]);
    }
}

void mp_plot_end(struct mp_buffer *out)
{
    mp_buffer_append_text(out, "</svg>\n");
}

struct drawn {
    uint64_t most[COLUMNS], highest, highest_ns; /* highest_ns counts from the window's start */
    double from, span;                           /* ns, on the plot's axis */
};

static void see(struct drawn *drawn, size_t column, uint64_t bytes, uint64_t ns)
{
    if (bytes > drawn->most[column]) drawn->most[column] = bytes;
    if (bytes <= drawn->highest) return;
    drawn->highest = bytes;
    drawn->highest_ns = ns;
}

/* Finds the maximum of each column. A level lasts until the next event, so the level at a column's beginning counts,
 * too. */
static void find_columns(struct drawn *drawn, const struct mp_drawn_curve *curve)
{
    const struct mp_model *model = curve->model;
    const struct mp_window *window = curve->window;
    uint64_t to_ns = window->to_ns < model->duration_ns ? window->to_ns : model->duration_ns;
    if (to_ns <= window->from_ns) return;
    drawn->span = (double)(to_ns - window->from_ns);
    struct mp_level level = mp_level_start(model, curve->track);
    uint32_t event = 0;
    for (; event < window->first && event < model->events.count; event++)
        mp_level_apply(&level, model, curve->track, event);
    size_t column = 0;
    see(drawn, 0, level.bytes, 0);
    for (; event < window->last && event < model->events.count; event++) {
        uint64_t before = level.bytes, ns = model->events.time_ns[event];
        if (!mp_level_apply(&level, model, curve->track, event)) continue;
        uint64_t since = ns <= window->from_ns ? 0 : ns - window->from_ns;
        size_t to = (size_t)((double)since / drawn->span * COLUMNS);
        if (to >= COLUMNS) to = COLUMNS - 1;
        while (column < to)
            drawn->most[++column] = before;
        see(drawn, column, level.bytes, since);
    }
    while (++column < COLUMNS)
        drawn->most[column] = level.bytes;
}

/* Draws marks at round times. All marks use one unit, with as many digits as the distance between two needs. */
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
    double step = mp_plot_step(span / units[i].ns, TIMES), first = ceil(plot->from_x / units[i].ns / step);
    int digits = step < 1 ? (int)ceil(-log10(step) - 1e-9) : 0;
    for (int k = 0; k < MARKS_MAX; k++) {
        double value = (first + k) * step;
        if (value * units[i].ns > plot->most_x) break;
        mp_buffer_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.*f %s</text>\n",
                         mp_plot_x(plot, value * units[i].ns), plot->height - plot->bottom + 20, digits, value,
                         units[i].name);
    }
}

static void put_path(struct mp_buffer *out, const struct mp_plot *plot, const struct drawn *drawn, const char *class,
                     bool filled)
{
    double wide = drawn->span / COLUMNS, floor_y = mp_plot_y(plot, 0);
    mp_buffer_printf(out, "<path class=\"%s\" d=\"M", class);
    if (filled) mp_buffer_printf(out, "%.1f %.1f ", mp_plot_x(plot, drawn->from), floor_y);
    for (size_t i = 0; i < COLUMNS; i++) {
        if (i && i + 1 < COLUMNS && drawn->most[i] == drawn->most[i - 1] && drawn->most[i] == drawn->most[i + 1])
            continue;
        double from = drawn->from + wide * (double)i, y = mp_plot_y(plot, (double)drawn->most[i]);
        mp_buffer_printf(out, "%.1f %.1f %.1f %.1f ", mp_plot_x(plot, from), y, mp_plot_x(plot, from + wide), y);
    }
    if (filled) mp_buffer_printf(out, "%.1f %.1f Z", mp_plot_x(plot, drawn->from + drawn->span), floor_y);
    mp_buffer_append_text(out, "\"/>\n");
}

static void put_dot(struct mp_buffer *out, const struct mp_plot *plot, double x, const struct drawn *drawn,
                    const char *class)
{
    mp_buffer_printf(out, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.0f\" r=\"4\"/>", class, x,
                     mp_plot_y(plot, (double)drawn->highest));
}

static void put_highest(struct mp_buffer *out, const struct mp_plot *plot, const struct drawn *drawn)
{
    char number[MP_UNIT_TEXT];
    double x = mp_plot_x(plot, drawn->from + (double)drawn->highest_ns);
    put_dot(out, plot, x, drawn, "at");
    mp_buffer_printf(out, "<text class=\"name\" x=\"%.1f\" y=\"%d\" text-anchor=\"%s\">%s</text>\n", x, plot->top - 10,
                     x < plot->left + 30      ? "start"
                     : x > plot->width - 60.0 ? "end"
                                              : "middle",
                     mp_format_bytes(number, drawn->highest));
}

/* Writes the curves' names side by side above the plot: next to the curves, two names might overlap, because the peaks
 * of two runs are often close. */
static void put_legend(struct mp_buffer *out, const struct mp_plot *plot, const struct mp_drawn_curve *curves,
                       const struct drawn *drawn)
{
    static const char *const lines[] = {"earlier", "curve"}, *const dots[] = {"then", "at"};
    char number[MP_UNIT_TEXT];
    for (int i = 0; i < 2; i++) {
        int x = plot->left + i * LEGEND_X;
        put_dot(out, plot, mp_plot_x(plot, (double)drawn[i].highest_ns), &drawn[i], dots[i]);
        mp_buffer_printf(out, "<line class=\"%s\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>", lines[i], x, x + 20,
                         plot->top - 15, plot->top - 15);
        mp_buffer_printf(out, "<text class=\"name\" x=\"%d\" y=\"%d\">%s, at most %s</text>\n", x + 28, plot->top - 10,
                         curves[i].name, mp_format_bytes(number, drawn[i].highest));
    }
}

bool mp_curves_picture(struct mp_buffer *out, const struct mp_drawn_curve *curves, size_t count)
{
    struct mp_plot plot = {.width = 960, .height = 240, .left = 90, .right = 20, .top = 28, .bottom = 34};
    struct drawn drawn[2];
    memset(drawn, 0, sizeof drawn);
    bool beyond = false;
    for (size_t i = 0; i < count; i++) {
        find_columns(&drawn[i], &curves[i]);
        plot.most_y = fmax(plot.most_y, (double)drawn[i].highest);
        plot.most_x = fmax(plot.most_x, drawn[i].span);
        if (drawn[i].span < 1) return false;
        beyond |= drawn[i].highest > curves[i].peak;
    }
    if (plot.most_y < 1) return false;
    if (count == 1) {
        plot.from_x = drawn[0].from = (double)curves[0].window->from_ns;
        plot.most_x += plot.from_x;
    }
    mp_plot_start(out, &plot, "Allocated memory over time");
    mp_plot_sizes(out, &plot);
    put_times(out, &plot);
    put_path(out, &plot, &drawn[count - 1], "band", true);
    if (count == 2) put_path(out, &plot, &drawn[0], "earlier", false);
    put_path(out, &plot, &drawn[count - 1], "curve", false);
    if (count == 2)
        put_legend(out, &plot, curves, drawn);
    else
        put_highest(out, &plot, &drawn[0]);
    mp_plot_end(out);
    return beyond;
}
