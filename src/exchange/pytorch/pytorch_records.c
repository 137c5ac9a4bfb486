#include "exchange/pytorch/pytorch_records.h"

#include <stdlib.h>
#include <string.h>

#include "base/json.h"
#include "base/words.h"

#define PATH_MOST  4096 /* bytes of a path or a name in a traceback */
#define NODE_MOST  8192 /* bytes of the texts about a graph's node */
#define STACK_MOST 4096
/* Most frames of all stacks that are joined with their forward pass, summed over all entries. */
#define JOINED_MOST (UINT64_C(1) << 26)

static const char *const key_names[MP_KEYS] = {
    [MP_KEY_ACTION] = "action",
    [MP_KEY_ADDR] = "addr",
    [MP_KEY_DEVICE_FREE] = "device_free",
    [MP_KEY_SIZE] = "size",
    [MP_KEY_TIME] = "time_us",
    [MP_KEY_FRAMES] = "frames",
    [MP_KEY_NAME] = "name",
    [MP_KEY_FILENAME] = "filename",
    [MP_KEY_LINE] = "line",
    [MP_KEY_DEVICE] = "device",
    [MP_KEY_ADDRESS] = "address",
    [MP_KEY_TOTAL_SIZE] = "total_size",
    [MP_KEY_EXPANDABLE] = "is_expandable",
    [MP_KEY_BLOCKS] = "blocks",
    [MP_KEY_STATE] = "state",
    [MP_KEY_REQUESTED_SIZE] = "requested_size",
    [MP_KEY_HISTORY] = "history",
    [MP_KEY_REAL_SIZE] = "real_size",
    [MP_KEY_STAGE] = "stage",
    [MP_KEY_SEGMENTS] = "segments",
    [MP_KEY_DEVICE_TRACES] = "device_traces",
    [MP_KEY_SETTINGS] = "allocator_settings",
    [MP_KEY_ANNOTATIONS] = "external_annotations",
    [MP_KEY_HOST_SEGMENTS] = "host_segments",
    [MP_KEY_HOST_TRACES] = "host_traces",
    [MP_KEY_OVERFLOWED] = "trace_alloc_overflowed",
    [MP_KEY_METADATA] = "user_metadata",
    [MP_KEY_STREAM] = "stream",
    [MP_KEY_SEGMENT_TYPE] = "segment_type",
    [MP_KEY_SEGMENT_POOL] = "segment_pool_id",
    [MP_KEY_POOL] = "pool_id",
    [MP_KEY_FX_TRACE] = "fx_original_trace",
    [MP_KEY_FORWARD_FRAMES] = "forward_frames",
    [MP_KEY_INTERNAL_METADATA] = "internal_metadata",
    [MP_KEY_FX_NAME] = "fx_node_name",
    [MP_KEY_FX_OPERATION] = "fx_node_op",
    [MP_KEY_FX_TARGET] = "fx_node_target",
};

/* The text ids of these names follow those of the keys. */
static const char *const action_names[MP_ACTION_UNKNOWN] = {
    [MP_ACTION_ALLOC] = "alloc",
    [MP_ACTION_FREE] = "free",
    [MP_ACTION_FREE_REQUESTED] = "free_requested",
    [MP_ACTION_FREE_COMPLETED] = "free_completed",
    [MP_ACTION_SEGMENT_ALLOC] = "segment_alloc",
    [MP_ACTION_SEGMENT_FREE] = "segment_free",
    [MP_ACTION_SEGMENT_MAP] = "segment_map",
    [MP_ACTION_SEGMENT_UNMAP] = "segment_unmap",
    [MP_ACTION_SNAPSHOT] = "snapshot",
    [MP_ACTION_OOM] = "oom",
    [MP_ACTION_USER_DEFINED] = "user_defined",
    [MP_ACTION_ANNOTATE] = "annotate",
};

/* A dictionary's values by key. `mask` has bit 1 << enum mp_pytorch_key for each key that is present. */
struct fields {
    uint64_t mask;
    uint64_t of[MP_KEYS];
};

#define KEY(name) (UINT64_C(1) << MP_KEY_##name)

static bool has(const struct fields *fields, unsigned key)
{
    return fields->mask >> key & 1;
}

static void sort_fields(const uint64_t *pairs, size_t count, struct fields *fields)
{
    fields->mask = 0;
    for (size_t i = 0; i < count; i++) {
        uint64_t key = mp_value_payload(pairs[2 * i]);
        if (mp_value_tag(pairs[2 * i]) != MP_VALUE_TEXT || !key || key >= MP_KEYS) continue;
        fields->mask |= UINT64_C(1) << key;
        fields->of[key] = pairs[2 * i + 1];
    }
}

/* Reads a number of at most 64 bits; anything else counts as absent. */
static bool read_number(struct mp_values *values, const struct fields *fields, unsigned key, uint64_t *number,
                        bool *there)
{
    *there = has(fields, key) && mp_values_unsigned(values, fields->of[key], number);
    if (!*there && has(fields, key) && mp_value_tag(fields->of[key]) == MP_VALUE_BIG) {
        values->fault = "ends a record in which an address, a size or a time is a number beyond 64 bits";
        return false;
    }
    return true;
}

static bool number_or(struct mp_values *values, const struct fields *fields, unsigned key, uint64_t absent,
                      uint64_t *number)
{
    bool there;
    if (!read_number(values, fields, key, number, &there)) return false;
    if (!there) *number = absent;
    return true;
}

static bool is_text(const struct fields *fields, unsigned key)
{
    return has(fields, key) && mp_value_tag(fields->of[key]) == MP_VALUE_TEXT;
}

static uint32_t text_of(const struct fields *fields, unsigned key)
{
    return is_text(fields, key) ? (uint32_t)mp_value_payload(fields->of[key]) : 0;
}

/* The entry's stream, a handle. Negative numbers keep their 64 bits. */
static uint64_t stream_of(const struct mp_values *values, const struct fields *fields)
{
    uint64_t stream = 0;
    int64_t negative = 0;
    if (!has(fields, MP_KEY_STREAM)) return 0;
    if (mp_values_signed(values, fields->of[MP_KEY_STREAM], &negative)) return (uint64_t)negative;
    return mp_values_unsigned(values, fields->of[MP_KEY_STREAM], &stream) ? stream : 0;
}

/* Reads a pool's two numbers as one. False if the file does not have them. A shared list is read only once. */
static bool read_pool(struct mp_values *values, const struct fields *fields, uint64_t *pool)
{
    unsigned key = has(fields, MP_KEY_POOL) ? MP_KEY_POOL : MP_KEY_SEGMENT_POOL;
    uint64_t first, second;
    size_t count;
    *pool = 0;
    if (!has(fields, key)) return false;
    const uint64_t *items = mp_values_items(values, fields->of[key], MP_OBJECT_LIST, &count);
    bool pair = items && count == 2 && mp_values_unsigned(values, items[0], &first) &&
                mp_values_unsigned(values, items[1], &second) && first <= UINT32_MAX && second <= UINT32_MAX;
    if (pair) *pool = first << 32 | second;
    return pair;
}

/* The stack of a list of frames. A shared list is read only once: the stack then replaces the list. */
static uint32_t read_stack(struct mp_pytorch_records *r, const struct fields *fields)
{
    struct mp_values *values = &r->values;
    if (!has(fields, MP_KEY_FRAMES)) return 0;
    uint64_t list = fields->of[MP_KEY_FRAMES], known = mp_values_resolve(values, list);
    if (mp_value_tag(known) == MP_PYTORCH_STACK) return (uint32_t)mp_value_payload(known);
    size_t count;
    const uint64_t *items = mp_values_items(values, list, MP_OBJECT_LIST, &count);
    if (!items) return 0;
    /* The list may also have items that are no frames. */
    uint64_t *odd = values->shared ? mp_map_find(&r->odd_stacks, list) : NULL;
    if (odd) return (uint32_t)*odd;
    mp_vec_room_for(&r->scratch, count);
    for (size_t i = 0; i < count; i++) {
        uint64_t frame = mp_values_resolve(values, items[i]);
        if (mp_value_tag(frame) == MP_PYTORCH_FRAME)
            r->scratch.at[r->scratch.count++] = (uint32_t)mp_value_payload(frame);
    }
    bool all = r->scratch.count == count;
    uint32_t stack = mp_stack_table_stack(&r->stacks, r->scratch.at, r->scratch.count);
    r->scratch.count = 0;
    r->any_frames |= stack;
    if (all)
        mp_values_settle(values, list, mp_value_make(MP_PYTORCH_STACK, stack));
    else if (values->shared)
        *mp_map_at(&r->odd_stacks, list, NULL) = stack;
    return stack;
}

/* A frame in the form of Python's tracebacks: "File "PATH", line N, in NAME". */
struct traceback_line {
    const char *path, *name;
    size_t path_length, name_length;
    unsigned long line;
    const char *end;
};

/* Reads the next frame of the text; false if there is none. */
static bool next_traceback_line(const char *text, struct traceback_line *line)
{
    static const char begin[] = "File \"", middle[] = "\", line ", end[] = ", in ";
    while ((text = strstr(text, begin))) {
        line->path = text += sizeof begin - 1;
        const char *number = strstr(text, middle);
        const char *name = number ? strstr(number, end) : NULL;
        if (!name) return false;
        line->path_length = (size_t)(number - text);
        line->line = strtoul(number + sizeof middle - 1, NULL, 10);
        line->name = name + sizeof end - 1;
        line->name_length = strcspn(line->name, "\n");
        line->end = line->name + line->name_length;
        if (line->path_length && line->name_length && line->path_length < PATH_MOST && line->name_length < PATH_MOST)
            return true;
        text = line->end;
    }
    return false;
}

/* Adds a text. Copies it first: adding may move all texts, and `text` may be among them. */
static uint32_t add_text(struct mp_pytorch_records *r, const char *text, size_t length)
{
    char copy[PATH_MOST];
    memcpy(copy, text, length);
    return mp_intern_add(&r->values.texts, copy, length);
}

/* The next frame of the traceback in text `id`, from *offset on; MP_NONE: no more frames. */
static uint32_t next_traceback_frame(struct mp_pytorch_records *r, uint32_t id, size_t *offset)
{
    struct traceback_line line;
    const char *text = mp_intern_get(&r->values.texts, id, NULL);
    if (!next_traceback_line(text + *offset, &line)) return MP_NONE;
    *offset = (size_t)(line.end - text);
    size_t name = (size_t)(line.name - text);
    uint32_t file = add_text(r, line.path, line.path_length);
    uint32_t function = add_text(r, mp_intern_get(&r->values.texts, id, NULL) + name, line.name_length);
    return mp_stack_table_frame(&r->stacks, function, file, (uint32_t)line.line, 0);
}

/* The frames of a traceback. A text that several entries share is read once. */
static struct mp_pytorch_path read_traceback(struct mp_pytorch_records *r, uint32_t text)
{
    bool fresh;
    uint64_t *known = mp_map_at(&r->traceback_of, (uint64_t)text + 1, &fresh);
    if (!fresh) return r->paths.at[*known];
    struct mp_pytorch_path path = {.first = r->path_frames.count};
    size_t offset = 0;
    for (uint32_t frame; (frame = next_traceback_frame(r, text, &offset)) != MP_NONE; path.count++)
        mp_vec_add(&r->path_frames, frame);
    *known = r->paths.count;
    mp_vec_add(&r->paths, path);
    return path;
}

/* The frames of a list of tracebacks, the innermost first: the index of a path. */
static uint64_t read_forward(struct mp_pytorch_records *r, const uint64_t *items, size_t count)
{
    for (size_t i = 0; i < count && r->scratch.count < STACK_MOST; i++) {
        if (mp_value_tag(items[i]) != MP_VALUE_TEXT) continue;
        struct mp_pytorch_path path = read_traceback(r, (uint32_t)mp_value_payload(items[i]));
        for (size_t k = 0; k < path.count && r->scratch.count < STACK_MOST; k++)
            mp_vec_add(&r->scratch, r->path_frames.at[path.first + k]);
    }
    const struct mp_pytorch_path whole = {r->path_frames.count, r->scratch.count};
    while (r->scratch.count)
        mp_vec_add(&r->path_frames, r->scratch.at[--r->scratch.count]);
    mp_vec_add(&r->paths, whole);
    return r->paths.count - 1;
}

/* The forward path of a list of tracebacks. A list that several entries share is read once. */
static uint64_t forward_of(struct mp_pytorch_records *r, uint64_t list)
{
    size_t count = 0;
    bool fresh = true;
    const uint64_t *items = mp_values_items(&r->values, list, MP_OBJECT_LIST, &count);
    uint64_t *known = r->values.shared ? mp_map_at(&r->forward_of, list, &fresh) : NULL;
    if (!fresh) return *known;
    uint64_t path = read_forward(r, items, items ? count : 0);
    if (known) *known = path;
    return path;
}

static bool add_stack(struct mp_pytorch_records *r, uint32_t stack)
{
    for (; stack && r->scratch.count < STACK_MOST; stack = r->stacks.nodes.at[stack].parent)
        mp_vec_add(&r->scratch, r->stacks.nodes.at[stack].frame);
    return !stack;
}

/* Blocks of the backward pass also have the stack of the forward pass (forward_frames: Python's tracebacks, innermost
 * last). Its frames become callers of `stack`, with a frame "backward of" between the two. Stacks that would be too
 * long stay as they are. */
static uint32_t join_forward(struct mp_pytorch_records *r, const struct fields *fields, uint32_t stack)
{
    bool fresh;
    if (!has(fields, MP_KEY_FORWARD_FRAMES) || mp_value_tag(fields->of[MP_KEY_FORWARD_FRAMES]) != MP_VALUE_OBJECT)
        return stack;
    uint64_t index = forward_of(r, fields->of[MP_KEY_FORWARD_FRAMES]);
    struct mp_pytorch_path forward = r->paths.at[index];
    if (!forward.count) return stack;
    uint64_t *known = mp_map_at(&r->joined, (index + 1) << 32 | stack, &fresh);
    if (!fresh) return (uint32_t)*known;
    *known = stack;
    if (r->joined_frames > JOINED_MOST || !add_stack(r, stack)) {
        r->too_long++;
        r->scratch.count = 0;
        return stack;
    }
    if (r->border == MP_NONE)
        r->border =
            mp_stack_table_frame(&r->stacks, mp_intern_add_text(&r->values.texts, "backward of"), 0, UINT32_MAX, 0);
    mp_vec_add(&r->scratch, r->border);
    for (size_t i = 0; i < forward.count; i++)
        mp_vec_add(&r->scratch, r->path_frames.at[forward.first + i]);
    r->joined_frames += r->scratch.count;
    uint32_t joined = mp_stack_table_stack(&r->stacks, r->scratch.at, r->scratch.count);
    *known = joined;
    r->scratch.count = 0;
    return joined;
}

static void read_metadata(const struct fields *fields, uint32_t *user, uint32_t *internal)
{
    *user = text_of(fields, MP_KEY_METADATA);
    *internal = text_of(fields, MP_KEY_INTERNAL_METADATA);
}

static bool make_entry(struct mp_pytorch_records *r, const struct fields *fields, uint64_t *record)
{
    struct mp_values *values = &r->values;
    struct mp_pytorch_entry entry = {.time_us = MP_PYTORCH_NO_TIME, .action = MP_ACTION_UNKNOWN};
    entry.name = text_of(fields, MP_KEY_ACTION);
    if (entry.name >= MP_KEYS && entry.name - MP_KEYS < MP_ACTION_UNKNOWN)
        entry.action = (uint8_t)(entry.name - MP_KEYS);
    bool oom = entry.action == MP_ACTION_OOM; /* an oom's address is the device's free bytes */
    unsigned place = oom && has(fields, MP_KEY_DEVICE_FREE) ? MP_KEY_DEVICE_FREE : MP_KEY_ADDR;
    uint64_t time;
    bool has_time;
    if (!read_number(values, fields, place, &entry.address, &entry.has_address) ||
        !read_number(values, fields, MP_KEY_SIZE, &entry.bytes, &entry.has_bytes) ||
        !read_number(values, fields, MP_KEY_TIME, &time, &has_time))
        return false;
    entry.stack = read_stack(r, fields);
    entry.stream = stream_of(values, fields);
    entry.has_pool = read_pool(values, fields, &entry.pool);
    if (has_time && time <= INT64_MAX / 1000) entry.time_us = (int64_t)time;
    read_metadata(fields, &entry.metadata, &entry.internal);
    entry.shown = join_forward(r, fields, entry.stack);
    if (r->entries.count >= MP_NONE) return false;
    *record = mp_value_make(MP_PYTORCH_ENTRY, r->entries.count);
    mp_vec_add(&r->entries, entry);
    return true;
}

/* True if a text is PyTorch's placeholder for an unknown name. */
static bool is_unknown(const struct mp_pytorch_records *r, uint32_t text)
{
    return text && !strcmp(mp_intern_get(&r->values.texts, text, NULL), "??");
}

/* The last line of a traceback, which is the innermost; line 0 if there is none. A text that several frames share is
 * read once. */
static struct mp_symbol last_line_of(struct mp_pytorch_records *r, uint32_t text)
{
    bool fresh;
    uint64_t *known = mp_map_at(&r->last_line_of, (uint64_t)text + 1, &fresh);
    if (!fresh) return r->last_lines.at[*known];
    *known = r->last_lines.count;
    const char *start = mp_intern_get(&r->values.texts, text, NULL), *at = start;
    struct traceback_line next, last = {0};
    struct mp_symbol line = {0};
    while (next_traceback_line(at, &next)) {
        last = next;
        at = next.end;
    }
    if (last.path) {
        size_t called = (size_t)(last.name - start);
        line.line = (uint32_t)last.line;
        line.file = add_text(r, last.path, last.path_length);
        line.function = add_text(r, mp_intern_get(&r->values.texts, text, NULL) + called, last.name_length);
    }
    mp_vec_add(&r->last_lines, line);
    return line;
}

/* For generated code, PyTorch knows the line of the model from which it was made, as Python's traceback. The model's
 * file, line and function replace those of the generated code. */
static void use_fx_trace(struct mp_pytorch_records *r, const struct fields *fields, uint32_t *file, uint32_t *name,
                         uint64_t *line)
{
    uint32_t text = text_of(fields, MP_KEY_FX_TRACE);
    struct mp_symbol last = text ? last_line_of(r, text) : (struct mp_symbol){0};
    if (!last.file) return;
    *line = last.line;
    *file = last.file;
    *name = last.function;
}

/* The graph's node that a frame of generated code belongs to, as a JSON object (model/stack.h); 0: none. */
static uint32_t graph_node_of(struct mp_pytorch_records *r, const struct fields *fields)
{
    struct mp_buffer json = {0};
    for (unsigned key = MP_KEY_FX_NAME; key <= MP_KEY_FX_TARGET; key++) {
        size_t length = 0;
        const char *text = mp_intern_get(&r->values.texts, text_of(fields, key), &length);
        if (!length || json.size + length > NODE_MOST) continue;
        mp_buffer_printf(&json, "%s\"%s\":", json.size ? "," : "{", key_names[key]);
        mp_json_quote(&json, text, length);
    }
    if (json.size) mp_buffer_append_text(&json, "}");
    uint32_t id = json.size ? mp_intern_add(&r->values.texts, (const char *)json.data, json.size) : 0;
    mp_buffer_free(&json);
    return id;
}

static bool make_frame(struct mp_pytorch_records *r, const struct fields *fields, uint64_t *record)
{
    uint64_t line;
    uint32_t file = text_of(fields, MP_KEY_FILENAME), name = text_of(fields, MP_KEY_NAME);
    bool has_line;
    if (!read_number(&r->values, fields, MP_KEY_LINE, &line, &has_line)) return false;
    if (!has_line || !is_text(fields, MP_KEY_FILENAME) || !is_text(fields, MP_KEY_NAME))
        return true; /* the program's */
    if (line > UINT32_MAX) line = 0;
    use_fx_trace(r, fields, &file, &name, &line);
    if (is_unknown(r, file)) file = 0;
    if (is_unknown(r, name)) name = 0;
    uint32_t frame = mp_stack_table_frame(&r->stacks, name, file, (uint32_t)line, graph_node_of(r, fields));
    *record = mp_value_make(MP_PYTORCH_FRAME, frame);
    return true;
}

/* True if the value is a list of only blocks. */
static bool has_blocks_alone(struct mp_pytorch_records *r, uint64_t list, bool *is_list)
{
    size_t count = 0;
    bool fresh = true;
    const uint64_t *items = mp_values_items(&r->values, list, MP_OBJECT_LIST, &count);
    *is_list = items;
    if (!items) return false;
    uint64_t *known =
        r->values.shared ? mp_map_at(&r->plain_lists, list, &fresh) : NULL; /* many segments may share a list */
    if (!fresh) return *known;
    bool plain = true;
    for (size_t i = 0; i < count; i++)
        plain &= mp_value_tag(mp_values_resolve(&r->values, items[i])) == MP_PYTORCH_BLOCK;
    if (known) *known = plain;
    return plain;
}

static bool make_segment(struct mp_pytorch_records *r, const struct fields *fields, uint64_t *record)
{
    struct mp_values *values = &r->values;
    struct mp_pytorch_segment segment = {.blocks = fields->of[MP_KEY_BLOCKS]};
    uint64_t device;
    bool is_list, plain = has_blocks_alone(r, segment.blocks, &is_list);
    if (!is_list || (!plain && !has(fields, MP_KEY_TOTAL_SIZE))) return true; /* a dictionary of the program's own */
    if (!number_or(values, fields, MP_KEY_ADDRESS, 0, &segment.address) ||
        !number_or(values, fields, MP_KEY_TOTAL_SIZE, 0, &segment.bytes) ||
        !number_or(values, fields, MP_KEY_DEVICE, 0, &device))
        return false;
    segment.stack = read_stack(r, fields);
    segment.device = device < UINT32_MAX ? (uint32_t)device : UINT32_MAX;
    segment.stream = stream_of(values, fields);
    read_pool(values, fields, &segment.pool);
    segment.small = !strcmp(mp_intern_get(&values->texts, text_of(fields, MP_KEY_SEGMENT_TYPE), NULL), "small");
    segment.expandable = has(fields, MP_KEY_EXPANDABLE) && fields->of[MP_KEY_EXPANDABLE] == MP_VALUE_TRUE;
    *record = mp_value_make(MP_PYTORCH_SEGMENT, r->segments.count);
    mp_vec_add(&r->segments, segment);
    return true;
}

/* Before PyTorch 2.1 a block had a list `history`, the latest item first. */
static void use_history(struct mp_pytorch_records *r, const struct fields *fields, struct mp_pytorch_block *block)
{
    size_t count;
    const uint64_t *items = has(fields, MP_KEY_HISTORY)
                                ? mp_values_items(&r->values, fields->of[MP_KEY_HISTORY], MP_OBJECT_LIST, &count)
                                : NULL;
    uint64_t latest = items && count ? mp_values_resolve(&r->values, items[0]) : 0;
    if (mp_value_tag(latest) != MP_PYTORCH_HISTORY) return;
    const struct mp_pytorch_block *was = &r->blocks.at[mp_value_payload(latest)];
    if (!block->stack) block->stack = was->stack;
    if (block->requested == MP_BYTES_UNKNOWN) block->requested = was->requested;
    if (block->address == MP_BYTES_UNKNOWN) block->address = was->address;
}

static bool make_block(struct mp_pytorch_records *r, const struct fields *fields, uint64_t *record)
{
    struct mp_values *values = &r->values;
    struct mp_pytorch_block block = {0};
    bool old = has(fields, MP_KEY_REAL_SIZE) && !has(fields, MP_KEY_STATE);
    if (!number_or(values, fields, old ? MP_KEY_ADDR : MP_KEY_ADDRESS, MP_BYTES_UNKNOWN, &block.address) ||
        !number_or(values, fields, MP_KEY_SIZE, 0, &block.bytes) ||
        !number_or(values, fields, old ? MP_KEY_REAL_SIZE : MP_KEY_REQUESTED_SIZE, MP_BYTES_UNKNOWN, &block.requested))
        return false;
    block.stack = read_stack(r, fields);
    if (!old) use_history(r, fields, &block);
    /* live: active_allocated, active_pending_free or active_awaiting_free, but not "inactive". */
    const char *state = mp_intern_get(&values->texts, text_of(fields, MP_KEY_STATE), NULL);
    block.live = !strncmp(state, "active", 6);
    block.pending = block.live && strcmp(state, "active_allocated");
    read_metadata(fields, &block.metadata, &block.internal);
    *record = mp_value_make(old ? MP_PYTORCH_HISTORY : MP_PYTORCH_BLOCK, r->blocks.count);
    mp_vec_add(&r->blocks, block);
    return true;
}

static bool make_annotation(struct mp_pytorch_records *r, const struct fields *fields, uint64_t *record)
{
    struct mp_pytorch_annotation annotation = {.time_us = MP_PYTORCH_NO_TIME, .name = text_of(fields, MP_KEY_NAME)};
    uint64_t time;
    if (!number_or(&r->values, fields, MP_KEY_TIME, UINT64_MAX, &time)) return false;
    if (time <= INT64_MAX / 1000) annotation.time_us = (int64_t)time;
    annotation.begins = !strcmp(mp_intern_get(&r->values.texts, text_of(fields, MP_KEY_STAGE), NULL), "START");
    *record = mp_value_make(MP_PYTORCH_ANNOTATION, r->annotations.count);
    mp_vec_add(&r->annotations, annotation);
    return true;
}

static bool make_record(void *context, struct mp_values *values, const uint64_t *pairs, size_t count, uint64_t *record)
{
    static const struct {
        unsigned key;
        uint64_t also; /* one of these keys must also be present, since a program's own dictionary may have `key` */
        bool (*make)(struct mp_pytorch_records *, const struct fields *, uint64_t *);
    } makers[] = {{MP_KEY_ACTION, KEY(ADDR) | KEY(DEVICE_FREE) | KEY(SIZE) | KEY(TIME), make_entry},
                  {MP_KEY_FILENAME, KEY(LINE) | KEY(NAME), make_frame},
                  {MP_KEY_BLOCKS, KEY(ADDRESS) | KEY(TOTAL_SIZE) | KEY(DEVICE), make_segment},
                  {MP_KEY_STATE, KEY(SIZE) | KEY(ADDRESS), make_block},
                  {MP_KEY_REAL_SIZE, KEY(ADDR) | KEY(FRAMES), make_block},
                  {MP_KEY_STAGE, KEY(NAME) | KEY(TIME), make_annotation}};
    struct fields fields;
    (void)values; /* the values of the context are used */
    sort_fields(pairs, count, &fields);
    for (size_t i = 0; fields.mask && i < sizeof makers / sizeof *makers; i++)
        if (has(&fields, makers[i].key) && (fields.mask & makers[i].also))
            return makers[i].make(context, &fields, record);
    return true;
}

void mp_pytorch_records_init(struct mp_pytorch_records *records)
{
    *records =
        (struct mp_pytorch_records){.values = {.make_record = make_record, .context = records}, .border = MP_NONE};
    struct mp_intern *texts = &records->values.texts;
    mp_intern_add_text(texts, "");
    for (uint32_t i = 1; i < MP_KEYS; i++)
        mp_intern_add_text(texts, key_names[i]);
    for (uint32_t i = 0; i < MP_ACTION_UNKNOWN; i++)
        mp_intern_add_text(texts, action_names[i]);
}

void mp_pytorch_records_free(struct mp_pytorch_records *records)
{
    mp_values_free(&records->values);
    mp_stack_table_free(&records->stacks);
    mp_vec_free(&records->entries);
    mp_vec_free(&records->blocks);
    mp_vec_free(&records->segments);
    mp_vec_free(&records->annotations);
    mp_vec_free(&records->scratch);
    mp_map_free(&records->plain_lists);
    mp_vec_free(&records->paths);
    mp_vec_free(&records->path_frames);
    mp_vec_free(&records->last_lines);
    mp_map_free(&records->traceback_of);
    mp_map_free(&records->forward_of);
    mp_map_free(&records->last_line_of);
    mp_map_free(&records->joined);
    mp_map_free(&records->odd_stacks);
}
