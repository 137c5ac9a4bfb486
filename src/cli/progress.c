#include "cli/progress.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/worker.h"
#include "cli/messages.h"

#define FIRST_MS 1000
#define EVERY_MS 200

static pthread_t watcher;
static bool is_watching;
static _Atomic bool is_over;
static const char *watched, *work; /* the file that is being read; the name of other work */
static _Atomic unsigned work_percent;

/* The position of the watched file's descriptor. The kernel gives it, so readers need not report progress. */
static bool find_position(unsigned long long *position)
{
    char target[PATH_MAX], link[64], path[64];
    bool found = false;
    if (!realpath(watched, target)) return false;
    DIR *descriptors = opendir("/proc/self/fd");
    for (struct dirent *entry; descriptors && !found && (entry = readdir(descriptors));) {
        char open_file[PATH_MAX];
        snprintf(link, sizeof link, "/proc/self/fd/%.20s", entry->d_name);
        ssize_t length = readlink(link, open_file, sizeof open_file - 1);
        if (length < 0) continue;
        open_file[length] = '\0';
        if (strcmp(open_file, target)) continue;
        snprintf(path, sizeof path, "/proc/self/fdinfo/%.20s", entry->d_name);
        FILE *facts = fopen(path, "re");
        found = facts && fscanf(facts, "pos: %llu", position) == 1;
        if (facts) fclose(facts);
    }
    if (descriptors) closedir(descriptors);
    return found;
}

static void wait_ms(unsigned ms)
{
    for (unsigned waited = 0; waited < ms && !atomic_load(&is_over); waited += 20)
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
}

static void *watch_work(void)
{
    bool shown = false;
    for (wait_ms(FIRST_MS); !atomic_load(&is_over); wait_ms(EVERY_MS)) {
        shown = true;
        fprintf(stderr, "\r\033[Kmemprof: %s  %u %%", work, atomic_load(&work_percent));
    }
    if (shown) fputs("\r\033[K", stderr);
    return NULL;
}

static void *watch(void *unused)
{
    struct stat facts;
    bool shown = false;
    (void)unused;
    if (work) return watch_work();
    unsigned long long bytes = stat(watched, &facts) ? 0 : (unsigned long long)facts.st_size, position;
    for (wait_ms(FIRST_MS); !atomic_load(&is_over); wait_ms(EVERY_MS)) {
        shown = true;
        if (bytes && find_position(&position) && position)
            fprintf(stderr, "\r\033[Kmemprof: reading %s  %llu %%", watched, position * 100 / bytes);
        else
            fprintf(stderr, "\r\033[Kmemprof: reading %s", watched);
    }
    if (shown) fputs("\r\033[K", stderr);
    return NULL;
}

bool mp_progress_valid(const struct mp_invocation *invocation)
{
    const char *when = invocation->value[MP_OPT_PROGRESS];
    if (!when || !strcmp(when, "auto") || !strcmp(when, "never")) return true;
    mp_message("--progress: \"%s\" is not auto or never", when);
    return false;
}

static void start_watching(const struct mp_invocation *invocation)
{
    const char *when = invocation->value[MP_OPT_PROGRESS];
    if (!isatty(STDERR_FILENO) || (when && !strcmp(when, "never"))) return;
    atomic_store(&is_over, false);
    is_watching = mp_worker_start(&watcher, watch, NULL);
}

void mp_progress_start(const struct mp_invocation *invocation, const char *path)
{
    watched = path;
    work = NULL;
    start_watching(invocation);
}

void mp_progress_start_work(const struct mp_invocation *invocation, const char *activity)
{
    work = activity;
    atomic_store(&work_percent, 0);
    start_watching(invocation);
}

void mp_progress_report(void *context, size_t done, size_t of)
{
    (void)context;
    atomic_store(&work_percent, of ? (unsigned)(done * 100 / of) : 0);
}

void mp_progress_end(void)
{
    if (!is_watching) return;
    atomic_store(&is_over, true);
    pthread_join(watcher, NULL);
    is_watching = false;
}
