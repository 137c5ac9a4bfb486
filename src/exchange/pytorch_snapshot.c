#include "exchange/pytorch_snapshot.h"

#include <stdlib.h>
#include <string.h>

#include "exchange/pickle.h"
#include "exchange/pytorch_model.h"
#include "exchange/values_json.h"

#define DEVICES_MAX 1024

struct loader {
    struct mp_input *input;
    struct mp_error *error;
    struct mp_pytorch_snapshot snapshot;
};

static enum mp_status no_memory(struct loader *l)
{
    return mp_fail(l->error, MP_NO_MEMORY, "not enough memory for %s", l->input->path);
}

static struct mp_pytorch_device *find_device(struct loader *l, uint32_t index, bool host)
{
    struct mp_pytorch_snapshot *s = &l->snapshot;
    for (size_t i = 0; i < s->devices.count; i++)
        if (s->devices.at[i].index == index && s->devices.at[i].host == host) return &s->devices.at[i];
    struct mp_pytorch_device device = {.index = index, .host = host};
    if (s->devices.count >= DEVICES_MAX || index > INT32_MAX) {
        mp_fail(l->error, MP_DAMAGED, "%s names more than %d devices", l->input->path, DEVICES_MAX);
        return NULL;
    }
    if (mp_vec_push(&s->devices, device)) return &s->devices.at[s->devices.count - 1];
    no_memory(l);
    return NULL;
}

/* For a while in 2024 annotations were entries of the trace: a frame of its own has stage and name. */
static bool take_annotation(struct mp_pytorch_records *records, const struct mp_pytorch_entry *entry)
{
    if (entry->action != MP_ACTION_USER_DEFINED || !entry->stack) return true;
    const struct mp_symbol *frame = &records->stacks.frames.at[records->stacks.nodes.at[entry->stack].frame];
    struct mp_pytorch_annotation annotation = {
        .time_us = entry->time_us,
        .name = frame->file,
        .begins = !strcmp(mp_intern_get(&records->values.texts, frame->function, NULL), "START")};
    return mp_vec_push(&records->annotations, annotation);
}

/* A trace is gone through once: a file in which two devices share one would cost more than it says. */
static enum mp_status take_trace(struct loader *l, uint64_t list, uint32_t index, bool host)
{
    struct mp_pytorch_records *records = &l->snapshot.records;
    size_t count;
    const uint64_t *items = mp_values_items(&records->values, list, MP_OBJECT_LIST, &count);
    if (!items || !count) return MP_OK;
    struct mp_pytorch_device *device = find_device(l, host ? 0 : index, host);
    if (!device) return l->error->status;
    if (!mp_vec_reserve(&device->trace, count)) return no_memory(l);
    for (size_t i = 0; i < count; i++) {
        uint64_t entry = mp_values_resolve(&records->values, items[i]);
        if (mp_value_tag(entry) != MP_PYTORCH_ENTRY) {
            l->snapshot.strange++;
            continue;
        }
        uint32_t id = (uint32_t)mp_value_payload(entry);
        device->trace.at[device->trace.count++] = id;
        if (!take_annotation(records, &records->entries.at[id])) return no_memory(l);
    }
    mp_values_settle(&records->values, list, MP_VALUE_NONE);
    return MP_OK;
}

static enum mp_status take_traces(struct loader *l, uint64_t list, bool host)
{
    struct mp_values *values = &l->snapshot.records.values;
    size_t count;
    const uint64_t *items = mp_values_items(values, list, MP_OBJECT_LIST, &count);
    for (size_t i = 0; items && i < count; i++) {
        enum mp_status status = take_trace(l, items[i], (uint32_t)(i < UINT32_MAX ? i : UINT32_MAX), host);
        if (status) return status;
    }
    return MP_OK;
}

static enum mp_status take_segments(struct loader *l, uint64_t list, bool host)
{
    struct mp_pytorch_records *records = &l->snapshot.records;
    size_t count;
    const uint64_t *items = mp_values_items(&records->values, list, MP_OBJECT_LIST, &count);
    for (size_t i = 0; items && i < count; i++) {
        uint64_t segment = mp_values_resolve(&records->values, items[i]);
        if (mp_value_tag(segment) != MP_PYTORCH_SEGMENT) {
            l->snapshot.strange++;
            continue;
        }
        uint32_t id = (uint32_t)mp_value_payload(segment);
        struct mp_pytorch_device *device = find_device(l, host ? 0 : records->segments.at[id].device, host);
        if (!device) return l->error->status;
        if (!mp_vec_push(&device->segments, id)) return no_memory(l);
        l->snapshot.any_segments = true;
    }
    return MP_OK;
}

static enum mp_status take_settings(struct loader *l, uint64_t dict)
{
    struct mp_pytorch_snapshot *s = &l->snapshot;
    size_t count;
    const uint64_t *items = mp_values_items(&s->records.values, dict, MP_OBJECT_DICT, &count);
    for (size_t i = 0; items && i + 1 < count; i += 2) {
        if (items[i] != mp_value_make(MP_VALUE_TEXT, MP_KEY_OVERFLOWED)) continue;
        s->says_overflow = true;
        s->overflowed = items[i + 1] == MP_VALUE_TRUE;
    }
    free(s->settings);
    s->settings = mp_pytorch_settings(&s->records.values, dict);
    return s->settings ? MP_OK : no_memory(l);
}

static enum mp_status take_part(struct loader *l, uint64_t key, uint64_t value, bool *known)
{
    *known = true;
    switch (mp_value_tag(key) == MP_VALUE_TEXT ? mp_value_payload(key) : MP_KEY_NONE) {
    case MP_KEY_SEGMENTS:
    case MP_KEY_HOST_SEGMENTS:
        return take_segments(l, value, mp_value_payload(key) == MP_KEY_HOST_SEGMENTS);
    case MP_KEY_DEVICE_TRACES:
    case MP_KEY_HOST_TRACES:
        return take_traces(l, value, mp_value_payload(key) == MP_KEY_HOST_TRACES);
    case MP_KEY_SETTINGS:
        return take_settings(l, value);
    default:
        *known = false;
        return MP_OK;
    }
}

static enum mp_status take_parts(struct loader *l, uint64_t top)
{
    struct mp_values *values = &l->snapshot.records.values;
    size_t count = 0;
    bool any = false, known;
    enum mp_status status = MP_OK;
    const uint64_t *items = mp_values_items(values, top, MP_OBJECT_DICT, &count);
    for (size_t i = 0; items && !status && i + 1 < count; i += 2) {
        status = take_part(l, items[i], items[i + 1], &known);
        any |= known;
    }
    if (!items) { /* before PyTorch 2.0: nothing but the segments */
        status = take_segments(l, top, false);
        any = l->snapshot.any_segments;
    }
    if (status || any) return status;
    return mp_fail(l->error, MP_NOT_A_RECORDING,
                   "%s is readable, but no memory snapshot of PyTorch: it has neither segments nor device_traces",
                   l->input->path);
}

typedef enum mp_status reader(struct mp_input *input, struct mp_values *values, uint64_t *top, struct mp_error *error);

static enum mp_status load(struct mp_input *input, reader *read, struct mp_model **model, struct mp_error *error)
{
    struct loader l = {.input = input, .error = error};
    uint64_t top;
    enum mp_status status = mp_pytorch_records_init(&l.snapshot.records) ? MP_OK : no_memory(&l);
    if (!status) status = read(input, &l.snapshot.records.values, &top, error);
    if (!status) status = take_parts(&l, top);
    for (size_t i = 0; !status && i < l.snapshot.devices.count; i++) {
        l.snapshot.devices.at[i].lists_segments = l.snapshot.any_segments;
        if (!mp_pytorch_replay(&l.snapshot.records, &l.snapshot.devices.at[i])) status = no_memory(&l);
    }
    mp_values_keep_texts(&l.snapshot.records.values);
    if (!status) status = mp_pytorch_model(&l.snapshot, input->file_bytes, model, error);
    for (size_t i = 0; i < l.snapshot.devices.count; i++)
        mp_pytorch_device_free(&l.snapshot.devices.at[i]);
    mp_vec_free(&l.snapshot.devices);
    free(l.snapshot.settings);
    mp_pytorch_records_free(&l.snapshot.records);
    return status;
}

enum mp_status mp_pytorch_load_pickle(struct mp_input *input, struct mp_model **model, struct mp_error *error)
{
    return load(input, mp_pickle_read, model, error);
}

enum mp_status mp_pytorch_load_json(struct mp_input *input, struct mp_model **model, struct mp_error *error)
{
    return load(input, mp_values_read_json, model, error);
}
