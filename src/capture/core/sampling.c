#include "capture/core/sampling.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "capture/core/room.h"

/* SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014). */
static uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

/* -ln(r / 2^64) to some 1e-11, because the recorder does not link libm. With r = m 2^e and 1/sqrt(2) <= m < sqrt(2): ln
 * m = 2 artanh(t), t = (m - 1) / (m + 1). */
static double minus_log(uint64_t r)
{
    double m = (double)(r ? r : 1);
    uint64_t bits;
    memcpy(&bits, &m, sizeof bits);
    int e = (int)(bits >> 52) - 1023;
    bits = (bits & ((UINT64_C(1) << 52) - 1)) | UINT64_C(1023) << 52;
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) m /= 2, e++;
    double t = (m - 1) / (m + 1), square = t * t, sum = 0;
    for (int k = 11; k > 0; k -= 2)
        sum = sum * square + 1.0 / k;
    return (64 - e) * 0.6931471805599453 - 2 * t * sum;
}

void mp_sampler_next(struct mp_sampler *sampler, uint32_t mean)
{
    double left = minus_log(next_random(&sampler->random)) * mean;
    sampler->left = left > 0 ? (uint64_t)left : 0;
}

void mp_sampler_start(struct mp_sampler *sampler, uint64_t seed, uint32_t mean)
{
    sampler->random = seed;
    mp_sampler_next(sampler, mean);
}

/* A set of buckets, each one cache line. Buckets have no chains, so a removal leaves no gap to repair. A block whose
 * bucket is full is not stored. The bucket is then marked, and every later free in it counts as possibly kept. */
#define BUCKETS 0x20000
#define SLOTS   8

struct set {
    _Atomic uint64_t slots[BUCKETS][SLOTS];
    _Atomic unsigned char overflowed[BUCKETS];
};
static struct set *_Atomic the_set;

static struct set *get_set(bool to_make)
{
    struct set *set = atomic_load_explicit(&the_set, memory_order_acquire);
    if (set || !to_make) return set;
    void *made = mp_room_map(sizeof *set);
    if (!made) return NULL;
    if (atomic_compare_exchange_strong(&the_set, &set, made)) return made;
    mp_room_unmap(made, sizeof *set);
    return set;
}

/* Two blocks may have the same key, though rarely. If the one that is not kept is freed, the free is recorded, and the
 * collector ignores it. */
static uint64_t key_of(uint16_t track, uint64_t address)
{
    uint64_t state = address ^ (uint64_t)track << 48, key = next_random(&state);
    return key ? key : 1;
}

bool mp_sampled_add(uint16_t track, uint64_t address)
{
    struct set *set = get_set(true);
    if (!set) return false;
    uint64_t key = key_of(track, address);
    _Atomic uint64_t *slots = set->slots[key % BUCKETS];
    for (int i = 0; i < SLOTS; i++)
        if (atomic_load_explicit(&slots[i], memory_order_relaxed) == key) return true;
    for (int i = 0; i < SLOTS; i++) {
        uint64_t empty = 0;
        if (!atomic_load_explicit(&slots[i], memory_order_relaxed) &&
            atomic_compare_exchange_strong(&slots[i], &empty, key))
            return true;
    }
    atomic_store(&set->overflowed[key % BUCKETS], 1);
    return false;
}

bool mp_sampled_remove(uint16_t track, uint64_t address)
{
    struct set *set = get_set(false);
    if (!set) return false;
    uint64_t key = key_of(track, address);
    _Atomic uint64_t *slots = set->slots[key % BUCKETS];
    for (int i = 0; i < SLOTS; i++) {
        uint64_t wanted = key;
        if (atomic_load_explicit(&slots[i], memory_order_relaxed) == key &&
            atomic_compare_exchange_strong(&slots[i], &wanted, 0))
            return true;
    }
    return atomic_load_explicit(&set->overflowed[key % BUCKETS], memory_order_relaxed);
}
