/*
 * Memory of the process that grows step after step without a recorded block: a library, a driver or the program itself
 * takes it. Hidden memory is the process's share of a device (samples "cpu/resident", "cuda:N/process") less the
 * recorded bytes there. For each of several equal parts of the steps, the lowest values of both count. Pure.
 */
#pragma once

#include "analysis/leaks/leak_finding.h"
#include "analysis/leaks/leak_places.h"

/* Adds findings. Small growth, and growth over too few readings or steps, becomes *unsure. A plan's host computes what
 * a device would, so only the devices of a plan are searched. */
void mp_leak_find_hidden(const struct mp_model *model, const struct mp_steps *steps,
                         const struct mp_leak_places *places, struct mp_leak_findings *findings,
                         struct mp_leak_finding *unsure);
