/*
 * The program's loop, from the lines of its Python code: of a function that is called only from outside of networks and
 * optimizers, a line that allocates again and again, each time after other lines of the same function did, begins a
 * round. A round is a step where it is whole: most places that allocate again and again do so in it, and an optimizer's
 * where the program has one. Of the loops with whole rounds the innermost counts, of loops that go round equally often
 * the outermost, of its lines the one at which least is live. So parameters in an optimizer, layers, rows of a batch
 * are no steps, nor are epochs and evaluations. With gradient accumulation a step is what ends in the optimizer's.
 * Pure.
 */
#ifndef MP_MODEL_STEPS_LOOP_H
#define MP_MODEL_STEPS_LOOP_H

#include "model/spans.h"

struct mp_loop {
    uint32_t function, file, line; /* string ids; where a round begins */
    uint32_t rounds;               /* 0: no such loop is seen */
    bool told;                     /* whether that means anything, as there are lines of Python and loops among them */
    bool backward;                 /* what lies between two rounds is backward alone */
};

/* Looks at events, blocks' stacks, stacks, frames, lines and strings of the model alone. False where memory is short;
 * `steps` (may be NULL) gets those of the loop. */
bool mp_loop_find(const struct mp_model *model, struct mp_steps *steps, struct mp_loop *loop);

#endif
