#include "model/track.h"

#include <stdio.h>
#include <stdlib.h>
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

static bool holds_memory(const struct mp_model *model, size_t track)
{
    const struct mp_track *facts = &model->tracks.at[track];
    return mp_track_holds_memory(facts->layer, mp_model_text(model, facts->name));
}

static bool is_of_addresses(const struct mp_model *model, size_t track)
{
    const struct mp_track *facts = &model->tracks.at[track];
    return mp_track_is_of_addresses(facts->layer, mp_model_text(model, facts->name));
}

uint16_t mp_track_default(const struct mp_model *model)
{
    if (!model->tracks.count) return MP_TRACK_NONE;
    size_t highest = 0;
    for (size_t track = 1; track < model->tracks.count; track++) {
        bool holds = holds_memory(model, track), best_holds = holds_memory(model, highest);
        if (holds == best_holds ? model->sums.at[track].peak_bytes > model->sums.at[highest].peak_bytes : holds)
            highest = track;
    }
    size_t upper = highest;
    for (size_t track = 0; track < model->tracks.count; track++)
        if (model->tracks.at[track].device == model->tracks.at[highest].device && model->sums.at[track].events &&
            holds_memory(model, track) &&
            (model->tracks.at[track].layer > model->tracks.at[upper].layer || !model->sums.at[upper].events))
            upper = track;
    return (uint16_t)upper;
}

/* The last that the track's allocator said it holds; MP_BYTES_UNKNOWN: it never did. */
static uint64_t reserved_at_end(const struct mp_model *model, size_t track)
{
    for (size_t i = model->noted.count; i--;) {
        uint32_t event = model->noted.at[i];
        if (model->events.type[event] == MP_EVENT_RESERVED && model->events.track[event] == track)
            return model->notes.at[i].bytes;
    }
    return MP_BYTES_UNKNOWN;
}

static bool only_backs(const struct mp_model *model, size_t track)
{
    const struct mp_track *below = &model->tracks.at[track];
    for (size_t i = 0; i < model->tracks.count; i++) {
        const struct mp_track *above = &model->tracks.at[i];
        if (above->device == below->device && above->layer > below->layer &&
            reserved_at_end(model, i) == model->sums.at[track].end_bytes)
            return true;
    }
    return false;
}

unsigned char *mp_tracks_meant(const struct mp_model *model, uint16_t track)
{
    unsigned char *meant = malloc(model->tracks.count + 1);
    for (size_t i = 0; meant && i < model->tracks.count; i++)
        meant[i] = track == MP_TRACK_NONE ? !is_of_addresses(model, i) && !only_backs(model, i) : i == track;
    return meant;
}
