/*
 * A program for fault tests: does one unusual thing that real programs do, announces blocks through the C API before
 * and after, and prints their number at the end. `guest MODE [NUMBER...]`; exit status 0 if everything went as without
 * a recorder.
 */
#include <errno.h>
#include <fcntl.h>
#include <memprof.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long numbers[4];
static uint32_t pool;
static _Atomic uintptr_t next_block = 1;

static void blocks(long count, bool keep)
{
    for (long i = 0; i < count; i++) {
        const void *block = (const void *)(atomic_fetch_add(&next_block, 1) << 12);
        memprof_alloc(pool, block, 100);
        if (!keep) memprof_free(pool, block);
    }
}

static double seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int wait_for(pid_t child)
{
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) return 1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int plain(void)
{
    blocks(numbers[0], true);
    return 0;
}

/* Asks until an answer comes in time; on a busy machine a single answer may be late. */
static int stats_of(const char *track, struct memprof_stats *stats)
{
    int late = -1;
    for (int tries = 0; late && tries < 600; tries++)
        late = memprof_stats(track, stats);
    return late;
}

/* Asks for statistics after each block; the answers are exact. */
static int statistics(void)
{
    struct memprof_stats stats;
    int wrong = 0;
    for (long i = 1; i <= numbers[0]; i++) {
        blocks(1, true);
        if (stats_of("cpu/app/guest", &stats) || stats.live_bytes != 100 * (uint64_t)i ||
            stats.live_blocks != (uint64_t)i)
            wrong++;
    }
    return wrong != 0;
}

static _Atomic long unanswered;

static void *ask(void *unused)
{
    (void)unused;
    struct memprof_stats stats;
    for (long i = 0; i < numbers[0]; i++) {
        blocks(1, true);
        if (stats_of(NULL, &stats)) unanswered++;
    }
    return NULL;
}

/* Four threads ask at once, and each is answered. */
static int ask_together(void)
{
    enum { ASKING = 4 };
    pthread_t threads[ASKING];
    for (int i = 0; i < ASKING; i++)
        if (pthread_create(&threads[i], NULL, ask, NULL)) return 1;
    for (int i = 0; i < ASKING; i++)
        pthread_join(threads[i], NULL);
    return unanswered != 0;
}

/* NUMBER children, a few of them alive at the same time, each with its own events. */
static int children(void)
{
    enum { AT_ONCE = 7 };
    pid_t alive[AT_ONCE] = {0};
    int failed = 0;
    blocks(10, true);
    for (long i = 0; i < numbers[0] + AT_ONCE; i++) {
        /* a slot comes again after AT_ONCE turns, so each wait is for the oldest child */
        size_t slot = (size_t)(i * 3 % AT_ONCE);
        if (alive[slot]) failed |= wait_for(alive[slot]);
        alive[slot] = 0;
        if (i >= numbers[0]) continue;
        alive[slot] = fork();
        if (alive[slot] < 0) return 1;
        if (!alive[slot]) {
            blocks(numbers[1], true);
            usleep((useconds_t)(i * 7919 % 20000));
            _exit(0);
        }
        blocks(10, true);
    }
    return failed;
}

static _Atomic bool stop;

static void *one_event(void *argument)
{
    blocks(1, false);
    return argument;
}

static void *start_threads(void *argument)
{
    pthread_t thread;
    while (!stop) {
        /* after dlclose() the unwinder looks everything up again, under its lock */
        void *library = dlopen("libm.so.6", RTLD_NOW);
        if (library) dlclose(library);
        if (!pthread_create(&thread, NULL, one_event, NULL)) pthread_join(thread, NULL);
    }
    return argument;
}

/* Forks while other threads walk stacks for the first time; each child walks too. */
static int fork_among_threads(void)
{
    pthread_t threads[4];
    int failed = 0;
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, start_threads, NULL)) return 1;
    for (long i = 0; i < numbers[0] && !failed; i++) {
        pid_t child = fork();
        if (child < 0) return 1;
        if (!child) {
            pthread_t thread;
            blocks(3, true);
            if (!pthread_create(&thread, NULL, one_event, NULL)) pthread_join(thread, NULL);
            _exit(0);
        }
        failed = wait_for(child);
    }
    stop = true;
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return failed;
}

/* Threads one after the other, on the smallest stacks that pthreads allow and NUMBER bytes more. */
static int small_stacks(void)
{
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    if (pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN) + (size_t)numbers[1])) return 1;
    for (long i = 0; i < numbers[0]; i++) {
        pthread_t thread;
        if (pthread_create(&thread, &attributes, one_event, NULL) || pthread_join(thread, NULL)) return 1;
    }
    return 0;
}

static pthread_barrier_t together;

static void *many_events(void *argument)
{
    pthread_barrier_wait(&together);
    blocks(numbers[1], false);
    pthread_barrier_wait(&together);
    return argument;
}

static int many_threads(void)
{
    pthread_t *threads = calloc((size_t)numbers[0], sizeof *threads);
    pthread_barrier_init(&together, NULL, (unsigned)numbers[0]);
    for (long i = 0; i < numbers[0]; i++)
        if (pthread_create(&threads[i], NULL, many_events, NULL)) return 1;
    for (long i = 0; i < numbers[0]; i++)
        pthread_join(threads[i], NULL);
    free(threads);
    return 0;
}

static int close_all(void)
{
    blocks(10, true);
    for (int fd = 3; fd < 1024; fd++)
        close(fd);
    blocks(numbers[0] - 10, true);
    /* files opened now get the closed numbers; the recorder must not write to them */
    int fd = open("/dev/null", O_WRONLY);
    blocks(10, false);
    return fd != 3;
}

static int beside(void)
{
    blocks(numbers[0], true);
    return system(getenv("GUEST_COMMAND")) ? 1 : 0;
}

static int clear_environment(void)
{
    clearenv();
    blocks(numbers[0], true);
    pid_t child = fork();
    if (!child) {
        blocks(numbers[0], true);
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    return wait_for(child);
}

/* A child that outlives the command; its waiting is bounded. */
static int outlive(void)
{
    blocks(10, true);
    if (fork()) return 0;
    for (int i = 0; i < 400; i++) {
        blocks(numbers[0], false);
        usleep(5000);
    }
    _exit(0);
}

static void nothing(int number)
{
    (void)number;
}

/* A timer that interrupts every system call, from the first event on. */
static int interrupted(void)
{
    struct sigaction action = {.sa_handler = nothing};
    sigaction(SIGALRM, &action, NULL);
    timer_t timer;
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM};
    struct itimerspec often = {.it_value.tv_nsec = 20000, .it_interval.tv_nsec = 20000};
    if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &often, NULL)) return 1;
    pool = memprof_pool("guest", MEMPROF_HOST);
    blocks(numbers[0], true);
    return 0;
}

/* Many short and long paths, so that the tables grow. Prints the seconds it took. */
static int deeper(long level, long path)
{
    static volatile int sink;
    if (!level) {
        blocks(1, false);
        return 0;
    }
    switch (path & 3) { /* four return addresses a level */
    case 0:
        sink = deeper(level - 1, path >> 2);
        break;
    case 1:
        sink = deeper(level - 1, path >> 2) + 1;
        break;
    case 2:
        sink = deeper(level - 1, path >> 2) + 2;
        break;
    default:
        sink = deeper(level - 1, path >> 2) + 3;
    }
    return sink;
}

static int paths(void)
{
    double begin = seconds();
    for (long path = 0; path < numbers[0]; path++)
        deeper(20, path);
    printf("%.3f\n", seconds() - begin);
    return 0;
}

static __attribute__((noinline)) void take_much(uintptr_t address)
{
    memprof_alloc(pool, (const void *)address, 1000);
}

static __attribute__((noinline)) void take_little(uintptr_t address)
{
    memprof_alloc(pool, (const void *)address, 10);
}

/* Steps with the most memory in the third, and a long tail with little. The events are the same in every run. */
static int waves(void)
{
    for (int wave = 0; wave < 6; wave++) {
        long count = wave == 2 ? 3 * numbers[0] : numbers[0];
        memprof_step();
        for (long i = 1; i <= count; i++)
            (i % 3 ? take_much : take_little)((uintptr_t)i << 12);
        for (long i = 1; i <= count; i++)
            if (wave < 5 || i % 2) memprof_free(pool, (const void *)((uintptr_t)i << 12));
    }
    for (long i = 1; i <= 10 * numbers[0]; i++) {
        memprof_region_push("tail");
        take_little((uintptr_t)i << 40);
        memprof_free(pool, (const void *)((uintptr_t)i << 40));
        memprof_region_pop();
    }
    return 0;
}

/* A block in each of numbers[0] pools. */
static int many_pools(void)
{
    for (long i = 0; i < numbers[0]; i++) {
        char name[32];
        snprintf(name, sizeof name, "pool %ld", i);
        memprof_alloc(memprof_pool(name, MEMPROF_HOST), (const void *)((uintptr_t)(i + 1) << 20), 100);
    }
    return 0;
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name;
        int (*run)(void);
    } modes[] = {
        {"plain", plain},
        {"statistics", statistics},
        {"ask-together", ask_together},
        {"children", children},
        {"fork-among-threads", fork_among_threads},
        {"small-stacks", small_stacks},
        {"many-threads", many_threads},
        {"close-all", close_all},
        {"beside", beside},
        {"clear-environment", clear_environment},
        {"outlive", outlive},
        {"interrupted", interrupted},
        {"paths", paths},
        {"waves", waves},
        {"many-pools", many_pools},
    };
    for (int i = 2; i < argc && i < 6; i++)
        numbers[i - 2] = strtol(argv[i], NULL, 10);
    for (size_t i = 0; argc > 1 && i < sizeof modes / sizeof *modes; i++) {
        if (strcmp(argv[1], modes[i].name)) continue;
        if (strcmp(argv[1], "interrupted")) pool = memprof_pool("guest", MEMPROF_HOST);
        return modes[i].run();
    }
    return 2;
}
