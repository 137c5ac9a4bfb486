/*
 * A buffer that everything is joined to: one block (or a few) made anew, larger, in every step, out of the old one,
 * which therefore goes after the new one has come. No number of births tells it. Where much else grows with it, batches
 * do or what is worked on, and it is no leak. Pure.
 */
#ifndef MP_ANALYSIS_LEAK_REGROWN_H
#define MP_ANALYSIS_LEAK_REGROWN_H

#include "analysis/leak_places.h"

/* Fills *evidence where *regrows. False where memory is short. */
bool mp_leak_regrows(const struct mp_model *model, const struct mp_leak_places *places,
                     const struct mp_leak_place *place, struct mp_leak_evidence *evidence, bool *regrows);
/* Whether one in eight of the sites that allocate in most steps allocates more in the last third of them than in the
 * first. False where memory is short. */
bool mp_leak_is_growth_general(const struct mp_model *model, const struct mp_steps *steps,
                               const struct mp_leak_places *places, bool *general);

#endif
