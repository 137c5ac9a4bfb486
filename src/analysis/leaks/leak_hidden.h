/*
 * Memory of the process that grows step after step without any recorded block: taken by a library, a driver or the
 * program itself. It is the process's own share of a device (samples "cpu/resident", "cuda:N/process") less the
 * recorded bytes there, each at its lowest in equal parts of the steps. Pure.
 */
#ifndef MP_ANALYSIS_LEAK_HIDDEN_H
#define MP_ANALYSIS_LEAK_HIDDEN_H

#include "analysis/leaks/leak_places.h"
#include "analysis/leaks/leaks.h"

/* Adds findings; what grows by little or in too few readings becomes unsure_growth. */
void mp_leak_find_hidden(const struct mp_model *model, const struct mp_steps *steps,
                         const struct mp_leak_places *places, struct mp_leaks *leaks);

#endif
