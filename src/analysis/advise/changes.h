/* Changes that a program could make. */
#pragma once

#include "analysis/advise/curve.h"
#include "analysis/advise/edits.h"
#include "analysis/advise/tune.h"
#include "base/memory.h"

/* Names of MP_CHANGE_KINDS are a promise. */
enum mp_change_kind {
    MP_CHANGE_ALLOCATOR,
    MP_CHANGE_CHECKPOINT,
    MP_CHANGE_LIFETIME,
    MP_CHANGE_TRIAL, /* only a run shows its saving */
    MP_CHANGE_KINDS
};

/* Names of patterns are a promise, too. */
enum mp_change_pattern {
    MP_CHANGE_SETTINGS,
    MP_CHANGE_LATE_ZERO_GRAD,  /* gradients live through the next forward and are freed after it */
    MP_CHANGE_GRADIENTS_KEPT,  /* gradients are set to zero, and never freed */
    MP_CHANGE_GRADIENTS_IDLE,  /* only other gradients are freed: no optimizer has these parameters */
    MP_CHANGE_HELD_VARIABLES,  /* a variable holds one step's block until the next step's block replaces it */
    MP_CHANGE_FUSED,           /* temporaries of an optimizer that has a fused form */
    MP_CHANGE_ONE_BY_ONE,      /* temporaries of an optimizer that works on lists of tensors */
    MP_CHANGE_CHECKPOINTING,   /* modules' saved activations are recomputed in backward */
    MP_CHANGE_PHASE_SETTINGS,  /* settings for one phase of the program */
    MP_CHANGE_ONE_STREAM,      /* side streams keep segments of their own */
    MP_CHANGE_IDLE_VARIABLE,   /* a variable that is not read again holds blocks */
    MP_CHANGE_NO_GRAD,         /* forward keeps blocks for a backward that never comes */
    MP_CHANGE_BACKWARD_SOONER, /* graphs of several losses live until one common backward */
    MP_CHANGE_LEAK,            /* a leak: each step leaves blocks */
    MP_CHANGE_CHUNKED_LOSS,    /* a loss and its logits over a vocabulary */
    MP_CHANGE_SMALLER_BATCH,   /* for an evaluation */
    MP_CHANGE_COLLECT,         /* Python's garbage collector runs after each step */
    MP_CHANGE_AUTOCAST,
    MP_CHANGE_GARBAGE,    /* blocks wait for Python's collector */
    MP_CHANGE_CYCLE,      /* a cycle through C++ that nothing frees */
    MP_CHANGE_KEPT_GRAPH, /* kept tensors hold graphs after their backward */
    MP_CHANGE_EIGHT_BIT,  /* an optimizer's state */
    MP_CHANGE_SPARSE,     /* gradients of embeddings */
    MP_CHANGE_GATHERED,   /* outputs of many batches are joined */
    MP_CHANGE_PATTERNS
};

#define MP_SHARE_UNKNOWN (-1.0)

/* A run with the change made. */
enum mp_change_run {
    MP_RUN_NONE,
    MP_RUN_FAILED, /* the program failed, or the change did not take effect */
    MP_RUN_DONE,
    MP_RUN_ENDS, /* it ended, while the program without the change ran out of memory: there is no saving */
};

struct mp_change {
    enum mp_change_kind kind;
    enum mp_change_pattern pattern;
    bool exact;              /* the replay has only recorded blocks */
    uint64_t peak, reserved; /* bytes at the peak with the change */
    uint64_t saved, saved_reserved;
    /* Only for changes of settings: */
    struct mp_torch_settings settings;
    char *setting;                       /* the settings as text */
    const struct mp_tune_phased *phased; /* belongs to the tuning; NULL: `settings` are for the whole program */
    uint64_t driver_calls, driver_calls_before;
    uint64_t ooms, ooms_before; /* requests that failed */
    /* Only for other changes: */
    struct mp_edits edits;
    uint32_t stack;             /* stack of the affected blocks; 0: several, or not known */
    char *module;               /* path of the module, with * for numbers; NULL: none */
    char *variable;             /* the variable with its function; for a leak, its like or a graph the holder. NULL */
    const char *advice;         /* for a leak and its like: how to stop it */
    bool flows;                 /* for idle gradients: other gradients flow through the module */
    bool before_backward;       /* for an idle variable: backward does not need its block; for a leak: none follows; for
                                 * a checkpoint: memory ran out before backward, so its peak is that of forward */
    size_t modules, modules_of; /* number of changed modules of the path (the first ones); number of all its modules */
    size_t blocks;              /* number of blocks that would be freed sooner */
    uint64_t bytes;             /* the most bytes of these blocks at one time */
    size_t passes;              /* for no_grad: number of forwards that keep their graphs */
    double share;               /* share of forward that runs twice, or MP_SHARE_UNKNOWN */
    double flops_share;         /* the same, by FLOPs; MP_SHARE_UNKNOWN without a log of operators */
    size_t number;              /* of the checkpoint's kind of modules */
    uint64_t reentrant_peak;    /* bytes at the peak with use_reentrant=True; 0: not asked */
    uint64_t offloaded_peak;    /* with save_on_cpu() in the checkpoint's place; 0: not known */
    bool by_bytes;              /* of the bytes that forward's operators use; else of its time */
    enum mp_change_run run;
    uint64_t measured, measured_reserved; /* bytes saved in the run */
    uint64_t run_peak;                    /* allocated bytes at the run's peak */
    size_t place;                         /* index before the changes were sorted */
    struct mp_curve curve;                /* the track's curve with the change; empty if not asked for */
};

struct mp_changes {
    struct mp_change *at;
    size_t count, room;
};

/* Ends the block just before the event. */
static inline void mp_change_end(struct mp_change *change, uint32_t block, uint32_t event)
{
    mp_vec_add(&change->edits.ends, ((struct mp_edit_end){.block = block, .freed = event}));
    change->blocks++;
}

/* True if the change costs time or precision. */
static inline bool mp_change_is_dear(const struct mp_change *change)
{
    return change->pattern == MP_CHANGE_CHECKPOINTING || change->pattern == MP_CHANGE_EIGHT_BIT ||
           change->pattern == MP_CHANGE_SPARSE;
}

/* The order of changes by cost. An unknown share of forward costs more than any known one. */
static inline double mp_change_price(const struct mp_change *change)
{
    return change->share < 0 ? 2 : change->share;
}

/* True if the change is ranked and shown by reserved memory. Checkpointing never is: its reserved bytes depend on the
 * order in which blocks are recomputed. PyTorch may also stop once it has the last block that backward needs. */
static inline bool mp_change_is_reserved(const struct mp_change *change)
{
    return change->kind == MP_CHANGE_ALLOCATOR ||
           (change->pattern != MP_CHANGE_CHECKPOINTING && change->saved_reserved > change->saved);
}

static inline uint64_t mp_change_saving(const struct mp_change *change)
{
    return mp_change_is_reserved(change) ? change->saved_reserved : change->saved;
}

const char *mp_change_kind_name(enum mp_change_kind kind);
const char *mp_change_pattern_name(enum mp_change_pattern pattern);
/* MP_CHANGE_KINDS: there is no such name. */
enum mp_change_kind mp_change_kind_named(const char *name);
