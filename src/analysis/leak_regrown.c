#include "analysis/leak_regrown.h"

#include <stdlib.h>

#define STEPS_MIN  24 /* fewer larger ones are no proof: warm-up, a schedule */
#define THINGS_MAX 4

/* The bytes and blocks of a place at each boundary. */
struct levels {
    uint64_t *bytes;
    uint32_t *blocks, *births;
};

static bool make_levels(const struct mp_leak_life *lives, size_t count, uint32_t last, struct levels *levels)
{
    *levels = (struct levels){calloc((size_t)last + 2, sizeof *levels->bytes),
                              calloc((size_t)last + 2, sizeof *levels->blocks),
                              calloc((size_t)last + 2, sizeof *levels->births)};
    if (!levels->bytes || !levels->blocks || !levels->births) return false;
    for (size_t i = 0; i < count; i++) {
        uint32_t end = lives[i].death < last ? lives[i].death + 1 : last + 1;
        levels->bytes[lives[i].birth + 1] += lives[i].bytes;
        levels->blocks[lives[i].birth + 1]++;
        levels->births[lives[i].birth + 1]++;
        levels->bytes[end] -= lives[i].bytes; /* modulo 2^64, as is the sum */
        levels->blocks[end]--;
    }
    for (uint32_t k = 1; k <= last; k++) {
        levels->bytes[k] += levels->bytes[k - 1];
        levels->blocks[k] += levels->blocks[k - 1];
    }
    return true;
}

/* Since `first` there were always as many, few; most were made anew in the last step, and larger than before; and what
 * came of late is no less than what came at first. */
static bool is_regrown(const struct levels *levels, uint32_t first, uint32_t last)
{
    uint32_t steps = last - first, anew = 0, larger = 0, middle = first + steps / 2;
    for (uint32_t k = first + 1; k <= last; k++) {
        if (levels->blocks[k] != levels->blocks[last]) return false;
        if (levels->bytes[k] < levels->bytes[k - 1]) return false;
        larger += levels->bytes[k] > levels->bytes[k - 1];
        anew += levels->births[k] > 0;
    }
    double earlier = (double)(levels->bytes[middle] - levels->bytes[first]) / (middle - first);
    double later = (double)(levels->bytes[last] - levels->bytes[middle]) / (last - middle);
    return larger * 10 >= steps * 9 && anew >= larger && later * 2 >= earlier;
}

/* Nine in ten blocks were there until the one that took their place had come. */
static bool are_replaced(const struct mp_model *model, const struct mp_leak_places *places,
                         const struct mp_leak_place *place, uint32_t at_once)
{
    size_t replaced = 0;
    for (size_t i = 0; i + at_once < place->count; i++) {
        const uint32_t *block = &places->blocks[place->first + i];
        replaced += model->blocks.free_event[block[0]] > model->blocks.alloc_event[block[at_once]];
    }
    return replaced * 10 >= (place->count - at_once) * 9;
}

bool mp_leak_regrows(const struct mp_model *model, const struct mp_leak_places *places,
                     const struct mp_leak_place *place, struct mp_leak_evidence *evidence, bool *regrows)
{
    struct levels levels = {0};
    uint32_t last = places->last, first = last;
    *regrows = false;
    if (place->count < STEPS_MIN || last < STEPS_MIN) return true;
    bool done = make_levels(places->lives + place->first, place->count, last, &levels);
    while (done && first && levels.blocks[first - 1] == levels.blocks[last])
        first--;
    uint32_t steps = last - first, at_once = done ? levels.blocks[last] : 0;
    if (steps >= STEPS_MIN && steps * 2 >= last && at_once && at_once <= THINGS_MAX &&
        is_regrown(&levels, first, last) && are_replaced(model, places, place, at_once)) {
        *regrows = true;
        *evidence = (struct mp_leak_evidence){
            .growth = MP_GROWTH_LEAK,
            .births = steps,
            .first = first,
            .last = last,
            .bytes = levels.bytes[last],
            .blocks = at_once,
            .bytes_per_step = (double)(levels.bytes[last] - levels.bytes[first]) / steps,
            .regrown = true,
        };
    }
    free(levels.bytes);
    free(levels.blocks);
    free(levels.births);
    return done;
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

bool mp_leak_is_growth_general(const struct mp_model *model, const struct mp_steps *steps,
                               const struct mp_leak_places *places, bool *general)
{
    const struct mp_step *at = steps->at + places->first_step;
    uint32_t third = places->last / 3, all = 0, grown = 0;
    struct site_sum *sites = calloc(model->stacks.count + 1, sizeof *sites);
    *general = true;
    if (!sites) return false;
    sum_third(model, at[0].first, at[third].first, false, sites);
    sum_third(model, at[places->last - third].first, at[places->last].first, true, sites);
    for (size_t i = 0; i < model->stacks.count; i++) {
        const struct site_sum *site = &sites[i];
        if (site->early_allocs * 2 < third || site->late_allocs * 2 < third) continue;
        all++;
        grown += (double)site->late / site->late_allocs > 1.02 * (double)site->early / site->early_allocs;
    }
    free(sites);
    *general = grown * 8 >= all && all >= 8;
    return true;
}
