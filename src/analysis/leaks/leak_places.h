/*
 * The places of a program that keep blocks from one step to the next, each with the lives of those blocks: the input of
 * the rule of leak_rule.h. A place is all stacks of a track that share the user's own Python lines and the blocks'
 * kind; a stack without such lines is a place of its own. Pure.
 */
#ifndef MP_ANALYSIS_LEAK_PLACES_H
#define MP_ANALYSIS_LEAK_PLACES_H

#include "analysis/leaks/leak_rule.h"
#include "model/filter.h"
#include "model/spans.h"
#include "model/window.h"

struct mp_leak_place {
    uint32_t stack; /* the one with most bytes that stay */
    uint16_t track;
    uint8_t kind;        /* enum mp_kind */
    size_t first, count; /* in lives and blocks */
};

struct mp_leak_places {
    MP_VEC(struct mp_leak_place) at;
    struct mp_leak_life *lives; /* by place, then by birth */
    uint32_t *blocks;           /* parallel to lives */
    size_t count;               /* of lives */
    uint32_t first_step;        /* index in steps->at of the first one in the window: step 0 of the lives */
    uint32_t steps;             /* that begin in the window */
    uint32_t last;              /* the last boundary in the window */
    bool enough;                /* false: the window holds fewer than two boundaries, and there was no search */
};

void mp_leak_places_find(const struct mp_model *model, const struct mp_steps *steps, uint16_t track,
                         const struct mp_window *window, const struct mp_filter *filter, struct mp_leak_places *places);
void mp_leak_places_free(struct mp_leak_places *places);

#endif
