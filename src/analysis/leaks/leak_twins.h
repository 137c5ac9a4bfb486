/*
 * Repetitions that are too few for leak_rule.h, but whole: five engines, seven models, six evaluations that each left
 * the same blocks. Pure.
 *
 * A repetition is a step that left blocks which live until the program ends. Repetitions are twins if they left the
 * same number of blocks and bytes. The first one may have left more or less, by a warm-up, and the last one, as it may
 * not be over. MP_LEAK_TWINS of them are a leak if
 *
 *     they come at regular distances, and go on to the end
 *     steps lie between them, so each does work, and a program that only starts is none
 *     no block of the place that grew older than a repetition was ever freed
 *
 * For instance six epochs of six steps, each with an evaluation that keeps eight outputs: the steps 7, 13, 19, 25 and
 * 31 left eight blocks each, and so did the work after step 36. Six of six stay.
 */
#pragma once

#include "analysis/leaks/leak_places.h"

struct mp_leak_twins {
    uint32_t whole, of;     /* repetitions that are twins, of all repetitions */
    uint32_t first;         /* step of the first twin, from 0 */
    uint64_t bytes, blocks; /* that each left */
    double apart;           /* steps from one to the next */
};

/* `teardown`: the event from which on the program only exits. `named`: the steps are calls of a function that the user
 * named, so each of them is a repetition. Returns true if the place leaks. */
bool mp_leak_twins_find(const struct mp_model *model, const struct mp_steps *steps, const struct mp_leak_places *places,
                        const struct mp_leak_place *place, uint32_t teardown, bool named, struct mp_leak_twins *twins);
