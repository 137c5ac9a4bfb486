/* Shared by the commands that ask the memprof of a running program (--pid). */
#ifndef MP_CLI_RUNNING_H
#define MP_CLI_RUNNING_H

#include <sys/types.h>

#include "cli/options.h"

/* The process that --pid names. Returns an exit status; a message was written where it is not 0. */
int mp_running_pid(const struct mp_invocation *invocation, pid_t *pid);
/* Says so where the answer is of another process than was asked for. */
void mp_running_note_other(pid_t asked, pid_t answered);

/* `memprof snapshot --pid`: the recording so far of a program that runs, to where -o says. Returns an exit status. */
int mp_running_snapshot(const struct mp_invocation *invocation);

#endif
