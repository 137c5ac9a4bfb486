/* The autopsy of an out-of-memory: its cause, and the settings that would have fitted it. Private to frag.c. */
#ifndef MP_ANALYSIS_FRAG_OOM_H
#define MP_ANALYSIS_FRAG_OOM_H

#include "analysis/frag.h"

/* What the device had for the allocator when memory ran out: all that it held plus what was free beside it. Where that
 * is not known, no more than it held: what fits then had fitted all the more. */
uint64_t mp_frag_capacity(const struct mp_frag *frag);

/* Fills frag->oom, whose event is known, of a frag whose moment is that. */
enum mp_status mp_frag_judge_oom(const struct mp_model *model, const struct mp_torch_history *history,
                                 struct mp_frag *frag, struct mp_error *error);

#endif
