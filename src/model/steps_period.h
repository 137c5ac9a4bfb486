/*
 * Steps of a loop whose body is one line. No line runs again after another line did, but its allocations come in the
 * same order again and again. Pure.
 *
 * Which allocations count: only those under one line outside of networks, since layers repeat, too. Threads that run
 * the same code are a group; the group that allocates most counts. The period is found on one thread, and its rounds on
 * each.
 *
 * How the period is found: candidates are the distances at which sites return. Only allocations that differ from their
 * predecessors take part. The period is the shortest distance at which nearly all of them are equal to another
 * allocation that takes part. The first quarter is left out. If the rounds extend over less than half of the recording,
 * they are no steps.
 *
 * For instance, the sites come as a b b c a b b c a b b c. The rarest sites are a and c, whose distances are 4 and 8.
 * The allocations a, the first b, and c differ from the one before. Each of them has an equal one at distance 4, which
 * also differs from its predecessor. The share is 1 at distance 4, and 1 at distance 8 as well. The shorter one counts,
 * so a round has four allocations. It begins where the fewest blocks are live: at a, if all blocks are freed before it.
 * The result is three steps.
 *
 * The constants of steps_period.c: ROUNDS_MIN 3 is two distances that agree. FIRST_TIMES 4 leaves out the first
 * quarter, since warm-up allocates differently. ALIKE_MIN 0.90, AS_GOOD 0.02 and LOOK_MIN 16 were chosen on the
 * recordings of tests/leakbench/check_recordings.py and have not been measured one by one. All others bound time and
 * memory.
 */
#pragma once

#include "model/spans.h"

/* Adds the steps; none if there is no period. */
void mp_period_find(const struct mp_model *model, bool host, struct mp_steps *steps);
