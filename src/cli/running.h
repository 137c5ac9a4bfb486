/* Shared by the commands that ask the memprof of a running program (--pid). */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "cli/invocation.h"

/* The milliseconds of --budget, or the default time of a look. Returns an exit status; if it is not 0, a message was
 * printed. */
int mp_running_budget(const struct mp_invocation *invocation, uint32_t *budget_ms);
/* Asks for the live blocks of the process that --pid names, or, with `holders`, has it look for holders. The answer is
 * in the file *fd, which becomes the invocation's only operand. Keep *fd open until the file has been read. Returns an
 * exit status, as above. */
int mp_running_ask(struct mp_invocation *invocation, bool holders, int *fd);

/* `memprof snapshot --pid`: writes a running program's recording so far to the file of -o. Returns an exit status. */
int mp_running_snapshot(const struct mp_invocation *invocation);

/* `memprof snapshot --print-env`: prints the variables that make a process part of the session of --pid, or of the one
 * that this command runs in. Returns an exit status. */
int mp_running_print_env(const struct mp_invocation *invocation);
