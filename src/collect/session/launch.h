/* Starts the command under the recorder. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/* Finds libmemprof.so and the Python module: next to the running program, in ../lib/memprof and ../share/memprof from
 * there, else in the installation. The caller frees both; *python_folder may be NULL. */
enum mp_status mp_launch_find_library(char **library, char **python_folder, struct mp_error *error);

/* The real path of the first file that exists; relative paths start at memprof's own folder. The caller frees it; NULL:
 * none exists. */
char *mp_launch_find(const char *const *candidates, size_t count);
/* Only the folder of the Python module, freed by the caller; NULL. */
char *mp_launch_find_python(void);

/* Call it first: if the stack limit (ulimit -s) is low and may be raised, memprof gets more stack for itself. The
 * command keeps the original limit. MP_LIMIT: memprof cannot run with this limit, and nothing was started. */
enum mp_status mp_launch_stack(struct mp_error *error);

struct mp_launch {
    char *const *command; /* NULL-terminated */
    const char *library, *python_folder, *socket_path;
    bool cupti, hooks;        /* the wanted ways to see the CUDA driver */
    bool libunwind;           /* libunwind walks native stacks */
    bool host;                /* also loads the C allocator's wrappers */
    bool shim;                /* each Python of the command starts python/libmemprof_torch when it imports PyTorch */
    bool host_holders;        /* and what holds them is looked for */
    const char *step_at;      /* the function whose calls are steps; NULL or "": none */
    sigset_t default_signals; /* signals that the caller ignores, but the command must not */
    sigset_t mask;            /* signals to block in the command */
};

/* Starts the command. On failure, *exec_errno is the reason why the command could not be executed, or 0. */
enum mp_status mp_launch_command(const struct mp_launch *launch, pid_t *pid, int *exec_errno, struct mp_error *error);
