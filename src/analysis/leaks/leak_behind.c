#include "analysis/leaks/leak_behind.h"

#include <stdlib.h>

#include "base/map.h"

/* Blocks of one stack that were made after the last step and freed at the program's exit. */
struct behind {
    uint32_t stack, first;
    uint64_t kept, early, bytes; /* early: blocks made in the first half of the events after the last step */
};

size_t mp_leak_find_behind(const struct mp_model *model, const struct mp_steps *steps,
                           const struct mp_leak_places *places, uint32_t teardown, struct mp_leak_findings *findings)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    uint32_t from = steps->at[steps->count - 1].end;
    size_t before = findings->count;
    MP_VEC(struct behind) found = {0};
    struct mp_map by_site = {0};
    for (uint32_t i = 0; i < blocks->count; i++) {
        uint32_t born = blocks->alloc_event[i];
        if (born == MP_NONE || born < from || born >= teardown || blocks->bytes[i] == MP_BYTES_UNKNOWN) continue;
        bool fresh, kept = blocks->free_event[i] >= teardown;
        uint64_t *at = mp_map_at(&by_site, ((uint64_t)blocks->track[i] << 32 | blocks->stack[i]) + 1, &fresh);
        if (fresh) *at = found.count;
        if (fresh) mp_vec_add(&found, ((struct behind){.stack = blocks->stack[i], .first = i}));
        found.at[*at].kept += kept;
        found.at[*at].early += kept && born - from < (teardown - from) / 2;
        found.at[*at].bytes += kept ? blocks->bytes[i] : 0;
    }
    mp_vec_each (const struct behind, place, &found) {
        if (place->kept < MP_LEAK_BIRTHS || place->early * 4 < place->kept || place->bytes < MP_LEAK_WORTH_BYTES)
            continue;
        const struct mp_leak_finding finding = {.class = MP_LEAK_RETAINED_ONCE,
                                                .confidence = MP_LEAK_PROBABLE,
                                                .why.test = MP_LEAK_BY_REST,
                                                .track = blocks->track[place->first],
                                                .stack = place->stack,
                                                .bytes = place->bytes,
                                                .blocks = place->kept,
                                                .first_step = places->first_step + places->steps,
                                                .eta_oom_steps = UINT64_MAX};
        mp_vec_add(findings, finding);
    }
    mp_map_free(&by_site);
    mp_vec_free(&found);
    return findings->count - before;
}
