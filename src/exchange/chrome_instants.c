#include "exchange/chrome_instants.h"

#include <stdlib.h>

#include "analysis/level.h"
#include "model/track.h"

struct follower {
    bool told; /* of this track */
    struct mp_level level;
    uint64_t reserved;
    unsigned device_type;
    int device;
};

struct instants {
    const struct mp_chrome_query *query;
    const struct mp_model *model;
    struct mp_chrome *chrome;
    struct follower *tracks;
    uint32_t pid;
    uint64_t shift_ns;
    bool memory, out_of_memory; /* what is written */
};

/* Later layers lie above; of those of one layer, the one without a name is the device's main one. */
static bool is_upper(const struct mp_model *model, size_t track)
{
    const struct mp_track *mine = &model->tracks.at[track];
    for (size_t i = 0; i < model->tracks.count; i++) {
        const struct mp_track *other = &model->tracks.at[i];
        bool torch = other->layer == MP_LAYER_TORCH;
        if (i == track || other->device != mine->device || !model->sums.at[i].events) continue;
        if (mine->layer != MP_LAYER_TORCH && (torch || other->layer > mine->layer)) return false;
        if (other->layer == mine->layer && (other->name ? 1 : 0) < (mine->name ? 1 : 0)) return false;
        if (other->layer == mine->layer && !other->name == !mine->name && i < track) return false;
    }
    return model->sums.at[track].events;
}

static uint64_t count_events(const struct instants *instants)
{
    uint64_t count = 0;
    for (size_t i = 0; i < instants->model->tracks.count; i++)
        if (instants->tracks[i].told) count += instants->model->sums.at[i].events;
    return count;
}

static void write_one(struct instants *instants, uint32_t event, uint64_t address, uint64_t bytes, bool freed,
                      uint64_t allocated)
{
    const struct mp_model *model = instants->model;
    const struct follower *track = &instants->tracks[model->events.track[event]];
    uint32_t thread = model->events.thread[event];
    struct mp_chrome_memory memory = {.ns = model->events.time_ns[event] + instants->shift_ns,
                                      .address = address,
                                      .bytes = bytes,
                                      .freed = freed,
                                      .out_of_memory = model->events.type[event] == MP_EVENT_OOM,
                                      .totals = !model->sums.at[model->events.track[event]].unknown_blocks,
                                      .allocated = allocated,
                                      .reserved = track->reserved,
                                      .device_type = track->device_type,
                                      .device = track->device,
                                      .pid = instants->pid,
                                      .tid = thread < model->threads.count ? model->threads.at[thread].tid : 0};
    if (bytes != MP_BYTES_UNKNOWN && bytes) mp_chrome_memory(instants->chrome, &memory);
}

/* A block that changes its size is told as its free and a new one at its place. */
static void write_block(struct instants *instants, uint32_t event, const struct follower *before)
{
    const struct mp_model *model = instants->model;
    uint32_t block = model->events.subject[event];
    unsigned type = model->events.type[event];
    uint64_t address = model->blocks.address[block];
    uint64_t had = event ? mp_model_bytes_at(model, block, event - 1) : model->blocks.bytes[block];
    uint64_t has = mp_model_bytes_at(model, block, event);
    uint64_t now = instants->tracks[model->events.track[event]].level.bytes;
    if (type == MP_EVENT_ALLOC) has = model->blocks.bytes[block];
    if (type == MP_EVENT_FREE || (type == MP_EVENT_RESIZE && had != MP_BYTES_UNKNOWN))
        write_one(instants, event, address, had, true, type == MP_EVENT_FREE ? now : before->level.bytes - had);
    if (type != MP_EVENT_FREE) write_one(instants, event, address, has, false, now);
}

static void follow(struct instants *instants, uint32_t event)
{
    const struct mp_model *model = instants->model;
    unsigned type = model->events.type[event];
    uint16_t at = model->events.track[event];
    bool on_track = type == MP_EVENT_ALLOC || type == MP_EVENT_FREE || type == MP_EVENT_RESIZE ||
                    type == MP_EVENT_OOM || type == MP_EVENT_RESERVED;
    if (!on_track || !instants->tracks[at].told) return;
    struct follower *track = &instants->tracks[at], before = *track;
    bool shown = event >= instants->query->window.first;
    if (mp_level_apply(&track->level, model, at, event)) {
        if (shown && instants->memory) write_block(instants, event, &before);
    } else if (type == MP_EVENT_RESERVED) {
        track->reserved = model->notes.at[model->events.subject[event]].bytes;
    } else if (shown && instants->out_of_memory) {
        write_one(instants, event, 0, model->notes.at[model->events.subject[event]].bytes, false, track->level.bytes);
    }
}

static void start(struct instants *instants)
{
    const struct mp_model *model = instants->model;
    for (size_t i = 0; i < model->tracks.count; i++) {
        struct follower *track = &instants->tracks[i];
        track->told = is_upper(model, i);
        if (track->told) track->level = mp_level_start(model, (uint16_t)i);
        mp_chrome_device(mp_track_device(model, (uint16_t)i), &track->device_type, &track->device);
    }
}

enum mp_status mp_chrome_instants(const struct mp_chrome_query *query, uint32_t pid, uint64_t shift_ns,
                                  struct mp_chrome *chrome, uint64_t *left_out, struct mp_error *error)
{
    const struct mp_chrome_input *merge = query->merge;
    struct instants instants = {.query = query,
                                .model = query->model,
                                .chrome = chrome,
                                .pid = pid,
                                .shift_ns = shift_ns,
                                .tracks = calloc(query->model->tracks.count + 1, sizeof *instants.tracks),
                                .memory = !merge || !merge->any_memory,
                                .out_of_memory = !merge || !merge->any_out_of_memory};
    if (!instants.tracks) return mp_fail(error, MP_NO_MEMORY, "not enough memory for the trace");
    start(&instants);
    uint64_t count = count_events(&instants);
    *left_out = instants.memory && count > MP_CHROME_MEMORY_MAX ? count : 0;
    if (*left_out) instants.memory = false;
    for (uint32_t event = 0; event < query->window.last; event++)
        follow(&instants, event);
    free(instants.tracks);
    return MP_OK;
}
