/*
 * An ordered set of blocks, for the model of PyTorch's allocator: sorted runs of bounded length, so that changes move
 * little memory and walks are short. Zero-initialised is empty. One thread at a time.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/vec.h"

struct mp_torch_key {
    uint64_t stream, bytes, age, address; /* keys are sorted ascending, in this order */
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

/* The key must not be in the set. */
void mp_torch_set_insert(struct mp_torch_set *set, const struct mp_torch_key *key);
/* The key must be in the set. */
void mp_torch_set_remove(struct mp_torch_set *set, const struct mp_torch_key *key);
/* `to` is empty. */
void mp_torch_set_copy(struct mp_torch_set *to, const struct mp_torch_set *from);
void mp_torch_set_free(struct mp_torch_set *set);

/* The first position whose key is not below the key. mp_torch_set_at() of a position behind the last is NULL. */
struct mp_torch_place mp_torch_set_find(const struct mp_torch_set *set, const struct mp_torch_key *key);
const struct mp_torch_key *mp_torch_set_at(const struct mp_torch_set *set, struct mp_torch_place place);
struct mp_torch_place mp_torch_set_next(const struct mp_torch_set *set, struct mp_torch_place place);
/* False: there is no earlier one. */
bool mp_torch_set_previous(const struct mp_torch_set *set, struct mp_torch_place *place);
