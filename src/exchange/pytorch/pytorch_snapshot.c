#include "exchange/pytorch/pytorch_snapshot.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_parse.h>

#include "exchange/common/values.h"
#include "exchange/pytorch/pickle.h"
#include "exchange/pytorch/pytorch_model.h"

/* Reads a JSON text into values, as pickle.h reads a pickle. One thread at a time. */

struct json_reader {
    struct mp_values *values;
    yajl_handle parser;
    uint64_t chunk_offset;
    uint64_t quiet; /* bytes since a value began or ended */
};

static int on_null(void *context)
{
    struct json_reader *reader = context;
    reader->quiet = 0;
    mp_values_push(reader->values, MP_VALUE_NONE);
    return 1;
}

static int on_boolean(void *context, int value)
{
    struct json_reader *reader = context;
    reader->quiet = 0;
    mp_values_push(reader->values, value ? MP_VALUE_TRUE : MP_VALUE_FALSE);
    return 1;
}

/* Pushes a number, whose grammar yajl has checked. */
static void push_number(struct json_reader *reader, const char *digits, size_t length)
{
    char text[64], *end;
    uint64_t offset = reader->chunk_offset + yajl_get_bytes_consumed(reader->parser);
    bool whole = !memchr(digits, '.', length) && !memchr(digits, 'e', length) && !memchr(digits, 'E', length);
    if (length >= sizeof text && whole) {
        mp_values_push(reader->values, mp_value_make(MP_VALUE_BIG, offset));
        return;
    }
    if (length >= sizeof text) length = sizeof text - 1; /* more digits than a double holds */
    memcpy(text, digits, length);
    text[length] = '\0';
    errno = 0;
    int64_t with_sign = whole ? strtoll(text, &end, 10) : 0;
    bool fits = !errno;
    errno = 0;
    uint64_t without = fits ? 0 : strtoull(text, &end, 10);
    if (!whole)
        mp_values_push_float(reader->values, strtod(text, NULL));
    else if (fits)
        mp_values_push_signed(reader->values, with_sign);
    else if (!errno && *text != '-')
        mp_values_push_unsigned(reader->values, without);
    else
        mp_values_push(reader->values, mp_value_make(MP_VALUE_BIG, offset));
}

static int on_number(void *context, const char *digits, size_t length)
{
    struct json_reader *reader = context;
    reader->quiet = 0;
    push_number(reader, digits, length);
    return 1;
}

static int on_text(void *context, const unsigned char *text, size_t length)
{
    struct json_reader *reader = context;
    size_t kept = length < MP_INPUT_WINDOW ? length : MP_INPUT_WINDOW;
    reader->quiet = 0;
    mp_values_push_text(reader->values, (const char *)text, kept);
    return 1;
}

static int on_start(struct json_reader *reader, enum mp_object_kind kind)
{
    reader->quiet = 0;
    mp_values_push_object(reader->values, kind);
    return mp_values_mark(reader->values);
}

static int on_start_map(void *context)
{
    return on_start(context, MP_OBJECT_DICT);
}

static int on_start_array(void *context)
{
    return on_start(context, MP_OBJECT_LIST);
}

static int on_end_map(void *context)
{
    struct json_reader *reader = context;
    size_t count;
    reader->quiet = 0;
    return mp_values_unmark(reader->values, &count) && mp_values_set(reader->values, count);
}

static int on_end_array(void *context)
{
    struct json_reader *reader = context;
    size_t count;
    reader->quiet = 0;
    return mp_values_unmark(reader->values, &count) && mp_values_append(reader->values, count);
}

static enum mp_status failed(struct json_reader *reader, const struct mp_input *input, yajl_status status,
                             struct mp_error *error)
{
    unsigned long long offset = reader->chunk_offset + yajl_get_bytes_consumed(reader->parser);
    if (status == yajl_status_client_canceled || reader->values->fault)
        return mp_fail(error, MP_DAMAGED, "%s makes no sense as a snapshot: at byte %llu it %s", input->path, offset,
                       reader->values->fault);
    unsigned char *text = yajl_get_error(reader->parser, 0, NULL, 0);
    int length = text ? (int)strcspn((const char *)text, "\n") : 0;
    enum mp_status result = mp_fail(error, MP_DAMAGED, "%s is no JSON from byte %llu on (%.*s)", input->path, offset,
                                    length, text ? (const char *)text : "");
    if (text) yajl_free_error(reader->parser, text);
    return result;
}

static enum mp_status parse_json(struct json_reader *reader, struct mp_input *input, struct mp_error *error)
{
    for (;;) {
        enum mp_status status = mp_input_fill(input, 1, error);
        if (status) return status;
        size_t size = (size_t)(input->end - input->at);
        reader->chunk_offset = mp_input_offset(input);
        reader->quiet += size;
        yajl_status parsed = size ? yajl_parse(reader->parser, input->at, size) : yajl_complete_parse(reader->parser);
        bool fits = mp_values_fit(reader->values, 0, reader->chunk_offset + size);
        if (parsed != yajl_status_ok || !fits) {
            if (!size && fits)
                return mp_fail(error, MP_DAMAGED, "%s is cut: the JSON ends at byte %llu, in the middle", input->path,
                               (unsigned long long)reader->chunk_offset);
            return failed(reader, input, parsed, error);
        }
        if (!size) return MP_OK;
        input->at = input->end;
        if (reader->quiet > MP_INPUT_TOKEN)
            return mp_fail(error, MP_LIMIT, "%s: a text or number of more than 16 MiB before byte %llu", input->path,
                           (unsigned long long)mp_input_offset(input));
    }
}

/* *top is the value of the text. Texts are kept up to MP_INPUT_WINDOW bytes. MP_DAMAGED, MP_IO; the
 * sentence names file and offset. */
static enum mp_status values_read_json(struct mp_input *input, struct mp_values *values, uint64_t *top,
                                       struct mp_error *error)
{
    static const yajl_callbacks callbacks = {
        .yajl_null = on_null,
        .yajl_boolean = on_boolean,
        .yajl_number = on_number,
        .yajl_string = on_text,
        .yajl_map_key = on_text,
        .yajl_start_map = on_start_map,
        .yajl_end_map = on_end_map,
        .yajl_start_array = on_start_array,
        .yajl_end_array = on_end_array,
    };
    struct json_reader reader = {.values = values};
    reader.parser = yajl_alloc(&callbacks, NULL, &reader);
    if (!reader.parser) mp_memory_lacks(0);
    enum mp_status status = parse_json(&reader, input, error);
    yajl_free(reader.parser);
    if (!status) *top = values->stack.at[0];
    return status;
}

struct loader {
    struct mp_input *input;
    struct mp_error *error;
    struct mp_pytorch_snapshot snapshot;
    MP_VEC(struct mp_pytorch_annotation)
    annotations;    /* annotations in lists; other dictionaries of the program may look like annotations */
    uint64_t taken; /* bits 1 << enum mp_pytorch_key: keys whose lists have been read */
};

static struct mp_pytorch_device *find_device(struct loader *l, uint32_t index, bool host)
{
    struct mp_pytorch_snapshot *s = &l->snapshot;
    for (size_t i = 0; i < s->devices.count; i++)
        if (s->devices.at[i].index == index && s->devices.at[i].host == host) return &s->devices.at[i];
    struct mp_pytorch_device device = {.index = index, .host = host};
    if (s->devices.count >= MP_DEVICES_MAX || index > INT32_MAX) {
        mp_fail(l->error, MP_DAMAGED, "%s names more than %d devices", l->input->path, MP_DEVICES_MAX);
        return NULL;
    }
    mp_vec_add(&s->devices, device);
    return &s->devices.at[s->devices.count - 1];
}

/* Versions from 2024 wrote annotations as entries of the trace, with stage and name in a frame. */
static void take_entry_as_annotation(struct loader *l, const struct mp_pytorch_entry *entry)
{
    const struct mp_pytorch_records *records = &l->snapshot.records;
    if (entry->action != MP_ACTION_USER_DEFINED || !entry->stack) return;
    const struct mp_symbol *frame = &records->stacks.frames.at[records->stacks.nodes.at[entry->stack].frame];
    struct mp_pytorch_annotation annotation = {
        .time_us = entry->time_us,
        .name = frame->file,
        .begins = !strcmp(mp_intern_get(&records->values.texts, frame->function, NULL), "START")};
    mp_vec_add(&l->annotations, annotation);
}

static void take_annotations(struct loader *l, uint64_t list)
{
    struct mp_pytorch_records *records = &l->snapshot.records;
    size_t count;
    const uint64_t *items = mp_values_items(&records->values, list, MP_OBJECT_LIST, &count);
    for (size_t i = 0; items && i < count; i++) {
        uint64_t item = mp_values_resolve(&records->values, items[i]);
        if (mp_value_tag(item) == MP_PYTORCH_ANNOTATION)
            mp_vec_add(&l->annotations, records->annotations.at[mp_value_payload(item)]);
        else
            l->snapshot.strange++;
    }
}

/* Reads each trace only once: otherwise a file in which devices share a trace could cost far more time than its
 * size. */
static enum mp_status take_trace(struct loader *l, uint64_t list, uint32_t index, bool host)
{
    struct mp_pytorch_records *records = &l->snapshot.records;
    size_t count;
    const uint64_t *items = mp_values_items(&records->values, list, MP_OBJECT_LIST, &count);
    records->again += mp_values_is_gone(&records->values, list);
    if (!items || !count) return MP_OK;
    struct mp_pytorch_device *device = find_device(l, host ? 0 : index, host);
    if (!device) return l->error->status;
    mp_vec_room_for(&device->trace, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t entry = mp_values_resolve(&records->values, items[i]);
        if (mp_value_tag(entry) != MP_PYTORCH_ENTRY) {
            l->snapshot.strange++;
            continue;
        }
        uint32_t id = (uint32_t)mp_value_payload(entry);
        device->trace.at[device->trace.count++] = id;
        take_entry_as_annotation(l, &records->entries.at[id]);
    }
    mp_values_settle(&records->values, list, MP_VALUE_NONE);
    return MP_OK;
}

/* True if a list of traces is one trace itself. */
static bool is_one_trace(struct mp_values *values, uint64_t list)
{
    size_t count = 0;
    const uint64_t *items = mp_values_items(values, list, MP_OBJECT_LIST, &count);
    return items && count && mp_value_tag(mp_values_resolve(values, items[0])) == MP_PYTORCH_ENTRY;
}

static enum mp_status take_traces(struct loader *l, uint64_t list, bool host)
{
    struct mp_values *values = &l->snapshot.records.values;
    size_t count;
    const uint64_t *items = mp_values_items(values, list, MP_OBJECT_LIST, &count);
    if (is_one_trace(values, list)) return take_trace(l, list, 0, host);
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
        mp_vec_add(&device->segments, id);
        l->snapshot.any_segments = true;
    }
    return MP_OK;
}

static void take_settings(struct loader *l, uint64_t dict)
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
}

static enum mp_status take_part(struct loader *l, uint64_t key, uint64_t value, bool *known)
{
    uint64_t part = mp_value_tag(key) == MP_VALUE_TEXT && mp_value_payload(key) < MP_KEYS ? mp_value_payload(key) : 0;
    *known = true;
    if (l->taken >> part & 1) return MP_OK; /* the dictionary has the key twice */
    if (part) l->taken |= UINT64_C(1) << part;
    switch (part) {
    case MP_KEY_SEGMENTS:
    case MP_KEY_HOST_SEGMENTS:
        return take_segments(l, value, mp_value_payload(key) == MP_KEY_HOST_SEGMENTS);
    case MP_KEY_DEVICE_TRACES:
    case MP_KEY_HOST_TRACES:
        return take_traces(l, value, mp_value_payload(key) == MP_KEY_HOST_TRACES);
    case MP_KEY_SETTINGS:
        take_settings(l, value);
        return MP_OK;
    case MP_KEY_ANNOTATIONS:
        *known = false;
        take_annotations(l, value);
        return MP_OK;
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
    if (!items && !status) { /* before PyTorch 2.0, a snapshot is only the list of segments */
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
    mp_pytorch_records_init(&l.snapshot.records);
    enum mp_status status = read(input, &l.snapshot.records.values, &top, error);
    if (!status) status = take_parts(&l, top);
    mp_vec_free(&l.snapshot.records.annotations);
    for (size_t i = 0; i < l.annotations.count; i++)
        mp_vec_add(&l.snapshot.records.annotations, l.annotations.at[i]);
    mp_vec_free(&l.annotations);
    for (size_t i = 0; !status && i < l.snapshot.devices.count; i++) {
        l.snapshot.devices.at[i].lists_segments = l.snapshot.any_segments;
        mp_pytorch_replay(&l.snapshot.records, &l.snapshot.devices.at[i]);
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
    return load(input, values_read_json, model, error);
}
