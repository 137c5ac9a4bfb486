/* A line on the terminal while a file is being read, or other work done, for longer than a second. One at a time; main
 * thread. */
#pragma once

#include "cli/options.h"

/* Starts watching how far this process has read `path`. Shows nothing if stderr is no terminal, or with --progress
 * never. */
void mp_progress_start(const struct mp_invocation *invocation, const char *path);
/* The same for other work named `activity`, which reports its progress, as mp_tune_progress does. */
void mp_progress_start_work(const struct mp_invocation *invocation, const char *activity);
void mp_progress_report(void *context, size_t done, size_t of);
/* False, after a message: --progress has an unknown value. */
bool mp_progress_valid(const struct mp_invocation *invocation);
/* Removes the line. Call it before anything else is written to stderr. */
void mp_progress_end(void);
