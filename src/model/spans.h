/*
 * Steps and regions as spans of events. A step begins at its step event and ends at the next one, or with the
 * recording. Steps are numbered from 1; events before the first step belong to none. Regions nest per thread. An end
 * closes the thread's innermost open region of that name (without a name: the innermost), and all that were opened
 * inside it. Pure.
 */
#pragma once

#include "model/model.h"

struct mp_step {
    uint32_t first, end; /* events [first, end); `first` is mostly the step event itself */
    uint64_t start_ns, end_ns;
    uint32_t name;
};

struct mp_steps {
    struct mp_step *at; /* in order; step number N is at[N - 1 - before] */
    size_t count, room;
    const char *source; /* who marked them; NULL if there are none; model/steps_infer.h adds "inferred" */
    bool guessed;       /* found by the period of allocations alone, so these may be parts of steps */
    uint32_t before;    /* steps that began before the recording's first event */
    uint32_t each;      /* number of the program's steps that one entry covers; more than 1 only in data from a running
                         * program */
    bool running;       /* data from a program that was still running */
    uint32_t total;     /* if `running`: the program's number of steps */
};

/* The steps that the program marked, of the strongest kind in the recording (base/step_rule.h); model/steps_infer.h
 * finds other steps. In files of other programs only regions "ProfilerStep#N" count as named steps. An optimizer's step
 * ends with the optimizer's work. The first one contains everything before that, unless nothing was allocated (as when
 * a schedule begins to record). Events after the last optimizer's step belong to no step, and fewer than two such steps
 * count as none. */
void mp_steps_marked(const struct mp_model *model, struct mp_steps *steps);
/* Finds the same steps, but without calls of the function of --step-at. */
void mp_steps_marked_otherwise(const struct mp_model *model, struct mp_steps *steps);
/* True if a step's event also begins a region of the same name: reports then show it among the regions, too. */
bool mp_step_is_region(const struct mp_model *model, const struct mp_step *step);
/* Adds a step that begins at `event`, which ends the previous step. The event must come after the events of all other
 * steps. */
void mp_steps_begin(const struct mp_model *model, uint32_t event, uint32_t name, struct mp_steps *steps);
/* The number of an event's step, counted from the program's first step. 0 if it comes before the recording's first
 * step. */
uint32_t mp_step_of(const struct mp_steps *steps, uint32_t event);
void mp_steps_free(struct mp_steps *steps);
/* Where the steps come from, as `source` in JSON: "api", "nvtx" or "torch", "function", "inferred" or "none". */
const char *mp_steps_source(const struct mp_steps *steps);

/* An open region. */
struct mp_open_region {
    uint32_t name, thread, first; /* string id; index; event */
};

struct mp_open_regions {
    struct mp_open_region *at; /* in order of beginning */
    size_t count, room;
};

/* Updates *open by a region event; ignores other events. The regions that the event closes are added to `closed` (may
 * be NULL). */
void mp_regions_follow(const struct mp_model *model, uint32_t event, struct mp_open_regions *open,
                       struct mp_open_regions *closed);
/* All regions in order of their ends; the open ones end with the recording, and come last. */
struct mp_region {
    struct mp_open_region begun;
    uint64_t end_ns;
};
struct mp_regions {
    struct mp_region *at; /* the caller frees it with mp_vec_free() */
    size_t count, room;
};
void mp_regions_find(const struct mp_model *model, struct mp_regions *regions);
/* The regions that are open after `moment` events, outermost first: the regions of the last event's thread, and regions
 * of no thread. If that thread has no regions, the first thread with regions takes its place: an autograd thread works
 * for the thread in backward(). */
void mp_regions_at(const struct mp_model *model, uint32_t moment, struct mp_open_regions *open);
/* The innermost region in which each block was allocated, as a string id by block, by the same rule. MP_NONE if there
 * was none, or if the block is in the base. The caller frees the array. */
uint32_t *mp_regions_of_births(const struct mp_model *model);
void mp_open_regions_free(struct mp_open_regions *open);
