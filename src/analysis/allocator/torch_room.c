#include "analysis/allocator/torch_room.h"

#include "analysis/allocator/torch_allocator.h"
#include "analysis/device/device_use.h"
#include "model/track.h"

/* The lowest sum of the driver's blocks and refused bytes, over all refusals: the device had less. */
static uint64_t refused_from(const struct mp_model *model, uint16_t driver)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    uint64_t level = 0, least = MP_BYTES_UNKNOWN;
    for (size_t i = 0; i < blocks->count; i++)
        if (blocks->track[i] == driver && blocks->alloc_event[i] == MP_NONE && blocks->bytes[i] != MP_BYTES_UNKNOWN)
            level += blocks->bytes[i];
    for (uint32_t at = 0; at < model->events.count; at++) {
        uint32_t subject = model->events.subject[at];
        if (model->events.track[at] != driver) continue;
        if (model->events.type[at] == MP_EVENT_OOM) {
            uint64_t sum = level + model->notes.at[subject].bytes;
            if (sum >= level && sum < least) least = sum;
        } else if (model->events.type[at] == MP_EVENT_ALLOC && blocks->bytes[subject] != MP_BYTES_UNKNOWN) {
            level += blocks->bytes[subject];
        } else if (model->events.type[at] == MP_EVENT_FREE && blocks->bytes[subject] != MP_BYTES_UNKNOWN) {
            level -= level < blocks->bytes[subject] ? level : blocks->bytes[subject];
        }
    }
    return least;
}

uint64_t mp_torch_room(const struct mp_model *model, uint16_t track, uint64_t held)
{
    struct mp_device_uses uses = {0};
    uint64_t total = model->devices.at[model->tracks.at[track].device].total_bytes;
    uint64_t room = total;
    if (total == MP_BYTES_UNKNOWN) return total;
    mp_device_uses_find(model, &uses);
    mp_vec_each (const struct mp_device_use, use, &uses) {
        if (use->device != model->tracks.at[track].device || use->in_use_bytes == MP_BYTES_UNKNOWN) continue;
        uint64_t other_use = use->in_use_bytes;
        for (size_t k = 0; k < use->parts.count; k++)
            if (use->parts.at[k].kind == MP_PART_TENSORS || use->parts.at[k].kind == MP_PART_CACHED)
                other_use -= other_use < use->parts.at[k].bytes ? other_use : use->parts.at[k].bytes;
        room = other_use < total ? total - other_use : 0;
    }
    uint16_t driver = mp_track_below(model, track);
    uint64_t refused = MP_BYTES_UNKNOWN;
    if (driver != MP_TRACK_NONE && driver != track) refused = refused_from(model, driver);
    if (refused && refused <= room) room = (refused - 1) / MP_TORCH_PAGE * MP_TORCH_PAGE;
    mp_device_uses_free(&uses);
    return room < held ? held : room;
}
