/* Changes that a program could make. */
#ifndef MP_ANALYSIS_CHANGES_H
#define MP_ANALYSIS_CHANGES_H

#include "analysis/advise/curve.h"
#include "analysis/advise/edits.h"
#include "analysis/advise/tune.h"

/* Names of MP_CHANGE_KINDS are a promise. */
enum mp_change_kind { MP_CHANGE_ALLOCATOR, MP_CHANGE_CHECKPOINT, MP_CHANGE_LIFETIME, MP_CHANGE_KINDS };

/* Names of them are a promise, too. */
enum mp_change_pattern {
    MP_CHANGE_SETTINGS,
    MP_CHANGE_LATE_ZERO_GRAD,  /* gradients live over forward, and are freed behind it */
    MP_CHANGE_GRADIENTS_KEPT,  /* gradients are set to zero, and live for ever */
    MP_CHANGE_HELD_VARIABLES,  /* a variable's block of one step lives until the next step's takes its place */
    MP_CHANGE_FUSED,           /* temporaries of an optimizer that has a fused form */
    MP_CHANGE_ONE_BY_ONE,      /* temporaries of an optimizer that works on lists of tensors */
    MP_CHANGE_CHECKPOINTING,   /* what modules keep for backward is made again there */
    MP_CHANGE_PHASE_SETTINGS,  /* settings for one phase of the program, set anew where it ends or begins */
    MP_CHANGE_ONE_STREAM,      /* requests of side streams, each of which keeps segments of its own */
    MP_CHANGE_IDLE_VARIABLE,   /* a variable that is not read again holds blocks */
    MP_CHANGE_NO_GRAD,         /* forward keeps blocks for a backward that never comes */
    MP_CHANGE_BACKWARD_SOONER, /* graphs of several losses live until one backward of them all */
    MP_CHANGE_LEAK,            /* blocks that step after step leaves behind */
    MP_CHANGE_PATTERNS
};

#define MP_SHARE_UNKNOWN (-1.0)

struct mp_change {
    enum mp_change_kind kind;
    enum mp_change_pattern pattern;
    bool exact;              /* the replay has no block but those that were recorded */
    uint64_t peak, reserved; /* then */
    uint64_t saved, saved_reserved;
    /* Of settings: */
    struct mp_torch_settings settings;
    char *setting;                       /* their text */
    const struct mp_tune_phased *phased; /* the tuning's; NULL: they are for all of the program */
    uint64_t driver_calls, driver_calls_before;
    uint64_t ooms, ooms_before; /* requests that found no memory */
    /* Of others: */
    struct mp_edits edits;
    uint32_t stack;             /* of the blocks that it is about; 0: several, or not known */
    char *module;               /* path, with * for numbers; NULL */
    char *variable;             /* its name, with the function that it is of; of a leak: the holder. NULL */
    const char *advice;         /* of a leak: how to stop it */
    bool before_backward;       /* of an idle variable: backward does not use what it has */
    size_t modules, modules_of; /* of those that the path means, that are changed: the first ones; all */
    size_t blocks;              /* that would live less long */
    uint64_t bytes;             /* the most of theirs that lived at a time */
    double share;               /* of forward that is done again; 0; MP_SHARE_UNKNOWN */
    size_t place;               /* among the others, before they were sorted */
    struct mp_curve curve;      /* with the change; empty where none was asked for */
};

struct mp_changes {
    struct mp_change *at;
    size_t count, room;
};

/* The order of changes by cost. An unknown share of forward costs more than any known one. */
static inline double mp_change_price(const struct mp_change *change)
{
    return change->share < 0 ? 2 : change->share;
}

const char *mp_change_kind_name(enum mp_change_kind kind);
const char *mp_change_pattern_name(enum mp_change_pattern pattern);
/* MP_CHANGE_KINDS: none has the name. */
enum mp_change_kind mp_change_kind_named(const char *name);

#endif
