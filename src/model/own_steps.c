#include "model/own_steps.h"

#include <string.h>

#define TURNS_MIN 3 /* steps of a thread: fewer may be by chance */
/* A thread with less than 1/8 of the busiest thread's steps may mark something longer, such as epochs. */
#define TURNS_PART 8
#define LONGER     2 /* steps with this many times the events of the busiest thread's steps count as longer */

static uint32_t thread_of(const struct mp_own_steps *own, uint32_t step)
{
    return own->model->events.thread[own->steps[step].first];
}

static void count_turns(struct mp_own_steps *own)
{
    const struct mp_model_events *events = &own->model->events;
    for (uint32_t step = 0; step < own->count; step++) {
        uint32_t thread = thread_of(own, step);
        while (thread != MP_NONE && own->threads.count <= thread)
            mp_vec_add(&own->threads, ((struct mp_own_thread){.step = MP_NONE}));
        if (thread != MP_NONE) own->threads.at[thread].turns++;
    }
    for (uint32_t event = own->steps[0].first; event < events->count; event++)
        if (events->thread[event] < own->threads.count) own->threads.at[events->thread[event]].events++;
}

/* Returns how many threads have steps of their own. A thread with few steps that are no longer than others' is a pool's
 * worker that seldom gets a task, so it counts. A thread with few but longer steps marks phases that span many steps of
 * other threads, so it does not count. */
static size_t add_threads(struct mp_own_steps *own)
{
    struct mp_own_thread busiest = {0};
    size_t several = 0;
    count_turns(own);
    for (size_t i = 0; i < own->threads.count; i++)
        if (own->threads.at[i].turns > busiest.turns) busiest = own->threads.at[i];
    mp_vec_each (struct mp_own_thread, thread, &own->threads) {
        bool few = thread->turns < TURNS_MIN || thread->turns < busiest.turns / TURNS_PART;
        several += thread->turns >= TURNS_MIN;
        if (few && (uint64_t)thread->events * busiest.turns > (uint64_t)LONGER * busiest.events * thread->turns) {
            several -= thread->turns >= TURNS_MIN;
            thread->turns = 0;
        }
        if (thread->turns == 1) thread->most = (busiest.events + busiest.turns - 1) / busiest.turns;
        thread->events = 0;
    }
    return several;
}

static void begin(struct mp_own_steps *own, uint32_t step)
{
    uint32_t thread = thread_of(own, step);
    if (thread >= own->threads.count) return;
    struct mp_own_thread *mine = &own->threads.at[thread];
    if (!mine->turns) return;
    if (mine->step != MP_NONE && mine->events > mine->most) mine->most = mine->events;
    mine->step = step;
    mine->events = 0;
}

/* Finds where each step ends: after its thread's last event before that thread's next step. A thread's last step gets
 * no more events than its longest other step. If a thread has only one step, it gets no more than the busiest thread's
 * average step. */
static void find_ends(struct mp_own_steps *own)
{
    const struct mp_model_events *events = &own->model->events;
    MP_VEC(uint32_t) last = {0}; /* by thread: index of its last step */
    mp_vec_grow_to(&last, own->threads.count);
    mp_vec_grow_to(&own->ends, own->count);
    for (uint32_t step = 0; step < own->count; step++) {
        own->ends.at[step] = own->steps[step].end;
        if (thread_of(own, step) != MP_NONE) last.at[thread_of(own, step)] = step;
    }
    for (uint32_t event = own->steps[0].first, step = 0; event < events->count; event++) {
        while (step < own->count && own->steps[step].first <= event)
            begin(own, step++);
        uint32_t thread = events->thread[event];
        struct mp_own_thread *mine = thread < own->threads.count ? &own->threads.at[thread] : NULL;
        if (!mine || mine->step == MP_NONE) continue;
        bool beyond = ++mine->events > mine->most && mine->step == last.at[thread];
        if (!beyond && event >= own->ends.at[mine->step]) own->ends.at[mine->step] = event + 1;
    }
    mp_vec_free(&last);
}

void mp_own_steps_open(const struct mp_model *model, const struct mp_steps *steps, uint32_t first, uint32_t count,
                       struct mp_own_steps *own)
{
    *own = (struct mp_own_steps){.model = model, .steps = steps->at + first, .count = count};
    /* Steps of optimizers are not per thread: each begins with the first event after the previous one, on any
     * thread. */
    if (!strcmp(mp_steps_source(steps), "torch") || add_threads(own) < 2) {
        mp_vec_free(&own->threads);
        return;
    }
    find_ends(own);
    for (size_t i = 0; i < own->threads.count; i++)
        own->threads.at[i].step = MP_NONE;
    begin(own, 0);
}

uint32_t mp_own_step_of(struct mp_own_steps *own, uint32_t event, uint32_t *end)
{
    while (own->step + 1 < own->count && own->steps[own->step].end <= event)
        begin(own, ++own->step);
    uint32_t thread = own->model->events.thread[event];
    uint32_t mine = thread < own->threads.count ? own->threads.at[thread].step : MP_NONE;
    bool is_mine = mine != MP_NONE && event < own->ends.at[mine];
    *end = is_mine ? own->ends.at[mine] : own->steps[own->step].end;
    return is_mine ? mine : own->step;
}

bool mp_own_steps_overlap(const struct mp_own_steps *own)
{
    return own->ends.count > 0;
}

void mp_own_steps_close(struct mp_own_steps *own)
{
    mp_vec_free(&own->ends);
    mp_vec_free(&own->threads);
}
