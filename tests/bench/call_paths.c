/*
 * Cost of an alloc and a free: blocks of 64 sizes from 1024 call paths of 25 frames, each freed 4096 allocs later. For
 * tools/bench.
 *
 *     call_paths api|malloc PAIRS
 *
 * api: blocks announced through memprof's C API, which does nothing where the program is not recorded; malloc: real
 * ones, for rivals that record those. Prints processor and wall time of the loop in ns, without its first paths.
 */
#include <inttypes.h>
#include <memprof.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { WINDOW = 4096, PATH_BITS = 10, LEVELS = 20 /* and a leaf, main, and three of libc's */ };

static void *blocks[WINDOW];
static uint32_t pool;

/* Put around a call: prevents a tail call, and merging with calls between other texts. */
#define KEEP_APART(text) __asm__ volatile("# " text ::: "memory")

static __attribute__((noinline)) void announce(uint64_t number)
{
    void *block = (void *)(uintptr_t)((UINT64_C(1) << 40) + number % (2 * WINDOW) * 4096);
    blocks[number % WINDOW] = block;
    memprof_alloc(pool, block, 16 * (1 + number * 7 % 64));
    KEEP_APART("leaf");
}

static __attribute__((noinline)) void allocate(uint64_t number)
{
    blocks[number % WINDOW] = malloc(16 * (1 + number * 7 % 64));
    KEEP_APART("leaf");
}

static __attribute__((noinline)) void descend(unsigned level, void (*leaf)(uint64_t), uint64_t number)
{
    if (level == LEVELS) {
        leaf(number);
        KEEP_APART("leaf");
    } else if (level <= PATH_BITS && number >> (level - 1) & 1) {
        KEEP_APART("odd");
        descend(level + 1, leaf, number);
        KEEP_APART("odd");
    } else {
        KEEP_APART("even");
        descend(level + 1, leaf, number);
        KEEP_APART("even");
    }
}

static void run(bool real, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        void *old = blocks[i % WINDOW];
        if (real)
            free(old);
        else
            memprof_free(pool, old);
        descend(1, real ? allocate : announce, i);
    }
}

static uint64_t now(clockid_t clock)
{
    struct timespec time;
    clock_gettime(clock, &time);
    return (uint64_t)time.tv_sec * 1000000000 + (uint64_t)time.tv_nsec;
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    bool real = !strcmp(argv[1], "malloc");
    uint64_t pairs = strtoull(argv[2], NULL, 10), warm_up = 2 * WINDOW;
    if (!real) pool = memprof_pool("bench", MEMPROF_HOST);
    run(real, 0, warm_up);
    uint64_t processor = now(CLOCK_PROCESS_CPUTIME_ID), wall = now(CLOCK_MONOTONIC);
    run(real, warm_up, warm_up + pairs);
    processor = now(CLOCK_PROCESS_CPUTIME_ID) - processor;
    wall = now(CLOCK_MONOTONIC) - wall;
    printf("{\"count\": %" PRIu64 ", \"cpu_ns\": %" PRIu64 ", \"wall_ns\": %" PRIu64 "}\n", pairs, processor, wall);
    return 0;
}
