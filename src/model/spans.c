#include "model/spans.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/search.h"
#include "base/setting.h"
#include "base/step_rule.h"
#include "base/words.h"
#include "format/open_spans.h"

static bool has_allocs(const struct mp_model *model, uint32_t end)
{
    uint32_t event = 0;
    while (event < end && model->events.type[event] != MP_EVENT_ALLOC)
        event++;
    return event < end;
}

static enum mp_step_kind kind_of(const struct mp_model *model, struct mp_step_rule *rule, size_t note)
{
    uint32_t name = model->notes.at[note].name;
    return mp_step_rule_kind(rule, model->events.type[model->noted.at[note]], name, mp_model_text(model, name));
}

static void find_kind(const struct mp_model *model, struct mp_step_rule *rule, enum mp_step_kind kind,
                      struct mp_steps *steps)
{
    for (size_t i = 0; i < model->noted.count; i++)
        if (kind_of(model, rule, i) == kind) mp_steps_begin(model, model->noted.at[i], model->notes.at[i].name, steps);
}

/* Makes steps of the ends of an optimizer's steps. Each end but the last begins the next step. The first step contains
 * everything before the first end. */
static void find_of_optimizer(const struct mp_model *model, struct mp_step_rule *rule, struct mp_steps *steps)
{
    size_t first = 0;
    while (kind_of(model, rule, first) != MP_STEP_OF_OPTIMIZER)
        first++;
    if (has_allocs(model, model->noted.at[first])) mp_steps_begin(model, 0, model->notes.at[first].name, steps);
    find_kind(model, rule, MP_STEP_OF_OPTIMIZER, steps);
    steps->count--;
    if (steps->count < 2) steps->count = 0;
}

static void find_marked(const struct mp_model *model, struct mp_step_rule *rule, struct mp_steps *steps)
{
    for (size_t i = 0; i < model->noted.count; i++) {
        uint32_t name = model->notes.at[i].name;
        (void)mp_step_rule_take(rule, model->events.type[model->noted.at[i]], name, mp_model_text(model, name));
    }
    if (rule->kind == MP_STEP_OF_OPTIMIZER) {
        find_of_optimizer(model, rule, steps);
        return;
    }
    if (rule->kind) find_kind(model, rule, rule->kind, steps);
}

void mp_steps_begin(const struct mp_model *model, uint32_t event, uint32_t name, struct mp_steps *steps)
{
    struct mp_step step = {.first = event,
                           .end = (uint32_t)model->events.count,
                           .start_ns = model->events.time_ns[event],
                           .end_ns = model->duration_ns,
                           .name = name};
    if (steps->count) {
        steps->at[steps->count - 1].end = step.first;
        steps->at[steps->count - 1].end_ns = step.start_ns;
    }
    mp_vec_add(steps, step);
}

static bool is_of_profiler(const struct mp_model *model, uint32_t name)
{
    return !strncmp(mp_model_text(model, name), MP_PROFILER_STEP, strlen(MP_PROFILER_STEP));
}

bool mp_step_is_region(const struct mp_model *model, const struct mp_step *step)
{
    return model->events.type[step->first] == MP_EVENT_REGION_BEGIN &&
           model->notes.at[model->events.subject[step->first]].name == step->name;
}

static const char *source_of(const struct mp_model *model, const struct mp_steps *steps, enum mp_step_kind kind)
{
    if (!steps->count) return NULL;
    if (kind >= MP_STEP_OF_LIBRARY_FUNCTION) return "function";
    if (mp_step_is_region(model, &steps->at[0]) && mp_model_has_source(model, "nvtx")) return "nvtx";
    return kind == MP_STEP_OF_OPTIMIZER || is_of_profiler(model, steps->at[0].name) ? "torch" : "api";
}

/* Reads what the recording of a running program says about its steps. */
static void read_live(const struct mp_model *model, struct mp_steps *steps)
{
    static const char *const sources[] = {"inferred", "function", "torch"};
    char text[32];
    mp_setting(text, sizeof text, model->start.configuration, "live_each");
    unsigned long each = strtoul(text, NULL, 10);
    if (each && each <= UINT32_MAX) steps->each = (uint32_t)each;
    mp_setting(text, sizeof text, model->start.configuration, "live_steps");
    steps->running = *text;
    if (*text) steps->total = (uint32_t)strtoul(text, NULL, 10);
    mp_setting(text, sizeof text, model->start.configuration, "live_source");
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (!strcmp(text, sources[i])) steps->source = sources[i];
}

static void find_marked_steps(const struct mp_model *model, bool by_function, struct mp_steps *steps)
{
    struct mp_step_rule rule;
    bool recorded = model->file.format && !strcmp(model->file.format, "mp");
    *steps = (struct mp_steps){.at = steps->at, .room = steps->room, .each = 1};
    mp_step_rule_open_configured(&rule, recorded ? model->start.configuration : "step_range=^" MP_PROFILER_STEP);
    if (!recorded) rule.range = MP_STEP_NAMED; /* another program recorded it, so no user asked for other regions */
    rule.no_function = !by_function;
    find_marked(model, &rule, steps);
    steps->source = source_of(model, steps, rule.kind);
    if (steps->count) steps->before = model->past.steps < UINT32_MAX / 2 ? (uint32_t)model->past.steps : 0;
    if (recorded && by_function) read_live(model, steps);
    mp_step_rule_close(&rule);
}

void mp_steps_marked(const struct mp_model *model, struct mp_steps *steps)
{
    find_marked_steps(model, true, steps);
}

void mp_steps_marked_otherwise(const struct mp_model *model, struct mp_steps *steps)
{
    find_marked_steps(model, false, steps);
}

uint32_t mp_step_of(const struct mp_steps *steps, uint32_t event)
{
    size_t before = MP_COUNT_BEFORE(steps->count, i, steps->at[i].first <= event);
    return before ? (uint32_t)before + steps->before : 0;
}

const char *mp_steps_source(const struct mp_steps *steps)
{
    return steps->count ? steps->source : "none";
}

void mp_steps_free(struct mp_steps *steps)
{
    mp_vec_free(steps);
}

static void end_region(struct mp_open_regions *open, uint32_t name, uint32_t thread, struct mp_open_regions *closed)
{
    size_t at = open->count;
    while (at && (open->at[at - 1].thread != thread || (name && open->at[at - 1].name != name)))
        at--;
    if (!at) return; /* the region began before the recording */
    size_t kept = at - 1;
    for (size_t i = at - 1; i < open->count; i++) {
        if (open->at[i].thread != thread)
            open->at[kept++] = open->at[i];
        else if (closed)
            mp_vec_add(closed, open->at[i]);
    }
    open->count = kept;
}

void mp_regions_follow(const struct mp_model *model, uint32_t event, struct mp_open_regions *open,
                       struct mp_open_regions *closed)
{
    const struct mp_model_events *events = &model->events;
    unsigned type = events->type[event];
    if (type != MP_EVENT_REGION_BEGIN && type != MP_EVENT_REGION_END) return;
    uint32_t name = model->notes.at[events->subject[event]].name, thread = events->thread[event];
    if (type == MP_EVENT_REGION_END) {
        end_region(open, name, thread, closed);
        return;
    }
    struct mp_open_region region = {name, thread, event};
    if (open->count < MP_OPEN_SPANS_MAX) mp_vec_add(open, region);
}

void mp_regions_find(const struct mp_model *model, struct mp_regions *regions)
{
    struct mp_open_regions open = {0}, closed = {0};
    *regions = (struct mp_regions){0};
    for (size_t i = 0; i <= model->noted.count; i++) {
        bool last = i == model->noted.count;
        uint64_t end_ns = last ? model->duration_ns : model->events.time_ns[model->noted.at[i]];
        if (!last) mp_regions_follow(model, model->noted.at[i], &open, &closed);
        mp_vec_each (const struct mp_open_region, one, last ? &open : &closed)
            mp_vec_add(regions, ((struct mp_region){*one, end_ns}));
        closed.count = 0;
    }
    mp_open_regions_free(&open);
    mp_open_regions_free(&closed);
}

static bool is_lane(const struct mp_model *model, uint32_t thread)
{
    return thread < model->threads.count && model->threads.at[thread].tid == MP_TID_LANE;
}

/* Keeps only the regions of the thread, and regions of no thread. */
static void keep_thread(const struct mp_model *model, struct mp_open_regions *open, uint32_t thread)
{
    size_t kept = 0;
    for (size_t i = 0; i < open->count; i++)
        if (open->at[i].thread == thread || is_lane(model, open->at[i].thread)) open->at[kept++] = open->at[i];
    open->count = kept;
}

/* The thread whose regions count for a thread without regions: the first thread that has some; a lane only if no thread
 * has any. */
static uint32_t stand_in(const struct mp_model *model, const struct mp_open_regions *open)
{
    size_t first = 0;
    while (first + 1 < open->count && is_lane(model, open->at[first].thread))
        first++;
    return open->at[first].thread;
}

void mp_regions_at(const struct mp_model *model, uint32_t moment, struct mp_open_regions *open)
{
    open->count = 0;
    for (size_t i = 0; i < model->noted.count && model->noted.at[i] < moment; i++)
        mp_regions_follow(model, model->noted.at[i], open, NULL);
    if (!moment || !open->count) return;
    uint32_t thread = model->events.thread[moment - 1];
    for (size_t i = 0; i < open->count; i++) {
        if (open->at[i].thread != thread) continue;
        keep_thread(model, open, thread);
        return;
    }
    keep_thread(model, open, stand_in(model, open));
}

static uint32_t innermost(const struct mp_open_regions *open, uint32_t thread)
{
    size_t at = open->count;
    while (at && open->at[at - 1].thread != thread)
        at--;
    return at ? open->at[at - 1].name : MP_NONE;
}

uint32_t *mp_regions_of_births(const struct mp_model *model)
{
    const struct mp_model_events *events = &model->events;
    struct mp_open_regions open = {0};
    uint32_t *regions = mp_alloc((model->blocks.count + 1) * sizeof *regions);
    memset(regions, 0xff, (model->blocks.count + 1) * sizeof *regions);
    for (uint32_t event = 0; event < events->count; event++) {
        unsigned type = events->type[event];
        if (type == MP_EVENT_REGION_BEGIN || type == MP_EVENT_REGION_END) {
            mp_regions_follow(model, event, &open, NULL);
        } else if (type == MP_EVENT_ALLOC && open.count) {
            uint32_t *region = &regions[events->subject[event]];
            *region = innermost(&open, events->thread[event]);
            if (*region == MP_NONE) *region = innermost(&open, stand_in(model, &open));
        }
    }
    mp_open_regions_free(&open);
    return regions;
}

void mp_open_regions_free(struct mp_open_regions *open)
{
    mp_vec_free(open);
}
