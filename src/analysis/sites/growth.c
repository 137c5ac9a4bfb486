#include "analysis/sites/growth.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "model/track.h"

#define MOMENTS 64 /* moments that are looked at, in addition to the end */

uint32_t mp_birth_period(const struct mp_model *model, const struct mp_steps *steps, uint32_t event)
{
    if (steps->count) return mp_step_of(steps, event) + 1;
    uint64_t first = model->events.time_ns[0], last = model->events.time_ns[model->events.count - 1];
    uint64_t part = (last - first) / MP_TIME_PARTS + 1;
    return (uint32_t)((model->events.time_ns[event] - first) / part) + 1;
}

/* One site's blocks of one period, and the moments at which some of them live. Blocks come in order of birth, so a
 * site's periods only rise, and only its current period is kept. */
struct site {
    uint32_t period;
    int from, to;                 /* moments of the current period: [from, to) */
    uint32_t change[MOMENTS + 2]; /* number of earlier periods that live at a moment, less their number at the moment
                                   * before; wraps around modulo 2^32, and so does the sum */
};

struct search {
    const struct mp_model *model;
    uint32_t first, last, spacing; /* moment k is first + k * spacing; moment MOMENTS is `last` */
    struct mp_map index;           /* track and stack, to site */
    MP_VEC(struct site) sites;
};

static void end_period(struct site *site)
{
    if (site->from >= site->to) return;
    site->change[site->from]++;
    site->change[site->to]--;
    site->from = site->to = 0;
}

static uint32_t moment_of(const struct search *search, int number)
{
    return number == MOMENTS ? search->last : search->first + (uint32_t)(number + 1) * search->spacing;
}

/* The first moment after an event; MOMENTS + 1: none. */
static int first_after(const struct search *search, uint32_t event)
{
    if (event >= search->last) return MOMENTS + 1;
    if (event < search->first + search->spacing) return 0;
    uint32_t number = (event - search->first) / search->spacing;
    return number < MOMENTS ? (int)number : MOMENTS;
}

/* Adds a block that lives at the moments [from, to). */
static void meet_block(struct search *search, const struct mp_steps *steps, uint32_t block, int from, int to)
{
    const struct mp_model_blocks *blocks = &search->model->blocks;
    bool fresh;
    uint64_t *at = mp_map_at(&search->index, ((uint64_t)blocks->track[block] << 32 | blocks->stack[block]) + 1, &fresh);
    if (fresh) {
        struct site site = {0};
        *at = search->sites.count;
        mp_vec_add(&search->sites, site);
    }
    struct site *site = &search->sites.at[*at];
    uint32_t period = mp_birth_period(search->model, steps, blocks->alloc_event[block]);
    if (period != site->period) {
        end_period(site);
        site->period = period;
        site->from = from;
        site->to = to;
    }
    if (from < site->from) site->from = from;
    if (to > site->to) site->to = to;
}

static uint32_t best_moment(struct search *search)
{
    uint32_t most[MOMENTS + 1] = {0};
    mp_vec_each (struct site, site, &search->sites) {
        uint32_t periods = 0;
        end_period(site);
        for (int number = 0; number <= MOMENTS; number++) {
            periods += site->change[number];
            if (periods > most[number]) most[number] = periods;
        }
    }
    int best = MOMENTS;
    for (int number = MOMENTS - 1; number >= 0; number--)
        if (most[number] > most[best] && most[number] >= most[MOMENTS] + 2) best = number;
    return moment_of(search, best);
}

void mp_growth_moment(const struct mp_model *model, uint16_t track, const struct mp_window *window,
                      const struct mp_steps *steps, const struct mp_filter *filter, uint32_t *moment)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    struct search search = {.model = model, .first = window->first, .last = window->last};
    search.spacing = (window->last - window->first) / (MOMENTS + 1);
    *moment = window->last;
    if (!search.spacing) return;
    unsigned char *meant = mp_tracks_meant(model, track);
    int next = 0; /* the first moment after the current block's birth */
    for (uint32_t block = 0; block < blocks->count; block++) {
        if (blocks->alloc_event[block] == MP_NONE) continue;
        while (next <= MOMENTS && moment_of(&search, next) <= blocks->alloc_event[block])
            next++;
        if (next > MOMENTS) break;
        if (blocks->free_event[block] < moment_of(&search, next)) continue; /* true for most blocks */
        if (!meant[blocks->track[block]]) continue;
        if (filter && !mp_filter_picks(filter, block)) continue;
        meet_block(&search, steps, block, next, first_after(&search, blocks->free_event[block]));
    }
    *moment = best_moment(&search);
    free(meant);
    mp_map_free(&search.index);
    mp_vec_free(&search.sites);
}
