#include "analysis/advise/module_calls.h"

#include <string.h>

bool mp_frame_is(const struct mp_model *model, uint32_t frame, const char *function, const char *file)
{
    if (!model->frames.at[frame].line_count) return false;
    const struct mp_model_line *line = &model->lines.at[model->frames.at[frame].first_line];
    const char *name = mp_model_text(model, line->function), *last = strrchr(name, '.');
    const char *path = mp_model_text(model, line->file);
    size_t length = strlen(path), wanted = strlen(file);
    return (!function || !strcmp(last ? last + 1 : name, function)) && length >= wanted &&
           !strcmp(path + length - wanted, file);
}

void mp_module_chain(const struct mp_model *model, uint32_t stack, struct mp_buffer *chain)
{
    bool sequential = false;
    for (; stack; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame == MP_FRAME_CUT || model->frames.at[frame].raw.language != MP_PYTHON) continue;
        if (mp_frame_is(model, frame, "_call_impl", "torch/nn/modules/module.py"))
            mp_buffer_append(chain, sequential ? "S" : "m", 1);
        else
            sequential = mp_frame_is(model, frame, "forward", "torch/nn/modules/container.py");
    }
}

uint64_t mp_module_line(const struct mp_model *model, uint32_t stack, size_t calls)
{
    uint64_t line = 0;
    for (; stack; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame == MP_FRAME_CUT || model->frames.at[frame].raw.language != MP_PYTHON) continue;
        if (mp_frame_is(model, frame, "_call_impl", "torch/nn/modules/module.py") && !--calls) return line;
        line = (uint64_t)frame + 1;
    }
    return 0;
}

static uint32_t next_of_python(const struct mp_model *model, uint32_t stack)
{
    while (stack && (model->stacks.at[stack].frame == MP_FRAME_CUT ||
                     model->frames.at[model->stacks.at[stack].frame].raw.language != MP_PYTHON))
        stack = model->stacks.at[stack].parent;
    return stack;
}

bool mp_same_lines(const struct mp_model *model, uint32_t a, uint32_t b)
{
    a = next_of_python(model, a);
    b = next_of_python(model, b);
    while (a && b && a != b && model->stacks.at[a].frame == model->stacks.at[b].frame) {
        a = next_of_python(model, model->stacks.at[a].parent);
        b = next_of_python(model, model->stacks.at[b].parent);
    }
    return a == b;
}
