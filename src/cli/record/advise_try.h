/* `memprof plan --advise` and `memprof advise --try`: run a program, and run it again with each advised change that can
 * be made from outside (python/libmemprof_plan/apply.py). */
#pragma once

#include "cli/invocation.h"

/* Runs under `memprof plan` if `plans`, else under `memprof snapshot`. Writes the advice with what was measured. Main
 * thread. Returns an exit status. */
int mp_advise_try(const struct mp_invocation *invocation, unsigned kinds, bool plans);
