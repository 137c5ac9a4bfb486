#include "analysis/leaks/leak_regrown.h"

#include <stdlib.h>

#include "base/memory.h"

/* The bytes and blocks of a place at each boundary. */
struct levels {
    uint64_t *bytes;
    uint32_t *blocks;
};

static void make_levels(const struct mp_leak_life *lives, size_t count, uint32_t last, struct levels *levels)
{
    *levels = (struct levels){mp_alloc_zeroed((size_t)last + 2, sizeof *levels->bytes),
                              mp_alloc_zeroed((size_t)last + 2, sizeof *levels->blocks)};
    for (size_t i = 0; i < count; i++) {
        uint32_t end = lives[i].death < last ? lives[i].death + 1 : last + 1;
        levels->bytes[lives[i].birth + 1] += lives[i].bytes;
        levels->blocks[lives[i].birth + 1]++;
        levels->bytes[end] -= lives[i].bytes; /* may wrap around; so does the sum, which is right again */
        levels->blocks[end]--;
    }
    for (uint32_t k = 1; k <= last; k++) {
        levels->bytes[k] += levels->bytes[k - 1];
        levels->blocks[k] += levels->blocks[k - 1];
    }
}

/* The number of steps that made the place larger. It is 0 if a step made the place smaller since `first`, or if the
 * place is full. */
static uint32_t count_larger(const struct levels *levels, uint32_t first, uint32_t last)
{
    uint32_t larger = 0, when = first, widest = 0;
    for (uint32_t k = first + 1; k <= last; k++) {
        if (levels->blocks[k] < levels->blocks[k - 1] || levels->bytes[k] < levels->bytes[k - 1]) return 0;
        if (levels->bytes[k] == levels->bytes[k - 1]) continue;
        if (larger++ && k - when > widest) widest = k - when;
        when = k;
    }
    return last - when <= 2 * widest ? larger : 0;
}

/* True if nine in ten blocks lived until their replacement was made. `at_once`: so many live at each boundary. 0: more
 * and more do, and the first block of a later step is a replacement. */
static bool are_replaced(const struct mp_model *model, const struct mp_leak_places *places,
                         const struct mp_leak_place *place, uint32_t at_once)
{
    const struct mp_leak_life *lives = places->lives + place->first;
    size_t replaced = 0, old = 0;
    for (size_t i = 0, next = at_once; i<place->count; i++, next += at_once> 0) {
        const uint32_t *blocks = &places->blocks[place->first];
        while (!at_once && next < place->count && lives[next].birth <= lives[i].birth)
            next++;
        if (next >= place->count) break;
        old++;
        replaced += model->blocks.free_event[blocks[i]] > model->blocks.alloc_event[blocks[next]];
    }
    return replaced * 10 >= old * 9;
}

/* True if the last step made all blocks that live at its end, more than one. */
static bool is_of_last_step(const struct mp_leak_places *places, const struct mp_leak_place *place)
{
    size_t live = 0;
    for (size_t i = place->first; i < place->first + place->count; i++) {
        if (places->lives[i].birth >= places->last || places->lives[i].death < places->last) continue;
        if (places->lives[i].birth + 1 < places->last) return false;
        live++;
    }
    return live > 1;
}

bool mp_leak_regrows(const struct mp_model *model, const struct mp_leak_places *places,
                     const struct mp_leak_place *place, struct mp_leak_growing *growing)
{
    struct levels levels = {0};
    uint32_t last = places->last, first = last;
    if (place->count < MP_LEAK_BIRTHS || last < MP_LEAK_BIRTHS) return false;
    make_levels(places->lives + place->first, place->count, last, &levels);
    while (first && levels.blocks[first - 1] == levels.blocks[last])
        first--;
    uint32_t steps = last - first, at_once = levels.blocks[last];
    bool multiply = is_of_last_step(places, place) && steps * 2 < last;
    for (; multiply && first && levels.blocks[first - 1] && levels.blocks[first - 1] <= levels.blocks[first]; steps++)
        first--;
    uint32_t larger = steps * 2 >= last && at_once && (multiply || at_once <= MP_LEAK_REGROWN_MOST)
                          ? count_larger(&levels, first, last)
                          : 0;
    bool yes = larger >= MP_LEAK_BIRTHS && are_replaced(model, places, place, multiply ? 0 : at_once);
    if (yes) {
        *growing = (struct mp_leak_growing){
            .evidence = {.growth = larger < MP_LEAK_REGROWN_STEPS ? MP_GROWTH_FEW : MP_GROWTH_LEAK,
                         .births = steps,
                         .first = first,
                         .last = last},
            .slope = {.births = steps,
                      .first = first,
                      .last = last,
                      .bytes = levels.bytes[last],
                      .blocks = at_once,
                      .bytes_per_step = (double)(levels.bytes[last] - levels.bytes[first]) / steps},
            .regrown = true,
        };
        for (uint32_t k = last; k > first; k--)
            levels.bytes[k] -= levels.bytes[k - 1];
        mp_leak_slope_change(levels.bytes + first + 1, steps, &growing->slope);
    }
    free(levels.bytes);
    free(levels.blocks);
    return yes;
}

struct site_sum {
    uint64_t early, late; /* bytes */
    uint32_t early_allocs, late_allocs;
};

static void sum_third(const struct mp_model *model, uint32_t first, uint32_t end, bool late, struct site_sum *sites)
{
    for (uint32_t event = first; event < end; event++) {
        if (model->events.type[event] != MP_EVENT_ALLOC) continue;
        uint32_t block = model->events.subject[event];
        struct site_sum *site = &sites[model->blocks.stack[block]];
        uint64_t bytes = model->blocks.bytes[block] == MP_BYTES_UNKNOWN ? 0 : model->blocks.bytes[block];
        *(late ? &site->late : &site->early) += bytes;
        ++*(late ? &site->late_allocs : &site->early_allocs);
    }
}

bool mp_leak_work_grows(const struct mp_model *model, const struct mp_steps *steps, const struct mp_leak_places *places)
{
    const struct mp_step *at = steps->at + places->first_step;
    uint32_t third = places->last / 3, all = 0, grown = 0;
    struct site_sum *sites = mp_alloc_zeroed(model->stacks.count + 1, sizeof *sites);
    sum_third(model, at[0].first, at[third].first, false, sites);
    sum_third(model, at[places->last - third].first, at[places->last].first, true, sites);
    for (size_t i = 0; i < model->stacks.count; i++) {
        const struct site_sum *site = &sites[i];
        if (site->early_allocs * 2 < third || site->late_allocs * 2 < third) continue;
        all++;
        grown += (double)site->late / site->late_allocs > 1.02 * (double)site->early / site->early_allocs;
    }
    free(sites);
    return grown * 8 >= all && all >= 8;
}
