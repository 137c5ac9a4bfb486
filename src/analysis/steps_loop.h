/*
 * The program's loop, from the lines of its Python code: of a function that is called only from outside of networks and
 * optimizers, a line that allocates again and again, each time after other lines of the same function did, begins a
 * round. A round is a step where it is whole: most places that allocate again and again do so in it, and an optimizer's
 * where the program has one. Of the loops with whole rounds the innermost counts, of loops that go round equally often
 * the outermost, of its lines the one at which least is live. So parameters in an optimizer, layers, rows of a batch are
 * no steps, nor are epochs and evaluations. With gradient accumulation a step is what ends in the optimizer's. Pure.
 */
#ifndef MP_ANALYSIS_STEPS_LOOP_H
#define MP_ANALYSIS_STEPS_LOOP_H

#include "model/spans.h"

/* Adds the steps, none where no such loop is seen. *told: whether that means anything, as there are lines of Python and
 * loops among them. False where memory is short. */
bool mp_steps_from_loop(const struct mp_model *model, struct mp_steps *steps, bool *told);

#endif
