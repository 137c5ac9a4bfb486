#include "exchange/common/anonymize_more.h"

#include <stdlib.h>
#include <string.h>
#include <yajl/yajl_tree.h>

#include "base/json.h"

enum rule {
    RULE_NUMBERS, /* and true, false, null, lists of them; by number, in a dictionary */
    RULE_WORD,
    RULE_PLACE, /* "0/1" */
    RULE_TRACEBACK,
    RULE_NAME,
    RULE_SETTINGS,
    RULE_MEMBERS,
};

/* torch/cuda/memory.py and torch/csrc/cuda/memory_snapshot.cpp of PyTorch, 1.13 to 2.13. */
static const struct {
    const char *key;
    enum rule rule;
    enum mp_named named;
} rules[] = {
    {"action", RULE_WORD, 0},
    {"state", RULE_WORD, 0},
    {"segment_type", RULE_WORD, 0},
    {"stage", RULE_WORD, 0},
    {"fx_node_op", RULE_WORD, 0},
    {"compile_context", RULE_PLACE, 0},
    {"fx_original_trace", RULE_TRACEBACK, 0},
    {"forward_frames", RULE_TRACEBACK, 0},
    {"filename", RULE_NAME, MP_NAMED_FILE},
    {"name", RULE_NAME, MP_NAMED_FUNCTION},
    {"fx_node_name", RULE_NAME, MP_NAMED_NODE},
    {"fx_node_target", RULE_NAME, MP_NAMED_NODE},
    {"user_metadata", RULE_NAME, MP_NAMED_METADATA},
    {"internal_metadata", RULE_NAME, MP_NAMED_METADATA},
    {"allocator_settings", RULE_MEMBERS, 0},
    {"PYTORCH_CUDA_ALLOC_CONF", RULE_SETTINGS, 0},
};

static const char *const numbers[] = {
    "addr",       "address",         "device_free", "size",   "stream",         "time_us",   "pool_id",
    "total_size", "allocated_size",  "active_size", "device", "requested_size", "real_size", "is_expandable",
    "line",       "segment_pool_id",
};

static const char *const settings_known[] = {
    "max_split_size",
    "max_split_size_mb",
    "garbage_collection_threshold",
    "expandable_segments",
    "roundup_power2_divisions",
    "roundup_bypass_threshold_mb",
    "release_lock_on_cudamalloc",
    "release_lock_on_hipmalloc",
    "pinned_num_register_threads",
    "pinned_use_cuda_host_register",
    "pinned_use_hip_host_register",
    "pinned_use_background_threads",
    "pinned_reserve_segment_size_mb",
    "graph_capture_record_stream_reuse",
    "per_process_memory_fraction",
    "max_non_split_rounding_mb",
    "max_non_split_rounding_size",
    "large_segment_size_mb",
    "trace_alloc_max_entries",
    "trace_alloc_overflowed",
    "per_allocation_history",
};

static const char *const words[] = {
    "alloc",
    "free",
    "free_requested",
    "free_completed",
    "segment_alloc",
    "segment_free",
    "segment_map",
    "segment_unmap",
    "snapshot",
    "oom",
    "user_defined",
    "annotate",
    "inactive",
    "small",
    "large",
    "START",
    "END",
    "active_allocated",
    "placeholder",
    "get_attr",
    "call_function",
    "call_module",
    "call_method",
    "active_pending_free",
    "output",
    "root",
    "active_awaiting_free",
};

#define COUNT(list) (sizeof(list) / sizeof *(list))

static bool is_in(const char *text, size_t length, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(list[i]) == length && !memcmp(list[i], text, length)) return true;
    return false;
}

struct work {
    mp_rename *rename;
    void *context;
    struct mp_buffer *out;
    uint64_t dropped;
    bool is_annotation;
    const char *file; /* of the frame whose names are read */
};

static void put_text(struct work *work, const char *text)
{
    mp_json_quote(work->out, text, strlen(text));
}

static void put_name(struct work *work, enum mp_named what, const char *text, const char *file)
{
    struct mp_buffer name = {0};
    work->rename(work->context, what, text, file, &name);
    mp_json_quote(work->out, (const char *)name.data, name.size);
    mp_buffer_free(&name);
}

/* Numbers, and what is made of them alone. */
static bool put_numbers(struct work *work, yajl_val value)
{
    if (YAJL_IS_NUMBER(value)) {
        mp_buffer_append_text(work->out, YAJL_GET_NUMBER(value));
    } else if (YAJL_IS_TRUE(value) || YAJL_IS_FALSE(value)) {
        mp_buffer_append_text(work->out, YAJL_IS_TRUE(value) ? "true" : "false");
    } else if (YAJL_IS_NULL(value)) {
        mp_buffer_append_text(work->out, "null");
    } else if (YAJL_IS_ARRAY(value)) {
        mp_buffer_append_text(work->out, "[");
        for (size_t i = 0; i < YAJL_GET_ARRAY(value)->len; i++) {
            if (i) mp_buffer_append_text(work->out, ",");
            if (!put_numbers(work, YAJL_GET_ARRAY(value)->values[i])) return false;
        }
        mp_buffer_append_text(work->out, "]");
    } else if (YAJL_IS_OBJECT(value)) {
        mp_buffer_append_text(work->out, "{");
        for (size_t i = 0; i < YAJL_GET_OBJECT(value)->len; i++) {
            const char *key = YAJL_GET_OBJECT(value)->keys[i];
            if (key[strspn(key, "0123456789")]) return false;
            mp_buffer_printf(work->out, "%s\"%s\":", i ? "," : "", key);
            if (!put_numbers(work, YAJL_GET_OBJECT(value)->values[i])) return false;
        }
        mp_buffer_append_text(work->out, "}");
    } else {
        return false;
    }
    return true;
}

/* The lines 'File "PATH", line N, in NAME' of Python's traceback, and none of code. */
static bool put_traceback(struct work *work, const char *text)
{
    static const char begin[] = "File \"", middle[] = "\", line ", in[] = ", in ";
    struct mp_buffer out = {0}, file = {0};
    while ((text = strstr(text, begin))) {
        text += sizeof begin - 1;
        const char *number = strstr(text, middle), *name = number ? strstr(number, in) : NULL;
        if (!name) break;
        char *path = strndup(text, (size_t)(number - text));
        char *function = strndup(name + sizeof in - 1, strcspn(name + sizeof in - 1, "\n"));
        if (!path || !function) abort();
        mp_buffer_clear(&file);
        work->rename(work->context, MP_NAMED_FILE, path, NULL, &file);
        mp_buffer_printf(&out, "  File \"%.*s\", line %lu, in ", (int)file.size, (const char *)file.data,
                         strtoul(number + sizeof middle - 1, NULL, 10));
        work->rename(work->context, MP_NAMED_FUNCTION, function, path, &out);
        mp_buffer_append_text(&out, "\n");
        text = name + sizeof in - 1 + strlen(function);
        free(path);
        free(function);
    }
    bool any = out.size;
    if (any) mp_json_quote(work->out, (const char *)out.data, out.size);
    mp_buffer_free(&out);
    mp_buffer_free(&file);
    return any;
}

static bool put_tracebacks(struct work *work, yajl_val value)
{
    if (YAJL_IS_STRING(value)) return put_traceback(work, YAJL_GET_STRING(value));
    if (!YAJL_IS_ARRAY(value)) return false;
    mp_buffer_append_text(work->out, "[");
    for (size_t i = 0, count = 0; i < YAJL_GET_ARRAY(value)->len; i++) {
        yajl_val item = YAJL_GET_ARRAY(value)->values[i];
        size_t before = work->out->size;
        if (count) mp_buffer_append_text(work->out, ",");
        bool kept = YAJL_IS_STRING(item) && put_traceback(work, YAJL_GET_STRING(item));
        if (!kept) work->out->size = before;
        if (!kept) work->dropped++;
        count += kept;
    }
    mp_buffer_append_text(work->out, "]");
    return true;
}

/* As it was written: what a name is of is told by it. */
static void put_plain(struct mp_buffer *out, yajl_val value)
{
    if (YAJL_IS_STRING(value)) {
        mp_json_quote(out, value->u.string, strlen(value->u.string));
    } else if (YAJL_IS_ARRAY(value)) {
        mp_buffer_append_text(out, "[");
        for (size_t i = 0; i < YAJL_GET_ARRAY(value)->len; i++) {
            if (i) mp_buffer_append_text(out, ",");
            put_plain(out, YAJL_GET_ARRAY(value)->values[i]);
        }
        mp_buffer_append_text(out, "]");
    } else if (YAJL_IS_OBJECT(value)) {
        mp_buffer_append_text(out, "{");
        for (size_t i = 0; i < YAJL_GET_OBJECT(value)->len; i++) {
            const char *key = YAJL_GET_OBJECT(value)->keys[i];
            if (i) mp_buffer_append_text(out, ",");
            mp_json_quote(out, key, strlen(key));
            mp_buffer_append_text(out, ":");
            put_plain(out, YAJL_GET_OBJECT(value)->values[i]);
        }
        mp_buffer_append_text(out, "}");
    } else {
        struct work work = {.out = out};
        put_numbers(&work, value);
    }
}

static bool put_named(struct work *work, enum mp_named what, yajl_val value)
{
    if (what == MP_NAMED_FUNCTION && work->is_annotation) what = MP_NAMED_REGION;
    if (YAJL_IS_STRING(value)) {
        const char *text = value->u.string;
        bool is_unknown = !*text || !strcmp(text, "??");
        if (is_unknown)
            put_text(work, text);
        else
            put_name(work, what, text, work->file);
        return true;
    }
    if (what != MP_NAMED_METADATA || (!YAJL_IS_OBJECT(value) && !YAJL_IS_ARRAY(value))) return false;
    struct mp_buffer text = {0};
    put_plain(&text, value);
    mp_buffer_append(&text, "", 1);
    put_name(work, what, (const char *)text.data, NULL);
    mp_buffer_free(&text);
    return true;
}

static void put_members(struct work *work, yajl_val object, bool are_settings);

static bool put_by_rule(struct work *work, size_t rule, yajl_val value)
{
    const char *text = YAJL_GET_STRING(value);
    switch (rules[rule].rule) {
    case RULE_WORD:
        if (!text || !is_in(text, strlen(text), words, COUNT(words))) return false;
        put_text(work, text);
        return true;
    case RULE_PLACE:
        if (!text || text[strspn(text, "0123456789/_-")]) return false;
        put_text(work, text);
        return true;
    case RULE_TRACEBACK:
        return put_tracebacks(work, value);
    case RULE_NAME:
        return put_named(work, rules[rule].named, value);
    case RULE_SETTINGS: {
        struct mp_buffer kept = {0};
        if (text) mp_settings_anonymize(text, &kept);
        if (text) mp_json_quote(work->out, (const char *)kept.data, kept.size);
        mp_buffer_free(&kept);
        return text;
    }
    case RULE_MEMBERS:
        if (!YAJL_IS_OBJECT(value)) return false;
        put_members(work, value, true);
        return true;
    default:
        return false;
    }
}

static bool put_value(struct work *work, const char *key, yajl_val value, bool is_setting)
{
    size_t length = strlen(key);
    if (is_setting ? is_in(key, length, settings_known, COUNT(settings_known))
                   : is_in(key, length, numbers, COUNT(numbers)))
        return put_numbers(work, value);
    for (size_t rule = 0; rule < COUNT(rules); rule++)
        if (!strcmp(rules[rule].key, key)) return put_by_rule(work, rule, value);
    return false;
}

static void put_members(struct work *work, yajl_val object, bool are_settings)
{
    bool any = false;
    mp_buffer_append_text(work->out, "{");
    for (size_t i = 0; i < YAJL_GET_OBJECT(object)->len; i++) {
        const char *key = YAJL_GET_OBJECT(object)->keys[i];
        size_t before = work->out->size;
        mp_buffer_printf(work->out, "%s\"%.64s\":", any ? "," : "", key);
        bool kept = put_value(work, key, YAJL_GET_OBJECT(object)->values[i], are_settings);
        if (!kept) work->out->size = before;
        work->dropped += !kept;
        any |= kept;
    }
    mp_buffer_append_text(work->out, "}");
}

#define DEPTH_MOST 64 /* nothing that PyTorch writes comes near; freeing what was parsed recurses */

static bool is_too_deep(const char *object)
{
    unsigned depth = 0;
    bool quoted = false;
    for (; *object; object++) {
        if (quoted && *object == '\\' && object[1])
            object++;
        else if (*object == '"')
            quoted = !quoted;
        else if (!quoted && (*object == '{' || *object == '['))
            depth++;
        else if (!quoted && depth && (*object == '}' || *object == ']'))
            depth--;
        if (depth > DEPTH_MOST) return true;
    }
    return false;
}

void mp_more_anonymize(const char *object, bool is_annotation, mp_rename *rename, void *context, struct mp_buffer *out,
                       uint64_t *dropped)
{
    size_t before = out->size;
    yajl_val tree = is_too_deep(object) ? NULL : yajl_tree_parse(object, NULL, 0);
    if (!YAJL_IS_OBJECT(tree)) {
        *dropped += *object != '\0';
        yajl_tree_free(tree);
        return;
    }
    struct work work = {.rename = rename, .context = context, .out = out, .is_annotation = is_annotation};
    for (size_t i = 0; i < YAJL_GET_OBJECT(tree)->len; i++)
        if (!strcmp(YAJL_GET_OBJECT(tree)->keys[i], "filename"))
            work.file = YAJL_GET_STRING(YAJL_GET_OBJECT(tree)->values[i]);
    put_members(&work, tree, false);
    if (out->size == before + 2) out->size = before;
    *dropped += work.dropped;
    yajl_tree_free(tree);
}

/* "1", "0.5", "True", "[256:1,>:8]": what settings are set to. */
static bool is_plain_value(const char *text, size_t length)
{
    static const char *const truths[] = {"true", "false", "True", "False"};
    return (length && strspn(text, "0123456789.,:>[]-") >= length) || is_in(text, length, truths, COUNT(truths));
}

void mp_settings_anonymize(const char *settings, struct mp_buffer *out)
{
    size_t before = out->size;
    while (*settings) {
        size_t key = strcspn(settings, ":=,"), end = key;
        for (unsigned depth = 0; settings[end] && (settings[end] != ',' || depth); end++) {
            depth += settings[end] == '[';
            depth -= settings[end] == ']' && depth;
        }
        if (end > key && is_in(settings, key, settings_known, COUNT(settings_known)) &&
            is_plain_value(settings + key + 1, end - key - 1))
            mp_buffer_printf(out, "%s%.*s", out->size > before ? "," : "", (int)end, settings);
        settings += end + (settings[end] == ',');
    }
}
