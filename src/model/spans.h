/*
 * Steps and regions as spans over the events. A step begins at its step event and ends at the next one, or with the
 * recording; steps are numbered from 1, and events before the first belong to none. Regions nest per thread. An end
 * closes the thread's innermost open region of that name (an end without a name: the innermost), and all that were
 * opened inside it. Pure.
 */
#ifndef MP_MODEL_SPANS_H
#define MP_MODEL_SPANS_H

#include "model/model.h"

struct mp_step {
    uint32_t first, end; /* events [first, end); mostly the step event itself is `first` */
    uint64_t start_ns, end_ns;
    uint32_t name;
};

struct mp_steps {
    struct mp_step *at; /* in order; step N is at[N - 1 - before] */
    size_t count, room;
    const char *source; /* who marked them, NULL where there are none; model/steps_infer.h adds one */
    bool guessed;       /* inferred from a rhythm alone: they may be parts of steps */
    uint32_t before;    /* steps that began before the recording's first event */
    uint32_t each;      /* the number of the program's steps that one stands for; more than 1 only in data from a
                         * running program */
    bool running;       /* from a program that was still running: */
    uint32_t total;     /* its number of steps */
};

/* The marked steps of the strongest kind that the recording has (base/step_rule.h); model/steps_infer.h finds the
 * others. In files of other programs only regions "ProfilerStep#N" count as named steps. An optimizer's step ends with
 * the optimizer's work. The first step contains everything before it, unless nothing was allocated (as when a schedule
 * begins to record). Events after the last step's `end` belong to no step. There are at least two. */
void mp_steps_marked(const struct mp_model *model, struct mp_steps *steps);
/* The same without calls of the function of --step-at. */
void mp_steps_marked_otherwise(const struct mp_model *model, struct mp_steps *steps);
/* True if a step is also a region, judging by its name: then it stands among the regions, too. */
bool mp_step_is_region(const struct mp_model *model, const struct mp_step *step);
/* Adds a step that begins at an event after those of all others; it ends the step before. */
void mp_steps_begin(const struct mp_model *model, uint32_t event, uint32_t name, struct mp_steps *steps);
/* The number of an event's step, counted from the program's first one; 0 before the first one in the recording. */
uint32_t mp_step_of(const struct mp_steps *steps, uint32_t event);
void mp_steps_free(struct mp_steps *steps);
/* The origin of the steps, as the word of `source` in JSON: "api", "nvtx" or "torch", "function", "inferred" or
 * "none". */
const char *mp_steps_source(const struct mp_steps *steps);

/* An open region. */
struct mp_open_region {
    uint32_t name, thread, first; /* string id; index; event */
};

struct mp_open_regions {
    struct mp_open_region *at; /* in order of beginning */
    size_t count, room;
};

/* Updates *open with a region event; ignores others. `closed` (may be NULL) gets the regions that it closes. */
void mp_regions_follow(const struct mp_model *model, uint32_t event, struct mp_open_regions *open,
                       struct mp_open_regions *closed);
/* The regions open after `moment` events, outermost first: those of the last event's thread, and those of no thread.
 * Where that thread has none, those of the first thread that has (an autograd thread works for the one in
 * backward()). */
void mp_regions_at(const struct mp_model *model, uint32_t moment, struct mp_open_regions *open);
/* By block: the name (a string id) of the innermost region in which it was allocated, by the same rule. MP_NONE if
 * there was none, or if the block is in the base. The caller frees it. */
uint32_t *mp_regions_of_births(const struct mp_model *model);
void mp_open_regions_free(struct mp_open_regions *open);

#endif
