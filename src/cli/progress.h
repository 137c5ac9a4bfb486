/* Shows a line on the terminal while reading a file, or other work, takes longer than a second. One line at a time;
 * main thread. */
#pragma once

#include "cli/invocation.h"

/* Starts watching how far this process has read `path`. Shows nothing if stderr is no terminal, or with --progress
 * never. */
void mp_progress_start(const struct mp_invocation *invocation, const char *path);
/* Does the same for other work named `activity`, which reports its own progress, for instance through
 * mp_tune_progress. */
void mp_progress_start_work(const struct mp_invocation *invocation, const char *activity);
void mp_progress_report(void *context, size_t done, size_t of);
/* False, after a message: --progress has an unknown value. */
bool mp_progress_valid(const struct mp_invocation *invocation);
/* Removes the line. Call it before anything else is written to stderr. */
void mp_progress_end(void);
