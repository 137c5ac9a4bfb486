#include "model/spans.h"

#include <stdlib.h>
#include <string.h>

/* More than this open at once is no program's nesting; further ones are left out. */
#define OPEN_MAX 4096

/* The events of a type, and of names that begin so, each begin a step. */
static bool find_marked(const struct mp_model *model, unsigned type, const char *prefix, struct mp_steps *steps)
{
    const struct mp_model_events *events = &model->events;
    for (size_t i = 0; i < model->noted.count; i++) {
        uint32_t event = model->noted.at[i];
        if (events->type[event] != type) continue;
        if (strncmp(mp_model_text(model, model->notes.at[i].name), prefix, strlen(prefix))) continue;
        if (!mp_steps_begin(model, event, model->notes.at[i].name, steps)) return false;
    }
    return true;
}

bool mp_steps_begin(const struct mp_model *model, uint32_t event, uint32_t name, struct mp_steps *steps)
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
    return mp_vec_push(steps, step);
}

bool mp_steps_find(const struct mp_model *model, struct mp_steps *steps)
{
    static const char profiler[] = "ProfilerStep#"; /* how PyTorch's profiler names its steps */
    steps->count = 0;
    steps->source = "torch";
    if (!find_marked(model, MP_EVENT_STEP, "", steps)) return false;
    if (!steps->count) return find_marked(model, MP_EVENT_REGION_BEGIN, profiler, steps);
    if (strncmp(mp_model_text(model, steps->at[0].name), profiler, sizeof profiler - 1)) steps->source = "api";
    return true;
}

uint32_t mp_step_of(const struct mp_steps *steps, uint32_t event)
{
    size_t low = 0, high = steps->count; /* how many begin at or before the event */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (steps->at[middle].first <= event)
            low = middle + 1;
        else
            high = middle;
    }
    return (uint32_t)low;
}

const char *mp_steps_source(const struct mp_steps *steps)
{
    return steps->count ? steps->source : "none";
}

void mp_steps_free(struct mp_steps *steps)
{
    mp_vec_free(steps);
}

static bool end_region(struct mp_open_regions *open, uint32_t name, uint32_t thread, struct mp_open_regions *closed)
{
    size_t at = open->count;
    while (at && (open->at[at - 1].thread != thread || (name && open->at[at - 1].name != name)))
        at--;
    if (!at) return true; /* begun before the recording */
    size_t kept = at - 1;
    for (size_t i = at - 1; i < open->count; i++) {
        if (open->at[i].thread != thread)
            open->at[kept++] = open->at[i];
        else if (closed && !mp_vec_push(closed, open->at[i]))
            return false;
    }
    open->count = kept;
    return true;
}

bool mp_regions_follow(const struct mp_model *model, uint32_t event, struct mp_open_regions *open,
                       struct mp_open_regions *closed)
{
    const struct mp_model_events *events = &model->events;
    unsigned type = events->type[event];
    if (type != MP_EVENT_REGION_BEGIN && type != MP_EVENT_REGION_END) return true;
    uint32_t name = model->notes.at[events->subject[event]].name, thread = events->thread[event];
    if (type == MP_EVENT_REGION_END) return end_region(open, name, thread, closed);
    struct mp_open_region region = {name, thread, event};
    return open->count >= OPEN_MAX || mp_vec_push(open, region);
}

static void keep_thread(struct mp_open_regions *open, uint32_t thread)
{
    size_t kept = 0;
    for (size_t i = 0; i < open->count; i++)
        if (open->at[i].thread == thread) open->at[kept++] = open->at[i];
    open->count = kept;
}

bool mp_regions_at(const struct mp_model *model, uint32_t moment, struct mp_open_regions *open)
{
    open->count = 0;
    for (size_t i = 0; i < model->noted.count && model->noted.at[i] < moment; i++)
        if (!mp_regions_follow(model, model->noted.at[i], open, NULL)) return false;
    if (!moment || !open->count) return true;
    uint32_t thread = model->events.thread[moment - 1];
    for (size_t i = 0; i < open->count; i++) {
        if (open->at[i].thread != thread) continue;
        keep_thread(open, thread);
        return true;
    }
    keep_thread(open, open->at[0].thread);
    return true;
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
    uint32_t *regions = malloc((model->blocks.count + 1) * sizeof *regions);
    bool done = regions;
    if (done) memset(regions, 0xff, (model->blocks.count + 1) * sizeof *regions);
    for (uint32_t event = 0; done && event < events->count; event++) {
        unsigned type = events->type[event];
        if (type == MP_EVENT_REGION_BEGIN || type == MP_EVENT_REGION_END) {
            done = mp_regions_follow(model, event, &open, NULL);
        } else if (type == MP_EVENT_ALLOC && open.count) {
            uint32_t *region = &regions[events->subject[event]];
            *region = innermost(&open, events->thread[event]);
            if (*region == MP_NONE) *region = innermost(&open, open.at[0].thread);
        }
    }
    mp_open_regions_free(&open);
    if (done) return regions;
    free(regions);
    return NULL;
}

void mp_open_regions_free(struct mp_open_regions *open)
{
    mp_vec_free(open);
}
