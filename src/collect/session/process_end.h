/* Finds out how a process that is not memprof's child has ended. Never waits; any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "collect/recording/recording.h"

/* The wait status of an ended process: from the kernel (Linux 6.15), or from /proc until its parent has waited for it.
 * False: the process still runs, or the status is unknown, for instance because the collector may not debug the
 * process. */
bool mp_process_end(int pidfd, uint32_t pid, int *wait_status);

/* Describes the end for the file, and in words: "exit 1", "killed by SIGSEGV". */
struct mp_exit mp_process_end_describe(int wait_status, char *text, size_t room);
