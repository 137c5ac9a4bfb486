/* The role of a process in its job. Reads /proc; any thread. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/member.h"

/* Reads rank, node and role from the process's initial environment, its command line and its parent. Ranks come from
 * the nearest launcher (torchrun, Open MPI, PMI, Slurm), roles from torchrun and multiprocessing. PMIX_RANK alone is no
 * rank: mpi4py sets it in a program without a launcher. memprof cannot see ranks that a program gives out itself after
 * its start. Roles that only stacks show are set later (collect/recording/recording_write.c). */
void mp_membership_read(uint32_t pid, struct mp_member *member);

/* The parent of a process; 0: not known, or it has no parent in this pid namespace. */
uint32_t mp_membership_parent(uint32_t pid);

/* Reads the same facts from an environment alone, in the form of /proc/PID/environ. `outer`: environments of the
 * process's ancestors, nearest first. They show which launcher is nearest. */
struct mp_environment {
    const char *data; /* entries, each with its NUL */
    size_t size;
};
void mp_membership_of_environment(const struct mp_environment *own, const struct mp_environment *outer, size_t count,
                                  struct mp_member *member);

/* The contents of a file of /proc/PID, up to `most` bytes, to be freed with mp_process_file_free(); empty if the file
 * cannot be read. Any thread. */
struct mp_environment mp_process_file(uint32_t pid, const char *name, uint64_t most);
void mp_process_file_free(struct mp_environment *file);
