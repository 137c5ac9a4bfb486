#include "cli/top/top_frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "base/words.h"
#include "output/report/sites.h"

#define CLOCK      8
#define BAR_LEAST  6
#define BAR_GOOD   12 /* reserved bytes are shown only if this many columns are left for the bar */
#define LEAK       7  /* "  leak?" */
#define BAR_MOST   48
#define WIDE       64 /* least width at which the header has the program's name */
#define LABEL_MOST 28
#define CATEGORIES 16 /* least height at which there is a line for categories */

/* ---- the sites, and their order ---------------------------------------------------------------------------- */

const struct mp_top_process *mp_top_chosen(const struct mp_top_view *view, const struct mp_top_state *state)
{
    const struct mp_top_process *best = NULL;
    mp_vec_each (const struct mp_top_process, process, &state->processes) {
        if (process->recording == view->chosen) return process;
        if (!best || mp_top_weight(process) > mp_top_weight(best)) best = process;
    }
    return best;
}

static const struct mp_site *site_at(const struct mp_top_blocks *blocks, uint32_t row)
{
    return &blocks->leaks.outstanding.at[blocks->sites[row].at];
}

/* The chosen process's sites in the order of the view. */
struct order {
    struct mp_top_blocks *blocks;
    MP_VEC(uint32_t) at;
};

static int by_growth(const void *left, const void *right, void *context)
{
    const struct mp_top_site *sites = ((const struct mp_top_blocks *)context)->sites;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (sites[a].leak != sites[b].leak) return sites[a].leak ? -1 : 1;
    if (sites[a].growth != sites[b].growth) return sites[a].growth > sites[b].growth ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int by_blocks(const void *left, const void *right, void *context)
{
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    uint64_t of_a = site_at(context, a)->blocks, of_b = site_at(context, b)->blocks;
    if (of_a != of_b) return of_a > of_b ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Sorts the sites of the chosen process. order->blocks is NULL if they are not known yet. The caller frees
 * order->at. */
static void make_order(const struct mp_top_view *view, const struct mp_top_state *state,
                       const struct mp_top_process *chosen, struct order *order)
{
    *order = (struct order){.blocks = chosen && state->blocks_of == chosen->recording ? state->blocks : NULL};
    for (uint32_t i = 0; order->blocks && i < order->blocks->leaks.outstanding.count; i++)
        mp_vec_add(&order->at, i);
    if (view->sort != MP_TOP_BY_HELD && order->at.count)
        qsort_r(order->at.at, order->at.count, sizeof *order->at.at,
                view->sort == MP_TOP_BY_GROWTH ? by_growth : by_blocks, order->blocks);
}

/* ---- parts of the picture --------------------------------------------------------------------------------------- */

static const char *unit_of(const char *text)
{
    const char *blank = strrchr(text, ' ');
    return blank ? blank + 1 : "";
}

/* "61.4 of 79.1 GiB": the unit is written once if both have the same. */
static void format_part(char *to, size_t room, uint64_t part, uint64_t whole)
{
    char first[MP_UNIT_TEXT], second[MP_UNIT_TEXT];
    mp_format_bytes(first, part);
    if (whole == MP_BYTES_UNKNOWN) {
        snprintf(to, room, "%s", first);
        return;
    }
    mp_format_bytes(second, whole);
    bool same = !strcmp(unit_of(first), unit_of(second));
    snprintf(to, room, "%.*s of %s", (int)(strlen(first) - (same ? strlen(unit_of(first)) + 1 : 0)), first, second);
}

static void format_growth(char to[MP_UNIT_TEXT], double bytes)
{
    if (bytes < 0.5 && bytes > -0.5)
        snprintf(to, MP_UNIT_TEXT, "0");
    else
        mp_format_signed_bytes(to, (int64_t)bytes);
}

struct part {
    double share;
    enum mp_top_style style;
    const char *utf8, *plain;
};

/* The end column of a bar's part. `share` includes all parts so far, and `before` is the previous part's end. A part
 * that is not empty gets at least one column. */
static unsigned columns_of(double share, unsigned width, unsigned before)
{
    unsigned columns = share >= 1 ? width : (unsigned)(share * width + 0.5);
    if (share > 0 && columns <= before && before < width && share * width > before + 0.05) columns = before + 1;
    return columns < before ? before : columns;
}

static void put_bar(struct mp_top_canvas *canvas, const struct mp_top_device *device, unsigned width)
{
    uint64_t reserved = device->reserved == MP_BYTES_UNKNOWN ? 0 : device->reserved, held = device->allocated;
    if (device->type == MP_DEVICE_CPU) reserved = device->process == MP_BYTES_UNKNOWN ? 0 : device->process;
    uint64_t own = reserved > held ? reserved : held, used = device->used == MP_BYTES_UNKNOWN ? own : device->used;
    uint64_t whole = device->total != MP_BYTES_UNKNOWN && device->total ? device->total : device->peak;
    if (used < own) used = own;
    if (whole < used) whole = used;
    const struct part parts[] = {{(double)held, MP_TOP_ALLOCATED, "█", "#"},
                                 {(double)own, MP_TOP_RESERVED, "▓", "="},
                                 {(double)used, MP_TOP_OTHERS, "▒", "-"},
                                 {(double)whole, MP_TOP_FREE, "░", "."}};
    unsigned done = 0;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        bool last = i + 1 == sizeof parts / sizeof *parts;
        unsigned end = last ? width : columns_of(whole ? parts[i].share / (double)whole : 0, width, done);
        bool any = last || parts[i].share > (i ? parts[i - 1].share : 0);
        if (any && end > done)
            mp_top_repeat(canvas, parts[i].style, canvas->utf8 ? parts[i].utf8 : parts[i].plain, end - done);
        if (any && end > done) done = end;
    }
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

struct row {
    const struct mp_top_process *process;
    const struct mp_top_device *device; /* NULL: the process has no memory yet */
};

struct rows {
    MP_VEC(struct row) at;
    unsigned label; /* columns */
    bool titles_differ;
};

static void label_of(const struct rows *rows, const struct row *row, char *to, size_t room)
{
    const struct mp_top_process *process = row->process;
    const char *device = row->device ? row->device->label : "-";
    char who[200];
    if (process->rank && !process->helper)
        snprintf(who, sizeof who, "rank %s", process->rank);
    else if (process->role)
        snprintf(who, sizeof who, "%d %s", (int)process->pid, process->role);
    else
        snprintf(who, sizeof who, "%d%s%s", (int)process->pid, rows->titles_differ ? " " : "",
                 rows->titles_differ ? process->title : "");
    snprintf(to, room, "%s %s", device, who);
}

static void list_rows(const struct mp_top_state *state, const struct mp_top_canvas *canvas, struct rows *rows)
{
    *rows = (struct rows){0};
    for (size_t i = 0; i < state->processes.count; i++) {
        const struct mp_top_process *process = &state->processes.at[i];
        size_t before = rows->at.count;
        rows->titles_differ |= strcmp(process->title, state->processes.at[0].title) != 0;
        for (size_t k = 0; k < process->devices.count; k++) {
            struct row row = {process, &process->devices.at[k]};
            /* A process with a GPU gets no row for the CPU. */
            if (row.device->type == MP_DEVICE_CPU && rows->at.count > before) continue;
            mp_vec_add(&rows->at, row);
        }
        struct row empty = {process, NULL};
        if (rows->at.count == before) mp_vec_add(&rows->at, empty);
    }
    for (size_t i = 0; i < rows->at.count; i++) {
        char label[256];
        label_of(rows, &rows->at.at[i], label, sizeof label);
        unsigned width = mp_top_width(canvas, label);
        if (width > rows->label) rows->label = width;
    }
    unsigned most = canvas->width / 3 < LABEL_MOST ? canvas->width / 3 : LABEL_MOST;
    if (rows->label > most) rows->label = most;
}

static const char *state_of(const struct mp_top_process *process)
{
    switch (process->state) {
    case MP_TOP_RUNS:
        return process->failed ? "not recorded any further" : process->paused ? "paused" : NULL;
    case MP_TOP_SILENT:
        return "no answer";
    case MP_TOP_ENDED:
        return "ended";
    case MP_TOP_ORPHAN:
        return "its memprof is gone";
    }
    return NULL;
}

/* The words after a row's bar. */
struct behind {
    char amount[80], reserved[48], growth[64];
    bool leak;
};

static void describe(const struct row *row, struct behind *behind)
{
    char number[MP_UNIT_TEXT];
    *behind = (struct behind){{0}, {0}, {0}, false};
    if (!row->device) return;
    const struct mp_top_device *device = row->device;
    const struct mp_top_growth *growth = mp_top_growth_of(row->process, device->label);
    bool cpu = device->type == MP_DEVICE_CPU;
    uint64_t besides = cpu ? device->process : device->reserved;
    format_part(behind->amount, sizeof behind->amount, device->allocated, device->total);
    if (besides != MP_BYTES_UNKNOWN) {
        mp_format_bytes(number, besides);
        bool same = !strcmp(unit_of(number), unit_of(behind->amount));
        snprintf(behind->reserved, sizeof behind->reserved, "%s %.*s", cpu ? "resident" : "reserved",
                 (int)(strlen(number) - (same ? strlen(unit_of(number)) + 1 : 0)), number);
    }
    if (growth && growth->known) {
        format_growth(number, growth->bytes_per_step);
        snprintf(behind->growth, sizeof behind->growth, "%s/step", number);
    }
    behind->leak = growth && growth->leak;
}

static unsigned longest(const struct mp_top_canvas *canvas, unsigned so_far, const char *text)
{
    unsigned width = mp_top_width(canvas, text);
    return width > so_far ? width : so_far;
}

struct columns {
    unsigned bar, amount, reserved, growth;
};

/* The columns that are left for the bar. */
static unsigned rest_of(const struct mp_top_canvas *canvas, unsigned fixed, const struct columns *columns)
{
    if (columns->reserved) fixed += columns->reserved + 2;
    if (columns->growth) fixed += columns->growth + 2;
    return canvas->width > fixed ? canvas->width - fixed : 0;
}

/* Makes columns as wide as the shown rows need. The bar gets the remaining columns. If they are too few, columns of the
 * table are left out from the right. */
static struct columns lay_out(const struct mp_top_canvas *canvas, const struct rows *rows, size_t first, size_t count)
{
    struct columns columns = {0};
    for (size_t i = first; i < first + count && i < rows->at.count; i++) {
        struct behind behind;
        describe(&rows->at.at[i], &behind);
        columns.amount = longest(canvas, columns.amount, behind.amount);
        columns.reserved = longest(canvas, columns.reserved, behind.reserved);
        columns.growth = longest(canvas, columns.growth, behind.growth);
    }
    unsigned fixed = rows->label + 2 + 1 + columns.amount + LEAK;
    if (rest_of(canvas, fixed, &columns) < BAR_GOOD) columns.reserved = 0;
    if (rest_of(canvas, fixed, &columns) < BAR_LEAST) columns.growth = 0;
    unsigned rest = rest_of(canvas, fixed, &columns);
    columns.bar = rest < BAR_LEAST ? 0 : rest > BAR_MOST ? BAR_MOST : rest;
    return columns;
}

static void put_row(struct mp_top_view *view, struct mp_top_canvas *canvas, const struct rows *rows,
                    const struct row *row, const struct columns *columns)
{
    char label[256];
    struct behind behind;
    const char *state = state_of(row->process);
    bool chosen = row->process->recording == view->chosen;
    label_of(rows, row, label, sizeof label);
    describe(row, &behind);
    mp_top_line(canvas);
    mp_top_put_in(canvas, chosen ? MP_TOP_BOLD : MP_TOP_PLAIN, rows->label, false, label);
    mp_top_put(canvas, MP_TOP_PLAIN, "  ");
    if (!row->device) {
        mp_top_put(canvas, MP_TOP_DIM, "%s", state ? state : "holds nothing yet");
        return;
    }
    if (columns->bar) {
        put_bar(canvas, row->device, columns->bar);
        mp_top_put(canvas, MP_TOP_PLAIN, " ");
    }
    enum mp_top_style style = row->process->state == MP_TOP_RUNS ? MP_TOP_PLAIN : MP_TOP_DIM;
    mp_top_put_in(canvas, style, columns->amount, true, behind.amount);
    if (state) {
        mp_top_put(canvas, row->process->state == MP_TOP_RUNS ? MP_TOP_DIM : MP_TOP_WARNING, "  %s", state);
        return;
    }
    if (columns->reserved) {
        mp_top_put(canvas, MP_TOP_PLAIN, "  ");
        mp_top_put_in(canvas, MP_TOP_DIM, columns->reserved, false, behind.reserved);
    }
    if (columns->growth) {
        mp_top_put(canvas, MP_TOP_PLAIN, "  ");
        mp_top_put_in(canvas, MP_TOP_PLAIN, columns->growth, true, behind.growth);
    }
    if (behind.leak) mp_top_put(canvas, MP_TOP_WARNING, "  leak?");
}

/* Returns the number of lines for processes, and sets the first shown row so that a row of the chosen process is
 * visible. */
static size_t window_of_rows(struct mp_top_view *view, const struct rows *rows)
{
    size_t chosen = 0, room = rows->at.count;
    if (view->height) {
        size_t most = view->height > 9 ? (view->height - 5) / 3 : 2;
        if (room > most) room = most;
    }
    while (chosen < rows->at.count && rows->at.at[chosen].process->recording != view->chosen)
        chosen++;
    if (chosen == rows->at.count) chosen = 0;
    if (view->first_process > chosen) view->first_process = chosen;
    if (view->first_process + room <= chosen) view->first_process = chosen + 1 - room;
    if (view->first_process + room > rows->at.count) view->first_process = rows->at.count - room;
    return room;
}

/* ---- the main picture ------------------------------------------------------------------------------------------- */

static void put_header(struct mp_top_view *view, const struct mp_top_state *state, const struct rows *rows,
                       const struct mp_top_process *chosen, struct mp_top_canvas *canvas)
{
    char shown[256] = "", steps[96] = "", clock[16], number[MP_UNIT_TEXT], rate[32] = "";
    size_t count = state->processes.count;
    bool ranks = count;
    struct tm local;
    for (size_t i = 0; i < count; i++)
        ranks &= state->processes.at[i].rank && !state->processes.at[i].helper;
    if (count == 1)
        snprintf(shown, sizeof shown, "%s", state->processes.at[0].title);
    else if (rows->titles_differ)
        snprintf(shown, sizeof shown, "%zu processes", count);
    else
        snprintf(shown, sizeof shown, "%zu %s of %s", count, ranks ? "ranks" : "processes",
                 state->processes.at[0].title);
    if (chosen && chosen->steps != MP_BYTES_UNKNOWN) {
        if (chosen->rate >= 0) snprintf(rate, sizeof rate, ", %.*f/s", chosen->rate < 10 ? 1 : 0, chosen->rate);
        snprintf(steps, sizeof steps, "   step %s%s", mp_format_count(number, chosen->steps), rate);
    }
    strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&view->now, &local));
    unsigned right = canvas->width > CLOCK ? canvas->width - CLOCK : 0, needed = mp_top_width(canvas, steps);
    mp_top_line(canvas);
    if (canvas->width >= WIDE) mp_top_put(canvas, MP_TOP_BOLD, "memprof top   ");
    unsigned room = right > canvas->column + needed + 2 ? right - canvas->column - needed - 2 : 8;
    unsigned width = mp_top_width(canvas, shown);
    mp_top_put_in(canvas, MP_TOP_BOLD, width < room ? width : room, false, shown);
    mp_top_put(canvas, MP_TOP_PLAIN, "%s", steps);
    if (view->paused) mp_top_put(canvas, MP_TOP_WARNING, "   paused");
    if (canvas->column + 2 > right) return;
    mp_top_fill_to(canvas, right);
    mp_top_put(canvas, MP_TOP_DIM, "%s", clock);
}

/* Writes a line with the blocks' categories; an empty line if none are known. */
static void put_categories(const struct mp_top_blocks *blocks, struct mp_top_canvas *canvas)
{
    const struct mp_sites *categories = blocks ? &blocks->categories : NULL;
    char number[MP_UNIT_TEXT], part[160];
    uint64_t other = 0;
    mp_top_line(canvas);
    for (size_t i = 0; categories && i <= categories->count; i++) {
        const struct mp_site *row = i < categories->count ? &categories->at[i] : NULL;
        bool named = row && row->group != MP_NONE;
        uint64_t bytes = row ? row->bytes : other;
        if (row && !named) other += bytes;
        if (!bytes || (row ? !named : !canvas->column)) continue;
        snprintf(part, sizeof part, "%s%s %s", canvas->column ? " | " : "",
                 named ? mp_intern_get(&categories->groups, row->group, NULL) : "other",
                 mp_format_bytes(number, bytes));
        if (canvas->column + mp_top_width(canvas, part) <= canvas->width) mp_top_put(canvas, MP_TOP_DIM, "%s", part);
    }
}

static void put_heading(const struct mp_top_view *view, const struct mp_top_process *chosen, size_t processes,
                        size_t sites, struct mp_top_canvas *canvas)
{
    static const char *const sorts[MP_TOP_SORTS] = {"held", "growth", "blocks"};
    char who[64] = "", right[160] = "", number[MP_UNIT_TEXT];
    if (chosen && chosen->rank && !chosen->helper)
        snprintf(who, sizeof who, " (rank %s)", chosen->rank);
    else if (chosen && processes > 1)
        snprintf(who, sizeof who, " (%d)", (int)chosen->pid);
    mp_top_line(canvas);
    mp_top_put_in(canvas, MP_TOP_DIM, 10, true, view->sort == MP_TOP_BY_BLOCKS ? "blocks" : "held");
    mp_top_put_in(canvas, MP_TOP_DIM, 13, true, "growth/step");
    mp_top_put(canvas, MP_TOP_DIM, "  site%s", who);
    if (!view->height) return;
    snprintf(right, sizeof right, "%s by %s", mp_format_count(number, sites), sorts[view->sort]);
    unsigned width = mp_top_width(canvas, right);
    if (canvas->column + 2 + width > canvas->width) return;
    mp_top_fill_to(canvas, canvas->width - width);
    mp_top_put(canvas, MP_TOP_DIM, "%s", right);
}

static void put_site(const struct mp_top_view *view, const struct order *order, size_t index,
                     struct mp_top_canvas *canvas)
{
    const struct mp_top_blocks *blocks = order->blocks;
    const struct mp_site *site = site_at(blocks, order->at.at[index]);
    const struct mp_top_site *judged = &blocks->sites[order->at.at[index]];
    char held[MP_UNIT_TEXT] = "?", growth[MP_UNIT_TEXT] = "";
    struct mp_buffer text = {0};
    if (view->sort == MP_TOP_BY_BLOCKS)
        mp_format_count(held, site->blocks);
    else if (mp_site_bytes(site) != MP_BYTES_UNKNOWN)
        mp_format_bytes(held, site->bytes);
    if (blocks->growth_known || judged->leak) format_growth(growth, judged->growth);
    mp_site_text(&text, blocks->model, site);
    mp_buffer_append_text(&text, "  ");
    mp_site_modules_text(&text, &blocks->leaks.outstanding, site);
    mp_top_line(canvas);
    mp_top_put_in(canvas, MP_TOP_PLAIN, 10, true, held);
    mp_top_put_in(canvas, MP_TOP_PLAIN, 13, true, growth);
    mp_top_put(canvas, MP_TOP_PLAIN, "  ");
    if (judged->leak) mp_top_put(canvas, MP_TOP_WARNING, "leak? ");
    mp_top_put(canvas, MP_TOP_PLAIN, "%s", mp_buffer_text(&text));
    mp_buffer_free(&text);
}

static const char *no_sites(const struct mp_top_state *state, const struct mp_top_process *chosen,
                            const struct mp_top_blocks *blocks)
{
    if (chosen && chosen->state != MP_TOP_RUNS) return "its blocks are not known";
    if (*state->why && chosen && state->blocks_of == chosen->recording) return state->why;
    return blocks ? "it holds nothing" : "asking for its live blocks ...";
}

/* The number of lines left for sites, above the line of keys. */
static size_t room_for_sites(const struct mp_top_view *view, const struct mp_top_canvas *canvas)
{
    if (!view->height) return view->limit ? view->limit : SIZE_MAX;
    return canvas->lines.count + 1 < view->height ? view->height - canvas->lines.count - 1 : 0;
}

static void put_keys(const struct mp_top_view *view, bool several, struct mp_top_canvas *canvas)
{
    while (canvas->lines.count + 1 < view->height)
        mp_top_line(canvas);
    mp_top_line(canvas);
    mp_top_put(canvas, MP_TOP_DIM, "s sort   p pause   q quit%s", several ? "   up, down process" : "");
}

void mp_top_frame_draw(struct mp_top_view *view, const struct mp_top_state *state, struct mp_top_canvas *canvas)
{
    const struct mp_top_process *chosen = mp_top_chosen(view, state);
    bool high = !view->height || view->height >= CATEGORIES;
    struct order order;
    struct rows rows;
    mp_top_canvas_clear(canvas, view->width, view->utf8);
    make_order(view, state, chosen, &order);
    list_rows(state, canvas, &rows);
    size_t shown = window_of_rows(view, &rows);
    struct columns columns = lay_out(canvas, &rows, view->first_process, shown);
    put_header(view, state, &rows, chosen, canvas);
    for (size_t i = 0; i < shown; i++)
        put_row(view, canvas, &rows, &rows.at.at[view->first_process + i], &columns);
    if (shown < rows.at.count && high) {
        mp_top_line(canvas);
        mp_top_put(canvas, MP_TOP_DIM, "rows %zu to %zu of %zu", view->first_process + 1, view->first_process + shown,
                   rows.at.count);
    }
    if (high) put_categories(order.blocks, canvas);
    put_heading(view, chosen, state->processes.count, order.at.count, canvas);
    if (!order.at.count) {
        mp_top_line(canvas);
        mp_top_put(canvas, MP_TOP_DIM, "  %s", no_sites(state, chosen, order.blocks));
    }
    size_t room = room_for_sites(view, canvas);
    for (size_t i = 0; i < order.at.count && i < room; i++)
        put_site(view, &order, i, canvas);
    if (view->height) put_keys(view, state->processes.count > 1, canvas);
    mp_vec_free(&order.at);
    mp_vec_free(&rows.at);
}
