#include "cli/top/top_blocks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/leaks/site_growth.h"
#include "base/memory.h"
#include "model/load.h"
#include "model/steps_infer.h"

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
static void sum_up(struct mp_top_blocks *blocks, const struct mp_site_growths *growths)
{
    const struct mp_model *model = blocks->model;
    unsigned char *meant = mp_tracks_meant(model, MP_TRACK_NONE);
    blocks->growths = mp_alloc_zeroed(model->tracks.count + 1, sizeof *blocks->growths);
    for (uint16_t track = 0; meant && track < model->tracks.count; track++) {
        if (!meant[track]) continue;
        struct mp_top_growth *growth = growth_at(blocks, mp_track_device(model, track));
        growth->known = growths->steps;
        growth->bytes_per_step += mp_track_growth(growths, track);
        for (uint32_t i = 0; i < blocks->leaks.leaks; i++)
            growth->leak |= blocks->leaks.findings.at[i].track == track;
    }
    free(meant);
}

static void judge_sites(struct mp_top_blocks *blocks, const struct mp_steps *steps)
{
    struct mp_sites *sites = &blocks->leaks.outstanding;
    struct mp_site_growths growths;
    mp_site_growths_find(blocks->model, steps, &growths);
    blocks->growth_known = growths.steps;
    blocks->sites = mp_alloc_zeroed(sites->count + 1, sizeof *blocks->sites);
    for (size_t i = 0; i < sites->count; i++) {
        const struct mp_leak_finding *finding = finding_of(&blocks->leaks, &sites->at[i]);
        double growth = mp_site_growth(&growths, sites->at[i].track, sites->at[i].stack);
        blocks->sites[i] = (struct mp_top_site){
            .at = (uint32_t)i, .growth = finding ? finding->bytes_per_step : growth, .leak = finding};
    }
    sum_up(blocks, &growths);
    mp_site_growths_free(&growths);
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
