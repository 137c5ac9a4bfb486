/* The C library's functions that start another program, with the session's variables put back into its environment.
 * Nothing else changes: arguments, result and errno are those of the C library. */
#include <alloca.h>
#include <dlfcn.h>
#include <spawn.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/kernel.h"
#include "capture/entry/environment.h"
#include "capture/entry/exec.h"

extern char **environ;

/* The environment for the next program; where it is made, it lies on the caller's stack. */
#define PASSED(environment)                                                                                            \
    ({                                                                                                                 \
        char *const *own_ = (environment);                                                                             \
        size_t room_ = mp_environment_room(own_);                                                                      \
        room_ ? mp_environment_fill(own_, alloca(room_)) : (char **)(uintptr_t)own_;                                   \
    })

#define WRAPPED __attribute__((visibility("default")))

typedef int exec_call(const char *, char *const *, char *const *);
typedef int spawn_call(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                       char *const *, char *const *);

static struct {
    exec_call *execve, *execvpe;
    int (*fexecve)(int, char *const *, char *const *);
    int (*execveat)(int, const char *, char *const *, char *const *, int);
    spawn_call *posix_spawn, *posix_spawnp;
    int (*system)(const char *);
    FILE *(*popen)(const char *, const char *);
} real;

/* Before the constructor, another library's constructor may start a program. */
static void *find(void *to, const char *name)
{
    void *symbol = dlsym(RTLD_NEXT, name);
    memcpy(to, &symbol, sizeof symbol);
    return symbol;
}
#define FIND(name) (real.name || find(&real.name, #name))

void mp_exec_start(void)
{
    (void)(FIND(execve) && FIND(execvpe) && FIND(fexecve) && FIND(posix_spawn) && FIND(posix_spawnp) && FIND(system) &&
           FIND(popen));
    (void)FIND(execveat); /* not before glibc 2.34 */
}

static int is_missing(void)
{
    errno = ENOSYS;
    return -1;
}

WRAPPED int execve(const char *path, char *const arguments[], char *const environment[])
{
    return FIND(execve) ? real.execve(path, arguments, PASSED(environment)) : is_missing();
}

WRAPPED int execv(const char *path, char *const arguments[])
{
    return execve(path, arguments, environ);
}

WRAPPED int execvpe(const char *file, char *const arguments[], char *const environment[])
{
    return FIND(execvpe) ? real.execvpe(file, arguments, PASSED(environment)) : is_missing();
}

WRAPPED int execvp(const char *file, char *const arguments[])
{
    return execvpe(file, arguments, environ);
}

WRAPPED int fexecve(int file, char *const arguments[], char *const environment[])
{
    return FIND(fexecve) ? real.fexecve(file, arguments, PASSED(environment)) : is_missing();
}

WRAPPED int execveat(int folder, const char *path, char *const arguments[], char *const environment[], int flags);
int execveat(int folder, const char *path, char *const arguments[], char *const environment[], int flags)
{
    if (FIND(execveat)) return real.execveat(folder, path, arguments, PASSED(environment), flags);
    return (int)mp_syscall(SYS_execveat, folder, path, arguments, PASSED(environment), flags);
}

WRAPPED int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions,
                        const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    return FIND(posix_spawn) ? real.posix_spawn(pid, path, actions, attributes, arguments, PASSED(environment))
                             : ENOSYS;
}

WRAPPED int posix_spawnp(pid_t *pid, const char *file, const posix_spawn_file_actions_t *actions,
                         const posix_spawnattr_t *attributes, char *const arguments[], char *const environment[])
{
    return FIND(posix_spawnp) ? real.posix_spawnp(pid, file, actions, attributes, arguments, PASSED(environment))
                              : ENOSYS;
}

/* The C library starts the shell itself, with the program's environment. */
WRAPPED int system(const char *command)
{
    mp_environment_complete();
    return FIND(system) ? real.system(command) : is_missing();
}

WRAPPED FILE *popen(const char *command, const char *mode)
{
    mp_environment_complete();
    return FIND(popen) ? real.popen(command, mode) : (is_missing(), NULL);
}

/* ---- arguments one by one ------------------------------------------------------------------------------------- */

/* The arguments from `first` to the NULL, as an array on the caller's stack. *environment: the argument behind the
 * NULL, if it is asked for. */
#define LISTED(arguments, first, environment_to)                                                                       \
    size_t count_ = 1;                                                                                                 \
    va_list list_;                                                                                                     \
    va_start(list_, first);                                                                                            \
    while (va_arg(list_, char *))                                                                                      \
        count_++;                                                                                                      \
    va_end(list_);                                                                                                     \
    char **arguments = alloca((count_ + 1) * sizeof(char *));                                                          \
    arguments[0] = (char *)(uintptr_t)(first);                                                                         \
    va_start(list_, first);                                                                                            \
    for (size_t i_ = 1; i_ <= count_; i_++)                                                                            \
        arguments[i_] = va_arg(list_, char *);                                                                         \
    char *const **environment_to_ = (environment_to);                                                                  \
    if (environment_to_) *environment_to_ = va_arg(list_, char *const *);                                              \
    va_end(list_)

WRAPPED int execl(const char *path, const char *first, ...)
{
    LISTED(arguments, first, NULL);
    return execve(path, arguments, environ);
}

WRAPPED int execlp(const char *file, const char *first, ...)
{
    LISTED(arguments, first, NULL);
    return execvpe(file, arguments, environ);
}

WRAPPED int execle(const char *path, const char *first, ...)
{
    char *const *environment;
    LISTED(arguments, first, &environment);
    return execve(path, arguments, environment);
}
