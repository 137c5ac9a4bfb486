/* How far checkpointing makes a module's call again: to the last tensor that is saved for backward. Pure. */
#ifndef MP_ANALYSIS_REMADE_H
#define MP_ANALYSIS_REMADE_H

#include "analysis/advise/operators.h"

/* An allocation. */
struct mp_act {
    uint32_t event, block, module;
    uint8_t phase;
};

/* How many acts of a call come before the last tensor is saved; `node`: that of backward that reads it. All blocks are
 * remade if the two do not agree. */
size_t mp_remade_until(const struct mp_model *model, const struct mp_operators *operators, const struct mp_act *acts,
                       size_t count, unsigned node);

#endif
