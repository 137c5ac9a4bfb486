#include "analysis/sites/site_frees.h"

#include <stdlib.h>

#include "base/map.h"

/* The blocks of a site that one stack freed. */
struct share {
    uint32_t site;
    struct mp_site_free of;
};

static int by_site_heaviest_first(const void *left, const void *right)
{
    const struct share *a = left, *b = right;
    if (a->site != b->site) return a->site < b->site ? -1 : 1;
    if (a->of.bytes != b->of.bytes) return a->of.bytes > b->of.bytes ? -1 : 1;
    if (a->of.blocks != b->of.blocks) return a->of.blocks > b->of.blocks ? -1 : 1;
    return a->of.stack < b->of.stack ? -1 : a->of.stack > b->of.stack;
}

void mp_site_frees_find(const struct mp_model *model, const struct mp_live_blocks *live, const uint32_t *site_of,
                        struct mp_sites *sites)
{
    MP_VEC(struct share) shares = {0};
    struct mp_map index = {0}; /* site and stack to index in shares */
    for (size_t i = 0; i < live->count; i++) {
        uint32_t stack = mp_model_freed_at(model, live->at[i].block);
        bool fresh;
        if (!stack) continue;
        uint64_t *at = mp_map_at(&index, ((uint64_t)site_of[i] << 32 | stack) + 1, &fresh);
        if (fresh) {
            const struct share share = {site_of[i], {stack, 0, 0}};
            *at = shares.count;
            mp_vec_add(&shares, share);
        }
        shares.at[*at].of.bytes += live->at[i].bytes == MP_BYTES_UNKNOWN ? 0 : live->at[i].bytes;
        shares.at[*at].of.blocks++;
    }
    if (shares.count) qsort(shares.at, shares.count, sizeof *shares.at, by_site_heaviest_first);
    for (size_t i = 0; i < shares.count; i++) {
        struct mp_site *site = &sites->at[shares.at[i].site];
        if (!site->free_count++) site->first_free = (uint32_t)sites->frees.count;
        mp_vec_add(&sites->frees, shares.at[i].of);
    }
    mp_vec_free(&shares);
    mp_map_free(&index);
}
