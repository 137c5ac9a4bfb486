/* How a process that is not our child has ended. Never waits; any thread. */
#ifndef MP_COLLECT_PROCESS_END_H
#define MP_COLLECT_PROCESS_END_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "format/recording.h"

/* The wait status of a process that has ended: from the kernel (Linux 6.15), or from /proc while its parent has not
 * taken note of the end. False: it still runs, or nobody says, as to a collector that may not debug the process. */
bool mp_process_end(int pidfd, uint32_t pid, int *wait_status);

/* The end as the file has it, and in words: "exit 1", "killed by SIGSEGV". */
struct mp_exit mp_process_end_describe(int wait_status, char *text, size_t room);

#endif
