#include "model/track.h"

#include <stdio.h>
#include <string.h>

const char *mp_track_device(const struct mp_model *model, uint16_t track)
{
    uint32_t device = model->tracks.at[track].device; /* not there where a damaged file lost it */
    return device < model->devices.count ? mp_model_text(model, model->devices.at[device].name) : "";
}

char *mp_track_id(const struct mp_model *model, uint16_t track, char *to)
{
    const char *pool = mp_model_text(model, model->tracks.at[track].name);
    snprintf(to, MP_TRACK_ID_MAX, "%s/%s%s%s", mp_track_device(model, track),
             mp_layer_name(model->tracks.at[track].layer), *pool ? "/" : "", pool);
    return to;
}

uint16_t mp_track_find(const struct mp_model *model, const char *id)
{
    char known[MP_TRACK_ID_MAX];
    for (size_t track = 0; track < model->tracks.count; track++)
        if (!strcmp(mp_track_id(model, (uint16_t)track, known), id)) return (uint16_t)track;
    return MP_TRACK_NONE;
}

uint16_t mp_track_default(const struct mp_model *model)
{
    if (!model->tracks.count) return MP_TRACK_NONE;
    size_t highest = 0;
    for (size_t track = 1; track < model->tracks.count; track++)
        if (model->sums.at[track].peak_bytes > model->sums.at[highest].peak_bytes) highest = track;
    size_t upper = highest;
    for (size_t track = 0; track < model->tracks.count; track++)
        if (model->tracks.at[track].device == model->tracks.at[highest].device && model->sums.at[track].events &&
            (model->tracks.at[track].layer > model->tracks.at[upper].layer || !model->sums.at[upper].events))
            upper = track;
    return (uint16_t)upper;
}
