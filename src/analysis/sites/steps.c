#include "analysis/sites/steps.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/sites/level.h"
#include "base/map.h"
#include "base/order.h"
#include "base/search.h"
#include "model/steps_infer.h"

/*
 * One pass over the events serves all steps and regions, however they nest or cross on several threads. Spans begin and
 * end only at noted events, so a stretch between two of these is the unit: only its last and its highest level count. A
 * region's peak is the maximum over the stretches since its begin. `maxima` has, oldest first, each maximum that no
 * later one reaches. So the maximum since a moment is the first entry at or after that moment. A free counts in every
 * open region in which its block was born. It is booked only once, on the youngest of these regions. When a region
 * closes, it sums its own bookings and those of younger open regions, and passes its own on to the next older region.
 */
struct span {
    uint32_t name, first, end; /* string id; events [first, end) */
};

struct open_span {
    uint32_t span;
    uint64_t allocated_before, freed_inside;
};

struct maximum {
    uint32_t moment;
    uint64_t bytes;
};

struct peaks {
    uint64_t *at;
    size_t count, room;
};

struct sweep {
    const struct mp_model *model;
    struct mp_step_report *report;
    struct mp_level level;
    MP_VEC(struct span) spans;     /* by beginning */
    MP_VEC(uint32_t) by_end;       /* indices of spans */
    size_t next_open, next_close;  /* indices into spans, and into by_end */
    MP_VEC(struct open_span) open; /* by beginning */
    MP_VEC(struct maximum) maxima;
    struct mp_map rows;         /* name + 1, to index in report->regions */
    MP_VEC(struct peaks) peaks; /* parallel to report->regions */
    struct mp_steps steps;
    bool steps_over; /* the last step has ended, but the events go on */
    const struct mp_window *window;
};

MP_ORDER(by_first, struct span, MP_RISING(first))

MP_ORDER_OF_INDICES(by_end_then_inner, struct span, MP_RISING(end) ?: MP_FALLING(first))

static void take_closed(struct sweep *sweep, struct mp_open_regions *closed, uint32_t end)
{
    for (size_t i = 0; i < closed->count; i++) {
        struct span span = {closed->at[i].name, closed->at[i].first, end};
        bool inside = span.first >= sweep->window->first && span.first < sweep->window->last;
        if (inside) mp_vec_add(&sweep->spans, span);
    }
    closed->count = 0;
}

static void find_spans(struct sweep *sweep)
{
    const struct mp_model *model = sweep->model;
    struct mp_open_regions open = {0}, closed = {0};
    for (size_t i = 0; i < model->noted.count; i++) {
        uint32_t event = model->noted.at[i];
        mp_regions_follow(model, event, &open, &closed);
        take_closed(sweep, &closed, event);
    }
    take_closed(sweep, &open, (uint32_t)model->events.count);
    mp_open_regions_free(&open);
    mp_open_regions_free(&closed);
    if (!sweep->spans.count) return;
    qsort(sweep->spans.at, sweep->spans.count, sizeof *sweep->spans.at, by_first);
    mp_vec_grow_to(&sweep->by_end, sweep->spans.count);
    for (uint32_t i = 0; i < sweep->spans.count; i++)
        sweep->by_end.at[i] = i;
    qsort_r(sweep->by_end.at, sweep->by_end.count, sizeof *sweep->by_end.at, by_end_then_inner, sweep->spans.at);
}

static void note_maximum(struct sweep *sweep, uint32_t moment, uint64_t bytes)
{
    while (sweep->maxima.count && sweep->maxima.at[sweep->maxima.count - 1].bytes <= bytes)
        sweep->maxima.count--;
    struct maximum top = {moment, bytes};
    mp_vec_add(&sweep->maxima, top);
}

static uint64_t peak_since(const struct sweep *sweep, uint32_t moment)
{
    size_t before = MP_COUNT_BEFORE(sweep->maxima.count, i, sweep->maxima.at[i].moment < moment);
    return sweep->maxima.at[before].bytes; /* exists, since a stretch follows every begin */
}

/* The number of open regions that begin at or before an event. */
static size_t open_since(const struct sweep *sweep, uint32_t event)
{
    return MP_COUNT_BEFORE(sweep->open.count, i, sweep->spans.at[sweep->open.at[i].span].first <= event);
}

static struct mp_region_row *region_row(struct sweep *sweep, uint32_t name, struct peaks **peaks)
{
    bool fresh;
    uint64_t *at = mp_map_at(&sweep->rows, (uint64_t)name + 1, &fresh);
    if (fresh) {
        struct mp_region_row row = {.name = name};
        struct peaks none = {0};
        *at = sweep->report->regions.count;
        mp_vec_add(&sweep->report->regions, row);
        mp_vec_add(&sweep->peaks, none);
    }
    *peaks = &sweep->peaks.at[*at];
    return &sweep->report->regions.at[*at];
}

static uint64_t time_at(const struct mp_model *model, uint32_t event)
{
    return event < model->events.count ? model->events.time_ns[event] : model->duration_ns;
}

static void close_span(struct sweep *sweep, uint32_t index)
{
    const struct span *span = &sweep->spans.at[index];
    size_t at = open_since(sweep, span->first) - 1;
    uint64_t freed = 0;
    for (size_t i = at; i < sweep->open.count; i++)
        freed += sweep->open.at[i].freed_inside;
    struct open_span closed = sweep->open.at[at];
    if (at) sweep->open.at[at - 1].freed_inside += closed.freed_inside;
    sweep->open.count--;
    memmove(&sweep->open.at[at], &sweep->open.at[at + 1], (sweep->open.count - at) * sizeof closed);

    struct peaks *peaks;
    struct mp_region_row *row = region_row(sweep, span->name, &peaks);
    mp_vec_add(peaks, peak_since(sweep, span->first + 1));
    uint64_t allocated = sweep->level.allocated - closed.allocated_before;
    row->count++;
    row->total_allocated_bytes += allocated;
    row->kept_bytes += allocated - freed;
    row->total_ns += time_at(sweep->model, span->end) - time_at(sweep->model, span->first);
    if (!sweep->open.count) sweep->maxima.count = 0;
}

static void close_due(struct sweep *sweep, uint32_t event)
{
    for (; sweep->next_close < sweep->by_end.count; sweep->next_close++) {
        uint32_t index = sweep->by_end.at[sweep->next_close];
        if (sweep->spans.at[index].end != event) return;
        close_span(sweep, index);
    }
}

static void open_due(struct sweep *sweep, uint32_t event)
{
    if (sweep->next_open == sweep->spans.count || sweep->spans.at[sweep->next_open].first != event) return;
    struct peaks *peaks;
    region_row(sweep, sweep->spans.at[sweep->next_open].name, &peaks);
    struct open_span open = {(uint32_t)sweep->next_open++, sweep->level.allocated, 0};
    mp_vec_add(&sweep->open, open);
}

/* Ends the open step. Until now, `allocated` and `freed` of the step's row have the amounts from before the step,
 * negated. */
static void end_step(struct sweep *sweep)
{
    if (!sweep->report->steps.count) return;
    struct mp_step_row *row = &sweep->report->steps.at[sweep->report->steps.count - 1];
    row->allocated_bytes += sweep->level.allocated;
    row->freed_bytes += sweep->level.freed;
    row->end_bytes = sweep->level.bytes;
}

static void begin_step(struct sweep *sweep)
{
    const struct mp_step *step = &sweep->steps.at[sweep->report->steps.count];
    struct mp_step_row row = {.number = (uint32_t)sweep->report->steps.count + sweep->steps.before + 1,
                              .start_ns = step->start_ns,
                              .end_ns = step->end_ns,
                              .allocated_bytes = -sweep->level.allocated,
                              .freed_bytes = -sweep->level.freed,
                              .peak_bytes = sweep->level.bytes,
                              .peak_moment = step->first,
                              .to_end = step->end == sweep->model->events.count};
    end_step(sweep);
    mp_vec_add(&sweep->report->steps, row);
}

/* Ends a step, and begins the next one if there is one. */
static void change_step(struct sweep *sweep)
{
    if (sweep->report->steps.count < sweep->steps.count) {
        begin_step(sweep);
        return;
    }
    end_step(sweep);
    sweep->steps_over = true;
}

static void book_free(struct sweep *sweep, uint32_t event, uint64_t freed)
{
    uint32_t born = sweep->model->blocks.alloc_event[sweep->model->events.subject[event]];
    if (born == MP_NONE) return;
    size_t holders = sweep->open.count; /* most often, the block was born in the youngest region */
    if (sweep->spans.at[sweep->open.at[holders - 1].span].first > born) holders = open_since(sweep, born);
    if (holders) sweep->open.at[holders - 1].freed_inside += freed;
}

/* Adds the stretch of events [first, end), none of which is noted. */
static void run_stretch(struct sweep *sweep, uint32_t first, uint32_t end)
{
    const struct mp_model *model = sweep->model;
    struct mp_level level = sweep->level;
    uint16_t track = sweep->report->track;
    bool any_open = sweep->open.count;
    uint64_t highest = level.bytes;
    uint32_t highest_at = first;
    for (uint32_t event = first; event < end; event++) {
        uint64_t freed = level.freed;
        if (!mp_level_apply(&level, model, track, event)) continue;
        if (level.bytes > highest) {
            highest = level.bytes;
            highest_at = event + 1;
        }
        if (any_open && level.freed != freed) book_free(sweep, event, level.freed - freed);
    }
    sweep->level = level;
    if (sweep->report->steps.count && !sweep->steps_over) {
        struct mp_step_row *row = &sweep->report->steps.at[sweep->report->steps.count - 1];
        if (highest > row->peak_bytes) {
            row->peak_bytes = highest;
            row->peak_moment = highest_at;
        }
    }
    if (any_open) note_maximum(sweep, first, highest);
}

/* The event at which the next step begins, or the last step ends; MP_NONE: none. */
static uint32_t next_step(const struct sweep *sweep)
{
    size_t begun = sweep->report->steps.count;
    if (begun < sweep->steps.count) return sweep->steps.at[begun].first;
    if (!begun || sweep->steps_over) return MP_NONE;
    uint32_t end = sweep->steps.at[begun - 1].end;
    return end < sweep->model->events.count ? end : MP_NONE;
}

static void run_sweep(struct sweep *sweep)
{
    const struct mp_model *model = sweep->model;
    uint32_t count = (uint32_t)model->events.count, next = 0;
    if (!sweep->steps.count && !sweep->spans.count) return;
    for (size_t i = 0;;) {
        uint32_t step = next_step(sweep), note = i < model->noted.count ? model->noted.at[i] : MP_NONE;
        uint32_t event = step < note ? step : note;
        if (event == MP_NONE) break;
        run_stretch(sweep, next, event);
        if (event == note) close_due(sweep, event), open_due(sweep, event);
        if (event == step) change_step(sweep);
        next = event + (event == note); /* the first event of an inferred step itself counts in the step */
        i += event == note;
    }
    run_stretch(sweep, next, count);
    if (!sweep->steps_over) end_step(sweep);
    close_due(sweep, count);
}

static void keep_steps_inside(struct sweep *sweep)
{
    struct mp_step_report *report = sweep->report;
    size_t kept = 0;
    for (size_t i = 0; i < report->steps.count; i++) {
        uint32_t first = sweep->steps.at[i].first;
        if (first >= sweep->window->first && first < sweep->window->last)
            report->steps.at[kept++] = report->steps.at[i];
    }
    report->steps.count = kept;
}

MP_ORDER(ascending, uint64_t, MP_COMPARE(*a, *b))

/* Nearest rank: the smallest value that at least `percent` of the values do not exceed. */
static uint64_t percentile(const struct peaks *peaks, unsigned percent)
{
    return peaks->at[(peaks->count * percent + 99) / 100 - 1];
}

static void summarise(struct mp_region_row *row, struct peaks *peaks)
{
    qsort(peaks->at, peaks->count, sizeof *peaks->at, ascending);
    unsigned __int128 sum = 0;
    for (size_t i = 0; i < peaks->count; i++)
        sum += peaks->at[i];
    row->mean_peak_bytes = (uint64_t)(sum / peaks->count);
    row->p50_peak_bytes = percentile(peaks, 50);
    row->p95_peak_bytes = percentile(peaks, 95);
    row->p99_peak_bytes = percentile(peaks, 99);
    row->max_peak_bytes = peaks->at[peaks->count - 1];
}

static void free_sweep(struct sweep *sweep)
{
    for (size_t i = 0; i < sweep->peaks.count; i++)
        mp_vec_free(&sweep->peaks.at[i]);
    mp_vec_free(&sweep->peaks);
    mp_vec_free(&sweep->spans);
    mp_vec_free(&sweep->by_end);
    mp_vec_free(&sweep->open);
    mp_vec_free(&sweep->maxima);
    mp_map_free(&sweep->rows);
    mp_steps_free(&sweep->steps);
}

void mp_steps_report(const struct mp_model *model, uint16_t track, const struct mp_window *window,
                     struct mp_step_report *report)
{
    *report = (struct mp_step_report){.track = track};
    struct sweep sweep = {.model = model, .report = report, .window = window};
    sweep.level = mp_level_start(model, track);
    mp_steps_find(model, &sweep.steps);
    find_spans(&sweep);
    run_sweep(&sweep);
    report->source = mp_steps_source(&sweep.steps);
    keep_steps_inside(&sweep);
    for (size_t i = 0; i < report->regions.count; i++)
        summarise(&report->regions.at[i], &sweep.peaks.at[i]);
    free_sweep(&sweep);
}

void mp_step_report_free(struct mp_step_report *report)
{
    mp_vec_free(&report->steps);
    mp_vec_free(&report->regions);
}
