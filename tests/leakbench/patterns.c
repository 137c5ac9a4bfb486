/* Patterns that leak, and patterns that only look like it. P and N numbers are kinds of bugs, and kinds of code that
 * other tools suspect wrongly. */
#include "leakbench/bench.h"

#define KIB 1024u
#define MIB (1024u * KIB)

static bool is_due(struct world *world, const struct pattern *pattern, const struct variant *variant)
{
    uint32_t every = pattern->every ? pattern->every : variant->every;
    if (world->step <= variant->warm_up) return false;
    return every ? (world->step - variant->warm_up) % every == 0 : world_random(world, 20) == 0;
}

static void start(struct world *world, struct state *state, const struct pattern *pattern)
{
    static const char *const names[] = {"keep", "remember", "hook", "save", "log", "track", "cache", "append"};
    state->site[0] = world_site(world, "keep", !pattern->native, pattern->track, pattern->kind);
    for (uint32_t i = 1; i < pattern->sites; i++)
        state->site[i] = i % 2 ? world_variant(world, state->site[i - 1], "at::native::other")
                               : world_site(world, names[i % 8], !pattern->native, pattern->track, pattern->kind);
}

/* Keeps blocks of every site for ever. */
static void leak(struct world *world, struct state *state, const struct pattern *pattern, const struct variant *variant)
{
    if (!is_due(world, pattern, variant)) return;
    for (uint32_t i = 0; i < pattern->sites; i++)
        for (uint32_t k = 0; k < pattern->blocks; k++)
            world_leaks(world, world_alloc(world, state->site[i], variant->bytes << (i % 3)));
}

/* Like leak(), and makes as many more blocks, which the next step frees. */
static void leak_among_others(struct world *world, struct state *state, const struct pattern *pattern,
                              const struct variant *variant)
{
    for (size_t i = 0; i < state->count; i++)
        world_release(world, state->held[i]);
    state->count = 0;
    state->held[state->count++] = world_alloc(world, state->site[0], variant->bytes);
    leak(world, state, pattern, variant);
}

/* Makes a set of blocks and frees all but one. */
static void leak_of_cycle(struct world *world, struct state *state, const struct pattern *pattern,
                          const struct variant *variant)
{
    if (!is_due(world, pattern, variant)) return;
    uint32_t set[8];
    for (size_t i = 0; i < 8; i++)
        set[i] = world_alloc(world, state->site[0], variant->bytes);
    for (size_t i = 1; i < 8; i++)
        world_release(world, set[i]);
    world_leaks(world, set[0]);
}

/* Makes a block of a new size each time. */
static void leak_of_shapes(struct world *world, struct state *state, const struct pattern *pattern,
                           const struct variant *variant)
{
    if (is_due(world, pattern, variant))
        world_leaks(world, world_alloc(world, state->site[0], variant->bytes + 512 * state->size++));
}

/* Makes cycles that the garbage collector frees now and then, later each time. */
static void leak_of_cycles(struct world *world, struct state *state, const struct pattern *pattern,
                           const struct variant *variant)
{
    if (world->step <= variant->warm_up) return;
    if (!state->size) state->size = world->steps / 16 + 4;
    state->held[state->count++] = world_alloc(world, state->site[0], variant->bytes);
    world->places.at[world->stacks.at[state->site[0]].place].leaks = true;
    if (state->count < state->size || world->step + 2 * state->size > world->steps) return;
    for (size_t i = 0; i < state->count; i++)
        world_release(world, state->held[i]);
    state->count = 0;
    state->size *= 2;
    (void)pattern;
}

/* Once, late. */
static void once(struct world *world, struct state *state, const struct pattern *pattern, const struct variant *variant)
{
    if (world->step != world->steps / 3) return;
    for (uint32_t k = 0; k < pattern->blocks; k++)
        world_alloc(world, state->site[0], variant->bytes + 4 * MIB);
}

static void at_first(struct world *world, struct state *state, const struct pattern *pattern,
                     const struct variant *variant)
{
    if (world->step > pattern->blocks) return;
    world_alloc(world, state->site[0], variant->bytes);
}

/* Holds the last `pattern->blocks` blocks (0: those of a third of the run's steps). */
static void ring(struct world *world, struct state *state, const struct pattern *pattern, const struct variant *variant)
{
    size_t most = pattern->blocks ? pattern->blocks : world->steps / 3;
    if (most > 500) most = 500;
    if (state->count == most) {
        world_release(world, state->held[state->more % most]);
        state->held[state->more++ % most] = world_alloc(world, state->site[0], variant->bytes);
    } else {
        state->held[state->count++] = world_alloc(world, state->site[0], variant->bytes);
    }
}

/* A container that grows until it is full, such as a replay buffer: full after this part of the run, in percent. Later
 * blocks replace the oldest or a random one, or no more come. */
static uint32_t full_at(struct world *world, struct state *state)
{
    if (!state->size) state->size = 50 + world_random(world, 46);
    uint32_t full = (uint32_t)(world->steps * state->size / 100), latest = world->steps - 12;
    return full < latest ? full : latest; /* later, nobody could see that it is full */
}

static void put(struct world *world, struct state *state, uint32_t full, size_t at, uint64_t bytes)
{
    if (state->count < full && state->count < 4000)
        at = state->count++;
    else
        world_release(world, state->held[at]);
    state->held[at] = world_alloc(world, state->site[0], bytes);
}

static void fill_in_turn(struct world *world, struct state *state, const struct pattern *pattern,
                         const struct variant *variant)
{
    put(world, state, full_at(world, state), state->count ? state->more++ % state->count : 0, variant->bytes);
    if (state->count < full_at(world, state)) state->more = 0;
    (void)pattern;
}

/* Adds one block a step, or several, each of which replaces a random one. */
static void fill_at_random(struct world *world, struct state *state, const struct pattern *pattern,
                           const struct variant *variant)
{
    uint32_t full = full_at(world, state) * pattern->blocks;
    if (full > 4000) full = 4000 / pattern->blocks * pattern->blocks;
    for (uint32_t i = 0; i < pattern->blocks; i++)
        put(world, state, full, state->count ? world_random(world, (uint32_t)state->count) : 0, variant->bytes);
}

static void fill_and_stop(struct world *world, struct state *state, const struct pattern *pattern,
                          const struct variant *variant)
{
    if (world->step % pattern->every || world->step > full_at(world, state)) return;
    world_alloc(world, state->site[0], variant->bytes);
}

/* Adds one thing, and joins it to the earlier ones. */
static void fill_one(struct world *world, struct state *state, const struct pattern *pattern,
                     const struct variant *variant)
{
    if (world->step > full_at(world, state)) return;
    state->more += variant->bytes;
    uint32_t larger = world_alloc(world, state->site[0], state->more);
    if (state->count) world_release(world, state->held[0]);
    state->held[0] = larger;
    state->count = 1;
    (void)pattern;
}

/* A leak at a line that also makes lasting blocks: in its first step, and once in a later one. */
static void leak_beside_more(struct world *world, struct state *state, const struct pattern *pattern,
                             const struct variant *variant)
{
    uint32_t other = pattern->sites > 1 ? state->site[1] : state->site[0];
    for (uint32_t i = 0; world->step == 1 && i < 11; i++)
        world_alloc(world, i % 2 ? other : state->site[0], variant->bytes << i % 3);
    if (world->step == world->steps / 2) world_alloc(world, other, 100 * variant->bytes + 4096);
    world_leaks(world, world_alloc(world, state->site[0], variant->bytes));
}

/* A leak with the varying size of a batch. */
static void leak_of_any_size(struct world *world, struct state *state, const struct pattern *pattern,
                             const struct variant *variant)
{
    for (uint32_t i = 0; world->step == 1 && i < 4; i++)
        world_alloc(world, state->site[1], variant->bytes << 6);
    world_leaks(world, world_alloc(world, state->site[0], variant->bytes + 512ull * world_random(world, 200)));
    (void)pattern;
}

/* A cache of `blocks` different things (0: a fifth of the run's steps), requested at random; the least used is
 * dropped. */
static void bounded_cache(struct world *world, struct state *state, const struct pattern *pattern,
                          const struct variant *variant)
{
    size_t most = pattern->blocks ? pattern->blocks : world->steps / 5;
    uint32_t wanted = world_random(world, (uint32_t)(most + most / 4));
    bool full = state->count == most;
    if (wanted < state->count && world_random(world, 8)) return; /* found */
    if (full && pattern->every) return;                          /* the cache has all things, so no new one comes */
    if (full) world_release(world, state->held[0]);
    for (size_t i = 1; full && i < most; i++)
        state->held[i - 1] = state->held[i];
    state->count -= full;
    state->held[state->count++] = world_alloc(world, state->site[0], variant->bytes + 512ull * wanted);
}

/* The allocator reserves more and more; its allocated bytes stay level. */
static void fragmenting(struct world *world, struct state *state, const struct pattern *pattern,
                        const struct variant *variant)
{
    if (!state->size) state->size = 300ull * MIB;
    if (world->step % 5) return;
    world_reserved(world, W_TORCH, state->size += 20 * MIB);
    if (pattern->track == W_DRIVER) world_alloc(world, state->site[0], 20 * MIB);
    (void)variant;
}

/* Each request is a little larger than the cached buffers. */
static void ratchet(struct world *world, struct state *state, const struct pattern *pattern,
                    const struct variant *variant)
{
    world_release(world, world_alloc(world, state->site[0], variant->bytes + 4096ull * world->step));
    if (world->step % 4) return;
    if (!state->size) state->size = 300ull * MIB;
    world_reserved(world, W_TORCH, state->size += 20 * MIB);
    (void)pattern;
}

/* A pool that keeps its memory: doubles until it has enough. */
static void pool_growth(struct world *world, struct state *state, const struct pattern *pattern,
                        const struct variant *variant)
{
    if (world->step != 1u << state->count || state->count == 7) return;
    world_alloc(world, state->site[0], variant->bytes << state->count++);
    (void)pattern;
}

/* A spike in one step, for a new shape. */
static void spike(struct world *world, struct state *state, const struct pattern *pattern,
                  const struct variant *variant)
{
    if (world_random(world, 25)) return;
    uint32_t work[3];
    for (size_t i = 0; i < 3; i++)
        work[i] = world_alloc(world, state->site[0], variant->bytes + 64 * MIB);
    for (size_t i = 0; i < 3; i++)
        world_release(world, work[i]);
    (void)pattern;
}

/* Metrics of an epoch of 20 steps, dropped at its end. */
static void epochs(struct world *world, struct state *state, const struct pattern *pattern,
                   const struct variant *variant)
{
    uint32_t epoch = pattern->blocks ? pattern->blocks : 20;
    state->held[state->count++] = world_alloc(world, state->site[0], variant->bytes);
    if (world->step % epoch) return;
    for (size_t i = 0; i < state->count; i++)
        world_release(world, state->held[i]);
    state->count = 0;
}

/* Garbage that is collected after 30 to 60 new objects. */
static void collected(struct world *world, struct state *state, const struct pattern *pattern,
                      const struct variant *variant)
{
    if (!state->size) state->size = 10 + world_random(world, 6);
    state->held[state->count++] = world_alloc(world, state->site[0], variant->bytes);
    if (state->count < state->size) return;
    for (size_t i = 0; i < state->count; i++)
        world_release(world, state->held[i]);
    state->count = state->size = 0;
    (void)pattern;
}

/* Requests' caches: more and more until the middle of the run, then fewer. */
static void drain(struct world *world, struct state *state, const struct pattern *pattern,
                  const struct variant *variant)
{
    if (world->step < world->steps / 2) {
        if (state->count < 4000) state->held[state->count++] = world_alloc(world, state->site[0], variant->bytes);
    } else if (state->count > 2) {
        world_release(world, state->held[--state->count]);
        world_release(world, state->held[--state->count]);
    }
    (void)pattern;
}

/* Sizes rise on a schedule; the number of blocks does not. */
static void curriculum(struct world *world, struct state *state, const struct pattern *pattern,
                       const struct variant *variant)
{
    for (size_t i = 0; i < state->count; i++)
        world_release(world, state->held[i]);
    for (state->count = 0; state->count < 4;)
        state->held[state->count++] = world_alloc(world, state->site[0], variant->bytes + 4096ull * world->step);
    (void)pattern;
}

/* New threads set themselves up one after the other in the first 20 steps. */
static void stagger(struct world *world, struct state *state, const struct pattern *pattern,
                    const struct variant *variant)
{
    if (world->step % 2 && world->step < (world->steps < 80 ? world->steps / 4 : 20))
        world_alloc(world, state->site[0], variant->bytes);
    (void)pattern;
}

#define LEAK(id, class, ...)                                                                                           \
    {                                                                                                                  \
        id, T_LEAK, class, start, __VA_ARGS__                                                                          \
    }
#define SAFE(id, ...)                                                                                                  \
    {                                                                                                                  \
        id, T_CLEAN, MP_LEAK_CLASSES, start, __VA_ARGS__                                                               \
    }
#define TOLD(id, class, ...)                                                                                           \
    {                                                                                                                  \
        id, T_CLEAN, class, start, __VA_ARGS__                                                                         \
    }

const struct pattern patterns[] = {
    LEAK("P01", MP_LEAK_RETENTION, leak, .sites = 6, .blocks = 1),
    LEAK("P02", MP_LEAK_RETENTION, leak, .sites = 1, .blocks = 3),
    LEAK("P03", MP_LEAK_RETENTION, leak, .sites = 10, .blocks = 2),
    LEAK("P04", MP_LEAK_RETENTION, leak_among_others, .sites = 3, .blocks = 1),
    TOLD("P05", MP_LEAK_CLASSES, at_first, .sites = 1, .blocks = 1),
    LEAK("P06", MP_LEAK_RETENTION, leak, .sites = 2, .blocks = 1),
    LEAK("P07", MP_LEAK_CYCLE, leak_of_cycles, .sites = 1, .blocks = 1),
    TOLD("P08", MP_LEAK_RETAINED_ONCE, once, .sites = 1, .blocks = 6),
    LEAK("P09", MP_LEAK_RETENTION, leak, .sites = 2, .blocks = 4, .every = 11),
    LEAK("P10", MP_LEAK_RETENTION, leak_of_cycle, .sites = 1, .blocks = 1, .every = 5),
    LEAK("P11", MP_LEAK_RETENTION, leak, .sites = 1, .blocks = 1, .every = 1),
    TOLD("P12", MP_LEAK_RETAINED_ONCE, once, .sites = 1, .blocks = 2),
    LEAK("P13", MP_LEAK_GRAPH_POOL, leak, W_DRIVER, MP_KIND_GRAPH, .sites = 1, .blocks = 2, .every = 6),
    LEAK("P14", MP_LEAK_GRAPH_POOL, leak, W_DRIVER, MP_KIND_GRAPH, true, .sites = 1, .blocks = 1),
    LEAK("P15", MP_LEAK_NATIVE, leak, W_DRIVER, MP_KIND_DEVICE, true, .sites = 1, .blocks = 1, .every = 7),
    LEAK("P16", MP_LEAK_GRAPH_POOL, leak, W_DRIVER, MP_KIND_GRAPH, true, .sites = 2, .blocks = 1),
    LEAK("P17", MP_LEAK_NATIVE, leak, W_DRIVER, MP_KIND_DEVICE, true, .sites = 1, .blocks = 1),
    LEAK("P18", MP_LEAK_NATIVE, leak, W_DRIVER, MP_KIND_DEVICE, true, .sites = 1, .blocks = 1, .every = 3),
    LEAK("P19", MP_LEAK_HANDLE, leak, W_DRIVER, MP_KIND_HANDLE, true, .sites = 1, .blocks = 1),
    LEAK("P20", MP_LEAK_HANDLE, leak, W_DRIVER, MP_KIND_HANDLE, .sites = 1, .blocks = 1, .every = 8),
    LEAK("P21", MP_LEAK_NATIVE, leak, W_DRIVER, MP_KIND_DEVICE, true, .sites = 3, .blocks = 8),
    LEAK("P22", MP_LEAK_PINNED, leak, W_DRIVER, MP_KIND_PINNED, true, .sites = 1, .blocks = 1),
    LEAK("P23", MP_LEAK_PINNED, leak_among_others, W_DRIVER, MP_KIND_PINNED, .sites = 1, .blocks = 1),
    LEAK("P24", MP_LEAK_NATIVE, leak, W_DRIVER, MP_KIND_DEVICE, true, .sites = 1, .blocks = 1),
    LEAK("P25", MP_LEAK_NATIVE, leak, W_DRIVER, MP_KIND_VMM, true, .sites = 1, .blocks = 4),
    LEAK("P26", MP_LEAK_NATIVE, leak_among_others, W_DRIVER, MP_KIND_DEVICE, true, .sites = 1, .blocks = 1,
         .every = 13),
    LEAK("P27", MP_LEAK_NATIVE, leak_of_cycle, W_DRIVER, MP_KIND_DEVICE, true, .sites = 1, .blocks = 1, .every = 4),
    LEAK("P28", MP_LEAK_SHAPE_CACHE, leak_of_shapes, .sites = 1, .blocks = 1),
    LEAK("P29", MP_LEAK_RETENTION, leak, .sites = 1, .blocks = 1),
    LEAK("P30", MP_LEAK_RETENTION, leak_among_others, W_APP, MP_KIND_DEVICE, .sites = 1, .blocks = 1),
    LEAK("P31", MP_LEAK_NATIVE, leak_of_cycle, W_DRIVER, MP_KIND_DEVICE, true, .sites = 1, .blocks = 1, .every = 7),
    TOLD("P32", MP_LEAK_FRAGMENTATION, ratchet, .sites = 1, .blocks = 1),
    LEAK("P34", MP_LEAK_NATIVE, leak, W_DRIVER, MP_KIND_DEVICE, true, .sites = 1, .blocks = 1, .every = 2),
    LEAK("P35", MP_LEAK_NATIVE, leak_among_others, W_DRIVER, MP_KIND_DEVICE, true, .sites = 1, .blocks = 1),
    LEAK("P36", MP_LEAK_RETENTION, leak_beside_more, .sites = 2, .blocks = 1, .every = 1),
    LEAK("P37", MP_LEAK_RETENTION, leak_beside_more, .sites = 1, .blocks = 1, .every = 1),
    LEAK("P39", MP_LEAK_RETENTION, leak_of_any_size, .sites = 2, .blocks = 1, .every = 1),
    SAFE("N01", at_first, W_DRIVER, MP_KIND_DEVICE, true, .sites = 1, .blocks = 2),
    SAFE("N02", at_first, .sites = 1, .blocks = 3),
    SAFE("N03", ring, .sites = 1, .blocks = 3),
    SAFE("N04", bounded_cache, .sites = 1, .blocks = 16),
    SAFE("N05", ring, .sites = 1, .blocks = 0),
    TOLD("N06", MP_LEAK_FRAGMENTATION, fragmenting, .sites = 1, .blocks = 1),
    SAFE("N07", pool_growth, W_DRIVER, MP_KIND_POOL, true, .sites = 1, .blocks = 1),
    SAFE("N08", at_first, W_DRIVER, MP_KIND_DEVICE, true, .sites = 1, .blocks = 12),
    SAFE("N09", spike, .sites = 1, .blocks = 1),
    SAFE("N10", epochs, .sites = 1, .blocks = 10),
    TOLD("N11", MP_LEAK_RETAINED_ONCE, once, .sites = 1, .blocks = 8),
    SAFE("N12", drain, .sites = 1, .blocks = 1),
    SAFE("N13", curriculum, .sites = 1, .blocks = 1),
    SAFE("N14", collected, .sites = 1, .blocks = 1),
    SAFE("N15", pool_growth, W_DRIVER, MP_KIND_VMM, .sites = 1, .blocks = 1),
    SAFE("N16", bounded_cache, .sites = 1, .blocks = 0, .every = 1),
    SAFE("N17", stagger, .sites = 1, .blocks = 1),
    SAFE("N18", epochs, .sites = 1, .blocks = 4),
    SAFE("N19", ring, .sites = 1, .blocks = 15),
    SAFE("N20", pool_growth, W_DRIVER, MP_KIND_PINNED, true, .sites = 1, .blocks = 1),
    SAFE("N21", fill_in_turn, .sites = 1, .blocks = 1),
    SAFE("N22", fill_at_random, .sites = 1, .blocks = 1),
    SAFE("N23", fill_at_random, .sites = 1, .blocks = 4),
    SAFE("N24", fill_and_stop, .sites = 1, .blocks = 1, .every = 1),
    SAFE("N25", fill_and_stop, .sites = 1, .blocks = 1, .every = 3),
    SAFE("N26", fill_one, .sites = 1, .blocks = 1),
};
const size_t pattern_count = sizeof patterns / sizeof *patterns;
