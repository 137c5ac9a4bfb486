#include "exchange/stack_out.h"

#include <stdlib.h>

#define PLACE_TEXT 4096

bool mp_stack_out_init(struct mp_stack_out *out, const struct mp_model *model, struct mp_value_out *value)
{
    *out = (struct mp_stack_out){.model = model, .value = value};
    out->line_memos = calloc(model->lines.count + 1, sizeof *out->line_memos);
    out->frame_memos = calloc(model->frames.count + 1, sizeof *out->frame_memos);
    out->stack_memos = calloc(model->stacks.count + 1, sizeof *out->stack_memos);
    return out->line_memos && out->frame_memos && out->stack_memos;
}

void mp_stack_out_free(struct mp_stack_out *out)
{
    free(out->line_memos);
    free(out->frame_memos);
    free(out->stack_memos);
}

static void put_frame(struct mp_stack_out *out, uint32_t *memo, const char *name, const char *file, uint32_t line)
{
    struct mp_value_out *value = out->value;
    if (mp_value_again(value, NULL, memo)) return;
    mp_value_dict(value, NULL);
    mp_value_text(value, "name", name);
    mp_value_text(value, "filename", file);
    mp_value_number(value, "line", line);
    mp_value_end_dict(value);
}

/* PyTorch's name for a function that it does not know; a file that it does not know is "". */
#define NAMELESS "??"

static const char *function_name(const struct mp_model *model, uint32_t text)
{
    return text ? mp_model_text(model, text) : NAMELESS;
}

/* "libc10.so+0x1b1f8", as far as it is known. `to` has PLACE_TEXT bytes. */
static const char *place_in(const char *module, uint64_t address, char *to)
{
    if (!address) return module;
    snprintf(to, PLACE_TEXT, "%s%s0x%llx", module, *module ? "+" : "", (unsigned long long)address);
    return to;
}

static void put_frames_of(struct mp_stack_out *out, uint32_t index)
{
    char place[PLACE_TEXT];
    const struct mp_model *model = out->model;
    const struct mp_model_frame *frame = &model->frames.at[index];
    const char *module = mp_model_text(model, frame->raw.module ? model->modules.at[frame->raw.module].path : 0);
    for (uint32_t i = 0; i < frame->line_count; i++) {
        const struct mp_model_line *line = &model->lines.at[frame->first_line + i];
        put_frame(out, &out->line_memos[frame->first_line + i], function_name(model, line->function),
                  line->file ? mp_model_text(model, line->file) : module, line->line);
    }
    if (frame->line_count) return;
    put_frame(out, &out->frame_memos[index], NAMELESS, place_in(module, frame->raw.address, place), 0);
}

/* Innermost first, as stacks go from their id to the root. */
void mp_stack_out_put(struct mp_stack_out *out, uint32_t stack)
{
    const struct mp_model *model = out->model;
    if (mp_value_again(out->value, "frames", &out->stack_memos[stack])) return;
    mp_value_list(out->value, "frames");
    for (; stack && stack < model->stacks.count; stack = model->stacks.at[stack].parent) {
        uint32_t frame = model->stacks.at[stack].frame;
        if (frame == MP_FRAME_CUT)
            put_frame(out, &out->cut_memo, "(frames left out)", "", 0);
        else
            put_frames_of(out, frame);
    }
    mp_value_end_list(out->value);
}
