/*
 * Finds the moment that shows growth best. Most programs free everything at their end, as Python does, so the last
 * moment often hides a leak. The best moment is the one when a site has blocks from the most periods of the program's
 * life. Pure.
 */
#pragma once

#include "model/filter.h"
#include "model/model.h"
#include "model/spans.h"
#include "model/window.h"

/* A period is a step. Without steps, it is one of this many equal parts of the time from the first event to the
 * last. */
#define MP_TIME_PARTS 64

/* The period of an event, counted from 1. */
uint32_t mp_birth_period(const struct mp_model *model, const struct mp_steps *steps, uint32_t event);

/* Finds the moment (a number of events) in the window when one site has blocks born in the most periods. Candidates are
 * the window's end and 64 evenly spaced moments. The end wins unless another moment has two periods more. */
void mp_growth_moment(const struct mp_model *model, uint16_t track, const struct mp_window *window,
                      const struct mp_steps *steps, const struct mp_filter *filter, uint32_t *moment);
