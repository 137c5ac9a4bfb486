/*
 * A changed program's history, ready for a replay: some blocks are freed at another time, never made, or added. Pure.
 */
#pragma once

#include "analysis/allocator/torch_replay.h"

/* A block of the model that ends at another time: just before an event; MP_NONE: never. */
struct mp_edit_end {
    uint32_t block, freed;
    bool gone; /* the block is never made */
};
/* A block that the recording does not have. Edits before one event are ordered by rank; within a rank, frees come
 * first. */
struct mp_edit_extra {
    uint64_t bytes, stream;
    uint32_t made, freed;
    uint32_t made_rank, freed_rank;
    uint32_t pool; /* index into the history's pools */
};

struct mp_edits {
    MP_VEC(struct mp_edit_end) ends;
    MP_VEC(struct mp_edit_extra) extras;
    bool one_stream; /* all requests go to the stream below */
    uint64_t stream;
};

/* Adds the other edits. If both end the same block, the earlier end counts. */
void mp_edits_join(struct mp_edits *edits, const struct mp_edits *more);
/* Sorts the ends; the earliest of a block counts. Call it before applying the edits. */
void mp_edits_sort(struct mp_edits *edits);
void mp_edits_free(struct mp_edits *edits);

/* By block: the step that allocates it, or NULL. The caller's. */
const struct mp_torch_step **mp_births_find(const struct mp_model *model, const struct mp_torch_history *history);
/* `edited` starts empty. It refers to data of `history`, which must outlive it. */
void mp_edits_apply(const struct mp_model *model, const struct mp_torch_history *history, const struct mp_edits *edits,
                    struct mp_torch_history *edited);
void mp_edited_free(struct mp_torch_history *edited);
/* The highest allocated bytes, by the sizes of blocks in the model. The watch may be NULL; it gets the allocated bytes
 * as reserved bytes, too. */
uint64_t mp_edited_peak(const struct mp_model *model, const struct mp_torch_history *history, mp_torch_watch *watch,
                        void *context);
