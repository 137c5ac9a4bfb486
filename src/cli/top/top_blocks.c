#include "cli/top/top_blocks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "model/load.h"
#include "model/steps_infer.h"

/* Growth of each site: its bytes at the last boundary between steps less its bytes at the middle one, per step.
 * Boundaries lie at the same phase of a step, so blocks that live within one step do not count. Growth alone is no
 * leak: a cache that fills grows, too. */
struct site_growths {
    struct mp_map by_site;     /* key: track and stack; value: bytes gained, modulo 2^64 */
    MP_VEC(uint64_t) by_track; /* likewise */
    uint64_t steps;            /* steps of the growth; 0: too few, so nothing is known */
};

#define BOUNDARIES_LEAST 3

static uint64_t key_of(uint16_t track, uint32_t stack)
{
    return ((uint64_t)track << 32 | stack) + 1;
}

static bool lives_at(const struct mp_model *model, uint32_t block, uint32_t moment)
{
    uint32_t birth = model->blocks.alloc_event[block], death = model->blocks.free_event[block];
    return (birth == MP_NONE || birth < moment) && (death == MP_NONE || death >= moment);
}

static uint64_t held_at(const struct mp_model *model, uint32_t block, uint32_t moment)
{
    if (!lives_at(model, block, moment)) return 0;
    uint64_t bytes = mp_model_bytes_at(model, block, moment ? moment - 1 : 0);
    return bytes == MP_BYTES_UNKNOWN ? 0 : bytes;
}

static void find_growths(const struct mp_model *model, const struct mp_steps *steps, struct site_growths *growths)
{
    *growths = (struct site_growths){0};
    if (steps->count < BOUNDARIES_LEAST) return;
    size_t last = steps->count - 1, middle = last / 2;
    uint32_t now = steps->at[last].first, before = steps->at[middle].first;
    growths->steps = (uint64_t)(last - middle) * (steps->each ? steps->each : 1);
    mp_vec_grow_to(&growths->by_track, model->tracks.count);
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        uint64_t gained = held_at(model, block, now) - held_at(model, block, before);
        uint16_t track = model->blocks.track[block];
        if (!gained) continue;
        *mp_map_at(&growths->by_site, key_of(track, model->blocks.stack[block]), NULL) += gained;
        growths->by_track.at[track] += gained;
    }
}

static double site_growth(const struct site_growths *growths, uint16_t track, uint32_t stack)
{
    const uint64_t *gained = mp_map_find(&growths->by_site, key_of(track, stack));
    return gained && growths->steps ? (double)(int64_t)*gained / (double)growths->steps : 0;
}

static double track_growth(const struct site_growths *growths, uint16_t track)
{
    if (!growths->steps || track >= growths->by_track.count) return 0;
    return (double)(int64_t)growths->by_track.at[track] / (double)growths->steps;
}

static void free_growths(struct site_growths *growths)
{
    mp_vec_free(&growths->by_track);
    mp_map_free(&growths->by_site);
}

/* Names the frames of all sites with live blocks. Sites are grouped by stack here, because other groupings need the
 * names. */
static void give_names(struct mp_model *model, struct mp_top_names *names)
{
    const struct mp_steps none = {0};
    const struct mp_grouping by_stack = {.by = MP_GROUP_STACK};
    struct mp_live_blocks live = {0};
    struct mp_sites sites = {0};
    mp_live_blocks_at(model, MP_TRACK_NONE, (uint32_t)model->events.count, NULL, &live);
    mp_sites_make(model, &live, &none, &by_stack, &sites);
    mp_top_names_fill(names, model, &sites);
    mp_sites_free(&sites);
    mp_live_blocks_free(&live);
}

static void find_categories(struct mp_top_blocks *blocks, const struct mp_steps *steps)
{
    const struct mp_grouping by_category = {.by = MP_GROUP_CATEGORY};
    struct mp_live_blocks live = {0};
    mp_live_blocks_at(blocks->model, MP_TRACK_NONE, (uint32_t)blocks->model->events.count, NULL, &live);
    mp_sites_make(blocks->model, &live, steps, &by_category, &blocks->categories);
    mp_sites_sort(&blocks->categories, MP_SORT_BYTES);
    mp_live_blocks_free(&live);
}

static const struct mp_leak_finding *finding_of(const struct mp_leaks *leaks, const struct mp_site *site)
{
    for (uint32_t i = 0; i < leaks->leaks; i++)
        if (leaks->findings.at[i].stack == site->stack && leaks->findings.at[i].track == site->track)
            return &leaks->findings.at[i];
    return NULL;
}

static struct mp_top_growth *growth_at(struct mp_top_blocks *blocks, const char *label)
{
    for (size_t i = 0; i < blocks->growth_count; i++)
        if (!strcmp(blocks->growths[i].label, label)) return &blocks->growths[i];
    struct mp_top_growth *fresh = &blocks->growths[blocks->growth_count++];
    snprintf(fresh->label, sizeof fresh->label, "%s", label);
    return fresh;
}

/* Sums up the growth per step for each device, and notes whether a site of the device leaks. */
static void sum_up(struct mp_top_blocks *blocks, const struct site_growths *growths)
{
    const struct mp_model *model = blocks->model;
    unsigned char *meant = mp_tracks_meant(model, MP_TRACK_NONE);
    blocks->growths = mp_alloc_zeroed(model->tracks.count + 1, sizeof *blocks->growths);
    for (uint16_t track = 0; meant && track < model->tracks.count; track++) {
        if (!meant[track]) continue;
        struct mp_top_growth *growth = growth_at(blocks, mp_track_device(model, track));
        growth->known = growths->steps;
        growth->bytes_per_step += track_growth(growths, track);
        for (uint32_t i = 0; i < blocks->leaks.leaks; i++)
            growth->leak |= blocks->leaks.findings.at[i].track == track;
    }
    free(meant);
}

static void judge_sites(struct mp_top_blocks *blocks, const struct mp_steps *steps)
{
    struct mp_sites *sites = &blocks->leaks.outstanding;
    struct site_growths growths;
    find_growths(blocks->model, steps, &growths);
    blocks->growth_known = growths.steps;
    blocks->sites = mp_alloc_zeroed(sites->count + 1, sizeof *blocks->sites);
    for (size_t i = 0; i < sites->count; i++) {
        const struct mp_leak_finding *finding = finding_of(&blocks->leaks, &sites->at[i]);
        double growth = site_growth(&growths, sites->at[i].track, sites->at[i].stack);
        blocks->sites[i] = (struct mp_top_site){
            .at = (uint32_t)i, .growth = finding ? finding->bytes_per_step : growth, .leak = finding};
    }
    sum_up(blocks, &growths);
    free_growths(&growths);
}

enum mp_status mp_top_blocks_read(int fd, struct mp_top_names *names, struct mp_top_blocks **result,
                                  struct mp_error *error)
{
    struct mp_top_blocks *blocks = mp_alloc_zeroed(1, sizeof *blocks);
    blocks->holders = 1;
    struct mp_leaks_query query = {.track = MP_TRACK_NONE, .grouping = {.by = MP_GROUP_STACK}};
    struct mp_steps steps = {0};
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    enum mp_status status = mp_model_load(path, &blocks->model, error);
    if (!status && names) give_names(blocks->model, names);
    if (!status) query.window = mp_window_all(blocks->model);
    if (!status) status = mp_leaks_find(blocks->model, &query, &blocks->leaks, error);
    if (!status) {
        mp_steps_find(blocks->model, &steps);
        find_categories(blocks, &steps);
        mp_sites_sort(&blocks->leaks.outstanding, MP_SORT_BYTES);
        judge_sites(blocks, &steps);
    }
    mp_steps_free(&steps);
    *result = status ? NULL : blocks;
    if (status) mp_top_blocks_free(blocks);
    return status;
}

void mp_top_blocks_free(struct mp_top_blocks *blocks)
{
    if (!blocks) return;
    mp_leaks_free(&blocks->leaks);
    mp_sites_free(&blocks->categories);
    free(blocks->sites);
    free(blocks->growths);
    mp_model_free(blocks->model);
    free(blocks);
}
