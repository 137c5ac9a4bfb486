/*
 * Finds which of many address ranges contains an address. Ranges may nest and overlap. If several cover the address,
 * the one that begins last wins; among equal ranges the highest rank wins. Outside of all ranges the answer is 0.
 * Zero-initialised is empty; add everything, then seal, then look up. One thread at a time.
 */
#pragma once

#include <stdint.h>

#include "base/vec.h"

struct mp_extent {
    uint64_t start, end, value;
    int rank;
};

/* From `start` to the next edge, addresses belong to `value`; 0: they belong to no range. */
struct mp_extent_edge {
    uint64_t start, value;
};

struct mp_extents {
    MP_VEC(struct mp_extent) added;
    MP_VEC(struct mp_extent_edge) edges;
};

/* Adds [start, end) for value, which is not 0; ignores an empty range. False if memory is short. */
bool mp_extents_add(struct mp_extents *extents, uint64_t start, uint64_t end, uint64_t value, int rank);
/* Prepares for mp_extents_find(); false if memory is short; lookups then find nothing. */
bool mp_extents_seal(struct mp_extents *extents);
/* The value of the range that holds the address, or 0. */
uint64_t mp_extents_find(const struct mp_extents *extents, uint64_t address);
void mp_extents_free(struct mp_extents *extents);
