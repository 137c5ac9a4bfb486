#include "analysis/sites/compare.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/sites/peak.h"
#include "model/stack.h"
#include "model/steps_infer.h"

static uint64_t size_of(int64_t delta)
{
    return delta < 0 ? -(uint64_t)delta : (uint64_t)delta;
}

static int64_t delta_blocks(const struct mp_compare_row *row)
{
    return (int64_t)(row->values[MP_AFTER].blocks - row->values[MP_BEFORE].blocks);
}

static bool differs(const struct mp_compare_row *row)
{
    return mp_compare_delta(row) || delta_blocks(row);
}

/* ---- sites ---------------------------------------------------------------------------------------------------- */

static void add_flames(const struct mp_compare_query *query, const struct mp_profile *profiles,
                       struct mp_compare *compare)
{
    struct mp_flames flames = {.moved = &compare->moved};
    mp_moved_find(query->models[MP_BEFORE], query->models[MP_AFTER], &compare->moved);
    for (int side = MP_BEFORE; side < MP_SIDES; side++)
        mp_flames_add(&flames, side, query->models[side], &profiles[side], query->sense);
    for (size_t i = 0; i < flames.flames.count; i++) {
        const struct mp_flame *flame = &flames.flames.at[i];
        struct mp_compare_row row = {.values = {flame->values[MP_BEFORE], flame->values[MP_AFTER]},
                                     .stacks = {flame->stacks[MP_BEFORE], flame->stacks[MP_AFTER]},
                                     .group = MP_NONE,
                                     .found = (uint32_t)i};
        if (differs(&row)) mp_vec_add(&compare->rows, row);
    }
    mp_flames_free(&flames);
}

/* ---- groups --------------------------------------------------------------------------------------------------- */

static void find_allocated(const struct mp_model *model, const struct mp_profile_query *ask,
                           struct mp_live_blocks *live)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    live->moment = ask->window.last;
    for (uint32_t block = 0; block < blocks->count; block++) {
        uint32_t born = blocks->alloc_event[block];
        struct mp_live_block found = {blocks->bytes[block], block};
        if (blocks->track[block] != ask->track || born == MP_NONE || born < ask->window.first ||
            born >= ask->window.last || !mp_filter_picks(ask->filter, block))
            continue;
        mp_vec_add(live, found);
    }
}

/* The groups of one recording, as in all other tables. */
static void find_groups(const struct mp_compare_query *query, int side, struct mp_sites *sites)
{
    const struct mp_model *model = query->models[side];
    const struct mp_profile_query *ask = &query->asks[side];
    if (query->sense == MP_PROFILE_PEAK) {
        struct mp_peak peak;
        const struct mp_peak_query of_peak = {ask->track, ask->window, query->grouping, NULL, ask->filter};
        mp_peak_find(model, &of_peak, &peak);
        *sites = peak.sites;
        peak.sites = (struct mp_sites){0};
        mp_peak_free(&peak);
        return;
    }
    struct mp_live_blocks live = {0};
    struct mp_steps steps = {0};
    if (query->sense == MP_PROFILE_OUTSTANDING)
        mp_live_blocks_at(model, ask->track, ask->window.last, ask->filter, &live);
    else
        find_allocated(model, ask, &live);
    mp_steps_find(model, &steps);
    mp_sites_make(model, &live, &steps, &query->grouping, sites);
    mp_live_blocks_free(&live);
    mp_steps_free(&steps);
}

/* The part of a name that two recordings can have in common. */
static const char *common_part(enum mp_group_by by, const char *name, size_t *length)
{
    if (by == MP_GROUP_FILE || by == MP_GROUP_LIBRARY) name = mp_path_short(name);
    const char *number = by == MP_GROUP_THREAD ? strrchr(name, ' ') : NULL;
    *length = number ? (size_t)(number - name) : strlen(name);
    return name;
}

/* Row N is the group of string N. Row 0, of the empty string, is for blocks without a group. */
static void add_group(struct mp_compare *compare, int side, enum mp_group_by by, const struct mp_sites *sites,
                      const struct mp_site *site)
{
    uint32_t id = 0;
    if (site->group != MP_NONE) {
        size_t length;
        const char *name = common_part(by, mp_intern_get(&sites->groups, site->group, NULL), &length);
        id = mp_intern_add(&compare->groups, name, length);
    }
    while (compare->rows.count <= id) {
        struct mp_compare_row fresh = {.stacks = {MP_NONE, MP_NONE},
                                       .group = compare->rows.count ? (uint32_t)compare->rows.count : MP_NONE,
                                       .found = (uint32_t)compare->rows.count};
        mp_vec_add(&compare->rows, fresh);
    }
    compare->rows.at[id].values[side].bytes += site->bytes;
    compare->rows.at[id].values[side].blocks += site->blocks;
}

static void add_groups(const struct mp_compare_query *query, struct mp_compare *compare)
{
    for (int side = MP_BEFORE; side < MP_SIDES; side++) {
        struct mp_sites sites;
        find_groups(query, side, &sites);
        for (size_t i = 0; i < sites.count; i++)
            add_group(compare, side, query->grouping.by, &sites, &sites.at[i]);
        mp_sites_free(&sites);
    }
    size_t kept = 0;
    for (size_t i = 0; i < compare->rows.count; i++)
        if (differs(&compare->rows.at[i])) compare->rows.at[kept++] = compare->rows.at[i];
    compare->rows.count = kept;
}

/* ---- order ---------------------------------------------------------------------------------------------------- */

static int descending(uint64_t a, uint64_t b)
{
    return a > b ? -1 : a < b;
}

static int by_change(const void *left, const void *right, void *context)
{
    const struct mp_compare_row *a = left, *b = right;
    enum mp_sort_by sort = *(const enum mp_sort_by *)context;
    int64_t first = mp_compare_delta(a), second = mp_compare_delta(b);
    int order = 0;
    if (sort == MP_SORT_BLOCKS) order = descending(size_of(delta_blocks(a)), size_of(delta_blocks(b)));
    if (sort == MP_SORT_GROWTH) order = first > second ? -1 : first < second;
    if (!order) order = descending(size_of(first), size_of(second));
    return order ? order : descending(b->found, a->found);
}

void mp_compare_make(const struct mp_compare_query *query, struct mp_compare *compare)
{
    struct mp_profile profiles[MP_SIDES] = {0};
    enum mp_sort_by sort = query->grouping.sort;
    *compare = (struct mp_compare){0};
    for (int side = MP_BEFORE; side < MP_SIDES; side++) {
        mp_profile_make(query->models[side], &query->asks[side], &profiles[side]);
        memcpy(compare->sums[side], profiles[side].sums, sizeof compare->sums[side]);
    }
    if (query->grouping.by == MP_GROUP_STACK)
        add_flames(query, profiles, compare);
    else
        add_groups(query, compare);
    for (int side = MP_BEFORE; side < MP_SIDES; side++)
        mp_profile_free(&profiles[side]);
    if (compare->rows.count) qsort_r(compare->rows.at, compare->rows.count, sizeof *compare->rows.at, by_change, &sort);
}

void mp_compare_free(struct mp_compare *compare)
{
    mp_vec_free(&compare->rows);
    mp_intern_free(&compare->groups);
    mp_moved_free(&compare->moved);
}

bool mp_compare_grew(uint64_t before, uint64_t after, uint64_t bytes, double percent)
{
    if (after <= before) return false;
    if (percent >= 0) return (double)(after - before) > (double)before * percent / 100;
    return after - before > bytes;
}
