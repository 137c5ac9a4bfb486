/* The allocated bytes of one track, event by event. Inline: the inner loop of every analysis over time. */
#pragma once

#include "model/model.h"

struct mp_level {
    uint64_t bytes, blocks;
    uint64_t allocated, freed; /* bytes so far; a resize counts by its difference */
};

/* The level before the first event: the base. */
static inline struct mp_level mp_level_start(const struct mp_model *model, uint16_t track)
{
    struct mp_level level = {.bytes = model->sums.at[track].base_bytes};
    for (size_t block = 0; block < model->blocks.count; block++)
        level.blocks += model->blocks.alloc_event[block] == MP_NONE && model->blocks.track[block] == track;
    return level;
}

/* Applies an event; true if it is about a block of the track. */
static inline bool mp_level_apply(struct mp_level *level, const struct mp_model *model, uint16_t track, uint32_t event)
{
    unsigned type = model->events.type[event];
    bool about_block = type == MP_EVENT_ALLOC || type == MP_EVENT_FREE || type == MP_EVENT_RESIZE;
    if (!about_block || model->events.track[event] != track) return false;
    uint32_t block = model->events.subject[event];
    if (type == MP_EVENT_ALLOC) {
        uint64_t bytes = mp_known(model->blocks.bytes[block]);
        level->bytes += bytes;
        level->allocated += bytes;
        level->blocks++;
        return true;
    }
    uint64_t before =
        model->resizes.count && event ? mp_model_bytes_at(model, block, event - 1) : model->blocks.bytes[block];
    before = mp_known(before);
    uint64_t after = type == MP_EVENT_FREE ? 0 : mp_known(mp_model_bytes_at(model, block, event));
    level->bytes += after - before;
    if (after > before)
        level->allocated += after - before;
    else
        level->freed += before - after;
    level->blocks -= type == MP_EVENT_FREE;
    return true;
}
