/*
 * Changes to a program that would lower its peak, and the combination that fits a capacity. A replay of the changed
 * recording proves each. Pure; the result is the caller's.
 */
#pragma once

#include "analysis/advise/changes.h"
#include "analysis/advise/held.h"
#include "analysis/advise/tune.h"

struct mp_advise_query {
    uint16_t track;
    uint64_t capacity; /* bytes to fit into; 0: none */
    unsigned kinds;    /* bits 1 << enum mp_change_kind of the wanted kinds */
    size_t curves;     /* number of changes that get curves, from the first on */
    mp_tune_progress *progress;
    void *context;
};

/* Changes that are made together until the capacity is met. */
struct mp_advise_fit {
    uint64_t capacity;       /* 0: not asked */
    uint64_t outside;        /* bytes of `capacity` for context and libraries, if known */
    bool fits_now, fits;     /* without changes; with `changes` */
    MP_VEC(size_t) changes;  /* indices, in order of choice */
    uint64_t peak, reserved; /* bytes at the peak, with `changes` */
};

struct mp_advise {
    uint16_t track;
    bool has_allocator;               /* a caching allocator's track; otherwise only allocated bytes count */
    bool replayed;                    /* the recording has something to replay, not only what lived at its end */
    uint64_t peak, reserved;          /* recorded, or replayed if that is less; reserved 0: not known */
    struct mp_tuning tuning;          /* for a caching allocator */
    MP_VEC(struct mp_change) changes; /* by saved bytes, most first */
    struct mp_advise_fit fit;
    bool tried;               /* changes were made in runs of the program */
    uint64_t unheld;          /* mp_held_unknown(), if there are no changes */
    struct mp_held_most most; /* if it holds a part of the peak worth a look, and no change saves as much */
    size_t saved_nothing;     /* changes that saved nothing in a run, and are left out */
};

/* The kinds that take a reader a few seconds at most: a search for settings replays a recording dozens of times. */
unsigned mp_advise_quick_kinds(const struct mp_model *model);
/* MP_UNSUPPORTED: the recording cannot be replayed. */
enum mp_status mp_advise_find(const struct mp_model *model, const struct mp_advise_query *query,
                              struct mp_advise *advise, struct mp_error *error);
/* Adds changes that only a run can show. Their savings are not estimated. */
void mp_advise_add_trials(struct mp_advise *advise);
/* Drops changes whose run saved nothing, and those of kind MP_CHANGE_TRIAL that were not run. Sorts the others by
 * measured bytes. */
void mp_advise_settle_trials(struct mp_advise *advise);
void mp_advise_free(struct mp_advise *advise);
