#include "analysis/sites/lasting.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/sites/growth.h"
#include "base/map.h"
#include "base/memory.h"

void mp_lasting_sites_at(const struct mp_model *model, const struct mp_lasting_query *query, uint32_t moment,
                         const struct mp_steps *steps, struct mp_sites *sites)
{
    struct mp_live_blocks live = {0};
    mp_live_blocks_at(model, query->track, moment, query->filter, &live);
    mp_sites_make(model, &live, steps, &query->grouping, sites);
    mp_live_blocks_free(&live);
}

static void find_held(const struct mp_model *model, const struct mp_lasting_query *query, const struct mp_steps *steps,
                      struct mp_lasting *held)
{
    uint32_t moment;
    mp_growth_moment(model, query->track, &query->window, steps, query->filter, &moment);
    held->moment = moment;
    held->ns = moment == query->window.last ? query->window.to_ns : model->events.time_ns[moment - 1];
    mp_lasting_sites_at(model, query, moment, steps, &held->sites);
}

/* True if a site still holds at least half as many blocks. */
static bool lasts(const struct mp_map *later, const struct mp_site *site)
{
    const uint64_t *blocks = mp_map_find(later, ((uint64_t)site->track << 32 | site->stack) + 1);
    return blocks && *blocks * 2 >= site->blocks;
}

static void put_lasting_first(const struct mp_map *later, struct mp_lasting *held)
{
    size_t count = held->sites.count, passing = 0;
    struct mp_site *others = mp_alloc((count + 1) * sizeof *others);
    for (size_t i = 0; i < count; i++) {
        if (lasts(later, &held->sites.at[i]))
            held->sites.at[held->lasting++] = held->sites.at[i];
        else
            others[passing++] = held->sites.at[i];
    }
    memcpy(held->sites.at + held->lasting, others, passing * sizeof *others);
    free(others);
}

/* Without steps, blocks that end soon may be born in many parts of a recording. A growing site must therefore still
 * hold its blocks at the last allocation. */
static void find_lasting(const struct mp_model *model, const struct mp_lasting_query *query,
                         const struct mp_steps *steps, struct mp_lasting *held)
{
    uint32_t moment = query->window.last;
    while (moment > query->window.first && model->events.type[moment - 1] != MP_EVENT_ALLOC)
        moment--;
    if (moment <= held->moment || query->grouping.by != MP_GROUP_STACK) {
        held->lasting = held->sites.count;
        return;
    }
    struct mp_sites sites;
    struct mp_map later = {0};
    mp_lasting_sites_at(model, query, moment, steps, &sites);
    for (size_t i = 0; i < sites.count; i++)
        *mp_map_at(&later, ((uint64_t)sites.at[i].track << 32 | sites.at[i].stack) + 1, NULL) = sites.at[i].blocks;
    put_lasting_first(&later, held);
    mp_map_free(&later);
    mp_sites_free(&sites);
}

void mp_lasting_find(const struct mp_model *model, const struct mp_lasting_query *query, const struct mp_steps *steps,
                     struct mp_lasting *held)
{
    find_held(model, query, steps, held);
    find_lasting(model, query, steps, held);
}
