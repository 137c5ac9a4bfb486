/*
 * A program for kill tests: threads that announce blocks through the C API as fast as they can, or at a given pace, and
 * count in a mapped file each call that has returned. What is counted was handed over.
 *
 *     churn COUNTERS THREADS EVENTS_PER_THREAD PAUSE_US
 *
 * Thread t allocates addresses (t + 1) << 40 | i * 64 and frees every second one; a negative EVENTS_PER_THREAD runs on,
 * for as long as a test may take: one that is itself killed leaves nothing behind for ever.
 */
#include <fcntl.h>
#include <memprof.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#define LONGEST_S 600

struct counters {
    _Atomic uint64_t allocs, frees;
    uint64_t unused[6];
};

static struct counters *counters;
static long events, pause_us;

static void *churn(void *argument)
{
    uintptr_t thread = (uintptr_t)argument;
    uint32_t pool = memprof_pool("churn", MEMPROF_HOST);
    for (uintptr_t i = 0; events < 0 || i < (uintptr_t)events; i++) {
        const void *block = (const void *)((thread + 1) << 40 | i * 64);
        memprof_alloc(pool, block, 64);
        counters[thread].allocs++;
        if (i & 1) {
            memprof_free(pool, block);
            counters[thread].frees++;
        }
        if (pause_us) usleep((useconds_t)pause_us);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    if (argc != 5) return 2;
    alarm(LONGEST_S);
    int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
    uintptr_t threads = strtoul(argv[2], NULL, 10);
    events = strtol(argv[3], NULL, 10);
    pause_us = strtol(argv[4], NULL, 10);
    size_t bytes = threads * sizeof *counters;
    if (fd < 0 || ftruncate(fd, (off_t)bytes) || threads > 64) return 1;
    counters = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (counters == MAP_FAILED || !memprof_active()) return 3;
    pthread_t ids[64];
    for (uintptr_t t = 0; t < threads; t++)
        if (pthread_create(&ids[t], NULL, churn, (void *)t)) return 1;
    for (uintptr_t t = 0; t < threads; t++)
        pthread_join(ids[t], NULL);
    return 0;
}
