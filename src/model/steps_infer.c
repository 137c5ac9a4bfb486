#include "model/steps_infer.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/steps_loop.h"
#include "model/steps_period.h"

static bool are_in_doubt(const struct mp_model *model)
{
    for (size_t i = 0; i < model->coverage.note_count; i++)
        if (!strcmp(mp_model_text(model, model->coverage.notes[i]), MP_STEPS_IN_DOUBT)) return true;
    return false;
}

/* The rounds of a loop may run on several threads of a pool. Then the period may show more rounds, and it counts. */
static void find_in(const struct mp_model *model, bool host, struct mp_steps *steps)
{
    struct mp_steps period = {0};
    steps->source = "inferred";
    if (mp_loop_find(model, host, steps)) return;
    mp_period_find(model, host, &period);
    bool more = period.count > steps->count;
    mp_steps_free(more ? steps : &period);
    if (!more) return;
    *steps = period;
    steps->source = "inferred";
    steps->guessed = true;
}

/* Sampled blocks count only if no other blocks show a loop. */
static void find_unmarked(const struct mp_model *model, struct mp_steps *steps)
{
    if (!model->tracks.count) return;
    if (model->host_bytes) find_in(model, false, steps);
    if (!steps->count) find_in(model, true, steps);
}

static void find_steps(const struct mp_model *model, struct mp_steps *steps)
{
    mp_steps_marked(model, steps);
    bool by_function = steps->count && !strcmp(steps->source, "function");
    if (!steps->count) find_unmarked(model, steps);
    if (!by_function || !are_in_doubt(model)) return;
    struct mp_steps others = {0};
    mp_steps_marked_otherwise(model, &others);
    if (!others.count) find_unmarked(model, &others);
    bool more = others.count > steps->count;
    mp_steps_free(more ? steps : &others);
    if (more) *steps = others;
}

/* Several threads may find the steps at once; the first result is kept. */
struct mp_model_steps {
    _Atomic(struct mp_steps *) found;
};

struct mp_model_steps *mp_model_steps_new(void)
{
    return mp_alloc_zeroed(1, sizeof(struct mp_model_steps));
}

static void free_found(struct mp_steps *found)
{
    if (found) mp_steps_free(found);
    free(found);
}

void mp_model_steps_free(void *steps)
{
    struct mp_model_steps *known = steps;
    if (known) free_found(atomic_load(&known->found));
    free(known);
}

static struct mp_steps *find_once(const struct mp_model *model)
{
    struct mp_steps *found = mp_alloc_zeroed(1, sizeof *found), *before = NULL;
    find_steps(model, found);
    if (atomic_compare_exchange_strong(&model->steps->found, &before, found)) return found;
    free_found(found);
    return before;
}

void mp_steps_find(const struct mp_model *model, struct mp_steps *steps)
{
    if (!model->steps) {
        find_steps(model, steps);
        return;
    }
    const struct mp_steps *found = atomic_load(&model->steps->found);
    if (!found) found = find_once(model);
    *steps = *found;
    steps->at = NULL;
    steps->count = steps->room = 0;
    mp_vec_add_all(steps, found->at, found->count);
}
