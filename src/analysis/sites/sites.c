#include "analysis/sites/sites.h"

#include <math.h>
#include <stdlib.h>

#include "analysis/sites/growth.h"
#include "analysis/sites/site_shares.h"
#include "analysis/sites/site_tensors.h"
#include "base/map.h"
#include "base/order.h"
#include "base/sampling.h"
#include "model/module_path.h"

/* The modules of a network that a site's blocks belong to, as patterns ("blocks.*.attn"). Pure. */

#define PATTERNS_MAX 16 /* for one site; modules that fit none of these patterns are left out */

/* The bytes that one module allocated at a site. */
struct share {
    uint32_t site, module;
    uint64_t bytes;
};

struct pattern {
    struct mp_buffer text;
    uint64_t bytes;
};

struct shares {
    struct share *at;
    size_t count, room;
    struct mp_map index;
};

static void add_share(struct shares *shares, uint32_t site, uint32_t module, uint64_t bytes)
{
    bool fresh;
    uint64_t *at = mp_map_at(&shares->index, ((uint64_t)site << 32 | module) + 1, &fresh);
    struct share share = {site, module, 0};
    if (fresh) {
        *at = shares->count;
        mp_vec_add(shares, share);
    }
    shares->at[*at].bytes += bytes == MP_BYTES_UNKNOWN ? 0 : bytes;
}

MP_ORDER(by_site, struct share, MP_RISING(site) ?: MP_FALLING(bytes) ?: MP_RISING(module))

MP_ORDER(patterns_by_bytes, struct pattern, MP_FALLING(bytes))

/* Adds a module's path to a pattern that fits it, or makes a new pattern. */
static void add_path(struct pattern patterns[PATTERNS_MAX], size_t *count, const char *path, uint64_t bytes)
{
    size_t at = 0;
    while (at < *count && !mp_module_pattern_add(&patterns[at].text, path))
        at++;
    if (at == PATTERNS_MAX) return;
    if (at == *count) {
        patterns[(*count)++] = (struct pattern){.bytes = 0};
        mp_module_pattern_add(&patterns[at].text, path);
    }
    patterns[at].bytes += bytes;
}

/* Adds the patterns of one site's shares, the heaviest first. */
static void add_patterns(const struct mp_model *model, size_t root, const struct share *shares, size_t count,
                         struct mp_sites *sites)
{
    struct pattern patterns[PATTERNS_MAX];
    struct mp_site *site = &sites->at[shares->site];
    size_t made = 0;
    for (size_t i = 0; i < count; i++) {
        add_path(patterns, &made, mp_module_path(model, root, shares[i].module), shares[i].bytes);
    }
    qsort(patterns, made, sizeof *patterns, patterns_by_bytes);
    site->first_module = (uint32_t)sites->modules.count;
    for (size_t i = 0; i < made; i++) {
        struct mp_site_module module = {MP_NONE, patterns[i].bytes};
        module.pattern = mp_intern_add_text(&sites->groups, mp_buffer_text(&patterns[i].text));
        mp_vec_add(&sites->modules, module);
        site->module_count++;
        mp_buffer_free(&patterns[i].text);
    }
}

/* Fills the modules of each site. `site_of`: by index in `live`, the index of its site. */
static void site_modules_find(const struct mp_model *model, const struct mp_live_blocks *live, const uint32_t *site_of,
                              struct mp_sites *sites)
{
    struct shares shares = {0};
    size_t root = mp_module_root(model);
    for (size_t i = 0; i < live->count; i++) {
        uint32_t module = mp_model_module(model, live->at[i].block);
        if (module) add_share(&shares, site_of[i], module, live->at[i].bytes);
    }
    if (shares.count) qsort(shares.at, shares.count, sizeof *shares.at, by_site);
    for (size_t i = 0; i < shares.count;) {
        size_t end = i + 1;
        while (end < shares.count && shares.at[end].site == shares.at[i].site)
            end++;
        add_patterns(model, root, shares.at + i, end - i, sites);
        i = end;
    }
    mp_vec_free(&shares);
    mp_map_free(&shares.index);
}

/* The key of a site while sites are counted; groupings by block add the group. */
struct key {
    uint32_t stack, group;
    uint32_t track;
};

struct counting {
    const struct mp_model *model;
    const struct mp_steps *steps;
    struct mp_sites *sites;
    struct mp_groups groups;
    bool wants_modules, wants_frees, wants_metadata, wants_tensors;
    struct mp_intern keys;        /* site N has key N + 1 */
    MP_VEC(uint32_t) last_period; /* by site */
    MP_VEC(uint32_t) site_of;     /* by index of the live blocks; empty if nobody needs it */
};

static size_t site_of(struct counting *counting, const struct key *key)
{
    size_t at = mp_intern_add(&counting->keys, (const char *)key, sizeof *key) - 1;
    struct mp_site site = {
        .stack = key->stack, .group = key->group, .track = (uint16_t)key->track, .of_base_alone = true};
    if (at >= counting->sites->count) {
        mp_vec_add(counting->sites, site);
        mp_vec_add(&counting->last_period, 0);
    }
    return at;
}

/* The index of a block's site. */
static size_t find_site(struct counting *counting, const struct mp_live_block *live)
{
    const struct mp_model_blocks *blocks = &counting->model->blocks;
    struct key key = {blocks->stack[live->block], MP_NONE, blocks->track[live->block]};
    if (!mp_group_is_of_stack(counting->groups.grouping->by))
        key.group = mp_groups_of_block(&counting->groups, live->block, live->bytes);
    return site_of(counting, &key);
}

/* Blocks come in the order of their numbers, which is the order of their births. A site's periods therefore never fall.
 * A period is new to the site if it differs from the site's last one. */
static void count_birth(struct counting *counting, size_t at, uint32_t born)
{
    struct mp_site *site = &counting->sites->at[at];
    uint32_t period = mp_birth_period(counting->model, counting->steps, born);
    if (period != counting->last_period.at[at]) site->births++;
    counting->last_period.at[at] = period;
    site->of_base_alone = false;
    site->last_step = mp_step_of(counting->steps, born);
    if (!site->first_step) site->first_step = site->last_step;
}

static void count_block(struct counting *counting, const struct mp_live_block *live)
{
    struct mp_sites *sites = counting->sites;
    size_t at = find_site(counting, live);
    if (counting->wants_modules || counting->wants_frees || counting->wants_metadata || counting->wants_tensors)
        mp_vec_add(&counting->site_of, (uint32_t)at);
    struct mp_site *site = &sites->at[at];
    site->bytes += mp_known(live->bytes);
    site->variance += mp_sampling_variance(mp_known(live->bytes), mp_model_sample_of(counting->model, site->track));
    if (counting->groups.guessed) site->guessed_bytes += mp_known(live->bytes);
    site->blocks++;
    site->unknown_blocks += live->bytes == MP_BYTES_UNKNOWN;
    sites->bytes += mp_known(live->bytes);
    sites->blocks++;
    sites->unknown_blocks += live->bytes == MP_BYTES_UNKNOWN;
    uint32_t born = counting->model->blocks.alloc_event[live->block];
    if (born != MP_NONE) count_birth(counting, at, born);
}

/* The past has only sums, so a group that depends on the block is unknown. */
static void count_past(struct counting *counting, uint16_t track)
{
    const struct mp_model *model = counting->model;
    struct mp_sites *sites = counting->sites;
    mp_vec_each (const struct mp_past_site, past, &model->past_sites) {
        struct key key = {past->stack, MP_NONE, past->track};
        if (past->track != track || !past->blocks) continue;
        size_t at = site_of(counting, &key);
        sites->at[at].bytes += past->bytes;
        sites->at[at].variance = NAN;
        sites->at[at].blocks += past->blocks;
        sites->bytes += past->bytes;
        sites->blocks += past->blocks;
    }
}

static void merge_site(struct mp_site *into, const struct mp_site *from, uint64_t *heaviest)
{
    into->bytes += from->bytes;
    into->guessed_bytes += from->guessed_bytes;
    into->blocks += from->blocks;
    into->variance += from->variance;
    into->unknown_blocks += from->unknown_blocks;
    if (from->births > into->births) into->births = from->births;
    into->of_base_alone &= from->of_base_alone;
    if (from->first_step && (!into->first_step || from->first_step < into->first_step))
        into->first_step = from->first_step;
    if (from->last_step > into->last_step) into->last_step = from->last_step;
    if (from->bytes <= *heaviest) return;
    *heaviest = from->bytes;
    into->stack = from->stack;
}

/* Merges all sites of one track and group into one site. */
static void merge_groups(struct counting *counting)
{
    struct mp_sites *sites = counting->sites;
    bool of_stack = mp_group_is_of_stack(counting->groups.grouping->by);
    struct mp_map index = {0};
    MP_VEC(uint64_t) heaviest = {0};
    size_t merged = 0;
    for (size_t i = 0; i < sites->count; i++) {
        struct mp_site site = sites->at[i];
        bool fresh;
        if (of_stack) site.group = mp_groups_of_stack(&counting->groups, site.stack);
        uint64_t *at = mp_map_at(&index, ((uint64_t)site.track << 32 | site.group) + 1, &fresh);
        if (fresh) {
            *at = merged;
            mp_vec_add(&heaviest, site.bytes);
            sites->at[merged++] = site;
        } else {
            merge_site(&sites->at[*at], &site, &heaviest.at[*at]);
        }
    }
    sites->count = merged;
    mp_map_free(&index);
    mp_vec_free(&heaviest);
}

/* Equal sites are in the recording's order, so that the result is always the same. */
MP_ORDER(by_bytes, struct mp_site, MP_FALLING(bytes) ?: MP_FALLING(blocks) ?: MP_RISING(track) ?: MP_RISING(stack))

MP_ORDER(by_blocks, struct mp_site, MP_FALLING(blocks) ?: by_bytes(a, b))

MP_ORDER(by_growth, struct mp_site, MP_FALLING(births) ?: by_bytes(a, b))

void mp_sites_sort(struct mp_sites *sites, enum mp_sort_by sort)
{
    static int (*const orders[])(const void *, const void *) = {
        [MP_SORT_BYTES] = by_bytes, [MP_SORT_BLOCKS] = by_blocks, [MP_SORT_GROWTH] = by_growth};
    if (sites->count) qsort(sites->at, sites->count, sizeof *sites->at, orders[sort]);
}

/* `live` NULL: blocks at the track's peak in the past. */
static void make(const struct mp_model *model, const struct mp_live_blocks *live, uint16_t track,
                 const struct mp_steps *steps, const struct mp_grouping *grouping, struct mp_sites *sites)
{
    *sites = (struct mp_sites){0};
    struct counting counting = {.model = model,
                                .steps = steps,
                                .sites = sites,
                                .wants_modules = live && grouping->by == MP_GROUP_STACK && model->blocks.module,
                                .wants_frees = live && grouping->by == MP_GROUP_STACK && model->blocks.freed_at,
                                .wants_tensors = live && grouping->by == MP_GROUP_STACK && model->uses.count,
                                .wants_metadata = live && grouping->by == MP_GROUP_STACK && model->metadata.count};
    mp_groups_open(model, grouping, live ? live->moment : 0, &sites->groups, &counting.groups);
    if (!live) count_past(&counting, track);
    for (size_t i = 0; live && i < live->count; i++)
        count_block(&counting, &live->at[i]);
    if (grouping->by != MP_GROUP_STACK) merge_groups(&counting);
    if (counting.wants_modules) site_modules_find(model, live, counting.site_of.at, sites);
    if (counting.wants_frees) mp_site_frees_find(model, live, counting.site_of.at, sites);
    if (counting.wants_tensors) mp_site_tensors_find(model, live, counting.site_of.at, sites);
    if (counting.wants_metadata) mp_site_metadata_find(model, live, counting.site_of.at, sites);
    mp_groups_close(&counting.groups);
    mp_intern_free(&counting.keys);
    mp_vec_free(&counting.last_period);
    mp_vec_free(&counting.site_of);
    mp_sites_sort(sites, grouping->sort);
}

void mp_sites_make(const struct mp_model *model, const struct mp_live_blocks *live, const struct mp_steps *steps,
                   const struct mp_grouping *grouping, struct mp_sites *sites)
{
    make(model, live, MP_TRACK_NONE, steps, grouping, sites);
}

void mp_sites_of_past(const struct mp_model *model, uint16_t track, const struct mp_grouping *grouping,
                      struct mp_sites *sites)
{
    make(model, NULL, track, NULL, grouping, sites);
}

void mp_sites_free(struct mp_sites *sites)
{
    mp_vec_free(sites);
    mp_vec_free(&sites->modules);
    mp_vec_free(&sites->frees);
    mp_vec_free(&sites->metadata);
    mp_vec_free(&sites->tensors);
    mp_intern_free(&sites->groups);
}
