/* Finds the part of a module's call that runs again if the module is checkpointed: it ends where forward makes the last
 * tensor that backward needs. Pure. */
#pragma once

#include "analysis/advise/operators.h"

/* An allocation in a call of a module: an act. */
struct mp_act {
    uint32_t event, block, module;
    uint8_t phase;
};

/* The number of acts of a call before the last tensor is saved; all acts if operator and `node` do not agree. `node`:
 * the node of backward that reads this tensor. */
size_t mp_remade_until(const struct mp_model *model, const struct mp_operators *operators, const struct mp_act *acts,
                       size_t count, unsigned node);
