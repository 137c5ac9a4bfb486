#include "analysis/leaks/site_growth.h"

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

void mp_site_growths_find(const struct mp_model *model, const struct mp_steps *steps, struct mp_site_growths *growths)
{
    *growths = (struct mp_site_growths){0};
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

double mp_site_growth(const struct mp_site_growths *growths, uint16_t track, uint32_t stack)
{
    const uint64_t *gained = mp_map_find(&growths->by_site, key_of(track, stack));
    return gained && growths->steps ? (double)(int64_t)*gained / (double)growths->steps : 0;
}

double mp_track_growth(const struct mp_site_growths *growths, uint16_t track)
{
    if (!growths->steps || track >= growths->by_track.count) return 0;
    return (double)(int64_t)growths->by_track.at[track] / (double)growths->steps;
}

void mp_site_growths_free(struct mp_site_growths *growths)
{
    mp_vec_free(&growths->by_track);
    mp_map_free(&growths->by_site);
}
