#include "model/state/peak_sites.h"

static struct mp_peak_site *site_of(struct mp_peak_sites *sites, uint16_t track, uint32_t stack, uint32_t module,
                                    uint8_t kind)
{
    uint64_t number = sites->tracks.at[track].number;
    const uint32_t key[] = {stack, module, (uint32_t)track << 8 | kind};
    uint32_t id = mp_intern_bytes(&sites->keys, (const char *)key, sizeof key);
    struct mp_peak_site fresh = {.held = {.stack = stack, .module = module, .track = track, .kind = kind},
                                 .peak = number};
    if (id == MP_INTERN_FAILED || (id > sites->at.count && !mp_vec_push(&sites->at, fresh))) return NULL;
    struct mp_peak_site *site = &sites->at.at[id - 1];
    if (site->peak == number) return site;
    site->held.bytes = site->bytes;
    site->held.blocks = site->blocks;
    site->peak = number;
    return site;
}

/* Called when the present state, which is the peak, is about to change. */
static void leave_peak(struct mp_peak_track *track)
{
    track->number += track->at_peak;
    track->at_peak = false;
}

/* Finds the site of a block that is about to change. Saves the site's sums if they are its sums at the peak. */
static struct mp_peak_site *changing(struct mp_peak_sites *sites, const struct mp_base_block *block)
{
    if (!mp_vec_extend(&sites->tracks, (size_t)block->track + 1)) return NULL;
    leave_peak(&sites->tracks.at[block->track]);
    return site_of(sites, block->track, block->stack, block->module, block->kind);
}

static bool add_held(struct mp_peak_sites *sites, const struct mp_base_block *block, uint64_t bytes, uint64_t blocks)
{
    struct mp_peak_site *site = changing(sites, block);
    if (!site) return false;
    site->held.bytes += bytes;
    site->held.blocks += blocks;
    return true;
}

bool mp_peak_sites_past(struct mp_peak_sites *sites, const struct mp_past_site *past)
{
    const struct mp_base_block block = {
        .stack = past->stack, .module = past->module, .track = past->track, .kind = past->kind};
    return add_held(sites, &block, past->bytes, past->blocks);
}

bool mp_peak_sites_change(struct mp_peak_sites *sites, const struct mp_base_block *block, int64_t bytes, int blocks)
{
    struct mp_peak_site *site = changing(sites, block);
    if (!site) return false;
    site->bytes += (uint64_t)bytes;
    site->blocks += (uint64_t)(int64_t)blocks;
    return true;
}

void mp_peak_sites_raise(struct mp_peak_sites *sites, uint16_t track)
{
    sites->tracks.at[track].at_peak = true;
}

bool mp_peak_sites_ended(struct mp_peak_sites *sites, const struct mp_base_block *block, uint64_t bytes)
{
    return add_held(sites, block, bytes, 1);
}

void mp_peak_sites_settle(struct mp_peak_sites *sites)
{
    for (size_t i = 0; i < sites->tracks.count; i++)
        leave_peak(&sites->tracks.at[i]);
    for (size_t i = 0; i < sites->at.count; i++) {
        const struct mp_past_site *held = &sites->at.at[i].held;
        (void)site_of(sites, held->track, held->stack, held->module, held->kind);
    }
}

void mp_peak_sites_free(struct mp_peak_sites *sites)
{
    mp_vec_free(&sites->tracks);
    mp_vec_free(&sites->at);
    mp_intern_free(&sites->keys);
}
