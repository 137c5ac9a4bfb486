#include "analysis/leaks/leak_twins.h"

#include <stdlib.h>

#include "base/map.h"

/* The blocks that a step left. */
struct repetition {
    uint32_t step;
    uint64_t blocks, bytes;
};

struct repetitions {
    struct repetition *at; /* in order of steps */
    size_t count, room;
};

static void add(struct repetitions *all, uint32_t step, uint64_t bytes)
{
    if (!all->count || all->at[all->count - 1].step != step) mp_vec_add(all, ((struct repetition){.step = step}));
    struct repetition *last = &all->at[all->count - 1];
    last->blocks++;
    last->bytes += bytes;
}

/* Blocks of the place that were made after the last boundary, and that lived until the program ended. */
static void add_behind(const struct mp_model *model, const struct mp_steps *steps, const struct mp_leak_places *places,
                       const struct mp_leak_place *place, uint32_t teardown, struct repetitions *all)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    uint32_t from = steps->at[places->first_step + places->last].first;
    struct mp_map stacks = {0};
    for (size_t i = place->first; i < place->first + place->count; i++)
        mp_map_at(&stacks, (uint64_t)places->lives[i].site + 1, NULL);
    size_t first = blocks->count;
    while (first && blocks->alloc_event[first - 1] != MP_NONE && blocks->alloc_event[first - 1] >= from)
        first--;
    for (size_t i = first; i < blocks->count; i++) {
        if (blocks->track[i] != place->track || blocks->kind[i] != place->kind || blocks->free_event[i] < teardown ||
            !mp_map_find(&stacks, (uint64_t)blocks->stack[i] + 1))
            continue;
        bool behind = blocks->alloc_event[i] >= steps->at[steps->count - 1].end;
        add(all, places->last + behind, blocks->bytes[i] == MP_BYTES_UNKNOWN ? 0 : blocks->bytes[i]);
    }
    mp_map_free(&stacks);
}

/* PyTorch's allocator may give a block up to 1 MiB more than was asked for. */
static bool is_alike(const struct repetition *a, const struct repetition *b)
{
    uint64_t off = a->bytes > b->bytes ? a->bytes - b->bytes : b->bytes - a->bytes;
    return a->blocks == b->blocks && off <= b->bytes / MP_LEAK_TWINS_DIFFER;
}

/* True if the repetitions between the first and the last are alike and regular. Sets the twins. */
static bool are_twins(const struct repetitions *all, bool named, struct mp_leak_twins *twins)
{
    if (all->count < MP_LEAK_TWINS) return false;
    const struct repetition *one = &all->at[all->count / 2];
    size_t from = !is_alike(&all->at[0], one) && all->at[0].bytes < one->bytes, to = all->count;
    to -= !is_alike(&all->at[to - 1], one) && all->at[to - 1].bytes < one->bytes;
    uint32_t least = UINT32_MAX, most = 0;
    for (size_t i = from; i < to; i++) {
        if (i && i + 1 < all->count && !is_alike(&all->at[i], one)) return false;
        if (i == from) continue;
        uint32_t apart = all->at[i].step - all->at[i - 1].step;
        if (apart < least) least = apart;
        if (apart > most) most = apart;
    }
    if (to < from + MP_LEAK_TWINS || most > 2 * least || (least < MP_LEAK_TWINS_APART && !named)) return false;
    *twins =
        (struct mp_leak_twins){.whole = (uint32_t)(to - from),
                               .of = (uint32_t)all->count,
                               .first = all->at[from].step,
                               .bytes = one->bytes,
                               .blocks = one->blocks,
                               .apart = (double)(all->at[to - 1].step - all->at[from].step) / (double)(to - from - 1)};
    return true;
}

bool mp_leak_twins_find(const struct mp_model *model, const struct mp_steps *steps, const struct mp_leak_places *places,
                        const struct mp_leak_place *place, uint32_t teardown, bool named, struct mp_leak_twins *twins)
{
    struct repetitions all = {0};
    uint32_t oldest = 0;
    for (size_t i = place->first; i < place->first + place->count; i++) {
        const struct mp_leak_life *life = &places->lives[i];
        if (life->death >= places->last && model->blocks.free_event[places->blocks[i]] >= teardown)
            add(&all, life->birth, life->bytes);
        else if (life->death < MP_NONE && life->death - life->birth > oldest)
            oldest = life->death - life->birth;
    }
    add_behind(model, steps, places, place, teardown, &all);
    bool yes = are_twins(&all, named, twins);
    if (yes) {
        double end = (double)places->last + 1 - all.at[all.count - 1].step;
        yes = oldest <= twins->apart && end <= 2 * twins->apart && (twins->apart * twins->whole) * 2 >= places->last &&
              twins->bytes * twins->whole >= MP_LEAK_WORTH_BYTES;
    }
    mp_vec_free(&all);
    return yes;
}
