#include "cli/top/top_frame.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/memory.h"
#include "base/units.h"
#include "base/words.h"
#include "output/report/sites.h"

#define CLOCK      8
#define BAR_LEAST  6
#define BAR_GOOD   12 /* a row says what is reserved only where so much is left for the bar */
#define LEAK       7  /* "  leak?" */
#define BAR_MOST   48
#define WIDE       64 /* columns from which the header names the program */
#define LABEL_MOST 28
#define CATEGORIES 16 /* lines from which there is a line for categories */

/* ---- which sites, and in which order ---------------------------------------------------------------------------- */

const struct mp_top_process *mp_top_chosen(const struct mp_top_view *view, const struct mp_top_state *state)
{
    const struct mp_top_process *best = NULL;
    for (size_t i = 0; i < state->processes.count; i++) {
        const struct mp_top_process *process = &state->processes.at[i];
        if (process->recording == view->chosen) return process;
        if (!best || mp_top_weight(process) > mp_top_weight(best)) best = process;
    }
    return best;
}

static const struct mp_site *site_at(const struct mp_top_blocks *blocks, uint32_t row)
{
    return &blocks->leaks.outstanding.at[blocks->sites[row].at];
}

/* The text of a site, which is the same in each picture of a process. */
static const char *text_of(struct mp_top_view *view, const struct mp_top_blocks *blocks, uint32_t row)
{
    const struct mp_site *site = site_at(blocks, row);
    bool fresh;
    uint64_t *at = mp_map_at(&view->text_of, ((uint64_t)site->track << 32 | site->stack) + 1, &fresh);
    if (fresh) {
        struct mp_buffer text = {0};
        mp_site_text(&text, blocks->model, site);
        mp_buffer_append_text(&text, "  ");
        mp_site_modules_text(&text, &blocks->leaks.outstanding, site);
        while (text.size && text.data[text.size - 1] == ' ')
            text.size--;
        mp_buffer_append(&text, "", 1);
        mp_vec_add(&view->texts, (char *)text.data);
        *at = view->texts.count;
    }
    return view->texts.at[*at - 1];
}

static void forget_texts(struct mp_top_view *view)
{
    for (size_t i = 0; i < view->texts.count; i++)
        free(view->texts.at[i]);
    view->texts.count = 0;
    mp_map_clear(&view->text_of);
}

static int by_growth(const void *left, const void *right, void *context)
{
    const struct mp_top_view *view = context;
    const struct mp_top_site *sites = view->blocks->sites;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    if (sites[a].leak != sites[b].leak) return sites[a].leak ? -1 : 1;
    if (sites[a].growth != sites[b].growth) return sites[a].growth > sites[b].growth ? -1 : 1;
    return a < b ? -1 : a > b;
}

static int by_blocks(const void *left, const void *right, void *context)
{
    const struct mp_top_view *view = context;
    uint32_t a = *(const uint32_t *)left, b = *(const uint32_t *)right;
    uint64_t of_a = site_at(view->blocks, a)->blocks, of_b = site_at(view->blocks, b)->blocks;
    if (of_a != of_b) return of_a > of_b ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void make_rows(struct mp_top_view *view, const struct mp_top_blocks *blocks)
{
    view->rows.count = 0;
    for (uint32_t i = 0; i < blocks->leaks.outstanding.count; i++)
        if (!*view->search || strcasestr(text_of(view, blocks, i), view->search)) mp_vec_add(&view->rows, i);
    if (view->sort != MP_TOP_BY_HELD && view->rows.count)
        qsort_r(view->rows.at, view->rows.count, sizeof *view->rows.at,
                view->sort == MP_TOP_BY_GROWTH ? by_growth : by_blocks, view);
    view->rows_sort = view->sort;
    memcpy(view->rows_search, view->search, sizeof view->search);
}

/* The row of the same site as before; the same row where it has gone. */
static size_t same_site(const struct mp_top_view *view, const struct mp_top_blocks *blocks, uint16_t track,
                        uint32_t stack)
{
    for (size_t i = 0; i < view->rows.count; i++) {
        const struct mp_site *site = site_at(blocks, view->rows.at[i]);
        if (site->stack == stack && site->track == track) return i;
    }
    return view->site < view->rows.count ? view->site : view->rows.count ? view->rows.count - 1 : 0;
}

void mp_top_view_follow(struct mp_top_view *view, const struct mp_top_state *state)
{
    const struct mp_top_process *chosen = mp_top_chosen(view, state);
    const struct mp_top_blocks *blocks = chosen && state->blocks_of == chosen->recording ? state->blocks : NULL;
    bool same = blocks && view->blocks && view->texts_of == state->blocks_of;
    if (chosen) view->chosen = chosen->recording;
    if (!blocks) {
        view->rows.count = 0;
        view->blocks = NULL;
        view->site = view->first_site = 0;
        return;
    }
    if (view->texts_of != state->blocks_of) forget_texts(view);
    view->texts_of = state->blocks_of;
    bool sorted_anew = view->sort != view->rows_sort || strcmp(view->search, view->rows_search) != 0;
    if (blocks == view->blocks && !sorted_anew) return;
    uint16_t track = 0;
    uint32_t stack = 0;
    bool had = same && view->site && view->site < view->rows.count && !sorted_anew;
    if (had) {
        const struct mp_site *site = site_at(view->blocks, view->rows.at[view->site]);
        track = site->track;
        stack = site->stack;
    }
    view->blocks = blocks;
    make_rows(view, blocks);
    view->site = had ? same_site(view, blocks, track, stack) : 0;
}

/* ---- parts of the picture --------------------------------------------------------------------------------------- */

static const char *unit_of(const char *text)
{
    const char *blank = strrchr(text, ' ');
    return blank ? blank + 1 : "";
}

/* "61.4 of 79.1 GiB": one unit where both have it. */
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

/* Columns up to which the shares so far reach: what is there takes one at least. */
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
    const struct mp_top_device *device; /* NULL: it has no memory yet */
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
            /* Beside GPUs what the tensors of the CPU take is of no interest. */
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

/* What stands behind a row's bar. */
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

/* What is left for the bar. */
static unsigned rest_of(const struct mp_top_canvas *canvas, unsigned fixed, const struct columns *columns)
{
    if (columns->reserved) fixed += columns->reserved + 2;
    if (columns->growth) fixed += columns->growth + 2;
    return canvas->width > fixed ? canvas->width - fixed : 0;
}

/* As wide as the rows that are shown need them; the bar gets the rest, and where that is too little, columns are left
 * out from the right. */
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
    canvas->chosen = chosen && view->in_processes && view->height;
    mp_top_put_in(canvas, chosen ? MP_TOP_BOLD : MP_TOP_PLAIN, rows->label, false, label);
    canvas->chosen = false;
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

/* How many lines the processes get, and the first of their rows, so that one of the chosen process is seen. */
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
    char what[256] = "", steps[96] = "", clock[16], number[MP_UNIT_TEXT], rate[32] = "";
    size_t count = state->processes.count;
    bool ranks = count;
    struct tm local;
    for (size_t i = 0; i < count; i++)
        ranks &= state->processes.at[i].rank && !state->processes.at[i].helper;
    if (count == 1)
        snprintf(what, sizeof what, "%s", state->processes.at[0].title);
    else if (rows->titles_differ)
        snprintf(what, sizeof what, "%zu processes", count);
    else
        snprintf(what, sizeof what, "%zu %s of %s", count, ranks ? "ranks" : "processes", state->processes.at[0].title);
    if (chosen && chosen->steps != MP_BYTES_UNKNOWN) {
        if (chosen->rate >= 0) snprintf(rate, sizeof rate, ", %.*f/s", chosen->rate < 10 ? 1 : 0, chosen->rate);
        snprintf(steps, sizeof steps, "   step %s%s", mp_format_count(number, chosen->steps), rate);
    }
    strftime(clock, sizeof clock, "%H:%M:%S", localtime_r(&view->now, &local));
    unsigned right = canvas->width > CLOCK ? canvas->width - CLOCK : 0, needed = mp_top_width(canvas, steps);
    mp_top_line(canvas);
    if (canvas->width >= WIDE) mp_top_put(canvas, MP_TOP_BOLD, "memprof top   ");
    unsigned room = right > canvas->column + needed + 2 ? right - canvas->column - needed - 2 : 8;
    unsigned width = mp_top_width(canvas, what);
    mp_top_put_in(canvas, MP_TOP_BOLD, width < room ? width : room, false, what);
    mp_top_put(canvas, MP_TOP_PLAIN, "%s", steps);
    if (view->paused) mp_top_put(canvas, MP_TOP_WARNING, "   paused");
    if (canvas->column + 2 > right) return;
    mp_top_fill_to(canvas, right);
    mp_top_put(canvas, MP_TOP_DIM, "%s", clock);
}

static void put_categories(const struct mp_top_blocks *blocks, struct mp_top_canvas *canvas)
{
    const struct mp_sites *categories = &blocks->categories;
    char number[MP_UNIT_TEXT], part[160];
    uint64_t other = 0;
    mp_top_line(canvas);
    for (size_t i = 0; i < categories->count; i++) {
        const struct mp_site *row = &categories->at[i];
        if (row->group == MP_NONE) {
            other += row->bytes;
            continue;
        }
        snprintf(part, sizeof part, "%s%s %s", canvas->column ? " | " : "",
                 mp_intern_get(&categories->groups, row->group, NULL), mp_format_bytes(number, row->bytes));
        if (row->bytes && canvas->column + mp_top_width(canvas, part) <= canvas->width)
            mp_top_put(canvas, MP_TOP_DIM, "%s", part);
    }
    if (!canvas->column || !other) return;
    snprintf(part, sizeof part, " | other %s", mp_format_bytes(number, other));
    if (canvas->column + mp_top_width(canvas, part) <= canvas->width) mp_top_put(canvas, MP_TOP_DIM, "%s", part);
}

static bool has_categories(const struct mp_top_blocks *blocks)
{
    for (size_t i = 0; blocks && i < blocks->categories.count; i++)
        if (blocks->categories.at[i].group != MP_NONE && blocks->categories.at[i].bytes) return true;
    return false;
}

static void put_heading(struct mp_top_view *view, const struct mp_top_process *chosen, size_t processes,
                        struct mp_top_canvas *canvas)
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
    if (*view->search || view->typing)
        snprintf(right, sizeof right, "/%s%s   %s", view->search, view->typing ? "_" : "",
                 mp_format_count(number, view->rows.count));
    else
        snprintf(right, sizeof right, "%s by %s", mp_format_count(number, view->rows.count), sorts[view->sort]);
    unsigned width = mp_top_width(canvas, right);
    if (canvas->column + 2 + width > canvas->width) return;
    mp_top_fill_to(canvas, canvas->width - width);
    mp_top_put(canvas, view->typing ? MP_TOP_BOLD : MP_TOP_DIM, "%s", right);
}

static void put_site(struct mp_top_view *view, const struct mp_top_blocks *blocks, size_t index,
                     struct mp_top_canvas *canvas)
{
    uint32_t row = view->rows.at[index];
    const struct mp_site *site = site_at(blocks, row);
    const struct mp_top_site *judged = &blocks->sites[row];
    char held[MP_UNIT_TEXT] = "?", growth[MP_UNIT_TEXT] = "";
    if (view->sort == MP_TOP_BY_BLOCKS)
        mp_format_count(held, site->blocks);
    else if (mp_site_bytes(site) != MP_BYTES_UNKNOWN)
        mp_format_bytes(held, site->bytes);
    if (blocks->growth_known || judged->leak) format_growth(growth, judged->growth);
    mp_top_line(canvas);
    canvas->chosen = index == view->site && !view->in_processes && view->height;
    mp_top_put_in(canvas, MP_TOP_PLAIN, 10, true, held);
    mp_top_put_in(canvas, MP_TOP_PLAIN, 13, true, growth);
    mp_top_put(canvas, MP_TOP_PLAIN, "  ");
    if (judged->leak) mp_top_put(canvas, MP_TOP_WARNING, "leak? ");
    mp_top_put(canvas, MP_TOP_PLAIN, "%s", text_of(view, blocks, row));
    mp_top_fill_to(canvas, canvas->chosen ? canvas->width : 0);
    canvas->chosen = false;
}

static void put_footer(const struct mp_top_view *view, bool several, struct mp_top_canvas *canvas)
{
    static const char *const keys[] = {"enter stack", "s sort", "/ search", "p pause", "w snapshot", "q quit"};
    mp_top_line(canvas);
    if (*view->message) {
        mp_top_put(canvas, MP_TOP_BOLD, "%s", view->message);
        return;
    }
    if (view->typing) {
        mp_top_put(canvas, MP_TOP_DIM, "type a part of a name; enter keeps it, esc drops it");
        return;
    }
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (canvas->column + 3 + strlen(keys[i]) <= canvas->width)
            mp_top_put(canvas, MP_TOP_DIM, "%s%s", i ? "   " : "", keys[i]);
    if (several && canvas->column + 14 <= canvas->width) mp_top_put(canvas, MP_TOP_DIM, "   tab process");
    if (canvas->column + 9 <= canvas->width) mp_top_put(canvas, MP_TOP_DIM, "   ? keys");
}

static const char *no_sites(const struct mp_top_view *view, const struct mp_top_state *state,
                            const struct mp_top_process *chosen)
{
    if (chosen && chosen->state != MP_TOP_RUNS) return "nothing is known of its blocks";
    if (*state->why && chosen && state->blocks_of == chosen->recording) return state->why;
    if (!view->blocks) return "asking for its live blocks ...";
    return *view->search ? "no site has that in its name" : "it holds nothing";
}

static void put_sites(struct mp_top_view *view, const struct mp_top_state *state, const struct mp_top_process *chosen,
                      size_t room, struct mp_top_canvas *canvas)
{
    view->page = room;
    if (!view->rows.count) {
        mp_top_line(canvas);
        mp_top_put(canvas, MP_TOP_DIM, "  %s", no_sites(view, state, chosen));
        return;
    }
    if (view->site >= view->rows.count) view->site = view->rows.count - 1;
    if (view->site < view->first_site) view->first_site = view->site;
    if (room && view->site >= view->first_site + room) view->first_site = view->site + 1 - room;
    if (view->first_site + room > view->rows.count)
        view->first_site = view->rows.count > room ? view->rows.count - room : 0;
    for (size_t i = view->first_site; i < view->rows.count && i < view->first_site + room; i++)
        put_site(view, view->blocks, i, canvas);
}

static void put_main(struct mp_top_view *view, const struct mp_top_state *state, struct mp_top_canvas *canvas)
{
    const struct mp_top_process *chosen = mp_top_chosen(view, state);
    struct rows rows;
    list_rows(state, canvas, &rows);
    size_t shown = window_of_rows(view, &rows);
    struct columns columns = lay_out(canvas, &rows, view->first_process, shown);
    put_header(view, state, &rows, chosen, canvas);
    for (size_t i = 0; i < shown; i++)
        put_row(view, canvas, &rows, &rows.at.at[view->first_process + i], &columns);
    if (shown < rows.at.count && view->height >= CATEGORIES) {
        mp_top_line(canvas);
        mp_top_put(canvas, MP_TOP_DIM, "rows %zu to %zu of %zu; tab and arrows choose", view->first_process + 1,
                   view->first_process + shown, rows.at.count);
    }
    if ((!view->height || view->height >= CATEGORIES) && has_categories(view->blocks))
        put_categories(view->blocks, canvas);
    else if (!view->height || view->height >= CATEGORIES)
        mp_top_line(canvas);
    put_heading(view, chosen, state->processes.count, canvas);
    size_t room = view->height
                      ? view->height - (canvas->lines.count < view->height ? canvas->lines.count + 1 : view->height)
                  : view->limit ? view->limit
                                : view->rows.count;
    put_sites(view, state, chosen, room, canvas);
    mp_vec_free(&rows.at);
}

/* ---- the others ------------------------------------------------------------------------------------------------- */

static void put_stack(struct mp_top_view *view, const struct mp_top_state *state, struct mp_top_canvas *canvas)
{
    const struct mp_top_blocks *blocks = view->blocks;
    char held[MP_UNIT_TEXT], growth[MP_UNIT_TEXT], count[MP_UNIT_TEXT], id[MP_TRACK_ID_MAX];
    if (!blocks || view->site >= view->rows.count) {
        mp_top_line(canvas);
        mp_top_put(canvas, MP_TOP_DIM, "%s", no_sites(view, state, mp_top_chosen(view, state)));
        return;
    }
    uint32_t row = view->rows.at[view->site];
    const struct mp_site *site = site_at(blocks, row);
    struct mp_stack_lines lines = {0};
    format_growth(growth, blocks->sites[row].growth);
    mp_top_line(canvas);
    mp_top_put(canvas, MP_TOP_BOLD, "%s in %s block%s on %s", mp_format_bytes(held, site->bytes),
               mp_format_count(count, site->blocks), site->blocks == 1 ? "" : "s",
               mp_track_id(blocks->model, site->track, id));
    if (blocks->growth_known) mp_top_put(canvas, MP_TOP_PLAIN, "   %s a step", growth);
    if (blocks->sites[row].leak) mp_top_put(canvas, MP_TOP_WARNING, "   leak?");
    mp_stack_resolve(blocks->model, site->stack, &lines);
    size_t room = view->height > 3 ? view->height - 3 : 1;
    const struct mp_stack_line *headline = mp_stack_headline(&lines);
    if (view->scroll == MP_TOP_AT_HEADLINE) view->scroll = headline ? (size_t)(headline - lines.at) : 0;
    if (view->scroll + room > lines.count) view->scroll = lines.count > room ? lines.count - room : 0;
    for (size_t i = view->scroll; i < lines.count && i < view->scroll + room; i++) {
        struct mp_buffer text = {0};
        mp_line_text(&text, &lines.at[i]);
        mp_top_line(canvas);
        mp_top_put(canvas, lines.at[i].user ? MP_TOP_BOLD : MP_TOP_PLAIN, "  %.*s", (int)text.size,
                   (const char *)text.data);
        mp_buffer_free(&text);
    }
    if (!lines.count) {
        mp_top_line(canvas);
        mp_top_put(canvas, MP_TOP_DIM, "  %s", mp_no_stack_text(site));
    }
    mp_stack_lines_free(&lines);
}

static void put_keys(struct mp_top_canvas *canvas)
{
    static const char *const keys[][2] = {
        {"up, down", "another site, or another process; page up, page down, home, end"},
        {"tab", "the cursor goes to the processes, and back to the sites"},
        {"enter", "the stack of the site; enter or esc goes back"},
        {"s", "sort sites by what they hold, by growth, by blocks"},
        {"/", "only sites that have a text in their name; esc shows all again"},
        {"p", "pause: the picture stays, the program goes on"},
        {"w", "write a snapshot of the chosen process into this folder"},
        {"q", "quit"},
    };
    mp_top_line(canvas);
    mp_top_put(canvas, MP_TOP_BOLD, "memprof top: keys");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        mp_top_line(canvas);
        mp_top_put_in(canvas, MP_TOP_BOLD, 10, false, keys[i][0]);
        mp_top_put(canvas, MP_TOP_PLAIN, "%s", keys[i][1]);
    }
    mp_top_line(canvas);
    mp_top_put(canvas, MP_TOP_DIM, "bars: %s allocated, %s reserved, %s others, %s free", canvas->utf8 ? "█" : "#",
               canvas->utf8 ? "▓" : "=", canvas->utf8 ? "▒" : "-", canvas->utf8 ? "░" : ".");
}

void mp_top_frame_draw(struct mp_top_view *view, const struct mp_top_state *state, struct mp_top_canvas *canvas)
{
    mp_top_canvas_clear(canvas, view->width, view->utf8);
    if (view->screen == MP_TOP_KEYS)
        put_keys(canvas);
    else if (view->screen == MP_TOP_STACK)
        put_stack(view, state, canvas);
    else
        put_main(view, state, canvas);
    if (!view->height) return;
    while (canvas->lines.count + 1 < view->height)
        mp_top_line(canvas);
    put_footer(view, state->processes.count > 1, canvas);
}

void mp_top_view_free(struct mp_top_view *view)
{
    forget_texts(view);
    mp_vec_free(&view->texts);
    mp_map_free(&view->text_of);
    mp_vec_free(&view->rows);
}
