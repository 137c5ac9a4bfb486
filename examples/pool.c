/*
 * A program with an allocator of its own: it tells memprof what the allocator hands out, and where its steps and
 * regions are. Nothing is linked, and without memprof the calls do nothing.
 *
 *     cc -I include examples/pool.c -o pool -ldl
 *     memprof snapshot -o pool.mp -- ./pool
 *     memprof leaks pool.mp
 */
#include <memprof.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#define POOL_BYTES   ((size_t)1 << 20)
#define STEPS        40
#define PARTS        16
#define MESSAGE_SIZE 256

/* Hands out pieces of one block, in order; reset() gives back everything at once, except keep()'s pieces. */
struct pool {
    unsigned char *memory;
    size_t used, kept;
    void *pieces[PARTS];
    size_t piece_count;
    uint32_t id;
};

static void *take(struct pool *pool, size_t bytes)
{
    if (pool->used + bytes > POOL_BYTES - pool->kept || pool->piece_count == PARTS) return NULL;
    void *piece = pool->memory + pool->used;
    pool->used += bytes;
    pool->pieces[pool->piece_count++] = piece;
    memprof_alloc(pool->id, piece, bytes);
    return piece;
}

/* Pieces from the far end are never given back: the bug that `memprof leaks` finds. */
static void *keep(struct pool *pool, size_t bytes)
{
    if (pool->used + bytes > POOL_BYTES - pool->kept) return NULL;
    pool->kept += bytes;
    void *piece = pool->memory + POOL_BYTES - pool->kept;
    memprof_alloc(pool->id, piece, bytes);
    return piece;
}

static void reset(struct pool *pool)
{
    while (pool->piece_count)
        memprof_free(pool->id, pool->pieces[--pool->piece_count]);
    pool->used = 0;
}

static unsigned long compute(struct pool *pool, int step)
{
    unsigned long sum = 0;
    memprof_region_push("compute");
    for (int part = 0; part < PARTS; part++) {
        size_t count = 1024u + 64u * (unsigned)part;
        uint32_t *numbers = take(pool, count * sizeof *numbers);
        if (!numbers) break;
        for (size_t i = 0; i < count; i++)
            numbers[i] = (uint32_t)i * (uint32_t)step;
        sum += numbers[count / 2];
    }
    memprof_region_pop();
    return sum;
}

static void log_step(struct pool *pool, int step, unsigned long sum)
{
    memprof_region_push("log");
    char *message = keep(pool, MESSAGE_SIZE);
    if (message) snprintf(message, MESSAGE_SIZE, "step %d: %lu", step, sum);
    memprof_region_pop();
}

int main(void)
{
    struct pool pool = {.memory = malloc(POOL_BYTES)};
    if (!pool.memory) return 1;
    pool.id = memprof_pool("pool", MEMPROF_HOST);
    for (int step = 0; step < STEPS; step++) {
        memprof_step();
        log_step(&pool, step, compute(&pool, step));
        reset(&pool);
        if (step == STEPS / 2) memprof_mark("half way");
    }
    printf("%d steps, %zu bytes kept; %s\n", STEPS, pool.kept, memprof_active() ? "recorded" : "not recorded");
    free(pool.memory);
    return 0;
}
