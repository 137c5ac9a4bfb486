#include "analysis/sites/flames.h"

#include <string.h>

#include "base/buffer.h"
#include "model/stack.h"

static void push_frame(struct mp_flames *flames, const struct mp_stack_line *line, uint32_t *number)
{
    struct mp_buffer label = {0}, function = {0};
    mp_frame_label(&label, line);
    mp_frame_function(&function, line);
    uint32_t id = mp_intern_add(&flames->labels, (char *)label.data, label.size);
    if (id > flames->frames.count) {
        struct mp_flame_frame frame = {mp_intern_add(&flames->texts, (char *)function.data, function.size),
                                       line->file ? mp_intern_add_text(&flames->texts, line->file) : 0, line->line,
                                       line->language};
        mp_vec_add(&flames->frames, frame);
    }
    *number = id - 1;
    mp_buffer_free(&label);
    mp_buffer_free(&function);
}

/* The line for an unknown stack. */
static struct mp_stack_line nameless(bool base)
{
    return (struct mp_stack_line){.function = base ? "[live before the recording]" : "[no stack]"};
}

void mp_flames_find(struct mp_flames *flames, const struct mp_stack_lines *lines, bool base, uint32_t *flame)
{
    struct mp_buffer path = {0};
    struct mp_stack_line none = nameless(base);
    for (size_t i = lines->count ? lines->count : 1; i--;) {
        uint32_t number;
        push_frame(flames, lines->count ? &lines->at[i] : &none, &number);
        mp_buffer_append(&path, &number, sizeof number);
    }
    uint32_t id = mp_intern_add(&flames->paths, (char *)path.data, path.size);
    mp_buffer_free(&path);
    struct mp_flame fresh = {.stacks = {MP_NONE, MP_NONE}};
    if (id > flames->flames.count) mp_vec_add(&flames->flames, fresh);
    *flame = id - 1;
}

static void add_values(struct mp_flames *flames, enum mp_flame_side side, uint32_t number,
                       const struct mp_profile_sample *sample, enum mp_profile_of sense)
{
    struct mp_flame *flame = &flames->flames.at[number];
    flame->values[side].bytes += sample->values[sense].bytes;
    flame->values[side].blocks += sample->values[sense].blocks;
    flame->stacks[side] = sample->stack;
    flames->sums[side].bytes += sample->values[sense].bytes;
    flames->sums[side].blocks += sample->values[sense].blocks;
}

/* A frame of PyTorch's dispatcher that only stacks of recordings with the log of operators have. */
static bool is_of_log(const struct mp_stack_line *line)
{
    return line->function && strstr(line->function, "callWithDispatchKeySlowPath");
}

/* Drops the interpreter's own frames, and those of a log. For one line of Python they change once Python has
 * specialised its instructions. */
static void drop_interpreter(struct mp_stack_lines *lines)
{
    const char *interpreter = mp_stack_interpreter(lines);
    size_t kept = 0;
    for (size_t i = 0; i < lines->count; i++) {
        const char *module = lines->at[i].language == MP_NATIVE ? lines->at[i].module : NULL;
        bool own = module && ((interpreter && !strcmp(module, interpreter)) || is_of_log(&lines->at[i]));
        if (!own) lines->at[kept++] = lines->at[i];
    }
    lines->count = kept;
}

void mp_flames_add(struct mp_flames *flames, enum mp_flame_side side, const struct mp_model *model,
                   const struct mp_profile *profile, enum mp_profile_of sense)
{
    struct mp_stack_lines lines = {0};
    mp_vec_each (const struct mp_profile_sample, sample, &profile->samples) {
        uint32_t flame;
        if (!sample->values[sense].blocks) continue;
        mp_stack_resolve(model, sample->stack, &lines);
        for (size_t k = 0; side == MP_BEFORE && flames->moved && k < lines.count; k++)
            lines.at[k].line = mp_moved_line(flames->moved, &lines.at[k]);
        if (flames->moved) drop_interpreter(&lines);
        mp_flames_find(flames, &lines, sample->base, &flame);
        add_values(flames, side, flame, sample, sense);
    }
    mp_stack_lines_free(&lines);
}

const char *mp_flames_path(const struct mp_flames *flames, size_t flame, size_t *count)
{
    size_t bytes;
    const char *path = mp_intern_get(&flames->paths, (uint32_t)flame + 1, &bytes);
    *count = bytes / sizeof(uint32_t);
    return path;
}

void mp_flames_free(struct mp_flames *flames)
{
    mp_intern_free(&flames->texts);
    mp_intern_free(&flames->labels);
    mp_intern_free(&flames->paths);
    mp_vec_free(&flames->frames);
    mp_vec_free(&flames->flames);
}
