/* Which member of a job a process is. Reads /proc; any thread. */
#ifndef MP_COLLECT_MEMBERSHIP_H
#define MP_COLLECT_MEMBERSHIP_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/member.h"

/* Reads rank, node and role from the process's environment at its start, its command line and its parent. Ranks come
 * from the nearest launcher (torchrun, Open MPI, PMIx, PMI, Slurm), roles from torchrun and multiprocessing. Ranks that
 * a program gives out itself, after its start, are not seen. Roles that only stacks show come later
 * (collect/recording/recording_parts.h). */
void mp_membership_read(uint32_t pid, struct mp_member *member);

/* The process that started it; 0: not known, or nobody's. */
uint32_t mp_membership_parent(uint32_t pid);

/* The same of an environment alone, as in /proc/PID/environ. `outer` are those of the process's parents, nearest first,
 * which say what launcher is the nearest. */
struct mp_environment {
    const char *data; /* entries, each with its NUL */
    size_t size;
};
void mp_membership_of_environment(const struct mp_environment *own, const struct mp_environment *outer, size_t count,
                                  struct mp_member *member);

#endif
