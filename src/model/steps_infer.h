/*
 * The steps of a recording. Three ways find them, and the first that finds any counts:
 *
 *     marks         the program's own marks, and the ends of its optimizer's steps (base/step_rule.h)
 *     the loop      a line that is reached again and again (steps_loop.h)
 *     the period    the order of allocations where each thread runs rounds of one line (steps_period.h); a guess
 *
 * Pure.
 */
#ifndef MP_MODEL_STEPS_INFER_H
#define MP_MODEL_STEPS_INFER_H

#include "model/spans.h"

/* All code asks this function, so that a step has one number everywhere. Source "inferred" stands for the loop and the
 * period, `guessed` for the period. The steps are found once, at the first question, on any thread; *steps is the
 * caller's own copy. */
void mp_steps_find(const struct mp_model *model, struct mp_steps *steps);

/* Where a model keeps its steps. Without this they are found anew at each question. */
struct mp_model_steps *mp_model_steps_new(void);
void mp_model_steps_free(struct mp_model_steps *known);

#endif
