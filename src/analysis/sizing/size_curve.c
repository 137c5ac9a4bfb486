#include "analysis/sizing/size_curve.h"

#include <stdlib.h>

#include "base/memory.h"

struct level {
    double likely, low, high, varies;
};

static void add(struct level *level, const struct level *value, double sign)
{
    level->likely += sign * value->likely;
    level->low += sign * value->low;
    level->high += sign * value->high;
    level->varies += sign * value->varies;
}

static void note_peak(const struct level *level, uint32_t events, struct mp_size_height *height)
{
    if (level->likely > height->likely) height->likely = level->likely, height->moment = events;
    if (level->low > height->low) height->low = level->low;
    if (level->high > height->high) height->high = level->high;
    if (level->varies > height->varies) height->varies = level->varies;
}

struct mp_size_height mp_size_curve_at(const struct mp_size_plan *plan, double batch)
{
    const struct mp_model *model = plan->source->model;
    struct level *values = mp_alloc(plan->values.count * sizeof *values), level = {0};
    struct mp_size_height height = {0};
    for (uint32_t i = 0; i < plan->values.count; i++) {
        struct mp_size_bounds bounds = mp_size_value_at(plan, i, batch);
        const struct mp_size_value *value = &plan->values.at[i];
        values[i] = (struct level){bounds.likely, bounds.low, value->at_random ? 0 : bounds.high,
                                   value->at_random ? 0 : value->varies};
    }
    for (uint32_t block = 0; block < model->blocks.count; block++)
        if (plan->value_of[block] != MP_NONE && model->blocks.alloc_event[block] == MP_NONE)
            add(&level, &values[plan->value_of[block]], 1);
    note_peak(&level, 0, &height);
    for (uint32_t event = 0; event < model->events.count; event++) {
        unsigned type = model->events.type[event];
        if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE) continue;
        uint32_t value = plan->value_of[model->events.subject[event]];
        if (value == MP_NONE) continue;
        add(&level, &values[value], type == MP_EVENT_ALLOC ? 1 : -1);
        if (type == MP_EVENT_ALLOC) note_peak(&level, event + 1, &height);
    }
    free(values);
    height.high += plan->queued * mp_size_growth(plan, batch);
    height.varies += plan->queued;
    return height;
}
