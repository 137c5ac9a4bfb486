/* The parts of a snapshot beyond their records: JSON texts, with which it can be written again. */
#include <inttypes.h>
#include <string.h>

#include "base/json.h"
#include "exchange/pytorch/pytorch_records.h"
#include "exchange/pytorch/value_out.h"

#define TEXT_MOST  UINT64_C(60000)     /* bytes: what a recording takes for one name */
#define SHORT      256                 /* texts below it are made anew */
#define TOTAL_MOST (UINT64_C(1) << 32) /* of all: a file in which a value is shared cannot cost more than that */
/* Work for JSON, in bytes made and items gone through, and a part of the bytes kept: what a file shares makes it many
 * times the file's size, and what turns out to be too much is work, too. Beyond it, only values below SHORT are kept.
 */
#define WORK_LEAST    (UINT64_C(64) << 20)
#define WORK_PER_BYTE 16 /* of the file that was read */
#define KEPT_PER_WORK 4

static const char *text_of(const struct mp_pytorch_records *r, uint32_t id)
{
    return mp_intern_get(&r->values.texts, id, NULL);
}

/* A record as the dictionary that it was: the members that its row lacks stand in a text of their own. */
struct put {
    const struct mp_pytorch_records *records;
    struct mp_buffer *out;
    uint64_t own; /* bits 1 << enum mp_pytorch_key: those that the text has */
    bool follows; /* a member precedes */
};

static void note_own(void *context, const char *name, size_t length)
{
    struct put *put = context;
    for (unsigned key = 1; key < MP_KEYS; key++) {
        const char *known = mp_pytorch_key_name(key);
        if (strlen(known) == length && !memcmp(known, name, length)) put->own |= UINT64_C(1) << key;
    }
}

static struct put begin(const struct mp_pytorch_records *r, uint32_t more, struct mp_buffer *out)
{
    struct put put = {.records = r, .out = out};
    size_t length;
    const char *text = mp_intern_get(&r->values.texts, more, &length);
    mp_buffer_append_text(out, "{");
    if (length <= 2) return put;
    mp_value_each_member(text, note_own, &put);
    mp_buffer_append(out, text + 1, length - 2);
    put.follows = true;
    return put;
}

static void end(const struct put *put)
{
    mp_buffer_append_text(put->out, "}");
}

/* Begins a member, if its row has it. */
static bool put_key(struct put *put, bool there, enum mp_pytorch_key key)
{
    if (!there || put->own >> key & 1) return false;
    mp_buffer_printf(put->out, "%s\"%s\":", put->follows ? "," : "", mp_pytorch_key_name(key));
    put->follows = true;
    return true;
}

static void put_number(struct put *put, bool there, enum mp_pytorch_key key, uint64_t number)
{
    if (put_key(put, there, key)) mp_buffer_printf(put->out, "%" PRIu64, number);
}

static void put_text(struct put *put, bool there, enum mp_pytorch_key key, const char *text)
{
    if (put_key(put, there, key)) mp_json_quote(put->out, text, strlen(text));
}

static void put_stream(struct put *put, uint16_t keys, uint64_t stream)
{
    if (put_key(put, keys & MP_ROW_STREAM, MP_KEY_STREAM)) mp_buffer_printf(put->out, "%" PRId64, (int64_t)stream);
}

static void put_pool(struct put *put, uint16_t keys, enum mp_pytorch_key key, uint64_t pool)
{
    if (put_key(put, keys & MP_ROW_POOL, key))
        mp_buffer_printf(put->out, "[%" PRIu64 ",%" PRIu64 "]", pool >> 32, pool & UINT32_MAX);
}

static void put_frame(const struct mp_pytorch_records *r, uint32_t index, struct mp_buffer *out)
{
    const struct mp_symbol *frame = &r->stacks.frames.at[index];
    struct put put = begin(r, r->stacks.more.at[index], out);
    put_text(&put, true, MP_KEY_NAME, frame->function ? text_of(r, frame->function) : "??");
    put_text(&put, true, MP_KEY_FILENAME, frame->file ? text_of(r, frame->file) : "??");
    put_number(&put, true, MP_KEY_LINE, frame->line);
    end(&put);
}

static void put_stack(const struct mp_pytorch_records *r, uint32_t stack, struct mp_buffer *out)
{
    mp_buffer_append_text(out, "[");
    for (const char *comma = ""; stack && out->size < r->most; stack = r->stacks.nodes.at[stack].parent, comma = ",") {
        mp_buffer_append_text(out, comma);
        put_frame(r, r->stacks.nodes.at[stack].frame, out);
    }
    mp_buffer_append_text(out, "]");
}

static void put_frames(struct put *put, uint16_t keys, uint32_t stack)
{
    if (put_key(put, keys & MP_ROW_FRAMES, MP_KEY_FRAMES)) put_stack(put->records, stack, put->out);
}

static void put_entry(const struct mp_pytorch_records *r, const struct mp_pytorch_entry *entry, struct mp_buffer *out)
{
    bool oom = entry->action == MP_ACTION_OOM;
    struct put put = begin(r, entry->more, out);
    put_text(&put, true, MP_KEY_ACTION, text_of(r, entry->name));
    put_number(&put, entry->keys & MP_ROW_ADDRESS, oom ? MP_KEY_DEVICE_FREE : MP_KEY_ADDR, entry->address);
    put_number(&put, entry->keys & MP_ROW_SIZE, MP_KEY_SIZE, entry->bytes);
    put_stream(&put, entry->keys, entry->stream);
    put_number(&put, entry->keys & MP_ROW_TIME, MP_KEY_TIME, (uint64_t)entry->time_us);
    put_pool(&put, entry->keys, MP_KEY_POOL, entry->pool);
    put_frames(&put, entry->keys, entry->stack);
    end(&put);
}

static void put_past(const struct mp_pytorch_records *r, const struct mp_pytorch_block *was, struct mp_buffer *out)
{
    struct put put = begin(r, was->more, out);
    put_number(&put, was->keys & MP_ROW_ADDRESS, MP_KEY_ADDR, was->address);
    put_number(&put, was->requested != MP_BYTES_UNKNOWN, MP_KEY_REAL_SIZE, was->requested);
    put_number(&put, was->keys & MP_ROW_SIZE, MP_KEY_SIZE, was->bytes);
    put_frames(&put, was->keys, was->stack);
    end(&put);
}

static void put_block(const struct mp_pytorch_records *r, const struct mp_pytorch_block *block, struct mp_buffer *out)
{
    struct put put = begin(r, block->more, out);
    put_number(&put, block->keys & MP_ROW_ADDRESS, MP_KEY_ADDRESS, block->address);
    put_number(&put, block->keys & MP_ROW_SIZE, MP_KEY_SIZE, block->bytes);
    put_number(&put, block->keys & MP_ROW_REQUESTED, MP_KEY_REQUESTED_SIZE, block->requested);
    put_text(&put, block->keys & MP_ROW_TYPE, MP_KEY_STATE,
             block->pending ? "active_pending_free"
             : block->live  ? "active_allocated"
                            : "inactive");
    put_frames(&put, block->keys, block->stack);
    if (put_key(&put, block->keys & MP_ROW_HISTORY, MP_KEY_HISTORY)) {
        const struct mp_pytorch_block was = {.address = block->address,
                                             .requested = block->requested,
                                             .stack = block->stack,
                                             .keys = MP_ROW_ADDRESS | MP_ROW_FRAMES};
        mp_buffer_append_text(out, "[");
        put_past(r, &was, out);
        mp_buffer_append_text(out, "]");
    }
    end(&put);
}

static void put_segment(struct mp_pytorch_records *r, const struct mp_pytorch_segment *segment, struct mp_buffer *out)
{
    struct mp_pytorch_sums sums;
    size_t count = 0;
    const uint64_t *items = mp_values_items(&r->values, segment->blocks, MP_OBJECT_LIST, &count);
    struct put put = begin(r, segment->more, out);
    mp_pytorch_sum_blocks(r, segment->blocks, &sums);
    put_number(&put, segment->keys & MP_ROW_DEVICE, MP_KEY_DEVICE, segment->device);
    put_number(&put, segment->keys & MP_ROW_ADDRESS, MP_KEY_ADDRESS, segment->address);
    put_number(&put, segment->keys & MP_ROW_SIZE, MP_KEY_TOTAL_SIZE, segment->bytes);
    put_number(&put, segment->keys & MP_ROW_ALLOCATED, MP_KEY_ALLOCATED_SIZE, sums.allocated);
    put_number(&put, segment->keys & MP_ROW_ACTIVE, MP_KEY_ACTIVE_SIZE, sums.active);
    put_number(&put, segment->keys & MP_ROW_REQUESTED, MP_KEY_REQUESTED_SIZE, sums.requested);
    put_stream(&put, segment->keys, segment->stream);
    put_text(&put, segment->keys & MP_ROW_TYPE, MP_KEY_SEGMENT_TYPE, segment->small ? "small" : "large");
    put_pool(&put, segment->keys, MP_KEY_SEGMENT_POOL, segment->pool);
    if (put_key(&put, segment->keys & MP_ROW_EXPANDABLE, MP_KEY_EXPANDABLE))
        mp_buffer_append_text(out, segment->expandable ? "true" : "false");
    put_frames(&put, segment->keys, segment->stack);
    put_key(&put, true, MP_KEY_BLOCKS);
    mp_buffer_append_text(out, "[");
    for (size_t i = 0; items && i < count && out->size < r->most; i++) {
        if (i) mp_buffer_append_text(out, ",");
        uint64_t block = mp_values_resolve(&r->values, items[i]);
        if (mp_value_tag(block) == MP_PYTORCH_BLOCK)
            put_block(r, &r->blocks.at[mp_value_payload(block)], out);
        else
            mp_buffer_append_text(out, "null");
    }
    mp_buffer_append_text(out, "]");
    end(&put);
}

static void make_record(struct mp_pytorch_records *r, uint64_t record, struct mp_buffer *out)
{
    struct put put;
    uint64_t index = mp_value_payload(record);
    switch (mp_value_tag(record)) {
    case MP_PYTORCH_FRAME:
        put_frame(r, (uint32_t)index, out);
        break;
    case MP_PYTORCH_STACK:
        put_stack(r, (uint32_t)index, out);
        break;
    case MP_PYTORCH_ENTRY:
        put_entry(r, &r->entries.at[index], out);
        break;
    case MP_PYTORCH_SEGMENT:
        put_segment(r, &r->segments.at[index], out);
        break;
    case MP_PYTORCH_BLOCK:
        put_block(r, &r->blocks.at[index], out);
        break;
    case MP_PYTORCH_HISTORY:
        put_past(r, &r->blocks.at[index], out);
        break;
    case MP_PYTORCH_ANNOTATION:
        put = begin(r, r->annotations.at[index].more, out);
        end(&put);
        break;
    default:
        mp_buffer_append_text(out, "null");
    }
}

/* The size up to which *out may grow. */
static size_t most_of(const struct mp_pytorch_records *r, const struct mp_buffer *out)
{
    bool enough = r->worked >= WORK_LEAST + WORK_PER_BYTE * mp_input_offset(r->input);
    return enough && out->size + SHORT < TEXT_MOST ? out->size + SHORT : TEXT_MOST;
}

static bool put_made(struct mp_pytorch_records *r, uint64_t id, struct mp_buffer *out)
{
    size_t length;
    const char *json = id == MP_NONE ? NULL : mp_intern_get(&r->values.texts, (uint32_t)id, &length);
    if (!json || out->size + length > most_of(r, out)) return false;
    mp_buffer_append(out, json, length);
    r->copied += length;
    return true;
}

/* Many lists of a file may hold the same record: one that is not short is made once. */
static bool put_record(void *context, uint64_t record, struct mp_buffer *out)
{
    struct mp_pytorch_records *r = context;
    const uint64_t *known = mp_map_find(&r->json_of, record);
    if (known) return put_made(r, *known, out);
    size_t start = out->size;
    make_record(r, record, out);
    size_t length = out->size - start;
    bool too_much = length > r->most, whole = out->size <= r->most; /* else it ends where there was no more room */
    if (length >= SHORT && (too_much || whole))
        *mp_map_at(&r->json_of, record, NULL) =
            too_much ? MP_NONE : mp_intern_add(&r->values.texts, (const char *)out->data + start, length);
    return whole;
}

static bool put_json(struct mp_pytorch_records *r, uint64_t value, struct mp_buffer *out)
{
    r->most = most_of(r, out);
    uint64_t before = out->size - r->copied, visited = r->values.visited;
    bool done = mp_values_json(&r->values, value, put_record, r->most, out);
    r->worked += out->size - r->copied - before + r->values.visited - visited;
    return done;
}

/* Appends a value as JSON; false where it is too much. What many rows may have is made once. */
static bool put_value(struct mp_pytorch_records *r, uint64_t value, struct mp_buffer *out)
{
    size_t length = 0;
    bool text = mp_value_tag(value) == MP_VALUE_TEXT;
    if (text) mp_intern_get(&r->values.texts, (uint32_t)mp_value_payload(value), &length);
    if (text ? length < SHORT : !r->values.shared || mp_value_tag(value) != MP_VALUE_OBJECT)
        return put_json(r, value, out);
    const uint64_t *known = mp_map_find(&r->json_of, value);
    if (known) return put_made(r, *known, out);
    mp_buffer_clear(&r->json);
    bool done = put_json(r, value, &r->json);
    uint64_t id = done ? mp_intern_add(&r->values.texts, (const char *)r->json.data, r->json.size) : MP_NONE;
    *mp_map_at(&r->json_of, value, NULL) = id;
    return put_made(r, id, out);
}

static bool keep(struct mp_pytorch_records *r, uint32_t *id)
{
    uint32_t known = r->values.texts.count;
    r->more_bytes += r->text.size;
    *id = mp_intern_add(&r->values.texts, (const char *)r->text.data, r->text.size);
    if (r->values.texts.count > known) r->worked += r->text.size / KEPT_PER_WORK;
    return true;
}

/* Appends "key":value; false where that is too much. */
static bool put_member(struct mp_pytorch_records *r, uint64_t key, uint64_t value)
{
    size_t length, before = r->text.size;
    const char *name = mp_intern_get(&r->values.texts, (uint32_t)mp_value_payload(key), &length);
    if (before + length <= most_of(r, &r->text) && r->more_bytes < TOTAL_MOST) {
        r->worked += length;
        if (before > 1) mp_buffer_append_text(&r->text, ",");
        mp_json_quote(&r->text, name, length);
        mp_buffer_append_text(&r->text, ":");
        if (put_value(r, value, &r->text)) return true;
    }
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
    if (mp_value_tag(value) < MP_VALUE_OBJECT) return 0;
    mp_buffer_clear(&r->text);
    uint32_t id = 0;
    bool done = r->more_bytes < TOTAL_MOST && put_value(r, value, &r->text);
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
