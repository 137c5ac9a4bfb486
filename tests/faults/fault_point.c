/*
 * Preloaded into memprof by the kill tests: ends or stops it in the middle of its Nth write of a recording.
 *
 *     MEMPROF_FAULT_POINT=WHEN:N:WHERE:SIGNAL
 *
 * WHEN: `any` counts writes from the start, `main` only those of the collector and not of its children, `end` those
 * after the command has ended. WHERE: the fault comes `before` the write, with `half` of it written, or `after` it,
 * before the call returns. Works only in a process called memprof, not in processes that it starts.
 */
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static char when[8], where[8];
static int number, signal_number;
static bool ended;
static pid_t collector;

__attribute__((constructor)) static void read_wish(void)
{
    const char *wish = getenv("MEMPROF_FAULT_POINT");
    if (strcmp(program_invocation_short_name, "memprof") || !wish) return;
    collector = getpid();
    if (sscanf(wish, "%7[^:]:%d:%7[^:]:%d", when, &number, where, &signal_number) != 4) abort();
    unsetenv("MEMPROF_FAULT_POINT");
}

static bool is_recording(int fd)
{
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    ssize_t length = readlink(name, path, sizeof path);
    return length > 3 && !memcmp(path + length - 3, ".mp", 3);
}

static bool is_here(int fd)
{
    bool counts = ended || !strcmp(when, "any") || (!strcmp(when, "main") && getpid() == collector);
    return number && counts && is_recording(fd) && !--number;
}

ssize_t write(int fd, const void *bytes, size_t size)
{
    static ssize_t (*next)(int, const void *, size_t);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "write");
    if (!is_here(fd)) return next(fd, bytes, size);
    ssize_t put = *where == 'b' ? 0 : next(fd, bytes, *where == 'h' ? size / 2 : size);
    kill(getpid(), signal_number);
    return put || !size ? put : next(fd, bytes, size);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    static pid_t (*next)(pid_t, int *, int);
    if (!next) *(void **)&next = dlsym(RTLD_NEXT, "waitpid");
    pid_t found = next(pid, status, options);
    if (found > 0) ended = true;
    return found;
}
