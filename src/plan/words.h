/* The command line of `memprof plan` for one run of several. */
#pragma once

#include "cli/invocation.h"

/* Makes the words "memprof plan --quiet OPTIONS -o PATH -- COMMAND": with the options of the invocation that decide
 * what is planned, and its command behind the first "--". `stacks`: with stacks, which show the values that decide
 * sizes. For mp_probing_run_words(). */
char **mp_plan_words(const struct mp_invocation *invocation, bool stacks, const char *path);
