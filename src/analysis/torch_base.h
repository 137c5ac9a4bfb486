/* The state in which a history of an allocator began: its segments and the blocks in them. One thread at a time. */
#ifndef MP_ANALYSIS_TORCH_BASE_H
#define MP_ANALYSIS_TORCH_BASE_H

#include "analysis/torch_history.h"

/* Fills base, segments and mapped of a history whose steps are there. False where memory is short. */
bool mp_torch_find_base(const struct mp_model *model, struct mp_torch_history *history);

#endif
