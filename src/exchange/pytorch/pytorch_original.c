/* Writes a snapshot of PyTorch as it was read, key by key. */
#include "exchange/pytorch/pytorch_original.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "exchange/pytorch/pytorch_records.h"

struct place {
    size_t device;
    bool host;
};

struct writer {
    const struct mp_model *model;
    struct mp_value_out *value;
    struct mp_stack_out *stacks;
    uint32_t looked_at;   /* string id of the text whose members are in `own` */
    uint64_t own;         /* bits 1 << enum mp_pytorch_key: keys that the text has, which replace the row's */
    size_t *first_part;   /* by segment */
    struct place *places; /* by track */
};

static const struct mp_aside *aside_of(const struct mp_model *model, enum mp_aside_kind kind)
{
    for (size_t i = 0; i < model->asides.count; i++)
        if (model->asides.at[i].kind == kind) return &model->asides.at[i];
    return NULL;
}

bool mp_pytorch_has_original(const struct mp_model *model)
{
    return aside_of(model, MP_ASIDE_LISTS);
}

static void note_name(void *context, const char *name, size_t length)
{
    struct writer *writer = context;
    for (unsigned key = 1; key < MP_KEYS; key++) {
        const char *known = mp_pytorch_key_name(key);
        if (strlen(known) == length && !memcmp(known, name, length)) writer->own |= UINT64_C(1) << key;
    }
}

/* Writes a row's other members. From then on only keys are written that these lack. */
static void put_more(struct writer *writer, uint32_t more)
{
    const char *text = mp_model_text(writer->model, more);
    if (more != writer->looked_at) {
        writer->looked_at = more;
        writer->own = 0;
        if (!mp_value_each_member(text, note_name, writer)) writer->own = 0;
    }
    if (more) mp_value_members(writer->value, text);
}

static bool is_due(const struct writer *writer, uint16_t keys, uint16_t bit, enum mp_pytorch_key key)
{
    return (keys & bit) && !(writer->own >> key & 1);
}

static void put_number(struct writer *writer, uint16_t keys, uint16_t bit, enum mp_pytorch_key key, uint64_t number)
{
    if (is_due(writer, keys, bit, key)) mp_value_number(writer->value, mp_pytorch_key_name(key), number);
}

static void put_stream(struct writer *writer, uint16_t keys, uint64_t stream)
{
    if (is_due(writer, keys, MP_ROW_STREAM, MP_KEY_STREAM))
        mp_value_signed(writer->value, mp_pytorch_key_name(MP_KEY_STREAM), (int64_t)stream);
}

static void put_pool(struct writer *writer, uint16_t keys, enum mp_pytorch_key key, uint64_t pool)
{
    if (is_due(writer, keys, MP_ROW_POOL, key))
        mp_value_pair(writer->value, mp_pytorch_key_name(key), pool >> 32, pool & UINT32_MAX);
}

static void put_text(struct writer *writer, uint16_t keys, uint16_t bit, enum mp_pytorch_key key, const char *text)
{
    if (is_due(writer, keys, bit, key)) mp_value_text(writer->value, mp_pytorch_key_name(key), text);
}

static void put_frames(struct writer *writer, uint16_t keys, uint32_t stack)
{
    if (is_due(writer, keys, MP_ROW_FRAMES, MP_KEY_FRAMES)) mp_stack_out_put(writer->stacks, stack);
}

static void put_block(struct writer *writer, const struct mp_segment_part *part, uint64_t address)
{
    static const char *const states[MP_TORCH_STATES] = {"inactive", "active_allocated", "active_pending_free",
                                                        "unmapped"};
    mp_value_dict(writer->value, NULL);
    put_more(writer, part->more);
    put_number(writer, part->keys, MP_ROW_ADDRESS, MP_KEY_ADDRESS, address);
    put_number(writer, part->keys, MP_ROW_SIZE, MP_KEY_SIZE, part->bytes);
    put_number(writer, part->keys, MP_ROW_REQUESTED, MP_KEY_REQUESTED_SIZE, part->requested);
    put_text(writer, part->keys, MP_ROW_TYPE, MP_KEY_STATE, states[part->state]);
    put_frames(writer, part->keys, part->stack);
    if (part->keys & MP_ROW_HISTORY) {
        mp_value_list(writer->value, mp_pytorch_key_name(MP_KEY_HISTORY));
        mp_value_dict(writer->value, NULL);
        mp_value_number(writer->value, mp_pytorch_key_name(MP_KEY_ADDR), address);
        mp_value_number(writer->value, mp_pytorch_key_name(MP_KEY_REAL_SIZE), part->requested);
        mp_stack_out_put(writer->stacks, part->stack);
        mp_value_end_dict(writer->value);
        mp_value_end_list(writer->value);
    }
    mp_value_end_dict(writer->value);
}

static const struct mp_segment_part *part_at(const struct writer *writer, size_t index, size_t segment)
{
    const struct mp_model *model = writer->model;
    bool there = index < model->parts.count && model->parts.at[index].segment == segment;
    return there ? &model->parts.at[index] : NULL;
}

static void put_segment(struct writer *writer, size_t index, size_t device)
{
    const struct mp_segment *segment = &writer->model->segments.at[index];
    const struct mp_segment_part *part;
    struct mp_pytorch_sums sums = {0};
    uint64_t address = segment->address;
    uint16_t keys = segment->keys;
    for (size_t i = writer->first_part[index]; (part = part_at(writer, i, index)); i++)
        mp_pytorch_sum(&sums, part->state, part->bytes, part->requested);
    mp_value_dict(writer->value, NULL);
    put_more(writer, segment->more);
    put_number(writer, keys, MP_ROW_DEVICE, MP_KEY_DEVICE, device);
    put_number(writer, keys, MP_ROW_ADDRESS, MP_KEY_ADDRESS, segment->address);
    put_number(writer, keys, MP_ROW_SIZE, MP_KEY_TOTAL_SIZE, segment->bytes);
    put_number(writer, keys, MP_ROW_ALLOCATED, MP_KEY_ALLOCATED_SIZE, sums.allocated);
    put_number(writer, keys, MP_ROW_ACTIVE, MP_KEY_ACTIVE_SIZE, sums.active);
    put_number(writer, keys, MP_ROW_REQUESTED, MP_KEY_REQUESTED_SIZE, sums.requested);
    put_stream(writer, keys, segment->stream);
    put_text(writer, keys, MP_ROW_TYPE, MP_KEY_SEGMENT_TYPE, segment->small ? "small" : "large");
    put_pool(writer, keys, MP_KEY_SEGMENT_POOL, segment->pool);
    if (is_due(writer, keys, MP_ROW_EXPANDABLE, MP_KEY_EXPANDABLE))
        mp_value_bool(writer->value, mp_pytorch_key_name(MP_KEY_EXPANDABLE), segment->expandable);
    put_frames(writer, keys, segment->stack);
    mp_value_list(writer->value, mp_pytorch_key_name(MP_KEY_BLOCKS));
    for (size_t i = writer->first_part[index]; (part = part_at(writer, i, index)); address += part->bytes, i++)
        put_block(writer, part, address);
    mp_value_end_list(writer->value);
    mp_value_end_dict(writer->value);
}

/* Finds the devices of tracks as a snapshot numbers them; the host's caching allocator has lists of its own. */
static void find_places(struct writer *writer)
{
    const struct mp_model *model = writer->model;
    for (size_t i = 0; i < model->tracks.count; i++) {
        const char *name = mp_model_text(model, model->devices.at[model->tracks.at[i].device].name);
        const char *colon = strchr(name, ':');
        struct place *place = &writer->places[i];
        place->host = !strncmp(name, "cpu", 3);
        place->device = colon && !place->host ? strtoul(colon + 1, NULL, 10) : 0;
    }
}

static void put_segments(struct writer *writer, const char *key, bool host)
{
    mp_value_list(writer->value, key);
    for (size_t i = 0; i < writer->model->segments.count; i++) {
        const struct place *place = &writer->places[writer->model->segments.at[i].track];
        if (place->host == host) put_segment(writer, i, place->device);
    }
    mp_value_end_list(writer->value);
}

static void put_call(struct writer *writer, const struct mp_allocator_call *call)
{
    static const char *const actions[MP_TORCH_ACTIONS] = {
        "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap",
        "oom",   "snapshot",       "user_defined"};
    bool oom = call->action == MP_TORCH_OUT_OF_MEMORY;
    uint16_t keys = call->keys;
    mp_value_dict(writer->value, NULL);
    put_more(writer, call->more);
    put_text(writer, keys, MP_ROW_IMPORTED, MP_KEY_ACTION, actions[call->action]);
    put_number(writer, keys, MP_ROW_ADDRESS, oom ? MP_KEY_DEVICE_FREE : MP_KEY_ADDR, call->address);
    put_number(writer, keys, MP_ROW_SIZE, MP_KEY_SIZE, call->bytes);
    put_stream(writer, keys, call->stream);
    put_number(writer, keys, MP_ROW_TIME, MP_KEY_TIME, (writer->model->start.realtime_ns + call->time_ns) / 1000);
    put_pool(writer, keys, MP_KEY_POOL, call->pool);
    put_frames(writer, keys, call->stack);
    mp_value_end_dict(writer->value);
}

static void put_trace(struct writer *writer, const char *key, bool host, size_t device)
{
    const struct mp_model *model = writer->model;
    mp_value_list(writer->value, key);
    for (size_t i = 0; i < model->calls.count; i++) {
        const struct place *place = &writer->places[model->calls.at[i].track];
        if (place->host == host && place->device == device) put_call(writer, &model->calls.at[i]);
    }
    mp_value_end_list(writer->value);
}

/* `count` below 0: the list is one trace itself. */
static void put_traces(struct writer *writer, const char *key, bool host, long count)
{
    if (count < 0) {
        put_trace(writer, key, host, 0);
        return;
    }
    mp_value_list(writer->value, key);
    for (size_t i = 0; i < (size_t)count; i++)
        put_trace(writer, NULL, host, i);
    mp_value_end_list(writer->value);
}

static void put_annotations(struct writer *writer, const char *key)
{
    const struct mp_model *model = writer->model;
    mp_value_list(writer->value, key);
    for (size_t i = 0; i < model->asides.count; i++) {
        if (model->asides.at[i].kind != MP_ASIDE_ANNOTATION) continue;
        mp_value_dict(writer->value, NULL);
        mp_value_members(writer->value, mp_model_text(model, model->asides.at[i].text));
        mp_value_end_dict(writer->value);
    }
    mp_value_end_list(writer->value);
}

/* The length of a list, from {"device_traces": 8}. */
static long length_of(const char *lists, const char *key)
{
    const char *at = strstr(lists, key);
    return at ? strtol(at + strlen(key) + 2, NULL, 10) : 0;
}

static void put_lists(struct writer *writer, const char *lists)
{
    writer->own = 0;
    writer->looked_at = 0;
    if (!mp_value_each_member(lists, note_name, writer)) writer->own = 0;
    uint64_t there = writer->own;
    writer->own = 0;
    static const struct {
        enum mp_pytorch_key key;
        bool host, traces;
    } all[] = {{MP_KEY_SEGMENTS, false, false},
               {MP_KEY_DEVICE_TRACES, false, true},
               {MP_KEY_HOST_SEGMENTS, true, false},
               {MP_KEY_HOST_TRACES, true, true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        const char *key = mp_pytorch_key_name(all[i].key);
        if (!(there >> all[i].key & 1)) continue;
        if (all[i].traces)
            put_traces(writer, key, all[i].host, length_of(lists, key));
        else
            put_segments(writer, key, all[i].host);
    }
    if (there >> MP_KEY_ANNOTATIONS & 1) put_annotations(writer, mp_pytorch_key_name(MP_KEY_ANNOTATIONS));
}

static void put_everything(struct writer *writer)
{
    const struct mp_model *model = writer->model;
    find_places(writer);
    for (size_t i = model->parts.count; i--;)
        writer->first_part[model->parts.at[i].segment] = i;
    mp_value_dict(writer->value, NULL);
    put_lists(writer, mp_model_text(model, aside_of(model, MP_ASIDE_LISTS)->text));
    for (size_t i = 0; i < model->asides.count; i++)
        if (model->asides.at[i].kind == MP_ASIDE_MEMBERS)
            mp_value_members(writer->value, mp_model_text(model, model->asides.at[i].text));
    mp_value_end_dict(writer->value);
}

void mp_pytorch_put_original(const struct mp_model *model, struct mp_value_out *value, struct mp_stack_out *stacks)
{
    struct writer writer = {.model = model, .value = value, .stacks = stacks};
    writer.first_part = mp_alloc_zeroed(model->segments.count + 1, sizeof *writer.first_part);
    writer.places = mp_alloc_zeroed(model->tracks.count + 1, sizeof *writer.places);
    put_everything(&writer);
    free(writer.first_part);
    free(writer.places);
}
