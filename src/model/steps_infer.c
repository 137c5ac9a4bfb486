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

/* The rounds of a pool's threads, each of one line, are found by the period, if that shows more of them. */
static bool find_unmarked(const struct mp_model *model, struct mp_steps *steps)
{
    struct mp_loop loop;
    struct mp_steps period = {0};
    if (!model->tracks.count) return true;
    if (!mp_loop_find(model, steps, &loop)) return false;
    steps->source = "inferred";
    if (loop.rounds && !loop.a_thread_each) return true;
    mp_period_find(model, &period);
    bool more = period.count > steps->count;
    mp_steps_free(more ? steps : &period);
    if (!more) return true;
    *steps = period;
    steps->source = "inferred";
    steps->guessed = true;
    return true;
}

static bool find(const struct mp_model *model, struct mp_steps *steps)
{
    mp_steps_marked(model, steps);
    bool by_function = steps->count && !strcmp(steps->source, "function");
    if (!by_function || !are_in_doubt(model)) return steps->count || find_unmarked(model, steps);
    struct mp_steps others = {0};
    mp_steps_marked_otherwise(model, &others);
    bool done = others.count || find_unmarked(model, &others);
    bool more = others.count > steps->count;
    mp_steps_free(more ? steps : &others);
    if (more) *steps = others;
    return done;
}

/* Several threads may find the steps at once; one answer is kept. */
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

void mp_model_steps_free(struct mp_model_steps *known)
{
    if (known) free_found(atomic_load(&known->found));
    free(known);
}

/* NULL where memory is short. */
static struct mp_steps *find_once(const struct mp_model *model)
{
    struct mp_steps *found = mp_alloc_zeroed(1, sizeof *found), *before = NULL;
    if (find(model, found)) {
        if (atomic_compare_exchange_strong(&model->steps->found, &before, found)) return found;
        free_found(found);
        return before;
    }
    free_found(found);
    return NULL;
}

bool mp_steps_find(const struct mp_model *model, struct mp_steps *steps)
{
    if (!model->steps) return find(model, steps);
    const struct mp_steps *found = atomic_load(&model->steps->found);
    if (!found) found = find_once(model);
    if (!found) return false;
    *steps = *found;
    steps->at = NULL;
    steps->count = steps->room = 0;
    if (!found->count) return true;
    mp_vec_room_for(steps, found->count);
    memcpy(steps->at, found->at, found->count * sizeof *found->at);
    steps->count = found->count;
    return true;
}
