/*
 * Steps of a program that marked none: from its loop, where the lines of its Python code show one (steps_loop.h), else
 * guessed from the rhythm of its allocations: a site that comes once in each round of the loop marks where a round
 * begins. Sites that come equally often, evenly over the recording, are told together. A group can be the rhythm where
 * its rounds are about equally long and the number of live blocks repeats from one to the next (inside a round it
 * climbs and falls); of those, the one that most sites keep is. Pure.
 */
#ifndef MP_MODEL_STEPS_INFER_H
#define MP_MODEL_STEPS_INFER_H

#include "model/spans.h"

/* The steps of a recording: what the program marked, else what can be inferred (source "inferred"; `guessed`: by
 * rhythm), else none. Everybody asks this, so that a step has one number everywhere. Found once, at the first question;
 * *steps is a copy of the caller's. False where memory is short. */
bool mp_steps_find(const struct mp_model *model, struct mp_steps *steps);

/* Where a model keeps them. Without it they are found at each question. */
struct mp_model_steps *mp_model_steps_new(void); /* NULL: no memory */
void mp_model_steps_free(struct mp_model_steps *known);

#endif
