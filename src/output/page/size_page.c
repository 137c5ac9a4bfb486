#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/units.h"
#include "output/form/plot.h"
#include "output/form/text.h"
#include "output/page/size_page.h"
#include "output/report/advise.h"
#include "output/report/coverage.h"
#include "output/report/size.h"
#include "output/report/view.h"

/* ---- the page: one SVG picture, and tables below it, without script or network ---- */

#define GROWING  10 /* most sites */
#define LEGEND_Y 14
#define MARKS_Y  6
#define LINE_Y   16
#define BATCHES  12 /* most marks */

static uint64_t bytes_probed(const struct mp_size_answer *answer, const struct mp_size_probed *probed)
{
    if (answer->binds[0] == 'd' && probed->device != MP_BYTES_UNKNOWN) return probed->device;
    return answer->binds[0] != 'a' && probed->reserved != MP_BYTES_UNKNOWN ? probed->reserved : probed->allocated;
}

static struct mp_plot measure(const struct mp_size_answer *answer)
{
    struct mp_plot plot = {.width = 960, .height = 464, .left = 90, .right = 150, .top = 44, .bottom = 50, .most_x = 1};
    uint64_t top = 0;
    for (size_t i = 0; i < answer->plot.count; i++) {
        if (answer->plot.at[i].high > top) top = answer->plot.at[i].high;
        plot.most_x = fmax(plot.most_x, (double)answer->plot.at[i].batch);
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

/* Draws a line across, with its name at the end, `lower` units below the line. */
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
        mp_buffer_printf(out, "%.1f %.1f ", mp_plot_x(plot, (double)answer->plot.at[i].batch),
                         mp_plot_y(plot, (double)answer->plot.at[i].high));
    for (size_t i = answer->plot.count; i--;)
        mp_buffer_printf(out, "%.1f %.1f ", mp_plot_x(plot, (double)answer->plot.at[i].batch),
                         mp_plot_y(plot, (double)answer->plot.at[i].low));
    mp_buffer_append_text(out, "Z\"/>\n<path class=\"likely\" d=\"M");
    for (size_t i = 0; i < answer->plot.count; i++)
        mp_buffer_printf(out, "%.1f %.1f ", mp_plot_x(plot, (double)answer->plot.at[i].batch),
                         mp_plot_y(plot, (double)mp_size_need_bytes(&answer->plot.at[i])));
    mp_buffer_append_text(out, "\"/>\n");
}

/* A dot whose tooltip explains it. */
static void put_dot(struct mp_buffer *out, const struct mp_plot *plot, const char *class, const char *label,
                    uint64_t first, uint64_t bytes)
{
    char number[MP_UNIT_TEXT];
    mp_buffer_printf(out,
                     "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\"><title>%s %llu: %s</title></circle>\n",
                     class, mp_plot_x(plot, (double)first), mp_plot_y(plot, (double)bytes), label,
                     (unsigned long long)first, mp_format_bytes(number, bytes));
}

/* Draws a vertical line with its name. */
static void put_largest(struct mp_buffer *out, const struct mp_plot *plot, uint64_t batch, const char *name)
{
    if (!batch) return;
    double x = mp_plot_x(plot, (double)batch);
    mp_buffer_printf(out, "<line class=\"largest\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", x, x, plot->top,
                     plot->height - plot->bottom);
    mp_buffer_printf(out, "<text class=\"name\" x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">", x, plot->top - 6);
    mp_buffer_printf(out, name, (unsigned long long)batch);
    mp_buffer_append_text(out, "</text>\n");
}

/* Writes the legend's name of a sign at *x, and moves *x behind the name. */
static void put_name(struct mp_buffer *out, int *x, int sign, const char *name)
{
    mp_buffer_printf(out, "<text x=\"%d\" y=\"%d\">%s</text>\n", *x + sign + 7, LEGEND_Y + 4, name);
    *x += sign + 35 + 7 * (int)strlen(name);
}

static void put_legend(struct mp_buffer *out, const struct mp_plot *plot, const struct mp_size_answer *answer)
{
    char name[64];
    int x = plot->left;
    snprintf(name, sizeof name, "%s memory, predicted", answer->binds);
    mp_buffer_printf(out, "<line class=\"likely\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>", x, x + 24, LEGEND_Y,
                     LEGEND_Y);
    put_name(out, &x, 24, name);
    if (mp_size_has_bounds(answer)) {
        mp_buffer_printf(out, "<rect class=\"band\" x=\"%d\" y=\"%d\" width=\"24\" height=\"12\"/>", x, LEGEND_Y - 6);
        put_name(out, &x, 24, "at least to at most");
    }
    mp_buffer_printf(out, "<circle class=\"probe\" cx=\"%d\" cy=\"%d\" r=\"4.5\"/>", x + 5, LEGEND_Y);
    put_name(out, &x, 10, "probe, recorded");
    mp_buffer_printf(out, "<circle class=\"at\" cx=\"%d\" cy=\"%d\" r=\"4.5\"/>", x + 5, LEGEND_Y);
    put_name(out, &x, 10, "in the table below");
}

static void put_picture(struct mp_buffer *out, const struct mp_size_answer *answer)
{
    struct mp_plot plot = measure(answer);
    mp_plot_start(out, &plot, "Memory over batch");
    mp_plot_sizes(out, &plot);
    put_legend(out, &plot, answer);
    put_batches(out, &plot);
    put_curve(out, &plot, answer);
    double apart = mp_plot_y(&plot, (double)answer->limit) - mp_plot_y(&plot, (double)answer->capacity);
    put_level(out, &plot, "capacity", "capacity", answer->capacity, apart < LINE_Y ? -4 : 4);
    if (answer->margin) put_level(out, &plot, "limit", "limit", answer->limit, apart < LINE_Y ? 14 : 4);
    if (!answer->endless) put_largest(out, &plot, answer->largest, "%llu fits");
    if (answer->about != answer->largest && answer->about != UINT64_MAX)
        put_largest(out, &plot, answer->about, "about %llu");
    for (size_t i = 0; i < answer->needs.count; i++)
        if ((double)answer->needs.at[i].batch <= plot.most_x)
            put_dot(out, &plot, "at", "predicted at", answer->needs.at[i].batch,
                    mp_size_need_bytes(&answer->needs.at[i]));
    for (size_t i = 0; i < answer->probes.count; i++)
        put_dot(out, &plot, "probe", "recorded at", answer->probes.at[i].batch,
                bytes_probed(answer, &answer->probes.at[i]));
    mp_plot_end(out);
}

void mp_size_page(struct mp_buffer *out, const struct mp_size_answer *answer, const struct mp_advise *advise)
{
    struct mp_buffer title = {0};
    struct mp_document document;
    const struct mp_rows probes = mp_size_probes(answer), needs = mp_size_needs(answer);
    mp_buffer_append_text(&title, "memprof size");
    const struct mp_model *model = answer->model;
    if (model->start.command && *model->start.command) mp_buffer_append_text(&title, ": ");
    mp_model_command(model, &title);
    mp_document_start(&document, out, MP_HTML, mp_buffer_text(&title));
    mp_size_answer_text(&document.text, answer);
    mp_document_lines(&document, &document.lines);
    put_picture(out, answer);
    mp_document_heading(&document, "What a batch needs");
    mp_rows_text(&document.text, &needs); /* bars show how much of the limit is needed */
    mp_size_grounds_text(&document.text, answer);
    mp_size_notes_text(&document.text, answer);
    mp_size_growth_text(&document.text, answer, GROWING);
    mp_document_heading(&document, "Probes");
    mp_rows_text(&document.text, &probes);
    if (advise) mp_size_changes_text(&document.text, answer, advise);
    mp_coverage_end(&document.text, model);
    mp_document_end(&document);
    mp_buffer_free(&title);
}
