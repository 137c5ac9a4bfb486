/* Shared by the commands that ask the memprof of a running program (--pid). */
#ifndef MP_CLI_RUNNING_H
#define MP_CLI_RUNNING_H

#include <stdint.h>
#include <sys/types.h>

#include "cli/options.h"

/* The process that --pid names. Returns an exit status; where it is not 0, a message was printed. */
int mp_running_pid(const struct mp_invocation *invocation, pid_t *pid);
/* The milliseconds of --budget, or what a look may take without it; likewise. */
int mp_running_budget(const struct mp_invocation *invocation, uint32_t *budget_ms);
/* Prints a note where the answer is about another process than the one asked for. */
void mp_running_note_other(pid_t asked, pid_t answered);

/* Makes the answer in fd, which stays open until it was read, the only file that the invocation names. */
void mp_running_read(struct mp_invocation *invocation, int fd);

/* `memprof snapshot --pid`: writes a running program's recording so far to the file of -o. Returns an exit status. */
int mp_running_snapshot(const struct mp_invocation *invocation);

#endif
