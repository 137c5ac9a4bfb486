/*
 * A fixed-size cache from 64-bit hashes to 24-bit ids, read without a lock. A slot is one word: the upper 40 bits of
 * the hash and the id. With the bits that choose the slot, two hashes must agree in 58 bits to give a wrong answer.
 * With 10^6 distinct stacks, one program in some 10^5 shows one wrong stack. New entries replace old ones.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/core/room.h"

#define MP_TAG_CACHE_SLOTS (UINT64_C(1) << 20)
#define MP_TAG_CACHE_WAYS  4
#define MP_TAG_ID_BITS     24
#define MP_TAG_NONE        UINT32_MAX

struct mp_tag_cache {
    _Atomic uint64_t *slots;
    void *memory; /* the slots' address, for mp_front.memory */
};

/* Empties the cache. Needed before the first use; one thread at a time. False: there is no memory. */
static inline bool mp_tag_cache_reset(struct mp_tag_cache *cache)
{
    size_t bytes = MP_TAG_CACHE_SLOTS * sizeof *cache->slots;
    void *before = cache->memory;
    cache->slots = cache->memory = mp_room_map(bytes);
    mp_room_unmap(before, bytes);
    return cache->slots;
}

static inline void mp_tag_cache_end(struct mp_tag_cache *cache)
{
    mp_room_unmap(cache->memory, MP_TAG_CACHE_SLOTS * sizeof *cache->slots);
    cache->slots = cache->memory = NULL;
}

static inline uint32_t mp_tag_cache_find(const struct mp_tag_cache *cache, uint64_t hash)
{
    uint64_t tag = hash >> MP_TAG_ID_BITS;
    for (uint64_t way = 0; way < MP_TAG_CACHE_WAYS; way++) {
        uint64_t slot =
            atomic_load_explicit(&cache->slots[(hash ^ way) & (MP_TAG_CACHE_SLOTS - 1)], memory_order_acquire);
        if (slot >> MP_TAG_ID_BITS == tag && slot) return (uint32_t)(slot & ((1u << MP_TAG_ID_BITS) - 1));
    }
    return MP_TAG_NONE;
}

/* Stores an id of at most MP_TAG_ID_BITS bits; larger ids are not stored. One writer at a time. */
static inline void mp_tag_cache_put(struct mp_tag_cache *cache, uint64_t hash, uint32_t id)
{
    if (id >> MP_TAG_ID_BITS) return;
    uint64_t entry = (hash >> MP_TAG_ID_BITS << MP_TAG_ID_BITS) | id;
    if (!entry) return;
    uint64_t victim = (hash >> 20) & (MP_TAG_CACHE_WAYS - 1);
    for (uint64_t way = 0; way < MP_TAG_CACHE_WAYS; way++)
        if (!atomic_load_explicit(&cache->slots[(hash ^ way) & (MP_TAG_CACHE_SLOTS - 1)], memory_order_relaxed)) {
            victim = way;
            break;
        }
    atomic_store_explicit(&cache->slots[(hash ^ victim) & (MP_TAG_CACHE_SLOTS - 1)], entry, memory_order_release);
}
