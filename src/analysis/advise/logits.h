/* Finds logits over a vocabulary whose loss could be computed in chunks. Pure. */
#pragma once

#include "analysis/advise/changes.h"
#include "analysis/categories/phases.h"

#define MP_LOGITS_CHUNKS 8 /* the advice names this number */

/* Adds a change; its saving comes from a replay later. */
void mp_logits_propose(const struct mp_model *model, const struct mp_torch_history *history,
                       const struct mp_phases *phases, struct mp_changes *changes);
