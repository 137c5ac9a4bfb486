#include "analysis/advise/remade.h"

static const struct mp_operator_of *operator_of(const struct mp_model *model, const struct mp_operators *operators,
                                                const struct mp_act *act)
{
    return &operators->of_stack[model->blocks.stack[act->block]];
}

/* True if two neighbouring acts are from one call of an operator. */
static bool same_operator(const struct mp_model *model, const struct mp_operators *operators, const struct mp_act *a,
                          const struct mp_act *b)
{
    const struct mp_operator_of *x = operator_of(model, operators, a), *y = operator_of(model, operators, b);
    return x->call && x->call == y->call && model->blocks.stack[a->block] != model->blocks.stack[b->block];
}

size_t mp_remade_until(const struct mp_model *model, const struct mp_operators *operators, const struct mp_act *acts,
                       size_t count, unsigned node)
{
    for (size_t end = count, first; end; end = first) {
        unsigned number = operator_of(model, operators, &acts[end - 1])->number;
        enum mp_operator_saves saves = mp_operator_saves(number);
        for (first = end - 1; first && same_operator(model, operators, &acts[first - 1], &acts[first]);)
            first--;
        if (saves == MP_SAVES_NOTHING) continue;
        if (!mp_operators_match(number, node)) break;
        return saves == MP_SAVES_INPUTS ? first : end;
    }
    return count;
}
