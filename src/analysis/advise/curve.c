#include "analysis/advise/curve.h"

#include <stdlib.h>

#include "base/memory.h"

void mp_curve_start(struct mp_curve_maker *maker, const struct mp_model *model, const struct mp_torch_history *history,
                    struct mp_curve *curve)
{
    size_t steps = history->steps.count, groups = MP_CURVE_POINTS / 2 - 1;
    uint32_t next = (uint32_t)model->events.count;
    *maker = (struct mp_curve_maker){.curve = curve, .before = mp_alloc((steps + 1) * sizeof *maker->before)};
    maker->group = steps < MP_CURVE_POINTS ? 1 : (steps + groups - 1) / groups;
    for (size_t i = steps; i--;) {
        uint32_t event = history->steps.at[i].event;
        maker->before[i] = event == MP_NONE ? next : event + 1;
        if (event != MP_NONE) next = event;
    }
}

static void add(struct mp_curve_maker *maker, const struct mp_curve_point *point)
{
    struct mp_curve *curve = maker->curve;
    const struct mp_curve_point *last = curve->count ? &curve->at[curve->count - 1] : NULL;
    if (last && last->allocated == point->allocated && last->reserved == point->reserved) return;
    mp_vec_add(curve, *point);
}

static void end_group(struct mp_curve_maker *maker)
{
    if (maker->seen) add(maker, &maker->fullest);
    if (maker->seen) add(maker, &maker->last);
    maker->seen = 0;
}

void mp_curve_watch(void *context, size_t step, uint64_t allocated, uint64_t reserved)
{
    struct mp_curve_maker *maker = context;
    bool begins = step == MP_TORCH_BEFORE_STEPS;
    uint64_t most = maker->seen ? maker->fullest.reserved : 0;
    maker->last = (struct mp_curve_point){begins ? 0 : maker->before[step], allocated, reserved};
    if (!maker->seen++ || allocated > maker->fullest.allocated) maker->fullest = maker->last;
    maker->fullest.reserved = reserved > most ? reserved : most;
    if (begins || maker->seen == maker->group) end_group(maker);
}

void mp_curve_end(struct mp_curve_maker *maker)
{
    end_group(maker);
    free(maker->before);
}
