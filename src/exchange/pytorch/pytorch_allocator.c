/* The allocator's state in a snapshot, as rows of a recording, so that it can be replayed. */
#include <stdio.h>
#include <stdlib.h>

#include "base/memory.h"
#include "exchange/pytorch/pytorch_model.h"

/* Those of the device from *part on. */
static bool add_parts(const struct mp_pytorch_device *device, size_t segment, size_t *part,
                      struct mp_pytorch_rows *rows)
{
    for (; *part < device->parts.count && device->parts.at[*part].segment == segment; ++*part) {
        struct mp_segment_part row = device->parts.at[*part];
        row.segment = (uint32_t)rows->segments.count - 1;
        mp_vec_add(&rows->parts, row);
    }
    return true;
}

static bool add_segment(const struct mp_pytorch_segment *from, uint16_t track, struct mp_pytorch_rows *rows)
{
    const struct mp_segment segment = {.address = from->address,
                                       .bytes = from->bytes,
                                       .stream = from->stream,
                                       .pool = from->pool,
                                       .track = track,
                                       .small = from->small,
                                       .expandable = from->expandable,
                                       .keys = from->keys,
                                       .stack = from->stack,
                                       .more = from->more};
    if (rows->segments.count >= UINT32_MAX - 1) return false;
    mp_vec_add(&rows->segments, segment);
    return true;
}

bool mp_pytorch_segment_rows(const struct mp_pytorch_records *records, const struct mp_pytorch_device *devices,
                             const uint16_t *tracks, size_t count, struct mp_pytorch_rows *rows)
{
    struct {
        size_t segment, part;
    } *next = mp_alloc_zeroed(count + 1, sizeof *next);
    bool done = true;
    while (done) {
        size_t device = count;
        for (size_t i = 0; i < count; i++)
            if (next[i].segment < devices[i].segments.count &&
                (device == count ||
                 devices[i].segments.at[next[i].segment] < devices[device].segments.at[next[device].segment]))
                device = i;
        if (device == count) break;
        done = add_segment(&records->segments.at[devices[device].segments.at[next[device].segment]], tracks[device],
                           rows) &&
               add_parts(&devices[device], next[device].segment, &next[device].part, rows);
        next[device].segment++;
    }
    free(next);
    return done;
}

/* The action of a recording's call. */
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

/* An entry's action in words, where a call has none: a request that frees, an action that makes no sense. */
static bool name_action(struct mp_pytorch_records *records, const struct mp_pytorch_entry *entry,
                        struct mp_allocator_call *call)
{
    bool requested = entry->action == MP_ACTION_FREE_REQUESTED && call->action == MP_TORCH_FREE_COMPLETED;
    bool known = entry->name >= MP_KEYS && entry->name - MP_KEYS < MP_ACTION_UNKNOWN;
    bool spoilt = entry->action == MP_ACTION_UNKNOWN && known && entry->name - MP_KEYS != MP_ACTION_FREE;
    if (!requested && !spoilt) return true;
    char name[40];
    snprintf(name, sizeof name, "\"%s\"", mp_intern_get(&records->values.texts, entry->name, NULL));
    return mp_pytorch_more_text(records, &call->more, mp_pytorch_key_name(MP_KEY_ACTION), name);
}

bool mp_pytorch_trace_rows(struct mp_pytorch_records *records, const struct mp_pytorch_device *device, uint16_t track,
                           int64_t start_us, struct mp_pytorch_rows *rows)
{
    mp_vec_room_for(&rows->calls, device->trace.count);
    for (size_t i = 0; i < device->trace.count; i++) {
        const struct mp_pytorch_entry *entry = &records->entries.at[device->trace.at[i]];
        struct mp_allocator_call call = {.time_ns = entry->time_us == MP_PYTORCH_NO_TIME
                                                        ? 0
                                                        : ((uint64_t)entry->time_us - (uint64_t)start_us) * 1000,
                                         .address = entry->address,
                                         .bytes = entry->bytes,
                                         .stream = entry->stream,
                                         .pool = entry->pool,
                                         .stack = entry->stack,
                                         .more = entry->more,
                                         .track = track,
                                         .keys = entry->keys,
                                         .action = (uint8_t)action_of(device, entry)};
        if (call.action == MP_TORCH_OUT_OF_MEMORY && !entry->has_address) call.address = MP_BYTES_UNKNOWN;
        if (!name_action(records, entry, &call)) return false;
        rows->calls.at[rows->calls.count++] = call;
    }
    return true;
}
