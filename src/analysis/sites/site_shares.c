#include "analysis/sites/site_shares.h"

#include <stdlib.h>

#include "base/map.h"
#include "base/order.h"

struct share {
    uint32_t site;
    struct mp_site_share of;
};

struct shares {
    MP_VEC(struct share) at;
    struct mp_map index; /* (site, stack or text) of a share, to its index in `at` */
    struct mp_map things;
};

MP_ORDER(by_site_heaviest_first, struct share,
         MP_RISING(site) ?: MP_FALLING(of.bytes) ?: MP_FALLING(of.blocks) ?: MP_RISING(of.kind) ?: MP_RISING(of.of))

/* Adds a block to the share `of` of its site: the stack that freed the block, or a text of its metadata. */
static void add_share(struct shares *shares, uint32_t site, uint32_t of, uint8_t kind, uint64_t bytes)
{
    bool fresh;
    uint64_t *thing = mp_map_at(&shares->things, ((uint64_t)kind << 32 | of) + 1, &fresh);
    if (fresh) *thing = shares->things.count;
    uint64_t *at = mp_map_at(&shares->index, ((uint64_t)site << 32 | *thing) + 1, &fresh);
    if (fresh) {
        const struct share share = {site, {.of = of, .kind = kind}};
        *at = shares->at.count;
        mp_vec_add(&shares->at, share);
    }
    shares->at.at[*at].of.bytes += bytes == MP_BYTES_UNKNOWN ? 0 : bytes;
    shares->at.at[*at].of.blocks++;
}

static void sort(struct shares *shares)
{
    if (shares->at.count) qsort(shares->at.at, shares->at.count, sizeof *shares->at.at, by_site_heaviest_first);
}

static void free_shares(struct shares *shares)
{
    mp_vec_free(&shares->at);
    mp_map_free(&shares->index);
    mp_map_free(&shares->things);
}

void mp_site_frees_find(const struct mp_model *model, const struct mp_live_blocks *live, const uint32_t *site_of,
                        struct mp_sites *sites)
{
    struct shares shares = {0};
    for (size_t i = 0; i < live->count; i++) {
        uint32_t stack = mp_model_freed_at(model, live->at[i].block);
        if (stack) add_share(&shares, site_of[i], stack, 0, live->at[i].bytes);
    }
    sort(&shares);
    for (size_t i = 0; i < shares.at.count; i++) {
        struct mp_site *site = &sites->at[shares.at.at[i].site];
        if (!site->free_count++) site->first_free = (uint32_t)sites->frees.count;
        mp_vec_add(&sites->frees, shares.at.at[i].of);
    }
    free_shares(&shares);
}

void mp_site_metadata_find(const struct mp_model *model, const struct mp_live_blocks *live, const uint32_t *site_of,
                           struct mp_sites *sites)
{
    struct shares shares = {0};
    for (size_t i = 0; i < live->count; i++) {
        size_t count;
        const struct mp_model_metadata *said = mp_model_metadata_of(model, live->at[i].block, &count);
        for (size_t k = 0; k < count; k++)
            if (!said[k].again) add_share(&shares, site_of[i], said[k].text, said[k].kind, live->at[i].bytes);
    }
    sort(&shares);
    for (size_t i = 0; i < shares.at.count; i++) {
        struct mp_site *site = &sites->at[shares.at.at[i].site];
        if (!site->metadata_count++) site->first_metadata = (uint32_t)sites->metadata.count;
        mp_vec_add(&sites->metadata, shares.at.at[i].of);
    }
    free_shares(&shares);
}

void mp_metadata_text(const struct mp_model *model, uint32_t block, struct mp_buffer *out)
{
    size_t count, before = out->size;
    const struct mp_model_metadata *said = mp_model_metadata_of(model, block, &count);
    for (size_t i = 0; i < count; i++) {
        if (said[i].again) continue;
        if (out->size > before) mp_buffer_append_text(out, "; ");
        if (said[i].kind == MP_METADATA_INTERNAL) mp_buffer_append_text(out, "internal: ");
        mp_buffer_append_text(out, mp_model_text(model, said[i].text));
    }
}
