#include "exchange/common/anonymize.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/device/samples.h"
#include "base/buffer.h"
#include "base/map.h"
#include "base/memory.h"
#include "base/sampling.h"
#include "base/setting.h"
#include "base/step_function.h"
#include "base/step_rule.h"
#include "exchange/common/public_names.h"
#include "model/stack.h"

#define STEP_FUNCTION "step_function"

/* The use of a string. A text with two uses gets two names. */
enum role {
    ROLE_KEPT,
    ROLE_FUNCTION,
    ROLE_FILE,
    ROLE_LIBRARY,
    ROLE_REGION,
    ROLE_POOL,
    ROLE_THREAD,
    ROLE_NOTE,
    ROLE_MODULE,
    ROLE_PATH,
    ROLE_METADATA,
    ROLE_OPERATOR,
    ROLE_SHAPE,
    ROLE_DEVICE,
    ROLE_MODEL,
    ROLE_WORDS, /* memprof's own words: names of tracks and counters, and the end of the process */
    ROLE_COUNTER,
    ROLES
};

struct renaming {
    struct mp_model *model;
    struct mp_intern to;
    struct mp_map known; /* role and old id + 1 to new id */
    uint32_t count[ROLES];
    struct mp_intern parts; /* parts of modules' paths; the id of a part is the number in its new name */
    struct mp_intern said;  /* texts about blocks and graphs' nodes; numbered in the same way */
    struct mp_step_rule steps;
    bool by_pattern; /* the user gave a pattern for steps, and the pattern may contain names */
};

static uint32_t intern(struct renaming *renaming, const char *text)
{
    return mp_intern_add_text(&renaming->to, text);
}

static bool is_in(const char *text, size_t length, const char *const *list, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strlen(list[i]) == length && !memcmp(list[i], text, length)) return true;
    return false;
}

/* "1", "0.5", "True", "[256:1,>:8]". */
static bool is_plain_value(const char *text, size_t length)
{
    static const char *const truths[] = {"true", "false", "True", "False"};
    return (length && strspn(text, "0123456789.,:>[]-G") >= length) ||
           is_in(text, length, truths, sizeof truths / sizeof *truths);
}

/* Appends the settings that PyTorch's allocator knows, if their values are numbers, true or false. The form of
 * `settings` is key=value,... or that of PYTORCH_CUDA_ALLOC_CONF. */
static void rename_settings(const char *settings, struct mp_buffer *out)
{
    static const char *const known[] = {"max_split_size",
                                        "max_split_size_mb",
                                        "garbage_collection_threshold",
                                        "expandable_segments",
                                        "expandable_segments_reserve",
                                        "roundup_power2_divisions",
                                        "roundup_bypass_threshold_mb",
                                        "release_lock_on_cudamalloc",
                                        "release_lock_on_hipmalloc",
                                        "pinned_num_register_threads",
                                        "pinned_use_cuda_host_register",
                                        "pinned_use_hip_host_register",
                                        "pinned_use_background_threads",
                                        "pinned_reserve_segment_size_mb",
                                        "pinned_max_cached_size_mb",
                                        "pinned_max_round_threshold_mb",
                                        "pinned_free_catch_all",
                                        "graph_capture_record_stream_reuse",
                                        "per_process_memory_fraction",
                                        "max_non_split_rounding_mb",
                                        "max_non_split_rounding_size",
                                        "large_segment_size_mb",
                                        "trace_alloc_max_entries",
                                        "trace_alloc_overflowed",
                                        "per_allocation_history"};
    size_t before = out->size;
    while (*settings) {
        size_t key = strcspn(settings, ":=,"), end = key;
        for (unsigned depth = 0; settings[end] && (settings[end] != ',' || depth); end++) {
            depth += settings[end] == '[';
            depth -= settings[end] == ']' && depth;
        }
        if (end > key && is_in(settings, key, known, sizeof known / sizeof *known) &&
            is_plain_value(settings + key + 1, end - key - 1))
            mp_buffer_printf(out, "%s%.*s", out->size > before ? "," : "", (int)end, settings);
        settings += end + (settings[end] == ',');
    }
}

/* Interns the buffer's text and frees the buffer. Returns the id. */
static uint32_t intern_buffer(struct renaming *renaming, struct mp_buffer *text)
{
    uint32_t id = intern(renaming, mp_buffer_text(text));
    mp_buffer_free(text);
    return id;
}

static uint32_t numbered(struct renaming *renaming, enum role role, const char *format, const char *ending)
{
    char text[64];
    snprintf(text, sizeof text, format, ++renaming->count[role], ending);
    return intern(renaming, text);
}

/* The ending of a file's name, such as ".py" or ".cpp"; "" if it has none. */
static const char *ending_of(const char *path)
{
    const char *dot = strrchr(path, '.');
    size_t length = dot ? strlen(dot) : 0;
    if (length < 2 || length > 5) return "";
    for (const char *at = dot + 1; *at; at++)
        if (!isalnum((unsigned char)*at)) return "";
    return dot;
}

static uint32_t rename_file(struct renaming *renaming, const char *path)
{
    const char *kept = mp_public_path(path);
    if (kept) return intern(renaming, kept);
    /* The owner of the code must stay visible: the user or a package. */
    bool is_package =
        strstr(path, "/site-packages/") || strstr(path, "/dist-packages/") || strstr(path, "\\site-packages\\");
    return numbered(renaming, ROLE_FILE, is_package ? "/site-packages/%u%s" : "/%u%s", ending_of(path));
}

/* True if a name is a beginning and a number. */
static bool is_numbered(const char *name, const char *beginning)
{
    size_t length = strlen(beginning);
    return !strncmp(name, beginning, length) && strlen(name) < 32 &&
           strspn(name + length, " _#-0123456789") == strlen(name + length);
}

/* True if a mark of the PyTorch shim (python/libmemprof_torch/pools.py, loaders.py) consists only of the shim's words
 * and numbers, such as "capture begins on cuda:0". */
static bool is_shims_mark(const char *text)
{
    static const char *const words[] = {"empty_cache", "pool",     "made",    "begins",    "ends",   "released",
                                        "deleted",     "captured", "capture", "fails",     "memory", "fraction",
                                        "on",          "none",     "ahead",   "DataLoader"};
    for (size_t length; *text; text += length + (text[length] == ' ')) {
        length = strcspn(text, " ");
        size_t device = strncmp(text, "cuda:", strlen("cuda:")) ? 0 : strlen("cuda:");
        bool known = length && strspn(text + device, "0123456789.:e+-") >= length - device;
        for (size_t i = 0; !known && i < sizeof words / sizeof *words; i++)
            known = strlen(words[i]) == length && !strncmp(text, words[i], length);
        if (!known) return false;
    }
    return true;
}

/* The anonymous text of a mark that replays and predictions need. Settings in it keep their public part. 0: the mark is
 * of another kind. */
static uint32_t rename_mark(struct renaming *renaming, const char *name)
{
    static const char *const settings[] = {MP_TORCH_MARK "settings:", MP_TORCH_MARK "began with settings:"};
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) {
        if (strncmp(name, settings[i], strlen(settings[i])) != 0) continue;
        struct mp_buffer text = {0};
        mp_buffer_append_text(&text, settings[i]);
        rename_settings(name + strlen(settings[i]), &text);
        return intern_buffer(renaming, &text);
    }
    bool is_mark = !strncmp(name, MP_TORCH_MARK, strlen(MP_TORCH_MARK));
    return is_mark && is_shims_mark(name + strlen(MP_TORCH_MARK)) ? intern(renaming, name) : 0;
}

static uint32_t rename_region(struct renaming *renaming, const char *name)
{
    if (!strcmp(name, MP_TORCH_STEP)) return intern(renaming, name);
    uint32_t mark = rename_mark(renaming, name);
    if (mark) return mark;
    if (*renaming->steps.function && !strcmp(name, renaming->steps.function)) return intern(renaming, STEP_FUNCTION);
    if (*renaming->steps.function && mp_step_function_means(renaming->steps.function, name))
        return numbered(renaming, ROLE_FILE, mp_is_library_file(name) ? "/site-packages/%u%s" : "/%u%s",
                        ":" STEP_FUNCTION);
    bool is_step = mp_step_rule_matches(&renaming->steps, name);
    if (is_step && renaming->by_pattern) return intern(renaming, "step");
    if (is_step && (is_numbered(name, "ProfilerStep#") || is_numbered(name, "step"))) return intern(renaming, name);
    return is_step ? numbered(renaming, ROLE_REGION, "step %u%s", "")
                   : numbered(renaming, ROLE_REGION, "region %u%s", "");
}

/* "Net#2.blocks.3.attn.weight" becomes "m1#2.m2.3.m3.weight": common parts of paths stay recognisable, and PyTorch's
 * own words stay. */
static uint32_t rename_module(struct renaming *renaming, const char *path)
{
    struct mp_buffer text = {0};
    for (const char *at = path;; at++) {
        size_t length = strcspn(at, ".#"), number = strspn(at, "0123456789");
        uint32_t id = mp_intern_add(&renaming->parts, at, length);
        if (number >= length || mp_public_tensor(at, length))
            mp_buffer_append(&text, at, length);
        else
            mp_buffer_printf(&text, "m%u", id);
        at += length;
        if (!*at) break;
        mp_buffer_append(&text, at, 1);
    }
    return intern_buffer(renaming, &text);
}

/* PyTorch's own texts about a block are public; equal texts stay equal. */
static uint32_t rename_metadata(struct renaming *renaming, const char *said)
{
    char text[32];
    if (!*said || !strcmp(said, "mallocWithAddress")) return intern(renaming, said);
    snprintf(text, sizeof text, "metadata %u", mp_intern_add_text(&renaming->said, said));
    return intern(renaming, text);
}

static uint32_t rename_library(struct renaming *renaming, const char *path)
{
    char text[128];
    const char *kept = mp_public_library(path);
    if (!kept) return numbered(renaming, ROLE_LIBRARY, "/lib/lib%u.so%s", "");
    snprintf(text, sizeof text, "/lib/%s", kept);
    return intern(renaming, text);
}

static uint32_t rename_note(struct renaming *renaming, const char *note)
{
    return intern(renaming, mp_public_words(note) ? note : "a note was left out: it may hold a name");
}

/* Words of Python and of memprof in a holder's path. */
static bool is_path_word(const char *word, size_t length)
{
    static const char *const words[] = {
        "grad_fn", "grad",      "native",        "code",     "not",           "found",     "a",
        "cycle",   "of",        "that",          "gc",       "has",           "yet",       "keys",
        "args",    "collected", "saved_tensors", "__self__", "__traceback__", "__cause__", "__context__"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strlen(words[i]) == length && !memcmp(words[i], word, length)) return true;
    return false;
}

/* A holder's path keeps its form ("m1.m2[*].grad_fn → m3.m4"), but no keys of containers. The first `kept` bytes stay
 * as they are. */
static uint32_t rename_path(struct renaming *renaming, const char *path, size_t kept)
{
    static const char arrow[] = "→", dots[] = "…";
    struct mp_buffer text = {0};
    mp_buffer_append(&text, path, kept);
    path += kept;
    for (const char *at = path; *at;) {
        size_t length = 0, mark = !strncmp(at, arrow, strlen(arrow)) ? strlen(arrow)
                                  : !strncmp(at, dots, strlen(dots)) ? strlen(dots)
                                                                     : 0;
        while (!mark && (isalnum((unsigned char)at[length]) || at[length] == '_' || (at[length] & 0x80)) &&
               strncmp(at + length, arrow, strlen(arrow)) != 0 && strncmp(at + length, dots, strlen(dots)) != 0)
            length++;
        if (length && (is_path_word(at, length) || mp_public_tensor(at, length)))
            mp_buffer_append(&text, at, length);
        else if (length)
            mp_buffer_printf(&text, "m%u", mp_intern_add(&renaming->parts, at, length));
        else if (*at == '[')
            mp_buffer_append(&text, "[*", 2), length = at[1] && strchr(at, ']') ? strcspn(at, "]") : 1;
        else
            mp_buffer_append(&text, at, length = mark ? mark : 1);
        at += length;
    }
    return intern_buffer(renaming, &text);
}

/* "cuda:0/process": the device's name, and one of memprof's words. "python/objects/CLASS", "python/entries/PATH",
 * "python/KiB/PATH": numbers of the census, known by their begin. */
static uint32_t rename_counter(struct renaming *renaming, const char *name)
{
    char device[64];
    const char *slash = strchr(name, '/'), *second = slash ? strchr(slash + 1, '/') : NULL;
    if (second && !strncmp(name, MP_CENSUS, sizeof MP_CENSUS - 1))
        return rename_path(renaming, name, (size_t)(second + 1 - name));
    size_t length = slash ? (size_t)(slash - name) : 0;
    bool is_known = slash && length < sizeof device && mp_public_words(slash + 1);
    snprintf(device, sizeof device, "%.*s", is_known ? (int)length : 0, name);
    return is_known && mp_public_device(device) ? intern(renaming, name)
                                                : numbered(renaming, ROLE_COUNTER, "counter%u%s", "");
}

/* The new id of an old one. The caller decides which functions are public, and gives them ROLE_KEPT. */
static uint32_t new_name(struct renaming *renaming, enum role role, uint32_t old)
{
    if (!old) return 0;
    bool fresh;
    uint64_t *known = mp_map_at(&renaming->known, (uint64_t)role << 32 | old, &fresh);
    if (!fresh) return (uint32_t)*known;
    const char *text = mp_model_text(renaming->model, old);
    switch (role) {
    case ROLE_FUNCTION:
        return (uint32_t)(*known = numbered(renaming, role, "f%u%s", ""));
    case ROLE_FILE:
        return (uint32_t)(*known = rename_file(renaming, text));
    case ROLE_LIBRARY:
        return (uint32_t)(*known = rename_library(renaming, text));
    case ROLE_REGION:
        return (uint32_t)(*known = rename_region(renaming, text));
    case ROLE_POOL:
        return (uint32_t)(*known = numbered(renaming, role, "pool%u%s", ""));
    case ROLE_THREAD:
        return (uint32_t)(*known = mp_public_thread(text) ? intern(renaming, text)
                                                          : numbered(renaming, role, "thread%u%s", ""));
    case ROLE_NOTE:
        return (uint32_t)(*known = rename_note(renaming, text));
    case ROLE_PATH:
        return (uint32_t)(*known = rename_path(renaming, text, 0));
    case ROLE_METADATA:
        return (uint32_t)(*known = rename_metadata(renaming, text));
    case ROLE_MODULE:
        return (uint32_t)(*known = rename_module(renaming, text));
    case ROLE_OPERATOR:
        return (uint32_t)(*known = mp_public_operator(text) ? intern(renaming, text)
                                                            : numbered(renaming, ROLE_OPERATOR, "operator%u%s", ""));
    case ROLE_SHAPE:
        return (uint32_t)(*known = mp_public_shape(text) ? intern(renaming, text) : 0);
    case ROLE_DEVICE:
        return (uint32_t)(*known = mp_public_device(text) ? intern(renaming, text)
                                                          : numbered(renaming, role, "device:%u%s", ""));
    case ROLE_MODEL:
        return (uint32_t)(*known = mp_public_model(text) ? intern(renaming, text) : 0);
    case ROLE_WORDS:
        return (uint32_t)(*known = mp_public_words(text) ? intern(renaming, text)
                                                         : numbered(renaming, role, "name%u%s", ""));
    case ROLE_COUNTER:
        return (uint32_t)(*known = rename_counter(renaming, text));
    default:
        return (uint32_t)(*known = intern(renaming, text));
    }
}

/* A Python function is public if its file and its name are public. A native function is public if its library is. */
static bool is_public(const struct mp_model *model, const struct mp_frame *frame, const char *function,
                      const char *path)
{
    if (frame->language == MP_BACKWARD) return !strcmp(function, "backward of") || !strcmp(function, "autograd thread");
    if (frame->language == MP_PYTHON)
        return mp_public_python(function) && (*function == '<' || (mp_public_path(path) && *path != '<') ||
                                              !strncmp(path, "<frozen ", strlen("<frozen ")));
    return frame->module && mp_public_library(mp_model_text(model, model->modules.at[frame->module].path));
}

/* The public name of a function of autograd's engine, without its types; NULL for others. Other programs' files name no
 * libraries, and backward is recognised in them only by these functions. */
static const char *engine_function(const struct mp_frame *frame, const char *function)
{
    static const char *const known[] = {"torch::autograd::Engine::evaluate_function",
                                        "torch::autograd::Engine::thread_main",
                                        "torch::autograd::Engine::thread_init",
                                        "torch::autograd::Engine::execute",
                                        "torch::autograd::python::PythonEngine::thread_init",
                                        "torch::autograd::python::PythonEngine::execute"};
    size_t length = strcspn(function, "(");
    for (size_t i = 0; frame->language == MP_NATIVE && i < sizeof known / sizeof *known; i++)
        if (strlen(known[i]) == length && !memcmp(known[i], function, length)) return known[i];
    return NULL;
}

static uint32_t rename_function(struct renaming *renaming, const struct mp_frame *frame, uint32_t function,
                                uint32_t file)
{
    const struct mp_model *model = renaming->model;
    const char *name = mp_model_text(model, function);
    bool kept = is_public(model, frame, name, mp_model_text(model, file));
    const char *engine = kept ? NULL : engine_function(frame, name);
    return engine ? intern(renaming, engine) : new_name(renaming, kept ? ROLE_KEPT : ROLE_FUNCTION, function);
}

/* Renames a node of a graph: PyTorch's word for its kind stays; its name and its target become numbers. */
static uint32_t rename_node(struct renaming *renaming, uint32_t node)
{
    static const char *const kinds[] = {"placeholder", "get_attr", "call_function", "call_module",
                                        "call_method", "output",   "root"};
    struct mp_buffer out = {0}, part = {0};
    for (unsigned i = 0; node && i < MP_GRAPH_NODE_PARTS; i++) {
        mp_buffer_clear(&part);
        if (!mp_graph_node_part(renaming->model, node, i, &part)) continue;
        const char *text = (const char *)part.data;
        bool is_kind = i == MP_GRAPH_NODE_OP;
        if (is_kind && !is_in(text, part.size, kinds, sizeof kinds / sizeof *kinds)) continue;
        mp_buffer_printf(&out, "%s\"%s\":", out.size ? "," : "{", mp_graph_node_keys[i]);
        if (is_kind)
            mp_buffer_printf(&out, "\"%.*s\"", (int)part.size, text);
        else
            mp_buffer_printf(&out, "\"node %u\"", mp_intern_add(&renaming->said, text, part.size));
    }
    mp_buffer_free(&part);
    if (out.size) mp_buffer_append_text(&out, "}");
    return intern_buffer(renaming, &out);
}

static void rename_stacks(struct renaming *renaming)
{
    struct mp_model *model = renaming->model;
    mp_vec_each (struct mp_model_frame, frame, &model->frames) {
        for (uint32_t k = 0; k < frame->line_count; k++) {
            struct mp_model_line *line = &model->lines.at[frame->first_line + k];
            uint32_t function = rename_function(renaming, &frame->raw, line->function, line->file);
            line->file = new_name(renaming, ROLE_FILE, line->file);
            line->function = function;
        }
        uint32_t function = rename_function(renaming, &frame->raw, frame->raw.function, frame->raw.file);
        frame->raw.file = new_name(renaming, ROLE_FILE, frame->raw.file);
        frame->raw.function = function;
        frame->raw.more = rename_node(renaming, frame->raw.more);
    }
    for (size_t i = 1; i < model->modules.count; i++) {
        struct mp_module *module = &model->modules.at[i];
        if (!mp_public_library(mp_model_text(model, module->path))) module->file = (struct mp_file_id){0};
        module->path = new_name(renaming, ROLE_LIBRARY, module->path);
    }
}

static void rename_tables(struct renaming *renaming)
{
    struct mp_model *model = renaming->model;
    mp_vec_each (struct mp_device, device, &model->devices) {
        device->name = new_name(renaming, ROLE_DEVICE, device->name);
        device->model = new_name(renaming, ROLE_MODEL, device->model);
        device->uuid = 0;
    }
    for (size_t i = 0; i < model->tracks.count; i++)
        model->tracks.at[i].name = new_name(
            renaming, model->tracks.at[i].layer == MP_LAYER_APP ? ROLE_POOL : ROLE_WORDS, model->tracks.at[i].name);
    for (size_t i = 0; i < model->threads.count; i++)
        model->threads.at[i].name = new_name(renaming, ROLE_THREAD, model->threads.at[i].name);
    for (size_t i = 0; i < model->notes.count; i++) {
        bool of_module = model->events.type[model->noted.at[i]] == MP_EVENT_OOM;
        uint32_t *name = &model->notes.at[i].name;
        *name = new_name(renaming, of_module ? ROLE_MODULE : ROLE_REGION, *name);
    }
    for (size_t i = 0; i < model->samples.count; i++)
        model->samples.at[i].counter = new_name(renaming, ROLE_COUNTER, model->samples.at[i].counter);
}

static void rename_asides(struct renaming *renaming)
{
    struct mp_model *model = renaming->model;
    for (size_t i = 0; i < model->asides.count; i++) {
        struct mp_buffer settings = {0};
        rename_settings(mp_model_text(model, model->asides.at[i].text), &settings);
        model->asides.at[i].text = intern_buffer(renaming, &settings);
    }
}

static void rename_blocks(struct renaming *renaming)
{
    struct mp_model *model = renaming->model;
    for (size_t i = 0; model->blocks.module && i < model->blocks.count; i++)
        model->blocks.module[i] = new_name(renaming, ROLE_MODULE, model->blocks.module[i]);
    for (size_t i = 0; i < model->labels.count; i++)
        model->labels.at[i].name = new_name(renaming, ROLE_MODULE, model->labels.at[i].name);
    for (size_t i = 0; i < model->holders.count; i++) {
        model->holders.at[i].path = new_name(renaming, ROLE_PATH, model->holders.at[i].path);
        model->holders.at[i].file = new_name(renaming, ROLE_FILE, model->holders.at[i].file);
    }
    for (size_t i = 0; i < model->looks.count; i++)
        model->looks.at[i].note = 0;
    for (size_t i = 0; i < model->metadata.count; i++)
        model->metadata.at[i].text = new_name(renaming, ROLE_METADATA, model->metadata.at[i].text);
    mp_vec_each (struct mp_model_use, use, &model->uses) {
        use->operator= new_name(renaming, ROLE_OPERATOR, use->operator);
        use->node = new_name(renaming, ROLE_OPERATOR, use->node);
        use->shape = new_name(renaming, ROLE_SHAPE, use->shape);
        use->module = new_name(renaming, ROLE_MODULE, use->module);
    }
    for (size_t i = 0; i < model->past_sites.count; i++)
        model->past_sites.at[i].module = new_name(renaming, ROLE_MODULE, model->past_sites.at[i].module);
}

static void rename_ids(struct renaming *renaming, enum role role, uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        ids[i] = new_name(renaming, role, ids[i]);
}

/* Appends the settings whose values are numbers. One setting with a word stays: live_source, which says where the steps
 * come from. */
static void put_numbers(struct mp_buffer *to, const char *configuration)
{
    static const char source[] = "live_source";
    static const char *const sources[] = {"inferred", "function", "torch"};
    char value[16];
    for (const char *at = configuration; *at;) {
        size_t length = strcspn(at, ";"), key = strcspn(at, "=;"), letters = strspn(at, "abcdefghijklmnopqrstuvwxyz_");
        bool is_number = key < length && key == letters && length - key - 1 < 21 && length > key + 1 &&
                         strspn(at + key + 1, "0123456789") == length - key - 1 && mp_public_setting(at, key);
        if (is_number) mp_buffer_printf(to, "%.*s;", (int)length, at);
        at += length + (at[length] == ';');
    }
    mp_setting(value, sizeof value, configuration, source);
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++)
        if (!strcmp(value, sources[i])) mp_buffer_printf(to, "%s=%s;", source, value);
}

static void rename_start(struct renaming *renaming)
{
    static const char *const no_command[] = {NULL};
    struct mp_recording_start *start = &renaming->model->start;
    start->host = start->spool = "";
    start->command = no_command;
    if (!mp_public_role(start->member.role)) mp_member_text(start->member.role, "role 1", strlen("role 1"));
    *start->member.job = '\0';
    start->spool_id = 0;
    struct mp_buffer text = {0};
    put_numbers(&text, start->configuration);
    if (!strchr(start->configuration, ';')) rename_settings(start->configuration, &text);
    if (renaming->by_pattern) mp_buffer_append_text(&text, "step_range=^step;");
    if (*renaming->steps.function) mp_buffer_append_text(&text, "step_at=" STEP_FUNCTION ";");
    uint32_t id = intern(renaming, mp_buffer_text(&text));
    mp_buffer_free(&text);
    start->configuration = mp_intern_get(&renaming->to, id, NULL);
}

enum mp_status mp_anonymize(struct mp_model *model, struct mp_error *error)
{
    struct renaming renaming = {.model = model};
    mp_step_rule_open_configured(&renaming.steps, model->start.configuration);
    renaming.by_pattern = renaming.steps.has_pattern;
    intern(&renaming, "");
    mp_intern_add_text(&renaming.parts, ""); /* numbers begin at 1 */
    mp_intern_add_text(&renaming.said, "");
    rename_stacks(&renaming);
    rename_tables(&renaming);
    rename_blocks(&renaming);
    rename_asides(&renaming);
    struct mp_coverage *coverage = &model->coverage;
    rename_ids(&renaming, ROLE_WORDS, coverage->sources, coverage->source_count);
    rename_ids(&renaming, ROLE_NOTE, coverage->notes, coverage->note_count);
    rename_ids(&renaming, ROLE_NOTE, coverage->limits, coverage->limit_count);
    model->how.text = new_name(&renaming, ROLE_WORDS, model->how.text);
    rename_start(&renaming);
    mp_step_rule_close(&renaming.steps);
    mp_map_free(&renaming.known);
    mp_intern_free(&renaming.parts);
    mp_intern_free(&renaming.said);
    mp_intern_free(&model->strings);
    model->strings = renaming.to;
    return MP_OK;
}
