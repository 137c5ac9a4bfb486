#include <stdlib.h>

#include "base/memory.h"
#include "exchange/kineto/kineto_parts.h"

/* The live blocks of a device: by address if events have addresses, else by size, newest first. */
struct live {
    struct mp_map by_address, by_bytes; /* key() of the address or size to the index of the alloc, + 1 */
};

struct pairing {
    struct mp_kineto *kineto;
    struct live *live;      /* per device */
    MP_VEC(uint32_t) below; /* per event: index + 1 of the earlier live alloc of the same size; 0: none */
};

static uint64_t key(uint64_t value)
{
    return value + 1 ? value + 1 : UINT64_MAX;
}

static void pair_by_address(struct pairing *pairing, uint32_t index)
{
    struct mp_kineto_memory *memory = &pairing->kineto->memory.at[index];
    struct mp_map *map = &pairing->live[memory->device].by_address;
    uint64_t before;
    if (memory->type == MP_EVENT_FREE) {
        if (mp_map_remove(map, key(memory->address), &before)) memory->alloc = (uint32_t)before - 1;
        return;
    }
    uint64_t *at = mp_map_at(map, key(memory->address), NULL);
    if (*at) memory->alloc = (uint32_t)*at - 1; /* the trace lacks the free of the earlier block */
    *at = (uint64_t)index + 1;
}

static void pair_by_bytes(struct pairing *pairing, uint32_t index)
{
    struct mp_kineto_memory *memory = &pairing->kineto->memory.at[index];
    struct mp_map *map = &pairing->live[memory->device].by_bytes;
    if (memory->type == MP_EVENT_ALLOC) {
        uint64_t *at = mp_map_at(map, key(memory->bytes), NULL);
        pairing->below.at[index] = (uint32_t)*at;
        *at = (uint64_t)index + 1;
        return;
    }
    uint64_t *at = mp_map_find(map, key(memory->bytes));
    if (!at || !*at) return;
    memory->alloc = (uint32_t)*at - 1;
    *at = pairing->below.at[memory->alloc];
    pairing->kineto->ambiguous += *at != 0;
}

static void pair_all(struct pairing *pairing)
{
    struct mp_kineto *kineto = pairing->kineto;
    for (uint32_t i = 0; i < kineto->memory.count; i++) {
        const struct mp_kineto_memory *memory = &kineto->memory.at[i];
        if (memory->type == MP_EVENT_OOM) continue;
        (memory->has_address ? pair_by_address : pair_by_bytes)(pairing, i);
        kineto->without_address += !memory->has_address;
    }
}

static uint64_t signed_bytes(const struct mp_kineto_memory *memory)
{
    return memory->type == MP_EVENT_FREE ? -memory->bytes : memory->bytes;
}

/* Finds how much was live before the trace: the first total, less the changes up to that total, modulo 2^64. Blocks
 * that the trace frees are known one by one; the rest becomes one block. */
static void find_bases(struct mp_kineto *kineto)
{
    for (size_t d = 0; d < kineto->devices.count; d++) {
        struct mp_kineto_device *device = &kineto->devices.at[d];
        uint64_t sum = 0, dead = 0;
        device->base_bytes = device->rest_bytes = MP_BYTES_UNKNOWN;
        mp_vec_each (const struct mp_kineto_memory, memory, &kineto->memory) {
            if (memory->device != d || memory->type == MP_EVENT_OOM) continue;
            sum += signed_bytes(memory);
            if (memory->type == MP_EVENT_FREE && memory->alloc == MP_NONE) dead += memory->bytes;
            if (device->base_bytes == MP_BYTES_UNKNOWN && memory->allocated != MP_BYTES_UNKNOWN)
                device->base_bytes = (int64_t)(memory->allocated - sum) < 0 ? 0 : memory->allocated - sum;
        }
        if (device->base_bytes == MP_BYTES_UNKNOWN) continue;
        device->rest_bytes = device->base_bytes > dead ? device->base_bytes - dead : 0;
        device->level = device->rest_bytes + dead;
    }
}

/* The bytes that an event adds to the sum of live blocks, modulo 2^64. */
static uint64_t change(const struct mp_kineto *kineto, const struct mp_kineto_memory *memory)
{
    if (memory->type == MP_EVENT_ALLOC) return memory->bytes;
    return memory->alloc == MP_NONE ? -memory->bytes : -kineto->memory.at[memory->alloc].bytes;
}

/* If memory changed without an event, on a thread that the profiler did not follow, the rest of the base absorbs the
 * change. The level is then the allocator's own total at every event. Totals of the CPU leave some allocators out, so
 * they are not followed. */
static void follow_totals(struct mp_kineto *kineto)
{
    for (size_t i = 0; i < kineto->memory.count; i++) {
        struct mp_kineto_memory *memory = &kineto->memory.at[i];
        struct mp_kineto_device *device = &kineto->devices.at[memory->device];
        memory->rest = MP_BYTES_UNKNOWN;
        if (memory->type == MP_EVENT_OOM || device->rest_bytes == MP_BYTES_UNKNOWN) continue;
        if (memory->type == MP_EVENT_ALLOC && memory->alloc != MP_NONE)
            device->level -= kineto->memory.at[memory->alloc].bytes;
        uint64_t before = memory->allocated - signed_bytes(memory), rest = device->now + (before - device->level);
        if (memory->allocated != MP_BYTES_UNKNOWN && device->type && before != device->level) {
            memory->rest = (int64_t)rest < 0 ? 0 : rest;
            device->level += memory->rest - device->now;
            device->now = memory->rest;
            device->has_rest = true;
            kineto->corrections++;
        }
        kineto->checked += memory->allocated != MP_BYTES_UNKNOWN;
        device->level += change(kineto, memory);
    }
}

static void number_blocks(struct mp_kineto *kineto)
{
    uint64_t next = 0;
    for (size_t i = 0; i < kineto->devices.count; i++)
        if (kineto->devices.at[i].has_rest) kineto->devices.at[i].rest_block = next++;
    for (int allocs = 0; allocs < 2; allocs++) {
        mp_vec_each (struct mp_kineto_memory, memory, &kineto->memory) {
            bool base = memory->type == MP_EVENT_FREE && memory->alloc == MP_NONE;
            if (allocs ? memory->type == MP_EVENT_ALLOC : base) memory->block = next++;
        }
        if (!allocs) kineto->base_blocks = next;
    }
}

void mp_kineto_pair(struct mp_kineto *kineto)
{
    struct pairing pairing = {.kineto = kineto,
                              .live = mp_alloc_zeroed(kineto->devices.count + 1, sizeof *pairing.live)};
    mp_vec_grow_to(&pairing.below, kineto->memory.count);
    pair_all(&pairing);
    for (size_t i = 0; i < kineto->devices.count; i++) {
        mp_map_free(&pairing.live[i].by_address);
        mp_map_free(&pairing.live[i].by_bytes);
    }
    free(pairing.live);
    mp_vec_free(&pairing.below);
    find_bases(kineto);
    for (size_t i = 0; i < kineto->devices.count; i++) {
        kineto->devices.at[i].now = kineto->devices.at[i].rest_bytes;
        kineto->devices.at[i].has_rest = kineto->devices.at[i].rest_bytes != 0;
    }
    follow_totals(kineto);
    number_blocks(kineto);
}
