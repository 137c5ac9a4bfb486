/*
 * Joins the entries of PyTorch's own history to our allocations. Both lists describe one device's caching allocator and
 * were made under its lock, so they have the same order. Each lacks some: the history is a ring, and forgets entries
 * between two readings; ours lacks dropped events. Addresses recur, in a loop with the same neighbours in each turn.
 *
 * A pair needs the same address, a block large enough for the request, and nearness in time. Of all ways to pair the
 * two lists in order, the result is the one with most pairs, and of those the one whose times agree best. The rest
 * stays without a pair. Pure; any thread.
 *
 * An example, of a loop that allocates at A and at B in each turn, where the ring has forgotten the first turn (times
 * in microseconds):
 *
 *     ours      a0 10 A    a1 20 B    a2 30 A    a3 40 B
 *     history                         h0 31 A    h1 41 B
 *
 * h0 may be a0 or a2, and h1 a1 or a3. In order there are three ways with two pairs: h0 a0, h1 a1 differ by 42
 * microseconds in all; h0 a0, h1 a3 by 22; h0 a2, h1 a3 by 2, which is taken. h0 a2 with h1 a1 would not be in order.
 */
#ifndef MP_COLLECT_HISTORY_JOIN_H
#define MP_COLLECT_HISTORY_JOIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An allocation as the recorder saw it. */
struct mp_history_alloc {
    uint64_t time_ns, address, bytes;
    uint64_t block; /* the caller's own number */
};

/* An entry of PyTorch's: `bytes` were requested. */
struct mp_history_entry {
    uint64_t time_ns, address, bytes, stream, pool;
};

/* The history's clock is read a moment before ours, to a microsecond, and its readings go through two conversions. Our
 * thread may lose its processor in between, for any length of time, while it keeps the lock. So the first allocation
 * after an entry may be it at any distance, later ones only up to this one. */
#define MP_HISTORY_EARLY_NS UINT64_C(2000000)
#define MP_HISTORY_LATE_NS  UINT64_C(50000000)

/* Fills alloc_of[entry] with an index into allocs, or MP_NONE. Both lists are in order, allocs also by time, and
 * shorter than 2^20. *pairs: their number. False where memory is short. */
bool mp_history_join(const struct mp_history_alloc *allocs, size_t alloc_count, const struct mp_history_entry *entries,
                     size_t entry_count, uint32_t *alloc_of, size_t *pairs);

#endif
