#include "analysis/allocator/torch_set.h"

#include <string.h>

#include "base/memory.h"
#include "base/search.h"

#define RUN 64

struct mp_torch_run {
    size_t count;
    struct mp_torch_key keys[RUN];
};

static int compare(const struct mp_torch_key *a, const struct mp_torch_key *b)
{
    if (a->stream != b->stream) return a->stream < b->stream ? -1 : 1;
    if (a->bytes != b->bytes) return a->bytes < b->bytes ? -1 : 1;
    if (a->age != b->age) return a->age < b->age ? -1 : 1;
    if (a->address != b->address) return a->address < b->address ? -1 : 1;
    return 0;
}

struct mp_torch_place mp_torch_set_find(const struct mp_torch_set *set, const struct mp_torch_key *key)
{
    size_t at =
        MP_COUNT_BEFORE(set->runs.count, i, compare(&set->runs.at[i]->keys[set->runs.at[i]->count - 1], key) < 0);
    struct mp_torch_place place = {at, 0};
    if (at == set->runs.count) return place;
    const struct mp_torch_run *run = set->runs.at[at];
    place.index = MP_COUNT_BEFORE(run->count, i, compare(&run->keys[i], key) < 0);
    return place;
}

const struct mp_torch_key *mp_torch_set_at(const struct mp_torch_set *set, struct mp_torch_place place)
{
    return place.run < set->runs.count ? &set->runs.at[place.run]->keys[place.index] : NULL;
}

struct mp_torch_place mp_torch_set_next(const struct mp_torch_set *set, struct mp_torch_place place)
{
    if (++place.index == set->runs.at[place.run]->count) place = (struct mp_torch_place){place.run + 1, 0};
    return place;
}

bool mp_torch_set_previous(const struct mp_torch_set *set, struct mp_torch_place *place)
{
    if (place->index) {
        place->index--;
        return true;
    }
    if (!place->run) return false;
    place->run--;
    place->index = set->runs.at[place->run]->count - 1;
    return true;
}

/* Inserts a run at `index`, and moves its left neighbour's keys from `from` on into it. */
static void add_run(struct mp_torch_set *set, size_t index, size_t from)
{
    struct mp_torch_run *run = mp_alloc(sizeof *run);
    mp_vec_room_for(&set->runs, 1);
    run->count = 0;
    memmove(set->runs.at + index + 1, set->runs.at + index, (set->runs.count - index) * sizeof *set->runs.at);
    set->runs.at[index] = run;
    set->runs.count++;
    if (index) {
        struct mp_torch_run *left = set->runs.at[index - 1];
        run->count = left->count - from;
        memcpy(run->keys, left->keys + from, run->count * sizeof *run->keys);
        left->count = from;
    }
}

void mp_torch_set_insert(struct mp_torch_set *set, const struct mp_torch_key *key)
{
    struct mp_torch_place place = mp_torch_set_find(set, key);
    if (!set->runs.count) {
        add_run(set, 0, 0);
    } else if (place.run == set->runs.count) {
        place.run--;
        place.index = set->runs.at[place.run]->count;
    }
    if (set->runs.at[place.run]->count == RUN) {
        add_run(set, place.run + 1, RUN / 2);
        if (place.index > RUN / 2) place = (struct mp_torch_place){place.run + 1, place.index - RUN / 2};
    }
    struct mp_torch_run *run = set->runs.at[place.run];
    memmove(run->keys + place.index + 1, run->keys + place.index, (run->count - place.index) * sizeof *run->keys);
    run->keys[place.index] = *key;
    run->count++;
}

void mp_torch_set_remove(struct mp_torch_set *set, const struct mp_torch_key *key)
{
    struct mp_torch_place place = mp_torch_set_find(set, key);
    struct mp_torch_run *run = set->runs.at[place.run];
    run->count--;
    memmove(run->keys + place.index, run->keys + place.index + 1, (run->count - place.index) * sizeof *run->keys);
    if (run->count) return;
    free(run);
    set->runs.count--;
    memmove(set->runs.at + place.run, set->runs.at + place.run + 1,
            (set->runs.count - place.run) * sizeof *set->runs.at);
}

void mp_torch_set_copy(struct mp_torch_set *to, const struct mp_torch_set *from)
{
    for (size_t i = 0; i < from->runs.count; i++) {
        struct mp_torch_run *run = mp_alloc(sizeof *run);
        mp_vec_add(&to->runs, run);
        *run = *from->runs.at[i];
    }
}

void mp_torch_set_free(struct mp_torch_set *set)
{
    for (size_t i = 0; i < set->runs.count; i++)
        free(set->runs.at[i]);
    mp_vec_free(&set->runs);
}
