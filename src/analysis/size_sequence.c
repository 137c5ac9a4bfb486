#include "analysis/size_sequence.h"

#include <stdlib.h>

#include "base/hash.h"
#include "model/steps_infer.h"

#define KEPT    3 /* of a run of equal steps; blocks may outlive their step by fewer */
#define OUTSIDE UINT32_MAX

/* A step of the plan's track. */
struct step {
    uint32_t first, count; /* of its operations */
    uint32_t blocks;       /* index in `made`: the blocks that it makes, in order */
    uint32_t made;         /* how many */
    uint64_t does;         /* hash of what it does */
    bool steady;           /* it frees as many blocks as it makes, all of them of steps shortly before */
};

struct shortening {
    const struct mp_size_plan *plan;
    struct mp_size_sequence all;
    uint32_t *step_of, *index_of; /* per block: where it was made; OUTSIDE: before the first step */
    uint32_t *instead;            /* per block: itself, or the one that takes its place */
    MP_VEC(struct step) steps;
    MP_VEC(uint32_t) made;
};

static bool list_operations(struct shortening *work, const struct mp_steps *steps)
{
    const struct mp_model *model = work->plan->source->model;
    size_t step = 0;
    bool done = true;
    for (uint32_t event = 0; event < model->events.count && done; event++) {
        while (step < steps->count && steps->at[step].first <= event) {
            struct step fresh = {.first = (uint32_t)work->all.count, .blocks = (uint32_t)work->made.count};
            if (!mp_vec_push(&work->steps, fresh)) return false;
            step++;
        }
        unsigned type = model->events.type[event];
        if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE) continue;
        struct mp_size_operation operation = {model->events.subject[event], type == MP_EVENT_FREE};
        if (work->plan->value_of[operation.block] == MP_NONE) continue;
        done = mp_vec_push(&work->all, operation);
        if (!work->steps.count) continue;
        struct step *now = &work->steps.at[work->steps.count - 1];
        now->count++;
        if (operation.frees || !done) continue;
        work->step_of[operation.block] = (uint32_t)work->steps.count - 1;
        work->index_of[operation.block] = now->made++;
        done = mp_vec_push(&work->made, operation.block);
    }
    return done;
}

/* What a step does, told without the names of its blocks: which value it makes, and which block, made how many steps
 * ago, it frees. */
static void describe(struct shortening *work, uint32_t number)
{
    struct step *step = &work->steps.at[number];
    uint32_t freed = 0;
    step->steady = true;
    step->does = step->count;
    for (uint32_t i = 0; i < step->count; i++) {
        const struct mp_size_operation *operation = &work->all.at[step->first + i];
        if (!operation->frees) {
            step->does = mp_hash_step(step->does, work->plan->value_of[operation->block]);
            continue;
        }
        uint32_t from = work->step_of[operation->block];
        freed++;
        step->steady = step->steady && from != OUTSIDE && number - from < KEPT;
        step->does = mp_hash_step(step->does, UINT64_C(1) << 63 | (uint64_t)(number - from) << 32 |
                                                  work->index_of[operation->block]);
    }
    step->steady = step->steady && freed == step->made;
}

static bool copy(struct shortening *work, uint32_t first, uint32_t count, struct mp_size_sequence *sequence)
{
    bool done = true;
    for (uint32_t i = first; i < first + count && done; i++) {
        struct mp_size_operation operation = {work->instead[work->all.at[i].block], work->all.at[i].frees};
        done = mp_vec_push(sequence, operation);
    }
    return done;
}

/* Steps from `first` to `end` are left out: the blocks of the last steps before `end`, which may live on, are replaced
 * by those of as many steps earlier. */
static void leave_out(struct shortening *work, uint32_t first, uint32_t end)
{
    for (uint32_t step = end - KEPT; step < end; step++) {
        const struct step *now = &work->steps.at[step], *earlier = &work->steps.at[step - (end - first)];
        for (uint32_t i = 0; i < now->made; i++)
            work->instead[work->made.at[now->blocks + i]] = work->made.at[earlier->blocks + i];
    }
}

/* Where a run of steps that do the same ends. */
static uint32_t run_end(const struct shortening *work, uint32_t from)
{
    uint32_t end = from + 1;
    while (end < work->steps.count && work->steps.at[end].does == work->steps.at[from].does)
        end++;
    return end;
}

static bool shorten(struct shortening *work, struct mp_size_sequence *sequence)
{
    uint32_t resumed = 0; /* the step after those left out last */
    uint32_t before = work->steps.count ? work->steps.at[0].first : (uint32_t)work->all.count;
    bool done = copy(work, 0, before, sequence);
    for (uint32_t step = 0; step < work->steps.count && done; step++) {
        const struct step *now = &work->steps.at[step];
        done = copy(work, now->first, now->count, sequence);
        if (!now->steady || step < resumed + KEPT - 1 || run_end(work, step + 1 - KEPT) <= step) continue;
        resumed = run_end(work, step);
        leave_out(work, step + 1, resumed);
        step = resumed - 1;
    }
    return done;
}

bool mp_size_sequence_make(const struct mp_size_plan *plan, struct mp_size_sequence *sequence)
{
    const struct mp_model *model = plan->source->model;
    struct shortening work = {.plan = plan};
    struct mp_steps steps = {0};
    work.step_of = malloc((model->blocks.count + 1) * sizeof *work.step_of);
    work.index_of = calloc(model->blocks.count + 1, sizeof *work.index_of);
    work.instead = malloc((model->blocks.count + 1) * sizeof *work.instead);
    bool done = work.step_of && work.index_of && work.instead && mp_steps_find(model, &steps);
    for (uint32_t block = 0; done && block < model->blocks.count; block++) {
        work.step_of[block] = OUTSIDE;
        work.instead[block] = block;
    }
    done = done && list_operations(&work, &steps);
    for (uint32_t step = 0; done && step < work.steps.count; step++)
        describe(&work, step);
    done = done && shorten(&work, sequence);
    mp_steps_free(&steps);
    mp_size_sequence_free(&work.all);
    mp_vec_free(&work.steps);
    mp_vec_free(&work.made);
    free(work.step_of);
    free(work.index_of);
    free(work.instead);
    return done;
}

void mp_size_sequence_free(struct mp_size_sequence *sequence)
{
    mp_vec_free(sequence);
}
