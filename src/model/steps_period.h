/*
 * Steps of a loop whose body is one line. No line of its function is ever reached again after another, but its
 * allocations come in the same order again and again. The period is the shortest distance at which nearly every
 * allocation that differs from the one before has an equal one that does, among the distances at which sites return;
 * the first quarter is passed over. Only threads that run the same code count, those that allocate most together; the
 * period is found on one of them, and its rounds on each. Only allocations under one line outside of networks count:
 * layers, too, come again and again. Rounds that extend over less than half of the recording are no steps. Pure.
 */
#ifndef MP_MODEL_STEPS_PERIOD_H
#define MP_MODEL_STEPS_PERIOD_H

#include "model/spans.h"

/* Adds the steps; none where there is no period. */
void mp_period_find(const struct mp_model *model, struct mp_steps *steps);

#endif
