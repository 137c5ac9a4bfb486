/* Starts the command under the recorder. */
#ifndef MP_COLLECT_LAUNCH_H
#define MP_COLLECT_LAUNCH_H

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

#include "base/error.h"

/* Finds libmemprof.so and the Python module: next to the running program, in its ../lib/memprof and ../share/memprof,
 * else where they were installed. The caller frees both; *python_folder may be NULL. */
enum mp_status mp_launch_find_library(char **library, char **python_folder, struct mp_error *error);

/* The real path of the first file that exists; relative paths start at memprof's own folder. Freed by the caller;
 * NULL. */
char *mp_launch_find(const char *const *candidates, size_t count);
/* The folder of the Python module alone, freed by the caller; NULL. */
char *mp_launch_find_python(void);

/* Called first: memprof itself gets more stack if the limit (ulimit -s) is low and may be raised. The command keeps the
 * original limit. MP_LIMIT: memprof cannot run with it, and nothing was started. */
enum mp_status mp_launch_stack(struct mp_error *error);

struct mp_launch {
    char *const *command; /* NULL-terminated */
    const char *library, *python_folder, *socket_path;
    bool cupti, hooks;        /* the wanted ways to the CUDA driver */
    bool libunwind;           /* walks native stacks */
    bool host;                /* the C allocator's wrappers, too */
    bool shim;                /* Pythons of the command start python/libmemprof_torch with PyTorch */
    const char *step_at;      /* the function whose calls are steps; NULL or "": none */
    sigset_t default_signals; /* signals that the caller ignores and the command must not */
    sigset_t mask;            /* signals that the command has blocked */
};

/* Starts the command. On failure *exec_errno says why it could not be executed. */
enum mp_status mp_launch_command(const struct mp_launch *launch, pid_t *pid, int *exec_errno, struct mp_error *error);

#endif
