/* What a recording's events leave behind, one after the other (collect/fold.c). One thread at a time. */
#ifndef MP_COLLECT_FOLD_STATE_H
#define MP_COLLECT_FOLD_STATE_H

#include "base/map.h"
#include "base/step_rule.h"
#include "collect/fold_peaks.h"
#include "collect/fold_tables.h"
#include "format/open_spans.h"

enum { MP_FOLD_NOT_ASKED, MP_FOLD_NO_STEP, MP_FOLD_STEP };

struct mp_fold_counter {
    struct mp_sample highest, last;
};

struct mp_fold_state {
    struct mp_fold_tables tables;
    struct mp_fold_peaks peaks;
    struct mp_past past; /* that the file told of; events: and those taken */
    bool has_past;
    uint64_t taken; /* events of this file */
    uint64_t time_ns;

    struct mp_map live; /* number + 1 to index in blocks */
    MP_VEC(struct mp_base_block) blocks;
    MP_VEC(uint32_t) free_slots;
    MP_VEC(struct mp_base_block) base; /* of one that comes in parts */
    uint64_t next_block;

    /* Told again as events: the allocators' totals, by track (type MP_EVENT_NONE: none), the window, the step of the
     * function asked for and the one that the program marked last, open regions. */
    MP_VEC(struct mp_event) reserved;
    struct mp_event window, function_step, marked_step, optimizer_step;
    struct mp_open_spans open;
    size_t told_again; /* how many these are now */

    struct mp_step_rule rule;
    char function[128];            /* whose calls are steps; "": not asked */
    MP_VEC(unsigned char) is_step; /* by name: MP_FOLD_STEP where the rule says so, once it was asked */
    uint64_t function_steps, named_steps, marked_steps, optimizer_steps;

    MP_VEC(struct mp_fold_counter) counters;
    MP_VEC(struct mp_label) labels;    /* of blocks that are not there yet */
    MP_VEC(struct mp_ring_mark) marks; /* of the last chunk of events that was taken whole */
};

void mp_fold_state_open(struct mp_fold_state *state, const char *configuration);
/* All of these: false where memory is short. */
bool mp_fold_state_take(struct mp_fold_state *state, const struct mp_event *event);
bool mp_fold_state_base(struct mp_fold_state *state, const struct mp_chunk *chunk);
bool mp_fold_state_samples(struct mp_fold_state *state, const struct mp_chunk *chunk);
bool mp_fold_state_labels(struct mp_fold_state *state, const struct mp_chunk *chunk);
bool mp_fold_state_past(struct mp_fold_state *state, const struct mp_chunk *chunk);

/* Of blocks that live. */
void mp_fold_state_requests(struct mp_fold_state *state, const struct mp_chunk *chunk);
/* Blocks that live get the labels that were told of them by now; those whose time or whose block has not come wait. */
void mp_fold_state_label(struct mp_fold_state *state);

/* The step event that is told again; NULL: none is. */
const struct mp_event *mp_fold_state_step(const struct mp_fold_state *state);
/* Steps that have begun, by the rule of model/spans.h. */
uint64_t mp_fold_state_steps(const struct mp_fold_state *state);
void mp_fold_state_close(struct mp_fold_state *state);

#endif
