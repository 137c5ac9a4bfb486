/*
 * A changed program's history, ready for a replay: some blocks are freed at another time, never made, or additional.
 * Pure.
 */
#ifndef MP_ANALYSIS_EDITS_H
#define MP_ANALYSIS_EDITS_H

#include "analysis/allocator/torch_replay.h"

/* A block of the model with another end. Times are events: just before that one; MP_NONE: never. */
struct mp_edit_end {
    uint32_t block, freed;
    bool gone; /* it is never made */
};
/* A block that the model has not. Edits before one event are ordered by rank; within a rank, frees come first. */
struct mp_edit_extra {
    uint64_t bytes, stream;
    uint32_t made, freed;
    uint32_t made_rank, freed_rank;
    uint32_t pool; /* index in the history's */
};

struct mp_edits {
    MP_VEC(struct mp_edit_end) ends;
    MP_VEC(struct mp_edit_extra) extras;
    bool one_stream; /* all requests are of one stream: */
    uint64_t stream;
};

/* Adds what another has; of a block that both have an end for, the earlier counts. */
void mp_edits_join(struct mp_edits *edits, const struct mp_edits *more);
/* Brings the ends into order; of a block that has several, the earliest counts. Done before they are applied. */
void mp_edits_sort(struct mp_edits *edits);
void mp_edits_free(struct mp_edits *edits);

/* By block: the step that allocates it, or NULL. The caller's. */
const struct mp_torch_step **mp_births_find(const struct mp_model *model, const struct mp_torch_history *history);
/* `edited` starts empty, and holds what belongs to `history`, which outlives it. */
void mp_edits_apply(const struct mp_model *model, const struct mp_torch_history *history, const struct mp_edits *edits,
                    struct mp_torch_history *edited);
void mp_edited_free(struct mp_torch_history *edited);
/* The most that was allocated at a time, by the sizes that blocks have in the model. The watch may be NULL; it sees the
 * same bytes as reserved. */
uint64_t mp_edited_peak(const struct mp_model *model, const struct mp_torch_history *history, mp_torch_watch *watch,
                        void *context);

#endif
