/* How much of a module's call checkpointing runs again: up to the last tensor that is saved for backward. Pure. */
#pragma once

#include "analysis/advise/operators.h"

/* An allocation. */
struct mp_act {
    uint32_t event, block, module;
    uint8_t phase;
};

/* The number of acts of a call before the last tensor is saved; all acts if operator and `node` do not agree. `node`:
 * the node of backward that reads this tensor. */
size_t mp_remade_until(const struct mp_model *model, const struct mp_operators *operators, const struct mp_act *acts,
                       size_t count, unsigned node);
