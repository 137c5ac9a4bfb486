#include "analysis/advise/module_calls.h"

#include "model/stack_facts.h"

void mp_module_chain(const struct mp_model *model, uint32_t stack, struct mp_buffer *chain)
{
    const struct mp_stack_facts *facts = mp_stack_facts(model);
    bool sequential = false;
    for (; stack; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame == MP_FRAME_CUT || model->frames.at[frame].raw.language != MP_PYTHON) continue;
        if (facts->of_frame[frame] & MP_FACT_CALLS_MODULE)
            mp_buffer_append(chain, sequential ? "S" : "m", 1);
        else
            sequential = facts->of_frame[frame] & MP_FACT_RUNS_MODULES;
    }
}

uint64_t mp_module_line(const struct mp_model *model, uint32_t stack, size_t calls)
{
    const struct mp_stack_facts *facts = mp_stack_facts(model);
    uint64_t line = 0;
    for (; stack; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame == MP_FRAME_CUT || model->frames.at[frame].raw.language != MP_PYTHON) continue;
        if (facts->of_frame[frame] & MP_FACT_CALLS_MODULE && !--calls) return line;
        line = (uint64_t)frame + 1;
    }
    return 0;
}

uint32_t mp_module_caller(const struct mp_model *model, uint32_t stack)
{
    const struct mp_stack_facts *facts = mp_stack_facts(model);
    uint32_t caller = stack;
    for (; stack; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame != MP_FRAME_CUT && facts->of_frame[frame] & MP_FACT_CALLS_MODULE)
            caller = model->stacks.at[stack].parent;
    }
    return caller;
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
