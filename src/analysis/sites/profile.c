#include "analysis/sites/profile.h"

#include <stdlib.h>

#include "analysis/sites/peak.h"
#include "model/steps_infer.h"

struct maker {
    const struct mp_model *model;
    const struct mp_profile_query *query;
    uint32_t moments[MP_PROFILE_SENSES]; /* MP_NONE: no moment */
    struct mp_steps steps;
    uint32_t *regions;
    struct mp_profile *profile;
};

static struct mp_profile_sample *find_sample(struct maker *maker, uint32_t block)
{
    const struct mp_model_blocks *blocks = &maker->model->blocks;
    struct mp_profile *profile = maker->profile;
    uint32_t born = blocks->alloc_event[block];
    bool by_place = maker->query->by_place;
    struct mp_profile_sample sample = {.stack = blocks->stack[block],
                                       .step = by_place && born != MP_NONE ? mp_step_of(&maker->steps, born) : 0,
                                       .region = by_place ? maker->regions[block] : MP_NONE,
                                       .base = born == MP_NONE};
    const uint32_t key[] = {sample.stack, sample.step, sample.region, sample.base};
    uint32_t id = mp_intern_add(&profile->keys, (const char *)key, sizeof key);
    if (id > profile->samples.count) mp_vec_add(&profile->samples, sample);
    return &profile->samples.at[id - 1];
}

static bool lives(const struct mp_model_blocks *blocks, uint32_t block, uint32_t moment)
{
    bool born = blocks->alloc_event[block] == MP_NONE || blocks->alloc_event[block] < moment;
    return moment != MP_NONE && born && blocks->free_event[block] >= moment;
}

static void add_bytes(struct mp_profile_value *value, uint64_t bytes)
{
    value->bytes += bytes == MP_BYTES_UNKNOWN ? 0 : bytes;
    value->blocks++;
}

static void add_block(struct maker *maker, uint32_t block)
{
    const struct mp_model *model = maker->model;
    const struct mp_window *window = &maker->query->window;
    struct mp_profile_value values[MP_PROFILE_SENSES] = {0};
    uint32_t born = model->blocks.alloc_event[block];
    for (int sense = 0; sense < MP_PROFILE_SENSES; sense++) {
        uint32_t moment = maker->moments[sense];
        if (lives(&model->blocks, block, moment))
            add_bytes(&values[sense],
                      moment ? mp_model_bytes_at(model, block, moment - 1) : model->blocks.bytes[block]);
    }
    if (born != MP_NONE && born >= window->first && born < window->last)
        add_bytes(&values[MP_PROFILE_ALLOCATED], model->blocks.bytes[block]);
    bool any = false;
    for (int sense = 0; sense < MP_PROFILE_SENSES; sense++)
        any |= values[sense].blocks;
    if (!any) return;
    struct mp_profile_sample *sample = find_sample(maker, block);
    for (int sense = 0; sense < MP_PROFILE_SENSES; sense++) {
        sample->values[sense].bytes += values[sense].bytes;
        sample->values[sense].blocks += values[sense].blocks;
        maker->profile->sums[sense].bytes += values[sense].bytes;
        maker->profile->sums[sense].blocks += values[sense].blocks;
    }
}

/* Adds a peak from before the first event: only sites, without steps and regions. */
static void add_past(struct maker *maker)
{
    const struct mp_model *model = maker->model;
    struct mp_profile *profile = maker->profile;
    mp_vec_each (const struct mp_past_site, site, &model->past_sites) {
        struct mp_profile_sample sample = {.stack = site->stack, .region = MP_NONE, .base = true};
        if (site->track != maker->query->track || !site->blocks) continue;
        sample.values[MP_PROFILE_PEAK] = (struct mp_profile_value){site->bytes, site->blocks};
        profile->sums[MP_PROFILE_PEAK].bytes += site->bytes;
        profile->sums[MP_PROFILE_PEAK].blocks += site->blocks;
        mp_vec_add(&profile->samples, sample);
    }
}

static void add_blocks(struct maker *maker)
{
    const struct mp_model *model = maker->model;
    maker->regions = mp_regions_of_births(model);
    mp_steps_find(model, &maker->steps);
    for (uint32_t block = 0; block < model->blocks.count; block++)
        if (model->blocks.track[block] == maker->query->track && mp_filter_picks(maker->query->filter, block))
            add_block(maker, block);
    free(maker->regions);
    mp_steps_free(&maker->steps);
}

void mp_profile_make(const struct mp_model *model, const struct mp_profile_query *query, struct mp_profile *profile)
{
    struct mp_peak peak;
    mp_peak_locate(model, query->track, &query->window, !query->filter, &peak);
    *profile = (struct mp_profile){.track = query->track, .peak_ns = peak.ns};
    struct maker maker = {.model = model,
                          .query = query,
                          .moments = {[MP_PROFILE_PEAK] = peak.in_past ? MP_NONE : peak.moment,
                                      [MP_PROFILE_OUTSTANDING] = query->window.last,
                                      [MP_PROFILE_ALLOCATED] = MP_NONE,
                                      [MP_PROFILE_AT] = query->at},
                          .profile = profile};
    add_blocks(&maker);
    if (peak.in_past) add_past(&maker);
}

void mp_profile_free(struct mp_profile *profile)
{
    mp_vec_free(&profile->samples);
    mp_intern_free(&profile->keys);
}
