/*
 * Steps of a program that marked none. They come from its loop, where the lines of its Python code show one
 * (steps_loop.h). Otherwise they are guessed from the rhythm of its allocations: a site that allocates once per round
 * of the loop marks where a round begins. Sites that come equally often, evenly over the recording, form a group. A
 * group can be the rhythm where its rounds are about equally long and the number of live blocks repeats from one to the
 * next (inside a round it rises and falls). Of several such groups the one with the most sites is chosen. Pure.
 */
#ifndef MP_MODEL_STEPS_INFER_H
#define MP_MODEL_STEPS_INFER_H

#include "model/spans.h"

/* The steps of a recording: those that the program marked, else those that can be inferred (source "inferred";
 * `guessed`: by rhythm), else none. All code asks this function, so that a step has one number everywhere. The steps
 * are found once, at the first question; *steps is the caller's own copy. False where memory is short. */
bool mp_steps_find(const struct mp_model *model, struct mp_steps *steps);

/* Where a model keeps its steps. Without this they are found anew at each question. */
struct mp_model_steps *mp_model_steps_new(void); /* NULL: no memory */
void mp_model_steps_free(struct mp_model_steps *known);

#endif
