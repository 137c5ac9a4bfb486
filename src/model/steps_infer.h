/*
 * Finds the steps of a recording in three ways. The first way that finds any counts:
 *
 *     marks         the program's own marks, and the ends of its optimizer's steps (base/step_rule.h)
 *     the loop      a line that is reached again and again (steps_loop.h)
 *     the period    the order of allocations where each thread runs rounds of one line (steps_period.h); a guess
 *
 * Pure.
 */
#pragma once

#include "model/spans.h"

/* All code calls this function, so that a step has one number everywhere. Source "inferred" means the loop or the
 * period; `guessed` means the period. The steps are found once, at the first call, on any thread. *steps is the
 * caller's own copy. */
void mp_steps_find(const struct mp_model *model, struct mp_steps *steps);

/* The place in a model where mp_steps_find() stores the steps. Without it, every call finds them anew. */
struct mp_model_steps *mp_model_steps_new(void);
void mp_model_steps_free(void *known);
