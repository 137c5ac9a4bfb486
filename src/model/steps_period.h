/*
 * Steps of a loop whose body is one line: no line of its function is ever reached again after another, but what it
 * allocates comes in the same order again and again. The period is the shortest distance at which nearly every
 * allocation has its like, of the distances at which sites come again. It is of one thread, the one that allocates
 * most, and of what lies under one line outside of networks: layers, too, come again and again. Pure.
 */
#ifndef MP_MODEL_STEPS_PERIOD_H
#define MP_MODEL_STEPS_PERIOD_H

#include "model/spans.h"

/* Adds the steps; none where no period shows. */
void mp_period_find(const struct mp_model *model, struct mp_steps *steps);

#endif
