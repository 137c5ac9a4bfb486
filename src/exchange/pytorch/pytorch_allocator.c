/* The allocator's state in a snapshot, as rows of a recording: for a replay of it. */
#include "exchange/pytorch/pytorch_model.h"

static bool add_segments(const struct mp_pytorch_records *records, const struct mp_pytorch_device *device,
                         uint16_t track, struct mp_pytorch_rows *rows)
{
    size_t first = rows->segments.count;
    for (size_t i = 0; i < device->segments.count; i++) {
        const struct mp_pytorch_segment *from = &records->segments.at[device->segments.at[i]];
        const struct mp_segment segment = {.address = from->address,
                                           .bytes = from->bytes,
                                           .stream = from->stream,
                                           .pool = from->pool,
                                           .track = track,
                                           .small = from->small,
                                           .expandable = from->expandable};
        if (!mp_vec_push(&rows->segments, segment)) return false;
    }
    if (first + device->segments.count > UINT32_MAX) return false;
    for (size_t i = 0; i < device->parts.count; i++) {
        struct mp_segment_part part = device->parts.at[i];
        part.segment += (uint32_t)first;
        if (!mp_vec_push(&rows->parts, part)) return false;
    }
    return true;
}

/* The action of a recording's call, or -1. */
static int action_of(const struct mp_pytorch_device *device, const struct mp_pytorch_entry *entry)
{
    static const int8_t actions[MP_ACTIONS] = {
        [MP_ACTION_ALLOC] = MP_TORCH_ALLOC,
        [MP_ACTION_FREE] = MP_TORCH_FREE_COMPLETED,
        [MP_ACTION_FREE_REQUESTED] = MP_TORCH_FREE_REQUESTED,
        [MP_ACTION_FREE_COMPLETED] = MP_TORCH_FREE_COMPLETED,
        [MP_ACTION_SEGMENT_ALLOC] = MP_TORCH_SEGMENT_ALLOC,
        [MP_ACTION_SEGMENT_FREE] = MP_TORCH_SEGMENT_FREE,
        [MP_ACTION_SEGMENT_MAP] = MP_TORCH_SEGMENT_MAP,
        [MP_ACTION_SEGMENT_UNMAP] = MP_TORCH_SEGMENT_UNMAP,
        [MP_ACTION_SNAPSHOT] = -1,
        [MP_ACTION_OOM] = MP_TORCH_OUT_OF_MEMORY,
        [MP_ACTION_USER_DEFINED] = -1,
        [MP_ACTION_UNKNOWN] = -1,
    };
    return entry->action == device->free_action ? MP_TORCH_FREE_COMPLETED : actions[entry->action];
}

/* A request that its completion follows at once needs no telling. */
static bool is_told_by_next(const struct mp_pytorch_records *records, const struct mp_pytorch_device *device, size_t at)
{
    if (at + 1 >= device->trace.count) return false;
    const struct mp_pytorch_entry *entry = &records->entries.at[device->trace.at[at]];
    const struct mp_pytorch_entry *next = &records->entries.at[device->trace.at[at + 1]];
    return next->action == MP_ACTION_FREE_COMPLETED && next->address == entry->address;
}

static bool add_calls(const struct mp_pytorch_records *records, const struct mp_pytorch_device *device, uint16_t track,
                      struct mp_pytorch_rows *rows)
{
    for (size_t i = 0; i < device->trace.count; i++) {
        const struct mp_pytorch_entry *entry = &records->entries.at[device->trace.at[i]];
        int action = action_of(device, entry);
        if (action < 0 || (action == MP_TORCH_FREE_REQUESTED && is_told_by_next(records, device, i))) continue;
        struct mp_allocator_call call = {
            .stream = entry->stream, .pool = entry->pool, .track = track, .action = (uint8_t)action};
        if (mp_pytorch_is_segment_action(entry->action) || action == MP_TORCH_FREE_REQUESTED) {
            call.address = entry->address;
            call.bytes = entry->bytes;
        } else if (action == MP_TORCH_OUT_OF_MEMORY) {
            call.address = entry->has_address ? entry->address : MP_BYTES_UNKNOWN;
        }
        if (!mp_vec_push(&rows->calls, call)) return false;
    }
    return true;
}

bool mp_pytorch_allocator_rows(const struct mp_pytorch_records *records, const struct mp_pytorch_device *device,
                               uint16_t track, struct mp_pytorch_rows *rows)
{
    if (device->host) return true; /* another allocator, with other rules */
    if (!add_segments(records, device, track, rows)) return false;
    bool sound = !device->missed.count && !device->bad_entries;
    return !sound || add_calls(records, device, track, rows);
}
