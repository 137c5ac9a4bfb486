/*
 * The moment to look for growth. Most programs free everything when they end (Python's interpreter does), so the last
 * moment shows a leak only where it survives that. The best moment is the one at which some site holds blocks from the
 * most distinct periods of the program's life. Pure.
 */
#ifndef MP_ANALYSIS_GROWTH_H
#define MP_ANALYSIS_GROWTH_H

#include "model/filter.h"
#include "model/model.h"
#include "model/spans.h"
#include "model/window.h"

/* Periods distinguish births: the step, or, where the recording has no steps, one of this many equal parts of the time
 * from its first event to its last. */
#define MP_TIME_PARTS 64

/* The period of an event, from 1. */
uint32_t mp_birth_period(const struct mp_model *model, const struct mp_steps *steps, uint32_t event);

/* Finds the moment (a number of events) in the window at which one site holds blocks born in the most periods.
 * Candidates are the window's end and 64 evenly spaced moments; the end wins unless another is better by two. */
void mp_growth_moment(const struct mp_model *model, uint16_t track, const struct mp_window *window,
                      const struct mp_steps *steps, const struct mp_filter *filter, uint32_t *moment);

#endif
