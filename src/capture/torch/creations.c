#include "capture/torch/creations.h"

#include <stdatomic.h>

#include "base/hash.h"
#include "capture/core/room.h"

/* `check` is key XOR value. If two threads write one entry at the same time, `check` gives neither key, and the entry
 * counts as empty. */
struct entry {
    _Atomic uint64_t check, value;
};

static struct entry *_Atomic table;

static struct entry *make_table(void)
{
    struct entry *none = NULL;
    struct entry *made = mp_room_map(MP_CREATIONS * sizeof *made);
    if (!made) return NULL;
    if (atomic_compare_exchange_strong(&table, &none, made)) return made;
    mp_room_unmap(made, MP_CREATIONS * sizeof *made);
    return none;
}

/* The entry for a number. Consecutive numbers of one thread have consecutive entries. */
static struct entry *entry_of(struct entry *entries, uint64_t thread, uint64_t number)
{
    return &entries[(number + thread * UINT64_C(0x9e3779b97f4a7c15)) & (MP_CREATIONS - 1)];
}

static uint64_t key_of(uint32_t generation, uint64_t thread, uint64_t number)
{
    return mp_hash_mix(mp_hash_step(mp_hash_step(generation, thread), number)) | 1;
}

void mp_creation_put(uint32_t generation, uint64_t thread, uint64_t number, struct mp_captured creation)
{
    struct entry *entries = atomic_load_explicit(&table, memory_order_acquire);
    if (__builtin_expect(!entries, 0) && !(entries = make_table())) return;
    struct entry *entry = entry_of(entries, thread, number);
    uint64_t value = (uint64_t)creation.module << 32 | creation.stack;
    atomic_store_explicit(&entry->check, key_of(generation, thread, number) ^ value, memory_order_relaxed);
    atomic_store_explicit(&entry->value, value, memory_order_release);
}

bool mp_creation_find(uint32_t generation, uint64_t thread, uint64_t number, struct mp_captured *creation)
{
    struct entry *entries = atomic_load_explicit(&table, memory_order_acquire);
    if (!entries) return false;
    struct entry *entry = entry_of(entries, thread, number);
    uint64_t value = atomic_load_explicit(&entry->value, memory_order_acquire);
    uint64_t check = atomic_load_explicit(&entry->check, memory_order_relaxed);
    if ((check ^ value) != key_of(generation, thread, number)) return false;
    *creation = (struct mp_captured){.stack = (uint32_t)value, .module = (uint32_t)(value >> 32)};
    return true;
}
