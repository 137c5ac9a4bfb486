#include <math.h>
#include <string.h>

#include "base/units.h"
#include "output/report/html.h"
#include "output/report/plot.h"
#include "output/report/reports.h"

/* One SVG picture, drawn here, with the report below it: the page needs neither a script nor a network. */

#define MARKS_Y 6
#define LINE_Y  16
#define BATCHES 12 /* marks, at most */

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

static struct mp_plot measure(const struct mp_size_answer *answer)
{
    struct mp_plot plot = {.width = 960, .height = 440, .left = 90, .right = 150, .top = 20, .bottom = 50, .most_x = 1};
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

static void put_batches(struct mp_buffer *out, const struct mp_plot *plot)
{
    double step = fmax(mp_plot_step(plot->most_x, BATCHES), 1);
    for (double value = 0; value <= plot->most_x; value += step)
        mp_buffer_printf(out, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.0f</text>\n", mp_plot_x(plot, value),
                         plot->height - plot->bottom + 20, value);
    mp_buffer_printf(out, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">batch</text>\n",
                     (plot->left + plot->width - plot->right) / 2, plot->height - 8);
}

/* A line across, with its name `lower` beside it. */
static void put_level(struct mp_buffer *out, const struct mp_plot *plot, const char *class, const char *name,
                      uint64_t bytes, double lower)
{
    char number[MP_UNIT_TEXT];
    if ((double)bytes > plot->most_y) return;
    double y = mp_plot_y(plot, (double)bytes);
    mp_buffer_printf(out, "<line class=\"%s\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", class, plot->left,
                     plot->width - plot->right, y, y);
    mp_buffer_printf(out, "<text class=\"name\" x=\"%d\" y=\"%.1f\">%s %s</text>\n",
                     plot->width - plot->right + MARKS_Y, y + lower, name, mp_format_bytes(number, bytes));
}

static void put_curve(struct mp_buffer *out, const struct mp_plot *plot, const struct mp_size_answer *answer)
{
    mp_buffer_append_text(out, "<path class=\"band\" d=\"M");
    for (size_t i = 0; i < answer->plot.count; i++)
        mp_buffer_printf(out, "%.1f %.1f ", mp_plot_x(plot, (double)answer->plot.at[i].at.first),
                         mp_plot_y(plot, (double)answer->plot.at[i].high));
    for (size_t i = answer->plot.count; i--;)
        mp_buffer_printf(out, "%.1f %.1f ", mp_plot_x(plot, (double)answer->plot.at[i].at.first),
                         mp_plot_y(plot, (double)answer->plot.at[i].low));
    mp_buffer_append_text(out, "Z\"/>\n<path class=\"likely\" d=\"M");
    for (size_t i = 0; i < answer->plot.count; i++)
        mp_buffer_printf(out, "%.1f %.1f ", mp_plot_x(plot, (double)answer->plot.at[i].at.first),
                         mp_plot_y(plot, (double)bytes_of(&answer->plot.at[i])));
    mp_buffer_append_text(out, "\"/>\n");
}

/* A dot whose tooltip explains it. */
static void put_dot(struct mp_buffer *out, const struct mp_plot *plot, const char *class, const char *what,
                    uint64_t first, uint64_t bytes)
{
    char number[MP_UNIT_TEXT];
    mp_buffer_printf(out,
                     "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"><title>%s %llu: %s</title></circle>\n",
                     class, mp_plot_x(plot, (double)first), mp_plot_y(plot, (double)bytes), what,
                     (unsigned long long)first, mp_format_bytes(number, bytes));
}

static void put_largest(struct mp_buffer *out, const struct mp_plot *plot, const struct mp_size_largest *largest)
{
    if (largest->endless || !largest->first) return;
    double x = mp_plot_x(plot, (double)largest->first);
    mp_buffer_printf(out, "<line class=\"largest\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", x, x, plot->top,
                     plot->height - plot->bottom);
    mp_buffer_printf(out, "<text class=\"name\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%llu fits</text>\n", x,
                     plot->top - 6, (unsigned long long)largest->first);
}

static void put_picture(struct mp_buffer *out, const struct mp_size_answer *answer)
{
    struct mp_plot plot = measure(answer);
    const struct mp_size_largest *largest = &answer->largest.at[answer->largest.count - 1];
    mp_plot_start(out, &plot, "Memory over batch");
    mp_plot_sizes(out, &plot);
    put_batches(out, &plot);
    put_curve(out, &plot, answer);
    double apart = mp_plot_y(&plot, (double)answer->limit) - mp_plot_y(&plot, (double)answer->capacity);
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
    mp_plot_end(out);
}

void mp_size_page(struct mp_buffer *out, const struct mp_size_answer *answer, bool two)
{
    struct mp_buffer report = {0}, title = {0};
    struct mp_text text = {.out = &report};
    mp_size_text(&text, answer, two, NULL);
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
