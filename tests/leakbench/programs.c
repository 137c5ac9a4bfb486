/* Programs that do not leak: the work around the patterns. Each has parameters, an optimizer with state from the first
 * step, and a batch that is fetched one step ahead. Activations, gradients and temporaries are made and freed. */
#include "leakbench/bench.h"

#define KIB 1024u
#define MIB (1024u * KIB)

enum { PARAMETERS, ADAM, BATCH, FORWARD, BACKWARD, OPTIMIZER, LOSS, OTHER, MORE };

static void start_training(struct world *world, struct state *state)
{
    static const char *const names[] = {"__init__", "adam",     "fetch", "forward",
                                        "backward", "optimize", "loss",  "other"};
    for (size_t i = 0; i < 8; i++)
        state->site[i] = world_site(world, names[i], true, W_TORCH, MP_KIND_DEVICE);
    for (size_t i = 0; i < 12; i++)
        world_alloc(world, state->site[PARAMETERS], 4 * MIB);
    state->more = MP_NONE;
    world_reserved(world, W_TORCH, 200 * MIB);
}

static void prefetch(struct world *world, struct state *state, uint64_t bytes)
{
    uint32_t next = world_alloc(world, state->site[BATCH], bytes);
    if (state->more != MP_NONE) world_release(world, (uint32_t)state->more);
    state->more = next;
    for (size_t i = 0; world->step == 1 && i < 12; i++)
        world_alloc(world, state->site[ADAM], 8 * MIB);
}

static void optimize(struct world *world, struct state *state, size_t times)
{
    for (size_t i = 0; i < times; i++)
        world_release(world, world_alloc(world, state->site[OPTIMIZER], 4 * MIB));
}

/* A small network, each layer on its own line. */
static void mlp_start(struct world *world, struct state *state)
{
    start_training(world, state);
    for (size_t i = 0; i < 4; i++)
        state->site[MORE + i] = world_variant(world, state->site[FORWARD], "at::native::addmm");
}

static void mlp_step(struct world *world, struct state *state, void (*middle)(void *), void *context)
{
    uint32_t kept[4];
    prefetch(world, state, MIB);
    for (size_t i = 0; i < 4; i++)
        kept[i] = world_alloc(world, state->site[MORE + i], 2 * MIB);
    uint32_t loss = world_alloc(world, state->site[LOSS], 512);
    middle(context);
    for (size_t i = 4; i--;) {
        uint32_t gradient = world_alloc(world, state->site[BACKWARD], MIB);
        world_release(world, kept[i]);
        world_release(world, gradient);
    }
    world_release(world, loss);
    optimize(world, state, 4);
}

/* Batches of any length. */
static void varlen_step(struct world *world, struct state *state, void (*middle)(void *), void *context)
{
    uint32_t kept[6];
    uint64_t length = 16 + world_random(world, 496);
    prefetch(world, state, length * 512);
    for (size_t i = 0; i < 6; i++)
        kept[i] = world_alloc(world, state->site[FORWARD], length * KIB);
    uint32_t loss = world_alloc(world, state->site[LOSS], 512);
    middle(context);
    for (size_t i = 6; i--;) {
        world_release(world, world_alloc(world, state->site[BACKWARD], length * KIB));
        world_release(world, kept[i]);
    }
    world_release(world, loss);
    optimize(world, state, 6);
}

/* Gradients of four micro-batches are summed before their use: four rounds a step. */
static void accumulate_step(struct world *world, struct state *state, void (*middle)(void *), void *context)
{
    uint32_t gradients[4];
    for (size_t micro = 0; micro < 4; micro++) {
        uint32_t kept[3];
        prefetch(world, state, MIB);
        for (size_t i = 0; i < 3; i++)
            kept[i] = world_alloc(world, state->site[FORWARD], 2 * MIB);
        uint32_t loss = world_alloc(world, state->site[LOSS], 512);
        if (micro == 2) middle(context);
        gradients[micro] = world_alloc(world, state->site[BACKWARD], MIB);
        for (size_t i = 3; i--;)
            world_release(world, kept[i]);
        world_release(world, loss);
    }
    optimize(world, state, 3);
    for (size_t micro = 0; micro < 4; micro++)
        world_release(world, gradients[micro]);
}

/* Twelve layers of one class: the same stacks are repeated in each step. */
static void transformer_step(struct world *world, struct state *state, void (*middle)(void *), void *context)
{
    uint32_t kept[12][3];
    prefetch(world, state, MIB);
    for (size_t layer = 0; layer < 12; layer++) {
        for (size_t i = 0; i < 3; i++)
            kept[layer][i] = world_alloc(world, state->site[i ? FORWARD : OTHER], 4 * MIB);
        world_release(world, world_alloc(world, state->site[FORWARD], MIB));
        if (layer == 7) middle(context);
    }
    uint32_t loss = world_alloc(world, state->site[LOSS], 512);
    for (size_t layer = 12; layer--;) {
        uint32_t gradient = world_alloc(world, state->site[BACKWARD], 4 * MIB);
        for (size_t i = 0; i < 3; i++)
            world_release(world, kept[layer][i]);
        world_release(world, gradient);
    }
    world_release(world, loss);
    optimize(world, state, 12);
}

/* Requests that overlap: some twenty are in flight, each for a random number of rounds. */
static void serving_step(struct world *world, struct state *state, void (*middle)(void *), void *context)
{
    size_t kept = 0;
    for (size_t i = 0; i < state->count; i++) {
        if (world_random(world, 10))
            state->held[kept++] = state->held[i];
        else
            world_release(world, state->held[i]);
    }
    state->count = kept;
    for (uint32_t i = 1 + world_random(world, 3); i && state->count < 4000; i--)
        state->held[state->count++] = world_alloc(world, state->site[OTHER], (1 + world_random(world, 64)) * 64 * KIB);
    uint32_t input = world_alloc(world, state->site[BATCH], MIB);
    uint32_t output = world_alloc(world, state->site[FORWARD], 2 * MIB);
    middle(context);
    world_release(world, world_alloc(world, state->site[LOSS], 512));
    world_release(world, input);
    world_release(world, output);
}

/* Training with an evaluation every ten steps and a checkpoint every 25. */
static void evaluate_step(struct world *world, struct state *state, void (*middle)(void *), void *context)
{
    varlen_step(world, state, middle, context);
    if (world->step % 10 == 0) {
        for (size_t batch = 0; batch < 5; batch++) {
            uint32_t first = world_alloc(world, state->site[OTHER], 2 * MIB);
            world_release(world, world_alloc(world, state->site[MORE], 4 * MIB));
            world_release(world, first);
        }
    }
    if (world->step % 25) return;
    uint32_t copies[12];
    for (size_t i = 0; i < 12; i++)
        copies[i] = world_alloc(world, state->site[MORE + 1], 4 * MIB);
    for (size_t i = 0; i < 12; i++)
        world_release(world, copies[i]);
}

/* A loop in C++ over plain device memory. */
static void native_start(struct world *world, struct state *state)
{
    static const char *const names[] = {"Grid::Grid", "-",        "read_tile", "sweep",
                                        "reduce",     "exchange", "report",    "spill"};
    world->native = true;
    for (size_t i = 0; i < 8; i++)
        state->site[i] = world_site(world, names[i], false, W_DRIVER, MP_KIND_DEVICE);
    for (size_t i = 0; i < 3; i++)
        world_alloc(world, state->site[PARAMETERS], 64 * MIB);
    state->more = MP_NONE;
}

static void native_step(struct world *world, struct state *state, void (*middle)(void *), void *context)
{
    uint32_t tile = world_alloc(world, state->site[BATCH], 8 * MIB);
    uint32_t sweep = world_alloc(world, state->site[FORWARD], 16 * MIB);
    middle(context);
    world_release(world, world_alloc(world, state->site[BACKWARD], MIB));
    world_release(world, sweep);
    world_release(world, tile);
    if (world_random(world, 4) == 0) world_release(world, world_alloc(world, state->site[LOSS], MIB));
}

const struct program programs[] = {
    {"mlp", false, mlp_start, mlp_step},
    {"varlen", false, start_training, varlen_step},
    {"accumulate", false, start_training, accumulate_step},
    {"transformer", true, start_training, transformer_step},
    {"serving", true, start_training, serving_step},
    {"evaluate", true, mlp_start, evaluate_step},
    {"native", true, native_start, native_step},
};
const size_t program_count = sizeof programs / sizeof *programs;
