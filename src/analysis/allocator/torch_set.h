/*
 * An ordered set of blocks, for the model of PyTorch's allocator: sorted runs of bounded length, so that changes move
 * little memory and walks are short. Zero-initialised is empty. One thread at a time.
 */
#ifndef MP_ANALYSIS_TORCH_SET_H
#define MP_ANALYSIS_TORCH_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

struct mp_torch_key {
    uint64_t stream, bytes, address; /* ascending in this order */
    uint32_t block;
};

struct mp_torch_run;

struct mp_torch_set {
    MP_VEC(struct mp_torch_run *) runs; /* none is empty */
};

/* A position; valid until the set changes. */
struct mp_torch_place {
    size_t run, index;
};

/* The key is not in the set. */
void mp_torch_set_insert(struct mp_torch_set *set, const struct mp_torch_key *key);
/* The key is in the set. */
void mp_torch_set_remove(struct mp_torch_set *set, const struct mp_torch_key *key);
/* `to` is empty. */
void mp_torch_set_copy(struct mp_torch_set *to, const struct mp_torch_set *from);
void mp_torch_set_free(struct mp_torch_set *set);

/* The first place whose key is not below (stream, bytes, address). mp_torch_set_at() of a place behind the last is
 * NULL. */
struct mp_torch_place mp_torch_set_find(const struct mp_torch_set *set, uint64_t stream, uint64_t bytes,
                                        uint64_t address);
const struct mp_torch_key *mp_torch_set_at(const struct mp_torch_set *set, struct mp_torch_place place);
struct mp_torch_place mp_torch_set_next(const struct mp_torch_set *set, struct mp_torch_place place);
/* False where there is no earlier one. */
bool mp_torch_set_previous(const struct mp_torch_set *set, struct mp_torch_place *place);

#endif
