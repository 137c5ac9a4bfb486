#include "capture/cuda/live.h"

#include <string.h>

#include "base/hash.h"
#include "capture/core/lock.h"
#include "capture/core/room.h"
#include "capture/core/session.h"

#define SHARDS     16
#define ROOM_FIRST 256 /* slots of a shard at first */

/* A hash table with linear probing, a power of two in size, at most three quarters full. If a thread leaves the lock in
 * the middle of a change by a jump, an entry may be there twice or not at all, but no slot is invalid. */
static struct shard {
    mp_lock lock;
    struct mp_live *slots;
    uint64_t room, count;
} shards[SHARDS];

static uint64_t hash_of(unsigned class, uint64_t value)
{
    return mp_hash_mix(value ^ (uint64_t) class << 56);
}

static bool lock(struct shard *shard)
{
    bool taken = mp_lock_take(&shard->lock);
    if (!taken) mp_session_without_lock();
    return taken;
}

/* Locks the shard of a hash. NULL: it did not get the lock. */
static struct shard *lock_shard(uint64_t hash)
{
    struct shard *shard = &shards[hash >> 60 & (SHARDS - 1)];
    return lock(shard) ? shard : NULL;
}

/* The slot of the entry, or the free slot where it belongs. The shard must not be full. */
static struct mp_live *slot_of(const struct shard *shard, uint64_t hash, unsigned class, uint64_t value)
{
    uint64_t at = hash & (shard->room - 1);
    while (shard->slots[at].class && (shard->slots[at].value != value || shard->slots[at].class != class))
        at = (at + 1) & (shard->room - 1);
    return &shard->slots[at];
}

static struct mp_live *find_entry(const struct shard *shard, uint64_t hash, unsigned class, uint64_t value)
{
    struct mp_live *slot = shard->room ? slot_of(shard, hash, class, value) : NULL;
    return slot && slot->class ? slot : NULL;
}

static bool grow(struct shard *shard)
{
    if (shard->room && (shard->count + 1) * 4 <= shard->room * 3) return true;
    struct shard larger = {.room = shard->room ? shard->room * 2 : ROOM_FIRST};
    larger.slots = mp_room_map(larger.room * sizeof *larger.slots);
    if (!larger.slots) return shard->count + 1 < shard->room;
    for (uint64_t i = 0; i < shard->room; i++) {
        const struct mp_live *entry = &shard->slots[i];
        if (entry->class) *slot_of(&larger, hash_of(entry->class, entry->value), entry->class, entry->value) = *entry;
    }
    struct shard old = *shard;
    shard->slots = larger.slots; /* the new slots are set first: a reader in between uses the old, smaller size */
    atomic_signal_fence(memory_order_seq_cst);
    shard->room = larger.room;
    atomic_signal_fence(memory_order_seq_cst);
    mp_room_unmap(old.slots, old.room * sizeof *old.slots);
    return true;
}

/* Removes an entry. Moves entries behind it into the gap, if they were displaced beyond it. */
static void take_away(struct shard *shard, struct mp_live *slot)
{
    uint64_t mask = shard->room - 1, gap = (uint64_t)(slot - shard->slots);
    for (uint64_t at = (gap + 1) & mask; shard->slots[at].class; at = (at + 1) & mask) {
        uint64_t home = hash_of(shard->slots[at].class, shard->slots[at].value) & mask;
        if (((at - home) & mask) < ((at - gap) & mask)) continue;
        shard->slots[gap] = shard->slots[at];
        gap = at;
    }
    shard->slots[gap].class = 0;
    shard->count--;
}

bool mp_live_put(const struct mp_live *entry, struct mp_live *before)
{
    uint64_t hash = hash_of(entry->class, entry->value);
    struct shard *shard = lock_shard(hash);
    if (!shard) return false;
    bool replaced = false;
    if (grow(shard)) {
        struct mp_live *slot = slot_of(shard, hash, entry->class, entry->value);
        replaced = slot->class;
        if (replaced)
            *before = *slot;
        else
            shard->count++;
        *slot = *entry;
    }
    mp_lock_release(&shard->lock);
    return replaced;
}

bool mp_live_find(enum mp_live_class class, uint64_t value, struct mp_live *found)
{
    uint64_t hash = hash_of(class, value);
    struct shard *shard = lock_shard(hash);
    if (!shard) return false;
    const struct mp_live *slot = find_entry(shard, hash, class, value);
    if (slot) *found = *slot;
    mp_lock_release(&shard->lock);
    return slot;
}

bool mp_live_take(enum mp_live_class class, uint64_t value, struct mp_live *taken)
{
    uint64_t hash = hash_of(class, value);
    struct shard *shard = lock_shard(hash);
    if (!shard) return false;
    struct mp_live *slot = find_entry(shard, hash, class, value);
    if (slot) {
        *taken = *slot;
        take_away(shard, slot);
    }
    mp_lock_release(&shard->lock);
    return slot;
}

bool mp_live_count(enum mp_live_class class, uint64_t value, int refs, int others, struct mp_live *after)
{
    uint64_t hash = hash_of(class, value);
    struct shard *shard = lock_shard(hash);
    if (!shard) return false;
    struct mp_live *slot = find_entry(shard, hash, class, value);
    if (slot) {
        slot->refs += slot->refs || refs > 0 ? (uint32_t)refs : 0;
        slot->other += slot->other || others > 0 ? (uint64_t)(int64_t)others : 0;
        *after = *slot;
        if (!slot->refs && !slot->other) take_away(shard, slot);
    }
    mp_lock_release(&shard->lock);
    return slot;
}

bool mp_live_set_bytes(enum mp_live_class class, uint64_t value, uint64_t bytes, uint64_t when, struct mp_live *before)
{
    uint64_t hash = hash_of(class, value);
    struct shard *shard = lock_shard(hash);
    if (!shard) return false;
    struct mp_live *slot = find_entry(shard, hash, class, value);
    bool newer = slot && when >= slot->context;
    if (newer) {
        *before = *slot;
        slot->bytes = bytes;
        slot->context = when;
    }
    mp_lock_release(&shard->lock);
    return newer;
}

unsigned mp_live_take_some(bool (*wanted)(const struct mp_live *entry, uint64_t filter), uint64_t filter,
                           struct mp_live taken[MP_LIVE_TAKEN])
{
    unsigned count = 0;
    for (unsigned i = 0; i < SHARDS && count < MP_LIVE_TAKEN; i++) {
        struct shard *shard = &shards[i];
        if (!lock(shard)) continue;
        for (uint64_t at = 0; at < shard->room && count < MP_LIVE_TAKEN; at++) {
            /* Another entry may have moved into the gap: check it, too. */
            while (count < MP_LIVE_TAKEN && shard->slots[at].class && wanted(&shard->slots[at], filter)) {
                taken[count++] = shard->slots[at];
                take_away(shard, &shard->slots[at]);
            }
        }
        mp_lock_release(&shard->lock);
    }
    return count;
}

void mp_live_reset(void)
{
    for (unsigned i = 0; i < SHARDS; i++) {
        mp_room_unmap(shards[i].slots, shards[i].room * sizeof *shards[i].slots);
        memset(&shards[i], 0, sizeof shards[i]);
    }
}
