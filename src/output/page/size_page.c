#include <math.h>
#include <string.h>

#include "base/units.h"
#include "output/report/html.h"
#include "output/report/reports.h"

/* One SVG picture, drawn here, with the report below it: the page needs neither a script nor a network. */

#define WIDTH   960
#define HEIGHT  440
#define LEFT    90
#define RIGHT   150
#define TOP     20
#define BOTTOM  50
#define MARKS_Y 6
#define LINE_Y  16

struct plot {
    const struct mp_size_answer *answer;
    double most_x, most_y;
};

static double place_x(const struct plot *plot, double value)
{
    return LEFT + (WIDTH - LEFT - RIGHT) * value / plot->most_x;
}

static double place_y(const struct plot *plot, double bytes)
{
    return TOP + (HEIGHT - TOP - BOTTOM) * (1 - fmin(bytes / plot->most_y, 1.02));
}

/* The value that is compared with the limit. */
static uint64_t bytes_of(const struct mp_size_need *need)
{
    return need->device != MP_BYTES_UNKNOWN     ? need->device
           : need->reserved != MP_BYTES_UNKNOWN ? need->reserved
                                                : need->allocated;
}

static uint64_t bytes_probed(const struct mp_size_answer *answer, const struct mp_size_probed *probed)
{
    if (answer->binds[0] == 'd' && probed->device != MP_BYTES_UNKNOWN) return probed->device;
    return answer->binds[0] != 'a' && probed->reserved != MP_BYTES_UNKNOWN ? probed->reserved : probed->allocated;
}

static struct plot measure(const struct mp_size_answer *answer)
{
    struct plot plot = {answer, 1, 1};
    uint64_t top = 0;
    for (size_t i = 0; i < answer->plot.count; i++) {
        if (answer->plot.at[i].high > top) top = answer->plot.at[i].high;
        plot.most_x = fmax(plot.most_x, (double)answer->plot.at[i].at.first);
    }
    /* The picture includes the capacity unless the curve stays far below it. */
    plot.most_y = 1.06 * fmax((double)top, answer->capacity / 4 < top ? (double)answer->capacity : 1);
    plot.most_y = fmin(plot.most_y, fmax(2.0 * (double)answer->capacity, 1.06 * (double)top / 4));
    return plot;
}

/* 1, 2 or 5 times a power of ten, so that about five steps make `most`. */
static double step_of(double most)
{
    double step = pow(10, floor(log10(most / 5)));
    return most / step > 25 ? step * 5 : most / step > 12 ? step * 2 : step;
}

static void put_axes(struct mp_buffer *out, const struct plot *plot)
{
    char number[MP_UNIT_TEXT];
    double unit = pow(1024, floor(log2(plot->most_y) / 10));
    double step = step_of(plot->most_y / unit) * unit;
    for (double bytes = 0; bytes <= plot->most_y; bytes += step) {
        double y = place_y(plot, bytes);
        mp_buffer_printf(out, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT, WIDTH - RIGHT,
                         y, y);
        mp_buffer_printf(out, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text>\n", LEFT - MARKS_Y, y + 4,
                         mp_format_bytes(number, (uint64_t)bytes));
    }
    step = fmax(step_of(plot->most_x), 1);
    for (double value = 0; value <= plot->most_x; value += step)
        mp_buffer_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", place_x(plot, value),
                         HEIGHT - BOTTOM + 20, value);
    mp_buffer_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">batch</text>\n", (LEFT + WIDTH - RIGHT) / 2,
                     HEIGHT - 8);
}

/* A line across, with its name `lower` beside it. */
static void put_level(struct mp_buffer *out, const struct plot *plot, const char *class, const char *name,
                      uint64_t bytes, double lower)
{
    char number[MP_UNIT_TEXT];
    if ((double)bytes > plot->most_y) return;
    double y = place_y(plot, (double)bytes);
    mp_buffer_printf(out, "<line class=\"%s\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", class, LEFT,
                     WIDTH - RIGHT, y, y);
    mp_buffer_printf(out, "<text class=\"name\" x=\"%d\" y=\"%.1f\">%s %s</text>\n", WIDTH - RIGHT + MARKS_Y, y + lower,
                     name, mp_format_bytes(number, bytes));
}

static void put_curve(struct mp_buffer *out, const struct plot *plot)
{
    const struct mp_size_answer *answer = plot->answer;
    mp_buffer_append_text(out, "<path class=\"band\" d=\"M");
    for (size_t i = 0; i < answer->plot.count; i++)
        mp_buffer_printf(out, "%.1f %.1f ", place_x(plot, (double)answer->plot.at[i].at.first),
                         place_y(plot, (double)answer->plot.at[i].high));
    for (size_t i = answer->plot.count; i--;)
        mp_buffer_printf(out, "%.1f %.1f ", place_x(plot, (double)answer->plot.at[i].at.first),
                         place_y(plot, (double)answer->plot.at[i].low));
    mp_buffer_append_text(out, "Z\"/>\n<path class=\"likely\" d=\"M");
    for (size_t i = 0; i < answer->plot.count; i++)
        mp_buffer_printf(out, "%.1f %.1f ", place_x(plot, (double)answer->plot.at[i].at.first),
                         place_y(plot, (double)bytes_of(&answer->plot.at[i])));
    mp_buffer_append_text(out, "\"/>\n");
}

/* A dot whose tooltip explains it. */
static void put_dot(struct mp_buffer *out, const struct plot *plot, const char *class, const char *what, uint64_t first,
                    uint64_t bytes)
{
    char number[MP_UNIT_TEXT];
    mp_buffer_printf(out,
                     "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"><title>%s %llu: %s</title></circle>\n",
                     class, place_x(plot, (double)first), place_y(plot, (double)bytes), what, (unsigned long long)first,
                     mp_format_bytes(number, bytes));
}

static void put_largest(struct mp_buffer *out, const struct plot *plot, const struct mp_size_largest *largest)
{
    if (largest->endless || !largest->first) return;
    double x = place_x(plot, (double)largest->first);
    mp_buffer_printf(out, "<line class=\"largest\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", x, x, TOP,
                     HEIGHT - BOTTOM);
    mp_buffer_printf(out, "<text class=\"name\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%llu fits</text>\n", x,
                     TOP - 6, (unsigned long long)largest->first);
}

static void put_picture(struct mp_buffer *out, const struct mp_size_answer *answer)
{
    struct plot plot = measure(answer);
    const struct mp_size_largest *largest = &answer->largest.at[answer->largest.count - 1];
    mp_buffer_printf(out, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"Memory over batch\">\n", WIDTH, HEIGHT);
    put_axes(out, &plot);
    put_curve(out, &plot);
    double apart = place_y(&plot, (double)answer->limit) - place_y(&plot, (double)answer->capacity);
    put_level(out, &plot, "capacity", "capacity", answer->capacity, apart < LINE_Y ? -4 : 4);
    if (answer->margin) put_level(out, &plot, "limit", "limit", answer->limit, apart < LINE_Y ? 14 : 4);
    put_largest(out, &plot, largest);
    for (size_t i = 0; i < answer->needs.count; i++)
        if (answer->needs.at[i].at.second == largest->second && (double)answer->needs.at[i].at.first <= plot.most_x)
            put_dot(out, &plot, "at", "predicted at", answer->needs.at[i].at.first, bytes_of(&answer->needs.at[i]));
    for (size_t i = 0; i < answer->probes.count; i++)
        if (answer->probes.at[i].at.second == largest->second)
            put_dot(out, &plot, "probe", "recorded at", answer->probes.at[i].at.first,
                    bytes_probed(answer, &answer->probes.at[i]));
    mp_buffer_append_text(out, "</svg>\n");
}

void mp_size_page(struct mp_buffer *out, const struct mp_size_answer *answer, bool two)
{
    struct mp_buffer report = {0}, title = {0};
    struct mp_text text = {.out = &report};
    mp_size_text(&text, answer, two);
    mp_buffer_append(&report, "", 1);
    mp_buffer_append_text(&title, "memprof size");
    const struct mp_model *model = answer->model;
    for (size_t i = 0; model->start.command && model->start.command[i]; i++)
        mp_buffer_printf(&title, "%s%s", i ? " " : ": ", model->start.command[i]);
    mp_buffer_append(&title, "", 1);
    mp_html_start(out, (const char *)title.data);
    mp_buffer_append_text(out, "<h1>");
    mp_html_text(out, (const char *)title.data);
    mp_buffer_append_text(out, "</h1>\n");
    put_picture(out, answer);
    mp_buffer_append_text(out, "<pre>");
    /* Line by line, since the text of a page may have no control characters. */
    char *line = (char *)report.data;
    while (line && *line) {
        char *end = strchr(line, '\n');
        if (end) *end = '\0';
        mp_html_text(out, line);
        mp_buffer_append_text(out, "\n");
        line = end ? end + 1 : NULL;
    }
    mp_buffer_append_text(out, "</pre>\n");
    mp_html_end(out);
    mp_buffer_free(&report);
    mp_buffer_free(&title);
}
