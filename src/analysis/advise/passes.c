#include "analysis/advise/passes.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"

#define SCALAR     64   /* bytes: a number that a program passes, no result */
#define LOOK_AHEAD 2000 /* allocations */

uint64_t mp_pass_bytes(const struct mp_passes *passes, uint32_t block)
{
    const struct mp_torch_step *birth = passes->e->births[block];
    return birth ? birth->bytes : passes->e->model->blocks.bytes[block];
}

unsigned mp_pass_phase(const struct mp_passes *passes, size_t act)
{
    return mp_phase_of_block(&passes->e->phases, passes->e->model, passes->acts.at[act].block);
}

const struct mp_operator_of *mp_pass_operator(const struct mp_passes *passes, size_t act)
{
    return &passes->operators.of_stack[passes->acts.at[act].stack];
}

bool mp_pass_is_sum(const struct mp_passes *passes, size_t act)
{
    return mp_operator_is_sum(mp_pass_operator(passes, act)->number);
}

static bool same_operator(const struct mp_passes *passes, size_t one, size_t other)
{
    const struct mp_pass_act *a = &passes->acts.at[one], *b = &passes->acts.at[other];
    const struct mp_operator_of *x = mp_pass_operator(passes, one), *y = mp_pass_operator(passes, other);
    if (a->module != b->module || mp_pass_phase(passes, one) != mp_pass_phase(passes, other)) return false;
    return a->stack == b->stack || (x->call && x->call == y->call) || (x->node && x->node == y->node);
}

size_t mp_pass_first(const struct mp_passes *passes, size_t act)
{
    return passes->acts.at[act].first;
}

size_t mp_pass_next(const struct mp_passes *passes, size_t act)
{
    return passes->acts.at[act].next;
}

uint32_t mp_pass_after(const struct mp_passes *passes, size_t next)
{
    return next < passes->acts.count ? passes->acts.at[next].event : passes->acts.at[next - 1].event + 1;
}

uint64_t mp_pass_parameters(const struct mp_passes *passes, uint32_t module)
{
    const uint64_t *found = module ? mp_map_find(&passes->parameters, (uint64_t)module + 1) : NULL;
    return found ? *found : 0;
}

static uint64_t size_key(uint32_t module, uint64_t bytes)
{
    return (uint64_t)(module + 1) << 40 ^ bytes; /* nobody has a parameter of a TiB */
}

bool mp_pass_has_parameter(const struct mp_passes *passes, uint32_t module, uint64_t bytes)
{
    return mp_map_find(&passes->sizes, size_key(module, bytes)) != NULL;
}

uint32_t mp_pass_let_go(const struct mp_passes *passes, size_t at, uint32_t block, uint32_t after)
{
    if (!mp_pass_is_sum(passes, passes->made_by[block])) return after;
    for (size_t i = at; i < passes->acts.count && i < at + LOOK_AHEAD; i++) {
        if (mp_pass_phase(passes, i) != MP_PHASE_FORWARD) break;
        bool alike = mp_pass_bytes(passes, passes->acts.at[i].block) == mp_pass_bytes(passes, block);
        if (alike && mp_pass_is_sum(passes, i)) return passes->acts.at[i].event + 1;
    }
    return after;
}

void mp_pass_add(const struct mp_passes *passes, struct mp_change *change, uint32_t like, uint64_t bytes, uint32_t made,
                 uint32_t gone)
{
    const struct mp_torch_step *birth = passes->e->births[like];
    const struct mp_edit_extra extra = {.bytes = bytes,
                                        .stream = birth ? birth->stream : 0,
                                        .pool = birth ? birth->pool : 0,
                                        .made = made,
                                        .freed = gone};
    if (bytes) mp_vec_add(&change->edits.extras, extra);
}

static void find_parameters(struct mp_passes *passes)
{
    const struct mp_model *model = passes->e->model;
    for (size_t i = 0; i < model->labels.count; i++) {
        const struct mp_model_label *label = &model->labels.at[i];
        if (label->role != MP_ROLE_PARAMETER || !mp_estimator_has(passes->e, label->block)) continue;
        if (i && label[-1].block == label->block && label[-1].role == label->role) continue;
        const char *name = mp_model_text(model, label->name), *last = strrchr(name, '.');
        uint32_t module = last ? mp_intern_find(&model->strings, name, (size_t)(last - name)) : MP_INTERN_FAILED;
        if (module == MP_INTERN_FAILED) continue;
        *mp_map_at(&passes->parameters, (uint64_t)module + 1, NULL) += mp_pass_bytes(passes, label->block);
        *mp_map_at(&passes->sizes, size_key(module, model->blocks.bytes[label->block]), NULL) = 1;
    }
}

/* All acts of a loop over one line look like one operator's: each is looked at once. */
static void find_ends(struct mp_passes *passes)
{
    uint32_t count = (uint32_t)passes->acts.count;
    for (uint32_t first = 0, next; first < count; first = next) {
        next = first + 1;
        while (next < count && same_operator(passes, next - 1, next))
            next++;
        for (uint32_t i = first; i < next; i++)
            passes->acts.at[i].first = first, passes->acts.at[i].next = next;
    }
}

void mp_passes_find(const struct mp_estimator *e, struct mp_passes *passes)
{
    const struct mp_model *model = e->model;
    *passes = (struct mp_passes){.e = e};
    passes->made_by = mp_alloc_zeroed(model->blocks.count + 1, sizeof *passes->made_by);
    mp_operators_find(model, &passes->operators);
    find_parameters(passes);
    for (uint32_t event = 0; event < model->events.count; event++) {
        uint32_t block = model->events.subject[event];
        if (model->events.type[event] != MP_EVENT_ALLOC || !mp_estimator_has(e, block)) continue;
        unsigned phase = mp_phase_of_block(&e->phases, model, block);
        if (phase != MP_PHASE_FORWARD && !mp_phase_is_backward(phase)) continue;
        if (mp_pass_bytes(passes, block) <= SCALAR) continue;
        const struct mp_pass_act act = {.event = event,
                                        .block = block,
                                        .module = mp_model_module(model, block),
                                        .stack = model->blocks.stack[block]};
        passes->made_by[block] = (uint32_t)passes->acts.count;
        mp_vec_add(&passes->acts, act);
    }
    find_ends(passes);
}

void mp_passes_free(struct mp_passes *passes)
{
    mp_operators_free(&passes->operators);
    mp_vec_free(&passes->acts);
    mp_map_free(&passes->parameters);
    mp_map_free(&passes->sizes);
    free(passes->made_by);
}
