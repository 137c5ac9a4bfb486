#include "model/stack.h"

#include <string.h>

#include "base/step_function.h"
#include "model/stack_facts.h"

static const char *text_or_null(const struct mp_model *model, uint32_t id)
{
    return id ? mp_model_text(model, id) : NULL;
}

/* Names in angle brackets are generated code (<frozen importlib>, <eval_with_key>), except for interactive input.
 * PyTorch's profiler leaves out a package's folder, so torch is recognised by its name. */
bool mp_stack_is_user_file(const char *file)
{
    static const char *const typed[] = {"<string>", "<stdin>", "<ipython"};
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
