/*
 * A finding of the search for leaks: what grows, how fast, why the answer says so, and what would have to be known to
 * say more. Bytes; steps are numbered from 1, unless a member says otherwise. Pure.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/holders/holders.h"

/* The kind of leak that the evidence shows; names in mp_leak_class_name(). The last five classes are reported, but are
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
    MP_LEAK_GARBAGE,       /* Python's collector, which is on, frees it once it runs */
    MP_LEAK_KEPT,          /* code behind the loop reads what the loop collects */
    MP_LEAK_CLASSES
};

/* How sure a finding is. */
enum mp_leak_confidence {
    MP_LEAK_CERTAIN,  /* the whole path to the blocks is known from a root, they grow by each step, and nothing known
                       * bounds them */
    MP_LEAK_PROBABLE, /* they grow, but one of these facts is missing */
    MP_LEAK_POSSIBLE, /* there is another explanation, or there are few repetitions */
};

/* The test that decided. */
enum mp_leak_test {
    MP_LEAK_BY_GROWTH,   /* leak_rule.h */
    MP_LEAK_BY_REGROWTH, /* leak_regrown.h */
    MP_LEAK_BY_TWINS,    /* leak_twins.h */
    MP_LEAK_BY_PROCESS,  /* leak_hidden.h */
    MP_LEAK_BY_RESERVED, /* leaks.c: reserved bytes grow, allocated bytes do not */
    MP_LEAK_BY_REST,     /* leaks.c: blocks stay that a few steps made, or work after the last step */
    MP_LEAK_TESTS
};

struct mp_leak_finding {
    enum mp_leak_class class;
    enum mp_leak_confidence confidence;
    const char *missing; /* the fact that is missing for a higher confidence, as a clause; NULL: none */
    struct {             /* why: what was measured */
        enum mp_leak_test test;
        double z;       /* Mann-Kendall's z of the live blocks; 0: not computed */
        uint32_t steps; /* steps from the first birth to the last boundary */
        uint64_t freed; /* blocks of the place that outlived a step and were freed */
        bool old_freed; /* some of them were older than MP_LEAK_OLD steps */
    } why;
    struct {
        uint32_t whole,
            of;         /* repetitions that left the same blocks, of all repetitions; 0: leak_twins.h did not decide */
        uint64_t bytes; /* that each of them left */
        double apart;   /* steps from one to the next */
    } twins;
    bool regrown;       /* a block or a group, replaced by a larger one in every step */
    bool shared;        /* class hidden: the program's own shared memory, or mapped files, by their counter */
    bool mapped;        /* files that are mapped to be written */
    bool in_shm;        /* files in /dev/shm, mapped or not */
    bool follows;       /* class hidden: it grows less than the recorded blocks, so it may be their Python objects, or
                         * as fast as holes beside them may */
    bool untrained;     /* no backward pass and no optimizer ran, and nobody marked the steps */
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
    uint32_t read_line;                 /* class kept: the line that reads the blocks; 0: another class */
    const struct mp_holders_site *held; /* in mp_leaks.holders; NULL: none of its blocks lived at a look */
    uint64_t entries, most, to_come; /* class bounded: the container's entries, their bound (0: there may be one), and
                                      * the bytes until it is full */
    /* Findings with the same holder are one cause, and are adjacent. The finding with the highest rate comes first and
     * has the sums of all of them. */
    uint32_t cause; /* number of the cause, from 0 */
    struct {
        uint32_t sites; /* 0: another finding of this cause has the sums */
        uint64_t bytes, blocks;
        double bytes_per_step, blocks_per_step;
    } sum;
};

struct mp_leak_findings {
    struct mp_leak_finding *at;
    size_t count, room;
};

static inline bool mp_leak_is_leak(const struct mp_leak_finding *finding)
{
    return finding->class < MP_LEAK_RETAINED_ONCE;
}

/* Leaks come first, and among them leaks with blocks. Within a kind, more bytes per step come first. For qsort(). */
int mp_leak_by_rate(const void *left, const void *right);
const char *mp_leak_class_name(enum mp_leak_class class);
const char *mp_leak_confidence_name(enum mp_leak_confidence confidence);
const char *mp_leak_test_name(enum mp_leak_test test);
/* Advice for a finding of this class, as a sentence without a full stop. */
const char *mp_leak_advice(enum mp_leak_class class);
