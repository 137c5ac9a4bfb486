#include "model/stack.h"

#include <string.h>

#include "base/json.h"
#include "base/pattern.h"
#include "base/step_function.h"
#include "model/stack_facts.h"

static const char *text_or_null(const struct mp_model *model, uint32_t id)
{
    return id ? mp_model_text(model, id) : NULL;
}

/* Names in angle brackets are generated code (<frozen importlib>, <eval_with_key>), except for interactive input and
 * functions that cloudpickle sent to a worker.
 * PyTorch's profiler leaves out a package's folder, so torch is recognised by its name. */
bool mp_stack_is_user_file(const char *file)
{
    static const char *const typed[] = {"<string>", "<stdin>", "<ipython", "<dynamic-code>"};
    for (size_t i = 0; *file == '<' && i < sizeof typed / sizeof *typed; i++)
        if (!strncmp(file, typed[i], strlen(typed[i]))) return true;
    return *file != '<' && !mp_is_library_file(file) && !mp_torch_is_short_path(file);
}

static bool is_skipped(const struct mp_model *model, uint32_t text)
{
    return text && text < model->skipped.count && model->skipped.at[text];
}

static void push_frame(const struct mp_model *model, const struct mp_model_frame *frame, bool backward,
                       struct mp_stack_lines *lines)
{
    bool native = frame->raw.language == MP_NATIVE;
    uint32_t module = frame->raw.module;
    struct mp_stack_line line = {
        .module = native && module ? text_or_null(model, model->modules.at[module].path) : NULL,
        .address = native ? frame->raw.address : 0,
        .more = frame->raw.more,
        .language = frame->raw.language,
        .backward = backward,
    };
    bool skipped = line.module && is_skipped(model, model->modules.at[module].path);
    line.skipped = skipped;
    if (!frame->line_count) {
        mp_vec_add(lines, line);
        return;
    }
    for (uint32_t i = 0; i < frame->line_count; i++) {
        const struct mp_model_line *from = &model->lines.at[frame->first_line + i];
        line.function = text_or_null(model, from->function);
        line.file = text_or_null(model, from->file);
        line.line = from->line;
        line.skipped = skipped || is_skipped(model, from->function) || is_skipped(model, from->file);
        line.user = !native && !line.skipped && line.file && mp_stack_is_user_file(line.file);
        mp_vec_add(lines, line);
    }
}

/* multiprocessing begins a process with a line of its own, as in `python -c`. The line is not the user's. */
static void take_back_launcher(struct mp_stack_lines *lines)
{
    const char *inner = NULL; /* the file of the previous Python line, further in */
    mp_vec_each (struct mp_stack_line, line, lines) {
        if (line->language != MP_PYTHON || !line->file) continue;
        if (line->user && *line->file == '<' && inner && strstr(inner, "/multiprocessing/")) line->user = false;
        inner = line->file;
    }
}

void mp_stack_resolve(const struct mp_model *model, uint32_t stack, struct mp_stack_lines *lines)
{
    bool backward = false;
    lines->count = 0;
    for (; stack && stack < model->stacks.count; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        struct mp_stack_line cut = {.cut = true, .backward = backward};
        if (frame == MP_FRAME_CUT)
            mp_vec_add(lines, cut);
        else
            push_frame(model, &model->frames.at[frame], backward, lines);
        backward |= frame != MP_FRAME_CUT && model->frames.at[frame].raw.language == MP_BACKWARD;
    }
    take_back_launcher(lines);
}

void mp_stack_resolve_frame(const struct mp_model *model, uint32_t frame, struct mp_stack_lines *lines)
{
    lines->count = 0;
    push_frame(model, &model->frames.at[frame], false, lines);
}

const char *mp_path_short(const char *path)
{
    const char *last = strrchr(path, '/');
    if (!last && *path && !strncmp(path + 1, ":\\", 2)) return strrchr(path, '\\') + 1; /* a path of Windows */
    if (!last || last == path) return last ? last + 1 : path;
    if (strcmp(last, "/__init__.py") && strcmp(last, "/__main__.py")) return last + 1;
    const char *before = memrchr(path, '/', (size_t)(last - path));
    return before ? before + 1 : path;
}

bool mp_stack_is_allocator(const struct mp_stack_line *line)
{
    static const char *const modules[] = {"libmemprof", "libc10",     "libc.so",   "libc-2",
                                          "libstdc++",  "libcuda.so", "libcudart", "libcupti"};
    static const char own[] = "memprof_";
    if (line->language != MP_NATIVE) return false;
    if (line->skipped) return true;
    if (line->function && (!strncmp(line->function, own, strlen(own)) || mp_torch_serves_allocation(line->function)))
        return true;
    if (!line->module) return false;
    const char *name = mp_path_short(line->module);
    for (size_t i = 0; i < sizeof modules / sizeof *modules; i++)
        if (!strncmp(name, modules[i], strlen(modules[i]))) return true;
    return false;
}

/* True for the operator whose gradient is computed. A thread of backward() has no Python frames, so this line says
 * most. */
static bool is_backward(const struct mp_stack_line *line)
{
    return line->language == MP_NATIVE && line->function && mp_torch_makes_gradient(line->function);
}

const struct mp_stack_line *mp_stack_headline(const struct mp_stack_lines *lines)
{
    const struct mp_stack_line *python = NULL, *native = NULL, *backward = NULL, *any = NULL;
    mp_vec_each (const struct mp_stack_line, line, lines) {
        if (line->user) return line;
        if (line->cut) continue;
        if (!any) any = line;
        if (!python && line->language == MP_PYTHON && !line->skipped) python = line;
        if (!backward && is_backward(line)) backward = line;
        if (!native && line->language == MP_NATIVE && line->function && !mp_stack_is_allocator(line)) native = line;
    }
    return python ? python : backward ? backward : native ? native : any;
}

const char *mp_stack_interpreter(const struct mp_stack_lines *lines)
{
    for (size_t i = 0; i + 1 < lines->count; i++)
        if (lines->at[i].language == MP_PYTHON && lines->at[i + 1].language == MP_NATIVE && lines->at[i + 1].module)
            return lines->at[i + 1].module;
    return NULL;
}

const char *mp_stack_library(const struct mp_stack_lines *lines)
{
    for (size_t i = 0; i < lines->count; i++)
        if (lines->at[i].module && !mp_stack_is_allocator(&lines->at[i])) return lines->at[i].module;
    return NULL;
}

void mp_stack_lines_free(struct mp_stack_lines *lines)
{
    mp_vec_free(lines);
}

enum mp_status mp_skip_matching(struct mp_model *model, const char *regex, struct mp_error *error)
{
    regex_t pattern;
    struct mp_error why;
    enum mp_status status = mp_pattern_compile(regex, &pattern, &why);
    if (status) return mp_fail(error, status, "--skip-frames: \"%s\" is no regular expression: %s", regex, why.text);
    while (model->skipped.count < model->strings.count + 1)
        mp_vec_add(&model->skipped, 0);
    for (size_t i = 0; i < model->lines.count; i++) {
        const uint32_t of_line[] = {model->lines.at[i].function, model->lines.at[i].file};
        for (size_t k = 0; k < 2; k++) /* skipped.at: 0 not compared yet, 1 matched, 2 not matched */
            if (of_line[k] && !model->skipped.at[of_line[k]])
                model->skipped.at[of_line[k]] = regexec(&pattern, mp_model_text(model, of_line[k]), 0, NULL, 0) ? 2 : 1;
    }
    for (size_t i = 0; i < model->modules.count; i++) {
        uint32_t path = model->modules.at[i].path;
        if (path && !regexec(&pattern, mp_model_text(model, path), 0, NULL, 0)) model->skipped.at[path] = 1;
    }
    for (size_t i = 0; i < model->skipped.count; i++)
        model->skipped.at[i] = model->skipped.at[i] == 1;
    regfree(&pattern);
    return MP_OK;
}

void mp_frame_function(struct mp_buffer *out, const struct mp_stack_line *line)
{
    if (line->cut)
        mp_buffer_append_text(out, "[frames left out]");
    else if (line->function)
        mp_buffer_append_text(out, line->function);
    else if (line->module)
        mp_buffer_printf(out, "%s+0x%llx", mp_path_short(line->module), (unsigned long long)line->address);
    else if (line->language == MP_NATIVE && line->address)
        mp_buffer_printf(out, "0x%llx", (unsigned long long)line->address);
    else
        mp_buffer_append_text(out, "[unknown]");
}

void mp_frame_label(struct mp_buffer *out, const struct mp_stack_line *line)
{
    mp_frame_function(out, line);
    if (line->cut || line->language != MP_PYTHON || !line->file) return;
    mp_buffer_printf(out, " (%s", mp_path_short(line->file));
    if (line->line) mp_buffer_printf(out, ":%u", line->line);
    mp_buffer_append_text(out, ")");
}

const char *mp_frame_prefix(const struct mp_stack_line *line)
{
    return line->backward && !line->cut ? "backward of " : "";
}

void mp_frame_headline(struct mp_buffer *out, const struct mp_stack_lines *lines)
{
    const struct mp_stack_line *line = mp_stack_headline(lines);
    if (!line) return;
    mp_buffer_append_text(out, mp_frame_prefix(line));
    mp_frame_label(out, line);
}

void mp_frame_fold(struct mp_buffer *out, const struct mp_stack_lines *lines)
{
    for (size_t i = lines->count; i--;) {
        size_t start = out->size;
        mp_frame_label(out, &lines->at[i]);
        for (size_t k = start; k < out->size; k++) {
            if (out->data[k] == ';') out->data[k] = ':';
            if (out->data[k] < ' ') out->data[k] = ' ';
        }
        if (i) mp_buffer_append_text(out, ";");
    }
}

/* The parts of a node that PyTorch's viewer shows, in the viewer's order. */
const char *const mp_graph_node_keys[MP_GRAPH_NODE_PARTS] = {"fx_node_name", "fx_node_op", "fx_node_target"};

bool mp_graph_node_part(const struct mp_model *model, uint32_t more, enum mp_graph_node_part part,
                        struct mp_buffer *out)
{
    return more && mp_json_member(mp_model_text(model, more), mp_graph_node_keys[part], out);
}

bool mp_graph_node_text(const struct mp_model *model, uint32_t more, struct mp_buffer *out)
{
    size_t before = out->size;
    for (unsigned part = 0; more && part < MP_GRAPH_NODE_PARTS; part++) {
        size_t end = out->size;
        if (end > before) mp_buffer_append_text(out, " ");
        if (!mp_graph_node_part(model, more, (enum mp_graph_node_part)part, out)) out->size = end;
    }
    return out->size > before;
}
