/*
 * Joins the entries of PyTorch's own history to our allocations. Both lists describe one device's caching allocator and
 * were made under its lock, so they have the same order. Each list has gaps: the history is a ring and may lose entries
 * between two readings; ours lacks dropped events. Addresses repeat. In a loop, each turn repeats the whole sequence of
 * addresses.
 *
 * A pair must have the same address, a block large enough for the request, and nearby times. The result keeps both
 * lists in order and has as many pairs as possible. Among results with equally many pairs, the one whose times agree
 * best wins. All other allocations and entries stay unpaired. Pure; any thread.
 *
 * An example is a loop that allocates at A and at B in each turn. The ring has forgotten the first turn. Times are in
 * microseconds:
 *
 *     ours      a0 10 A    a1 20 B    a2 30 A    a3 40 B
 *     history                         h0 31 A    h1 41 B
 *
 * h0 may be a0 or a2, and h1 a1 or a3. Three results in order have two pairs each. The sum of the differences in time
 * is 42 for h0 = a0 and h1 = a1. It is 22 for a0 and a3, and 2 for a2 and a3. The last result wins. h0 = a2 with h1 =
 * a1 would not be in order.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An allocation as the recorder saw it. */
struct mp_history_alloc {
    uint64_t time_ns, address, bytes;
    uint64_t block; /* the caller's own number */
};

/* An entry of PyTorch's history. `bytes`: the requested bytes. */
struct mp_history_entry {
    uint64_t time_ns, address, bytes, stream, pool;
};

/* PyTorch reads its clock, in microseconds, a moment before ours, and its times are converted twice. In between, the
 * thread may be preempted for any length of time while it holds the lock. So the first allocation after an entry may
 * belong to the entry at any distance; later ones may do so only within this distance. */
#define MP_HISTORY_EARLY_NS UINT64_C(2000000)
#define MP_HISTORY_LATE_NS  UINT64_C(50000000)

/* Fills alloc_of[entry] with an index into allocs, or MP_NONE. Both lists are in their allocator's order, and shorter
 * than 2^20; times of `allocs` never decrease. Sets *pairs to the number of pairs. False if memory is short. */
bool mp_history_join(const struct mp_history_alloc *allocs, size_t alloc_count, const struct mp_history_entry *entries,
                     size_t entry_count, uint32_t *alloc_of, size_t *pairs);
