/* `memprof advise --try`: runs a program, and runs it again with each advised change that can be made from outside
 * (python/libmemprof_torch/apply.py). */
#pragma once

#include "cli/invocation.h"

/* Makes the words of one memprof that runs the invocation's command and writes the recording `path`; `stacks`: with
 * what advice needs. For mp_probing_run_words(). */
typedef char **mp_advise_words(const struct mp_invocation *invocation, bool stacks, const char *path);

/* Runs with the caller's words (NULL: under `memprof snapshot`), and writes the advice with what was measured. Main
 * thread. Returns an exit status. */
int mp_advise_try(const struct mp_invocation *invocation, unsigned kinds, mp_advise_words *words);
