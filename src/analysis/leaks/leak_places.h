/*
 * The places of a program that keep blocks from one step to the next, with the lives of these blocks: the input of
 * leak_rule.h. A place is all stacks of a track with the same lines of the user's own Python and the same kind of
 * block. A stack without such lines is its own place. Pure.
 */
#pragma once

#include "analysis/leaks/leak_rule.h"
#include "model/filter.h"
#include "model/spans.h"
#include "model/window.h"

struct mp_leak_place {
    uint32_t stack; /* the stack with most staying bytes */
    uint16_t track;
    uint8_t kind;        /* enum mp_kind */
    size_t first, count; /* indices into lives and blocks */
};

struct mp_leak_places {
    MP_VEC(struct mp_leak_place) at;
    struct mp_leak_life *lives; /* by place, then by birth */
    uint32_t *blocks;           /* parallel to lives */
    size_t count;               /* of lives */
    uint32_t first_step;        /* index in steps->at of the window's first step, which is step 0 of the lives */
    uint32_t steps;             /* number of steps that begin in the window */
    uint32_t last;              /* the last boundary in the window */
    bool enough;                /* false: the window has fewer than two boundaries, so nothing was searched */
};

void mp_leak_places_find(const struct mp_model *model, const struct mp_steps *steps, uint16_t track,
                         const struct mp_window *window, const struct mp_filter *filter, struct mp_leak_places *places);
void mp_leak_places_free(struct mp_leak_places *places);
