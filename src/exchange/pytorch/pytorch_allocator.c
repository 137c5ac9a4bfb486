/* The allocator's state in a snapshot, as rows of a recording, so that it can be replayed. */
#include <stdlib.h>

#include "base/memory.h"
#include "exchange/pytorch/pytorch_model.h"

/* Adds the parts of a segment of the device; *part is the next part to add. */
static void add_parts(const struct mp_pytorch_device *device, size_t segment, size_t *part,
                      struct mp_pytorch_rows *rows)
{
    for (; *part < device->parts.count && device->parts.at[*part].segment == segment; ++*part) {
        struct mp_segment_part row = device->parts.at[*part];
        row.segment = (uint32_t)rows->segments.count - 1;
        mp_vec_add(&rows->parts, row);
    }
}

static void add_segment(const struct mp_pytorch_segment *from, uint16_t track, struct mp_pytorch_rows *rows)
{
    const struct mp_segment segment = {.address = from->address,
                                       .bytes = from->bytes,
                                       .stream = from->stream,
                                       .pool = from->pool,
                                       .track = track,
                                       .small = from->small,
                                       .expandable = from->expandable,
                                       .stack = from->stack};
    if (rows->segments.count >= UINT32_MAX - 1) mp_memory_lacks(0);
    mp_vec_add(&rows->segments, segment);
}

void mp_pytorch_segment_rows(const struct mp_pytorch_records *records, const struct mp_pytorch_device *devices,
                             const uint16_t *tracks, size_t count, struct mp_pytorch_rows *rows)
{
    struct {
        size_t segment, part;
    } *next = mp_alloc_zeroed(count + 1, sizeof *next);
    for (;;) {
        size_t device = count;
        for (size_t i = 0; i < count; i++)
            if (next[i].segment < devices[i].segments.count &&
                (device == count ||
                 devices[i].segments.at[next[i].segment] < devices[device].segments.at[next[device].segment]))
                device = i;
        if (device == count) break;
        const struct mp_pytorch_segment *from =
            &records->segments.at[devices[device].segments.at[next[device].segment]];
        if (!from->overlaps) {
            add_segment(from, tracks[device], rows);
            add_parts(&devices[device], next[device].segment, &next[device].part, rows);
        }
        next[device].segment++;
    }
    free(next);
}

/* The action of a trace's entry in a recording's terms. */
static enum mp_torch_action action_of(const struct mp_pytorch_device *device, const struct mp_pytorch_entry *entry)
{
    static const uint8_t actions[MP_ACTIONS] = {
        [MP_ACTION_ALLOC] = MP_TORCH_ALLOC,
        [MP_ACTION_FREE] = MP_TORCH_FREE_COMPLETED,
        [MP_ACTION_FREE_REQUESTED] = MP_TORCH_FREE_REQUESTED,
        [MP_ACTION_FREE_COMPLETED] = MP_TORCH_FREE_COMPLETED,
        [MP_ACTION_SEGMENT_ALLOC] = MP_TORCH_SEGMENT_ALLOC,
        [MP_ACTION_SEGMENT_FREE] = MP_TORCH_SEGMENT_FREE,
        [MP_ACTION_SEGMENT_MAP] = MP_TORCH_SEGMENT_MAP,
        [MP_ACTION_SEGMENT_UNMAP] = MP_TORCH_SEGMENT_UNMAP,
        [MP_ACTION_SNAPSHOT] = MP_TORCH_SNAPSHOT,
        [MP_ACTION_OOM] = MP_TORCH_OUT_OF_MEMORY,
        [MP_ACTION_USER_DEFINED] = MP_TORCH_OTHER,
        [MP_ACTION_ANNOTATE] = MP_TORCH_OTHER,
        [MP_ACTION_UNKNOWN] = MP_TORCH_OTHER,
    };
    return entry->action == device->free_action ? MP_TORCH_FREE_COMPLETED : actions[entry->action];
}

void mp_pytorch_trace_rows(const struct mp_pytorch_records *records, const struct mp_pytorch_device *device,
                           uint16_t track, struct mp_pytorch_rows *rows)
{
    mp_vec_room_for(&rows->calls, device->trace.count);
    for (size_t i = 0; i < device->trace.count; i++) {
        const struct mp_pytorch_entry *entry = &records->entries.at[device->trace.at[i]];
        struct mp_allocator_call call = {.address = entry->address,
                                         .bytes = entry->bytes,
                                         .stream = entry->stream,
                                         .pool = entry->pool,
                                         .track = track,
                                         .keys = entry->has_pool ? MP_ROW_POOL : 0,
                                         .action = (uint8_t)action_of(device, entry)};
        if (call.action == MP_TORCH_OUT_OF_MEMORY && !entry->has_address) call.address = MP_BYTES_UNKNOWN;
        rows->calls.at[rows->calls.count++] = call;
    }
}
