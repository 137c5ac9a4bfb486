/*
 * Finds growth on every track, by the rule of leak_rule.h. The rule judges at the last boundary between steps, so frees
 * at the program's end hide nothing. Sites that the program freed while it still worked are cleared. The result also
 * has, by site, the outstanding blocks, and those live at the moment that shows growth best (growth.h). Sites are
 * sorted by the number of steps in which their live blocks were born (without steps: of 64 equal time slices), then by
 * bytes. Pure.
 */
#pragma once

#include "analysis/holders/holders.h"
#include "analysis/leaks/leak_rule.h"
#include "analysis/leaks/suppress.h"
#include "analysis/sites/sites.h"
#include "model/window.h"

/* Fewer steps cannot show MP_LEAK_BIRTHS births after a warm-up. */
#define MP_LEAK_STEPS 12
/* Steps guessed by the period may be layers of a network, so this is more than most networks have. */
#define MP_LEAK_GUESSED_STEPS 40

struct mp_leaks_query {
    uint16_t track;          /* MP_TRACK_NONE: all */
    struct mp_window window; /* outstanding: live at the window's end */
    struct mp_grouping grouping;
    const struct mp_filter *filter;
    struct mp_suppressions *suppressions; /* NULL: none; counts their uses */
};

/* The kind of leak that the evidence shows; names in mp_leak_class_name(). The last three classes are reported, but are
 * no leak. */
enum mp_leak_class {
    MP_LEAK_RETENTION,   /* the program's own objects hold tensors */
    MP_LEAK_NATIVE,      /* allocated without Python frames */
    MP_LEAK_HANDLE,      /* streams, events, plans: made and not destroyed */
    MP_LEAK_PINNED,      /* page-locked host memory */
    MP_LEAK_GRAPH_POOL,  /* memory of CUDA graphs */
    MP_LEAK_SHAPE_CACHE, /* a new block for each new size */
    MP_LEAK_CYCLE,       /* freed too seldom or never, as by Python's garbage collector */
    MP_LEAK_HIDDEN,      /* the process grows, and no recorded block explains it */
    MP_LEAK_RETAINED_ONCE,
    MP_LEAK_FRAGMENTATION, /* an allocator takes more and more from the layer below, while its allocated bytes do not
                            * grow */
    MP_LEAK_BOUNDED,       /* held by bounded containers that are not full */
    MP_LEAK_CLASSES
};

struct mp_leak_finding {
    enum mp_leak_class class;
    bool certain;
    bool regrown;       /* one block, replaced by a larger one in every step */
    bool follows;       /* class hidden: it grows less than the recorded blocks, so it may be their Python objects, or
                         * holes */
    bool maybe_request; /* or the blocks are results of one long request, freed when it ended */
    uint16_t track;
    uint32_t stack;         /* the place's heaviest site (leak_places.h); 0: none */
    uint64_t bytes, blocks; /* live at the last boundary */
    uint32_t births;        /* distinct steps in which these were born */
    uint32_t first_step;    /* number of that step, from 1 */
    double bytes_per_step, blocks_per_step;
    double change;          /* bytes by which a step keeps more than the step before; 0: no trend */
    bool uneven;            /* the rate changes irregularly, so it holds only for these steps */
    uint64_t at_twice;      /* bytes after twice as many steps; 0: no forecast */
    uint64_t eta_oom_steps; /* steps until the device is full, from its highest level on; UINT64_MAX: unknown */
    size_t first_stack, stack_count;    /* in mp_leaks.stacks: the stacks of the place that kept several blocks */
    const struct mp_holders_site *held; /* in mp_leaks.holders; NULL: none of its blocks lived at a look */
    uint64_t entries, most, to_come;    /* class bounded: the container's entries, their bound, and the bytes until it
                                         * is full */
    /* Findings with the same holder are one cause, and are adjacent. The finding with the highest rate comes first and
     * has the sums of all of them. */
    uint32_t cause; /* number of the cause, from 0 */
    struct {
        uint32_t sites; /* 0: another finding of this cause has the sums */
        uint64_t bytes, blocks;
        double bytes_per_step, blocks_per_step;
    } sum;
};

static inline bool mp_leak_is_leak(const struct mp_leak_finding *finding)
{
    return finding->class < MP_LEAK_RETAINED_ONCE;
}

enum mp_verdict { MP_VERDICT_LEAK, MP_VERDICT_CLEAN, MP_VERDICT_UNKNOWN };

struct mp_leaks {
    enum mp_verdict verdict;
    char reason[240]; /* for verdict unknown: a clause */
    /* Leaks come first, and among them leaks with blocks. Within a kind, causes with more bytes per step come first. */
    MP_VEC(struct mp_leak_finding) findings;
    MP_VEC(uint32_t) stacks;   /* stacks of the findings, one finding after the other */
    struct mp_holders holders; /* all recorded blocks; empty without findings */
    uint32_t leaks;            /* number of leaks among the findings */
    uint32_t causes;           /* number of different causes of the leaks */
    size_t caches; /* places that replace a block by a larger one without being leaks: the loop may be one request,
                    * replacement is too rare, or the work itself grows */
    struct mp_leak_finding unsure_growth; /* class hidden, but over too few steps, or too small, to be sure; bytes 0:
                                           * none */
    uint64_t suppressed_bytes, suppressed_findings;
    size_t places; /* number of places that were judged */
    uint32_t step_count;
    const char *step_source;
    bool grows;                  /* the memory between steps rose over the recorded steps */
    bool running;                /* the program still runs: outstanding means live */
    struct mp_sites outstanding; /* live at the end of the window */
    uint32_t held_moment;        /* number of events before that moment */
    uint64_t held_ns;
    struct mp_sites held; /* live at held_moment; sites that are still live at the last allocation come first */
    size_t held_lasting;  /* number of sites that are still live at the last allocation (with groups: of all rows) */
};

enum mp_status mp_leaks_find(const struct mp_model *model, const struct mp_leaks_query *query, struct mp_leaks *leaks,
                             struct mp_error *error);
const char *mp_leak_class_name(enum mp_leak_class class);
/* Advice for a finding of this class, as a sentence without a full stop. */
const char *mp_leak_advice(enum mp_leak_class class);
const char *mp_verdict_name(enum mp_verdict verdict);
void mp_leaks_free(struct mp_leaks *leaks);
