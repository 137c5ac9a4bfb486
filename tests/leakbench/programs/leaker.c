/*
 * A program that leaks and mends on command, through the C API. Each line it reads is an order, answered by one line:
 *
 *     leaker [unmarked]
 *     run N      N steps: each frees what the one before fetched, and leaks one block of SIZE bytes while `leak` is on
 *     size N     SIZE (512)
 *     leak 0|1   (1)
 *     rest N     blocks, freed again, that a step allocates besides (4)
 *     pace N     microseconds that a step pauses (0)
 *     clear      frees what was leaked
 *
 * When `run` and `clear` are answered, the collector has all earlier events.
 *
 * The leaked blocks come from leak_here(), the others from fetch_here() and work_here().
 */
#include <memprof.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define KEPT 4000000
#define RING 16384 /* records in a ring */

static uint32_t pool;
static uintptr_t next = 1 << 20, kept[KEPT], fetched;
static size_t kept_count;
static long size = 512, leaks = 1, rest = 4, pace, behind;
static int marked = 1;

static __attribute__((noinline)) uintptr_t leak_here(void)
{
    uintptr_t at = next += 4096;
    memprof_alloc(pool, (void *)at, (size_t)size);
    return at;
}

static __attribute__((noinline)) uintptr_t fetch_here(void)
{
    uintptr_t at = next += 4096;
    memprof_alloc(pool, (void *)at, 65536);
    return at;
}

static __attribute__((noinline)) void work_here(void)
{
    uintptr_t at = next += 4096;
    memprof_alloc(pool, (void *)at, 1000);
    memprof_free(pool, (void *)at);
}

/* Waits until the collector has taken all events: its answer includes earlier ones. Called at a quarter of a ring, so
 * that a busy machine drops nothing: half of the ring may have records that are taken but not yet in the file. */
static void catch_up(void)
{
    struct memprof_stats stats;
    while (memprof_stats("cpu/app/leaker", &stats))
        continue;
    behind = 0;
}

static void step(void)
{
    if (marked) memprof_step();
    uintptr_t before = fetched;
    fetched = fetch_here();
    if (before) memprof_free(pool, (void *)before);
    for (long i = 0; i < rest; i++)
        work_here();
    if (leaks && kept_count < KEPT) kept[kept_count++] = leak_here();
    if (pace) usleep((useconds_t)pace);
    behind += 4 + 2 * rest;
    if (behind > RING / 4) catch_up();
}

int main(int argc, char **argv)
{
    char line[64], order[32];
    long value;
    marked = argc < 2 || strcmp(argv[1], "unmarked");
    alarm(600);
    if (!memprof_active()) return 3;
    pool = memprof_pool("leaker", MEMPROF_HOST);
    while (fgets(line, sizeof line, stdin)) {
        value = 0;
        if (sscanf(line, "%31s %ld", order, &value) < 1) continue;
        if (!strcmp(order, "run")) {
            while (value-- > 0)
                step();
            catch_up();
        } else if (!strcmp(order, "clear")) {
            while (kept_count) {
                memprof_free(pool, (void *)kept[--kept_count]);
                if (++behind > RING / 4) catch_up();
            }
            catch_up();
        } else if (!strcmp(order, "size"))
            size = value;
        else if (!strcmp(order, "leak"))
            leaks = value;
        else if (!strcmp(order, "rest"))
            rest = value;
        else if (!strcmp(order, "pace"))
            pace = value;
        else
            return 2;
        puts("done");
        fflush(stdout);
    }
    return 0;
}
