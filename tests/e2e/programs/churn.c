/*
 * A program for kill tests. Its threads announce blocks through the C API, as fast as they can or at a given pace. They
 * count each returned call in a mapped file. Counted calls were published.
 *
 *     churn COUNTERS THREADS EVENTS_PER_THREAD PAUSE_US [wait]
 *
 * Thread t allocates addresses (t + 1) << 40 | i * 64 and frees every second one. With a negative EVENTS_PER_THREAD it
 * runs as long as a test may take, so that it ends even if its test is killed. With `wait` it announces nothing before
 * the test opens the gate. The first row of the file is struct control; then comes a row for each thread.
 */
#include <fcntl.h>
#include <memprof.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define LONGEST_S 600

enum death { LIVE, ABORT, LEAVE, TAKE_ALL_MEMORY };

struct control {
    _Atomic uint64_t waits;    /* 1: at the gate */
    _Atomic uint64_t open;     /* set by the test: the gate */
    _Atomic uint64_t death;    /* set by the test: enum death, how the first thread dies */
    _Atomic uint64_t recorded; /* after each event: 1: the program is recorded, 2: it is not yet */
    _Atomic uint64_t done;     /* 1: all events were announced */
    uint64_t unused[3];
};

struct counters {
    _Atomic uint64_t allocs, frees, longest_ns; /* the longest call */
    uint64_t unused[5];
};

static struct control *control;
static struct counters *counters;
static long events, pause_us;

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void take_all_memory(void)
{
    for (;;) {
        volatile char *more = malloc(1 << 20);
        for (size_t i = 0; more && i < 1 << 20; i += 4096)
            more[i] = 1;
    }
}

static void die(enum death how)
{
    if (how == ABORT) abort();
    if (how == LEAVE) _exit(9);
    if (how == TAKE_ALL_MEMORY) take_all_memory();
}

static void count_longest(struct counters *mine, uint64_t since)
{
    uint64_t took = now_ns() - since;
    if (took > mine->longest_ns) mine->longest_ns = took;
}

static void *churn(void *argument)
{
    uintptr_t thread = (uintptr_t)argument;
    struct counters *mine = &counters[thread];
    uint64_t before = now_ns();
    uint32_t pool = memprof_pool("churn", MEMPROF_HOST);
    count_longest(mine, before);
    for (uintptr_t i = 0; events < 0 || i < (uintptr_t)events; i++) {
        const void *block = (const void *)((thread + 1) << 40 | i * 64);
        uint64_t since = now_ns();
        memprof_alloc(pool, block, 64);
        mine->allocs++;
        count_longest(mine, since);
        if (i & 1) {
            since = now_ns();
            memprof_free(pool, block);
            mine->frees++;
            count_longest(mine, since);
        }
        if (!thread && control->recorded != 1) control->recorded = memprof_active() ? 1 : 2;
        if (!thread && control->death) die((enum death)control->death);
        if (pause_us) usleep((useconds_t)pause_us);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc < 5) return 2;
    alarm(LONGEST_S);
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    uintptr_t threads = strtoul(argv[2], NULL, 10);
    events = strtol(argv[3], NULL, 10);
    pause_us = strtol(argv[4], NULL, 10);
    size_t bytes = sizeof *control + threads * sizeof *counters;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) || threads > 64) return 1;
    control = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (control == MAP_FAILED) return 1;
    counters = (struct counters *)(control + 1);
    control->waits = 1;
    while (argc > 5 && !control->open)
        usleep(100);
    if (argc == 5 && !memprof_active()) return 3;
    pthread_t ids[64];
    for (uintptr_t t = 0; t < threads; t++)
        if (pthread_create(&ids[t], NULL, churn, (void *)t)) return 1;
    for (uintptr_t t = 0; t < threads; t++)
        pthread_join(ids[t], NULL);
    control->done = 1;
    return 0;
}
