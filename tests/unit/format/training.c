#include "unit/format/training.h"

#include <stdlib.h>

#include "base/vec.h"

enum { OPS = 9, PARAMETERS = 4 };

struct block {
    uint64_t number, address, bytes;
};

/* Free blocks by size; the lowest address goes out first, as in PyTorch's caching allocator. */
struct pool {
    uint64_t bytes;
    MP_VEC(uint64_t) addresses;
};

struct trainer {
    MP_VEC(struct mp_event) events;
    MP_VEC(struct pool) pools;
    MP_VEC(struct block) kept;
    struct block gradients[64 * PARAMETERS];
    uint64_t random, now, next_block, top;
    uint32_t thread, stacks;
};

static uint64_t dice(struct trainer *trainer, uint64_t bound)
{
    trainer->random ^= trainer->random << 13;
    trainer->random ^= trainer->random >> 7;
    trainer->random ^= trainer->random << 17;
    return trainer->random % bound;
}

static uint64_t take_address(struct trainer *trainer, uint64_t bytes)
{
    struct pool *pool = trainer->pools.at;
    size_t i = 0;
    while (i < trainer->pools.count && pool[i].bytes != bytes)
        i++;
    if (i < trainer->pools.count && pool[i].addresses.count) {
        uint64_t *at = pool[i].addresses.at;
        size_t lowest = 0;
        for (size_t k = 1; k < pool[i].addresses.count; k++)
            if (at[k] < at[lowest]) lowest = k;
        uint64_t address = at[lowest];
        at[lowest] = at[--pool[i].addresses.count];
        return address;
    }
    trainer->top += bytes;
    return trainer->top - bytes;
}

static void give_back(struct trainer *trainer, uint64_t address, uint64_t bytes)
{
    size_t i = 0;
    while (i < trainer->pools.count && trainer->pools.at[i].bytes != bytes)
        i++;
    struct pool fresh = {.bytes = bytes};
    if (i == trainer->pools.count && !mp_vec_push(&trainer->pools, fresh)) abort();
    if (!mp_vec_push(&trainer->pools.at[i].addresses, address)) abort();
}

/* A launch takes a few microseconds, never twice the same. */
static uint64_t tick(struct trainer *trainer, uint64_t ns)
{
    return trainer->now += ns + dice(trainer, ns / 4 + 1) + (dice(trainer, 500) ? 0 : dice(trainer, 300000));
}

static struct block allocate(struct trainer *trainer, uint64_t bytes, uint32_t stack)
{
    bytes = (bytes + 511) / 512 * 512;
    struct block block = {trainer->next_block++, take_address(trainer, bytes), bytes};
    struct mp_event event = {.type = MP_EVENT_ALLOC,
                             .time_ns = tick(trainer, 2000 + stack * 37 % 5000),
                             .address = block.address,
                             .bytes = bytes,
                             .block = block.number,
                             .stack = stack,
                             .thread = trainer->thread};
    if (stack >= trainer->stacks) trainer->stacks = stack + 1;
    if (!mp_vec_push(&trainer->events, event)) abort();
    return block;
}

static void release(struct trainer *trainer, struct block block)
{
    struct mp_event event = {.type = MP_EVENT_FREE,
                             .time_ns = tick(trainer, 400),
                             .address = block.address,
                             .bytes = block.bytes,
                             .block = block.number,
                             .thread = trainer->thread};
    if (!mp_vec_push(&trainer->events, event)) abort();
    give_back(trainer, block.address, block.bytes);
}

/* One layer forward: each operation leaves an activation behind and drops a scratch block, some of odd sizes. */
static void forward(struct trainer *trainer, uint32_t layer, uint64_t tokens)
{
    for (uint32_t op = 0; op < OPS; op++) {
        uint32_t stack = 1 + op + OPS * (layer % 4); /* the same source lines serve several layers */
        struct block activation = allocate(trainer, tokens * 64 * (1 + op % 4) + layer, stack);
        if (op % 2) release(trainer, allocate(trainer, tokens * 16 * (1 + op), 200 + stack));
        if (!mp_vec_push(&trainer->kept, activation)) abort();
    }
}

static void backward(struct trainer *trainer, uint32_t layer, uint64_t tokens)
{
    for (uint32_t op = OPS; op-- > 0;) {
        uint32_t stack = 400 + op + OPS * (layer % 4);
        struct block gradient = allocate(trainer, tokens * 64 * (1 + op % 4) + layer, stack);
        release(trainer, trainer->kept.at[--trainer->kept.count]);
        if (op < PARAMETERS) trainer->gradients[layer * PARAMETERS + op] = allocate(trainer, 4096u << op, 600 + stack);
        release(trainer, gradient);
    }
}

static void step(struct trainer *trainer, uint32_t layers)
{
    uint64_t tokens = 128 * (28 + dice(trainer, 5)); /* padded batches */
    trainer->thread = 0;
    struct mp_event begin = {.type = MP_EVENT_STEP, .time_ns = tick(trainer, 400)};
    if (!mp_vec_push(&trainer->events, begin)) abort();
    for (uint32_t layer = 0; layer < layers; layer++)
        forward(trainer, layer, tokens);
    trainer->thread = 1;
    for (uint32_t layer = layers; layer-- > 0;)
        backward(trainer, layer, tokens);
    trainer->thread = 0;
    for (uint32_t i = 0; i < layers * PARAMETERS; i++) {
        struct block update = allocate(trainer, trainer->gradients[i].bytes, 800 + i % PARAMETERS);
        release(trainer, trainer->gradients[i]);
        release(trainer, update);
    }
}

struct mp_event *make_training(size_t layers, size_t steps, size_t *count, uint32_t *stacks)
{
    struct trainer trainer = {.random = 88172645463325252u, .top = UINT64_C(0x7f1200000000)};
    for (size_t i = 0; i < steps; i++)
        step(&trainer, (uint32_t)layers);
    for (size_t i = 0; i < trainer.pools.count; i++)
        mp_vec_free(&trainer.pools.at[i].addresses);
    mp_vec_free(&trainer.pools);
    mp_vec_free(&trainer.kept);
    *count = trainer.events.count;
    *stacks = trainer.stacks;
    return trainer.events.at;
}
