#include "analysis/device/device_free.h"

#include <stdio.h>
#include <string.h>

#include "model/track.h"

/* The string id of "cuda:0/device"; MP_NONE: no readings. */
static uint32_t counter_of(const struct mp_model *model, uint16_t track)
{
    char name[MP_TRACK_ID_MAX];
    snprintf(name, sizeof name, "%s/device", mp_track_device(model, track));
    for (size_t i = 0; i < model->samples.count; i++)
        if (!strcmp(mp_model_text(model, model->samples.at[i].counter), name)) return model->samples.at[i].counter;
    return MP_NONE;
}

/* Takes the readings up to a time; true if there was one. */
static bool take_readings(struct mp_device_free *room, uint64_t until_ns)
{
    const struct mp_model *model = room->model;
    bool any = false;
    for (; room->next < model->samples.count; room->next++) {
        const struct mp_sample *sample = &model->samples.at[room->next];
        if (sample->time_ns > until_ns) break;
        if (sample->counter != room->counter || sample->value == MP_BYTES_UNKNOWN) continue;
        uint64_t handed_out = room->handed_out.bytes;
        if (!handed_out || sample->value < handed_out)
            continue; /* the reading is too low: it lacks the program's
                       * context */
        room->beyond = sample->value - handed_out;
        room->beyond_ns = sample->time_ns;
        any = true;
    }
    return any;
}

static bool is_known(const struct mp_device_free *room)
{
    return room->total != MP_BYTES_UNKNOWN && room->counter != MP_NONE;
}

void mp_device_free_start(struct mp_device_free *room, const struct mp_model *model, uint16_t driver)
{
    *room = (struct mp_device_free){
        .model = model, .total = MP_BYTES_UNKNOWN, .driver = driver, .beyond = MP_BYTES_UNKNOWN};
    if (driver == MP_TRACK_NONE) return;
    room->total = model->devices.at[model->tracks.at[driver].device].total_bytes;
    room->counter = counter_of(model, driver);
    room->handed_out = mp_level_start(model, driver);
}

static bool follow(struct mp_device_free *room, uint32_t event)
{
    bool any = take_readings(room, room->model->events.time_ns[event]);
    mp_level_apply(&room->handed_out, room->model, room->driver, event);
    room->events = event + 1;
    return any;
}

void mp_device_free_follow(struct mp_device_free *room, uint32_t event)
{
    if (is_known(room)) follow(room, event);
}

uint64_t mp_device_free_now(const struct mp_device_free *room)
{
    if (!is_known(room)) return MP_BYTES_UNKNOWN;
    uint64_t now = room->events ? room->model->events.time_ns[room->events - 1] : 0, beyond = room->beyond;
    struct mp_device_free ahead = *room;
    bool found = false;
    while (!found && ahead.events < room->model->events.count)
        found = follow(&ahead, ahead.events);
    if (!found) found = take_readings(&ahead, UINT64_MAX);
    if (found && (beyond == MP_BYTES_UNKNOWN || ahead.beyond_ns - now < now - room->beyond_ns)) beyond = ahead.beyond;
    if (beyond == MP_BYTES_UNKNOWN) return MP_BYTES_UNKNOWN;
    uint64_t used = room->handed_out.bytes + beyond;
    return used < room->total ? room->total - used : 0;
}
