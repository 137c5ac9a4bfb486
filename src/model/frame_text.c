#include "model/stack.h"

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
