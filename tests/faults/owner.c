/*
 * Programs that act as if the whole process were theirs: they close, stop, replace and mark things that they did not
 * make. `owner MODE`. The output depends only on the mode, so it is the same recorded or not.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <memprof.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "faults/hostile.h"

extern char **environ;

/* Functions that PyTorch's allocators call. They are defined only if the program is recorded. */
bool profiling_enabled(void) __asm__("_ZN3c1022memoryProfilingEnabledEv") __attribute__((weak));
void report_usage(void *address, int64_t bytes, size_t allocated, size_t reserved,
                  uint16_t device) __asm__("_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE")
    __attribute__((weak));

static const char *own_path;

static long now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Waits until the recorder tries to attach again. The recorder waits four times as long each time, so that is at most
 * three times the time since its first try. */
static void rest_until_tried_again(long since)
{
    rest(50000000 + 4 * (now_ns() - since));
}

/* ---- descriptors ------------------------------------------------------------------------------------------------ */

/* Standard descriptors are closed, so the first files that the program opens get their numbers. */
static int no_standard_files(void)
{
    int kept = dup(1), first[3];
    for (int i = 0; i < 3; i++)
        close(i);
    pool = memprof_pool("owner", -1);
    int sum = paths(0, 2000);
    for (int i = 0; i < 3; i++)
        first[i] = open("/dev/null", O_RDWR);
    sum += paths(0, 100);
    bool plain = first[0] == 0 && first[1] == 1 && first[2] == 2;
    dup2(kept, 1);
    close(kept);
    return plain ? sum : -1;
}

/* The first events happen when no descriptor is available; after `rest` some are available again. */
static int without_descriptors(void)
{
    struct rlimit before, none;
    if (getrlimit(RLIMIT_NOFILE, &before)) return -1;
    none = before;
    none.rlim_cur = 0;
    if (setrlimit(RLIMIT_NOFILE, &none)) return -2;
    long since = now_ns();
    pool = memprof_pool("owner", -1);
    int sum = paths(0, 100);
    if (setrlimit(RLIMIT_NOFILE, &before)) return -3;
    rest_until_tried_again(since);
    return sum + paths(0, 1000);
}

/* In turn enough descriptors are available for one, two, ... parts of attaching, but never for all. */
static int few_descriptors(void)
{
    struct rlimit before;
    if (getrlimit(RLIMIT_NOFILE, &before)) return -1;
    long since = now_ns();
    int sum = 0, free_one = dup(1);
    close(free_one);
    for (int left = 0; left < 3; left++) {
        struct rlimit few = before;
        few.rlim_cur = (rlim_t)(free_one + left);
        if (setrlimit(RLIMIT_NOFILE, &few)) return -2;
        if (!pool) pool = memprof_pool("owner", -1);
        sum += paths(0, 100);
        rest(5000000);
    }
    if (setrlimit(RLIMIT_NOFILE, &before)) return -3;
    rest_until_tried_again(since);
    return sum + paths(0, 1000);
}

static void tensors(int count)
{
    static char block[64];
    for (int i = 0; i < count; i++) {
        if (!profiling_enabled || !profiling_enabled()) continue;
        report_usage(block, sizeof block, sizeof block, 0, 0xff00);
        report_usage(block, -(int64_t)sizeof block, 0, 0, 0xff00);
    }
}

/* The allocator asks only once whether it should report. */
static int tensors_without_descriptors(void)
{
    struct rlimit before, none;
    if (getrlimit(RLIMIT_NOFILE, &before)) return -1;
    none = before;
    none.rlim_cur = 0;
    if (setrlimit(RLIMIT_NOFILE, &none)) return -2;
    long since = now_ns();
    tensors(100);
    if (setrlimit(RLIMIT_NOFILE, &before)) return -3;
    rest_until_tried_again(since);
    tensors(1000);
    return 0;
}

/* Only the program's children lack descriptors. */
static int children_without_descriptors(void)
{
    pool = memprof_pool("owner", -1);
    int sum = paths(0, 100);
    for (int i = 0; i < 3; i++) {
        pid_t child = fork();
        if (!child) _exit(without_descriptors() ? 3 : 4);
        sum += status_of(child);
    }
    return sum;
}

/* Closes descriptors that it did not make, and opens files of its own, which nobody else may close. */
static void *closes_and_opens(void *unused)
{
    intptr_t lost = 0;
    (void)unused;
    while (!stop) {
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        int own = open("/dev/null", O_RDONLY);
        for (int i = 0; i < 50; i++)
            lost += fcntl(own, F_GETFD) < 0;
        close(own);
    }
    return (void *)lost; /* NOLINT */
}

/* Children attach while another thread of theirs closes what it finds. */
static int closes_while_attaching(void)
{
    enum { CHILDREN = 40 };
    int lost = 0;
    for (int i = 0; i < CHILDREN; i++) {
        pthread_t thread;
        void *result;
        pid_t child = fork();
        if (child) {
            lost += status_of(child) != 0;
            continue;
        }
        if (pthread_create(&thread, NULL, closes_and_opens, NULL)) _exit(1);
        rest(20000 * i);
        paths(0, 10);
        stop = true;
        pthread_join(thread, &result);
        _exit(result ? 2 : 0);
    }
    return lost;
}

/* Closes all descriptors again and again, while other threads make events. */
static int closes_all(void)
{
    pthread_t threads[3];
    for (int i = 0; i < 3; i++)
        if (!start(&threads[i], others, NULL)) return -1;
    int sum = 0, wrong = 0;
    for (int round = 0; round < 60; round++) {
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        wrong += open("/dev/null", O_RDONLY) != 3;
        sum += paths(0, 50);
    }
    stop = true;
    for (int i = 0; i < 3; i++)
        pthread_join(threads[i], NULL);
    return sum + wrong;
}

/* Becomes a daemon as textbooks say: forks twice, closes all files, changes the folder. */
static int daemonizes(void)
{
    int done[2];
    char byte = 0;
    event();
    if (pipe(done)) return -1;
    pid_t child = fork();
    if (!child) {
        setsid();
        if (fork()) _exit(0);
        if (chdir("/")) _exit(1);
        for (int fd = 0; fd < 64; fd++)
            if (fd != done[1]) close(fd);
        int sum = paths(0, 2000);
        byte = (char)(sum % 100);
        if (write(done[1], &byte, 1) != 1) _exit(1);
        _exit(0);
    }
    close(done[1]);
    status_of(child);
    return read(done[0], &byte, 1) == 1 ? byte : -1;
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

static int spawns(void)
{
    int sum = paths(0, 200);
    for (int i = 0; i < 40; i++) {
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_addopen(&actions, 1, "/dev/null", O_WRONLY, 0);
        char *arguments[] = {(char *)(uintptr_t)own_path, (char *)(uintptr_t) "short", NULL};
        pid_t child;
        if (posix_spawn(&child, own_path, &actions, NULL, arguments, environ)) return -1;
        sum += status_of(child) + path((unsigned)i * 977, 12);
        posix_spawn_file_actions_destroy(&actions);
    }
    return sum;
}

static int is_short(void)
{
    return paths(0, 20);
}

/* Replaces itself by exec(): from a thread, from a child after fork, and at last from main. */
static void *becomes(void *unused)
{
    rest(2000000);
    execl(own_path, own_path, "short", (char *)NULL);
    return unused;
}

static int becomes_itself(void)
{
    pid_t child = fork();
    if (!child) {
        pthread_t thread;
        if (!freopen("/dev/null", "w", stdout) || !start(&thread, becomes, NULL)) _exit(3);
        for (;;)
            paths(0, 10);
    }
    int sum = status_of(child);
    sum += paths(0, 100);
    child = vfork();
    if (!child) {
        execl(own_path, own_path, "no-such-mode", (char *)NULL);
        _exit(4);
    }
    return sum + status_of(child);
}

/* A child stops and continues the program again and again. */
static int stops_and_goes_on(void)
{
    pid_t parent = getpid(), child = fork();
    if (!child) {
        for (int i = 0; i < 60; i++) {
            rest(1500000 + i * 7919 % 1000000);
            kill(parent, SIGSTOP);
            rest(1000000);
            kill(parent, SIGCONT);
        }
        _exit(5);
    }
    int sum = 0, status;
    while (!waitpid(child, &status, WNOHANG))
        sum |= paths(0, 100);
    return status + (sum != 0);
}

/* More events than a ring has room for, while the collector is stopped. */
static int stops_collector(void)
{
    pid_t collector = getenv("MEMPROF_SESSION") ? getppid() : 0;
    int sum = paths(0, 10);
    if (collector && kill(collector, SIGSTOP)) return -1;
    for (int i = 0; i < 10; i++)
        sum += paths(0, 2000);
    if (collector && kill(collector, SIGCONT)) return -1;
    return sum;
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

enum { MAPPINGS = 4096 };
static struct mapping {
    uintptr_t from, to;
    bool own, anonymous;
} mappings[MAPPINGS];
static char lines[1 << 20];

static bool is_named(const char *line)
{
    return strchr(line, '/') || strchr(line, '[');
}

static int read_mappings(void)
{
    int fd = open("/proc/self/maps", O_RDONLY), count = 0;
    size_t used = 0;
    for (ssize_t got; fd >= 0 && (got = read(fd, lines + used, sizeof lines - 1 - used)) > 0;)
        used += (size_t)got;
    if (fd >= 0) close(fd);
    lines[used] = '\0';
    for (char *line = lines, *next; *line && count < MAPPINGS; line = next) {
        next = strchr(line, '\n');
        *next++ = '\0';
        char *at;
        mappings[count].from = strtoul(line, &at, 16);
        mappings[count].to = strtoul(at + 1, &at, 16);
        mappings[count++].anonymous = !is_named(line) && at[1] == 'r' && at[2] == 'w';
    }
    return count;
}

/* Marks memory as not inherited by children, as programs with network cards mark their buffers; here too much of it. */
static int marks_memory(int advice)
{
    int before = read_mappings();
    for (int i = 0; i < before; i++)
        mappings[i].own = true;
    static struct mapping own[MAPPINGS];
    memcpy(own, mappings, sizeof own);
    int sum = paths(0, 500), count = read_mappings();
    for (int i = 0; i < count; i++) {
        bool known = false;
        for (int k = 0; k < before; k++)
            known |= own[k].from == mappings[i].from;
        if (!known && mappings[i].anonymous)
            madvise((void *)mappings[i].from, mappings[i].to - mappings[i].from, advice);
    }
    sum += paths(0, 500);
    pid_t child = fork();
    if (!child) {
        sum = paths(0, 100);
        _exit(sum % 50 + 1);
    }
    sum += paths(0, 500);
    return sum + status_of(child);
}

static int not_for_children(void)
{
    return marks_memory(MADV_DONTFORK);
}

static int wiped_in_children(void)
{
    return marks_memory(MADV_WIPEONFORK);
}

/* Returns memory that it does not need to the system, like a service under memory pressure. */
static int gives_back(void)
{
    int sum = 0;
    for (int round = 0; round < 6; round++) {
        int count = read_mappings();
        for (int i = 0; i < count; i++)
            madvise((void *)mappings[i].from, mappings[i].to - mappings[i].from, MADV_COLD);
        sum += paths(0, 200);
    }
    return sum;
}

/* A thread with the smallest possible stack. */
static void *small(void *sum)
{
    *(int *)sum += path(12345, 3);
    return NULL;
}

static int smallest_stacks(void)
{
    int sum = 0;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, 16384)) return -1;
    for (int i = 0; i < 50; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, small, &sum)) return -2;
        pthread_join(thread, NULL);
    }
    return sum;
}

/* The limit comes after the first event. */
static int limit_comes_late(void)
{
    int sum = paths(0, 100);
    struct rlimit limit;
    char line[256];
    unsigned long pages = 0;
    FILE *facts = fopen("/proc/self/statm", "r");
    if (!facts || !fgets(line, sizeof line, facts)) return -1;
    fclose(facts);
    pages = strtoul(line, NULL, 10);
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = (pages << 12) + (1 << 20);
    if (setrlimit(RLIMIT_AS, &limit)) return -2;
    for (unsigned i = 0; i < 30000; i++)
        sum += path(i * 40503U << 4, 12) != 0;
    return sum > 0;
}

static bool has_addresses(size_t bytes)
{
    void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at != MAP_FAILED) munmap(at, bytes);
    return at != MAP_FAILED;
}

/* Waits until the collector has taken all events: its answer for statistics includes earlier events. */
static void catch_up(void)
{
    struct memprof_stats stats;
    while (memprof_active() && memprof_stats(NULL, &stats))
        continue;
}

/* A job's limit on data, half of which the program itself needs. */
static int budget_of_addresses(void)
{
    const struct rlimit limit = {128 << 20, 128 << 20};
    int sum = paths(0, 100);
    if (setrlimit(RLIMIT_AS, &limit) || !has_addresses(64 << 20)) return -1;
    for (unsigned from = 100; from < 20100; from += 2000) { /* each round fills a quarter of a ring */
        sum += paths(from, 2000);
        catch_up();
    }
    return has_addresses(64 << 20) ? sum : -2;
}

static void *many_paths(void *sum)
{
    *(int *)sum = paths(*(unsigned *)sum, 500);
    return NULL;
}

static int budget_of_threads(void)
{
    enum { THREADS = 16 };
    const struct rlimit limit = {192 << 20, 192 << 20};
    pthread_t threads[THREADS];
    int sums[THREADS], sum = 0;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (setrlimit(RLIMIT_AS, &limit) || pthread_attr_setstacksize(&attributes, 1 << 20)) return -1;
    for (int i = 0; i < THREADS; i++) {
        sums[i] = 500 * i;
        if (pthread_create(&threads[i], &attributes, many_paths, &sums[i])) return -2;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        sum += sums[i];
    }
    return has_addresses(96 << 20) ? sum : -3;
}

/* A child starts with the part of the limit that its parent has left. */
static int budget_of_children(void)
{
    const struct rlimit limit = {128 << 20, 128 << 20};
    int sum = paths(0, 5000);
    if (setrlimit(RLIMIT_AS, &limit)) return -1;
    for (int i = 0; i < 4; i++) {
        pid_t child = fork();
        if (!child) _exit(paths(0, 3000) && has_addresses(64 << 20) ? 3 : 4);
        sum += status_of(child);
    }
    return has_addresses(64 << 20) ? sum : -2;
}

static void shrink(const char *path, uintptr_t begin, uintptr_t end)
{
    (void)begin, (void)end;
    (void)!truncate(path, 0);
}

/* Writes random words from one of the header's pages on; pages have different contents. */
static void scribble(const char *path, uintptr_t begin, uintptr_t end)
{
    (void)path;
    static int part;
    srand48(++part);
    uint64_t *words = (uint64_t *)begin; /* NOLINT */
    for (size_t i = 8; i < (end - begin) / sizeof *words; i++)
        if (part == 1 || lrand48() % 4 == 0) words[i] = part == 1 ? 0 : (uint64_t)mrand48() << 32 ^ (uint64_t)mrand48();
}

/* Children harm the memory that they share with memprof, which must continue for their parent. */
static int harms_spool(void (*harm)(const char *, uintptr_t, uintptr_t))
{
    int sum = paths(0, 100);
    for (int i = 0; i < 6; i++) {
        pid_t child = fork();
        if (!child) {
            char line[1024], *path;
            uintptr_t begin, end;
            paths(0, 10);
            FILE *maps = fopen("/proc/self/maps", "re");
            while (maps && fgets(line, sizeof line, maps)) {
                line[strcspn(line, "\n")] = '\0';
                bool is_header =
                    strstr(line, " rw-s 00000000 ") && (path = strchr(line, '/')) && strstr(path, ".spool");
                if (!is_header || sscanf(line, "%" SCNxPTR "-%" SCNxPTR, &begin, &end) != 2) continue;
                for (int k = 0; k <= i; k++)
                    harm(path, begin, end);
            }
            rest(50000000);
            _exit(0);
        }
        sum += status_of(child);
    }
    rest(50000000);
    return sum + paths(0, 100);
}

static int shrinks_spool(void)
{
    return harms_spool(shrink);
}

static int scribbles_over_spool(void)
{
    return harms_spool(scribble);
}

static const struct {
    const char *name;
    int (*run)(void);
} modes[] = {
    {"no-standard-files", no_standard_files},
    {"without-descriptors", without_descriptors},
    {"few-descriptors", few_descriptors},
    {"tensors-without-descriptors", tensors_without_descriptors},
    {"children-without-descriptors", children_without_descriptors},
    {"closes-all", closes_all},
    {"closes-while-attaching", closes_while_attaching},
    {"daemonizes", daemonizes},
    {"spawns", spawns},
    {"short", is_short},
    {"becomes-itself", becomes_itself},
    {"stops-and-goes-on", stops_and_goes_on},
    {"stops-collector", stops_collector},
    {"not-for-children", not_for_children},
    {"wiped-in-children", wiped_in_children},
    {"gives-back", gives_back},
    {"shrinks-spool", shrinks_spool},
    {"scribbles-over-spool", scribbles_over_spool},
    {"smallest-stacks", smallest_stacks},
    {"limit-comes-late", limit_comes_late},
    {"budget-of-addresses", budget_of_addresses},
    {"budget-of-threads", budget_of_threads},
    {"budget-of-children", budget_of_children},
};

int main(int argc, char **argv)
{
    own_path = argv[0];
    if (argc < 2) return 7;
    bool later = !strcmp(argv[1], "no-standard-files") || strstr(argv[1], "few-") || strstr(argv[1], "without-");
    if (!later) pool = memprof_pool("owner", -1);
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(modes[i].name, argv[1]) != 0) continue;
        int result = modes[i].run();
        printf("%s: %d\n", argv[1], result);
        return 0;
    }
    return 2;
}
