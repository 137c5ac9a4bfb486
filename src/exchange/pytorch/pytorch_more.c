/* The parts of a snapshot beyond their records: JSON texts, with which it can be written again. */
#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "exchange/pytorch/pytorch_records.h"

#define TEXT_MOST  UINT64_C(60000)     /* bytes: what a recording takes for one name */
#define TOTAL_MOST (UINT64_C(1) << 32) /* of all: a file in which a value is shared cannot cost more than that */

static const char *text_of(const struct mp_pytorch_records *r, uint32_t id)
{
    return mp_intern_get(&r->values.texts, id, NULL);
}

static void put_frame(const struct mp_pytorch_records *r, uint32_t index, struct mp_json *json)
{
    const struct mp_symbol *frame = &r->stacks.frames.at[index];
    mp_json_object(json, NULL);
    mp_json_text(json, "name", frame->function ? text_of(r, frame->function) : "??");
    mp_json_text(json, "filename", frame->file ? text_of(r, frame->file) : "??");
    mp_json_number(json, "line", frame->line);
    mp_json_end_object(json);
}

static void put_stack(const struct mp_pytorch_records *r, uint32_t stack, const char *key, struct mp_json *json)
{
    mp_json_array(json, key);
    for (; stack && json->out->size < TEXT_MOST; stack = r->stacks.nodes.at[stack].parent)
        put_frame(r, r->stacks.nodes.at[stack].frame, json);
    mp_json_end_array(json);
}

static bool put_record(void *context, uint64_t record, struct mp_buffer *out)
{
    const struct mp_pytorch_records *r = context;
    struct mp_json json;
    mp_json_start(&json, out);
    json.flat = true;
    uint64_t index = mp_value_payload(record);
    switch (mp_value_tag(record)) {
    case MP_PYTORCH_FRAME:
        put_frame(r, (uint32_t)index, &json);
        return true;
    case MP_PYTORCH_STACK:
        put_stack(r, (uint32_t)index, NULL, &json);
        return true;
    case MP_PYTORCH_HISTORY:
        mp_json_object(&json, NULL);
        mp_json_number(&json, "addr", r->blocks.at[index].address);
        mp_json_number(&json, "real_size", r->blocks.at[index].requested);
        put_stack(r, r->blocks.at[index].stack, "frames", &json);
        mp_json_end_object(&json);
        return true;
    default:
        return false;
    }
}

static bool keep(struct mp_pytorch_records *r, uint32_t *id)
{
    r->more_bytes += r->text.size;
    *id = mp_intern_add(&r->values.texts, (const char *)r->text.data, r->text.size);
    return true;
}

/* Appends "key":value; false where that is too much. */
static bool put_member(struct mp_pytorch_records *r, uint64_t key, uint64_t value)
{
    size_t length, before = r->text.size;
    const char *name = mp_intern_get(&r->values.texts, (uint32_t)mp_value_payload(key), &length);
    if (before > 1) mp_buffer_append_text(&r->text, ",");
    mp_json_quote(&r->text, name, length);
    mp_buffer_append_text(&r->text, ":");
    if (r->more_bytes < TOTAL_MOST && mp_values_json(&r->values, value, put_record, TEXT_MOST, &r->text)) return true;
    r->text.size = before;
    r->too_long++;
    return false;
}

bool mp_pytorch_more(struct mp_pytorch_records *r, const uint64_t *pairs, size_t count, uint64_t kept, uint32_t *more)
{
    *more = 0;
    mp_buffer_clear(&r->text);
    mp_buffer_append_text(&r->text, "{");
    for (size_t i = 0; i < count; i++) {
        uint64_t key = pairs[2 * i], id = mp_value_payload(key);
        if (mp_value_tag(key) != MP_VALUE_TEXT || (id < MP_KEYS && (kept >> id & 1))) continue;
        put_member(r, key, pairs[2 * i + 1]);
    }
    if (r->text.size <= 1) return true;
    mp_buffer_append_text(&r->text, "}");
    return keep(r, more);
}

bool mp_pytorch_more_member(struct mp_pytorch_records *r, uint64_t key, uint64_t value, uint32_t *more)
{
    const uint64_t pair[] = {key, value};
    return mp_pytorch_more(r, pair, 1, 0, more);
}

uint32_t mp_pytorch_text(struct mp_pytorch_records *r, uint64_t value)
{
    if (mp_value_tag(value) == MP_VALUE_TEXT) return (uint32_t)mp_value_payload(value);
    if (mp_value_tag(value) != MP_VALUE_OBJECT) return 0;
    mp_buffer_clear(&r->text);
    uint32_t id = 0;
    bool done = r->more_bytes < TOTAL_MOST && mp_values_json(&r->values, value, put_record, TEXT_MOST, &r->text);
    if (done && r->text.size > 2) keep(r, &id);
    return id;
}

bool mp_pytorch_more_text(struct mp_pytorch_records *r, uint32_t *more, const char *key, const char *json)
{
    size_t length;
    const char *text = mp_intern_get(&r->values.texts, *more, &length);
    mp_buffer_clear(&r->text);
    mp_buffer_printf(&r->text, "{\"%s\":%s", key, json);
    if (length > 2) mp_buffer_printf(&r->text, ",%s", text + 1); /* a text of ours has its braces */
    if (length <= 2) mp_buffer_append_text(&r->text, "}");
    return keep(r, more);
}
