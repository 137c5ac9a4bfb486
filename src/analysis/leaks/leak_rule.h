/*
 * The rule that decides whether the blocks of one place in a program are a leak. Time is counted in boundaries between
 * steps (boundary N is where step N+1 begins, from 0), all at the same phase of a step. Pure.
 */
#ifndef MP_ANALYSIS_LEAK_RULE_H
#define MP_ANALYSIS_LEAK_RULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Fewer births are no proof. */
#define MP_LEAK_BIRTHS 8

/* A block that lived at a boundary: at those after `birth`, up to `death`. */
struct mp_leak_life {
    uint32_t birth, death; /* steps, from 0; a death in the last step or never is at least the last boundary */
    uint64_t bytes;
    uint32_t site; /* a number for the stack that made it */
};

enum mp_leak_growth {
    MP_GROWTH_NONE,   /* no block stays, or the staying ones are bounded as far as can be seen */
    MP_GROWTH_ONCE,   /* the staying blocks came at once, after the warm-up */
    MP_GROWTH_FEW,    /* keeps growing, but on fewer than MP_LEAK_BIRTHS births */
    MP_GROWTH_PAUSED, /* grew in many steps, but not in the last few: it may be full */
    MP_GROWTH_LEAK,
};

struct mp_leak_evidence {
    enum mp_leak_growth growth;
    uint32_t births;      /* distinct steps in which the staying blocks were born */
    uint32_t first, last; /* the first and last of them, warm-up left out */
    double z;             /* Mann-Kendall's, of the live count over the steps since the first */
    bool sawtooth;        /* most of it was freed now and then, but never for good */
    bool none_freed;      /* none of its blocks that grew old was ever freed */
};

/* Lives in order of birth. `last` is the last boundary, at which the rule judges. */
void mp_leak_judge(const struct mp_leak_life *lives, size_t count, uint32_t last, struct mp_leak_evidence *evidence);

/* The age, in steps, that nine in ten blocks that outlived a step and were freed did not exceed; `else_age` where too
 * few were freed to say. */
uint32_t mp_leak_usual_age(const struct mp_leak_life *lives, size_t count, uint32_t last, uint32_t else_age);

#endif
