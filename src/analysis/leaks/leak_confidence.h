/*
 * How sure a finding is, and which fact is missing for more. "certain" is said of a leak only if all of these are
 * known:
 *
 *     the whole path from a root to its blocks: a name of the program or a local of a running function
 *     growth by each step: MP_LEAK_EACH_STEP of the steps since the first left blocks, and none that grew old was freed
 *     no bound of what holds them, which the keys of a dict or a set have as long as they come again
 *
 * One fact less is "probable". Another explanation, or few repetitions without a path, is "possible". Pure.
 */
#pragma once

#include "analysis/leaks/leak_finding.h"

/* Sets confidence and missing. `holder`: of most of its blocks, NULL: not known; `guessed`: the steps were guessed. */
void mp_leak_confide(struct mp_leak_finding *finding, const struct mp_holder *holder, bool guessed);
