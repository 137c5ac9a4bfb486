#include "cli/top/top_names.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/map.h"
#include "base/memory.h"
#include "collect/symbols/symbols.h"

struct name {
    uint32_t first, count; /* in `lines` */
};

struct line {
    const char *function, *file; /* NULL: unknown; owned by `symbols` */
    uint32_t line;
};

struct mp_top_names {
    struct mp_symbols *symbols; /* NULL: memory was short */
    char root[64];
    size_t modules;         /* modules added so far; a recording never renumbers them */
    struct mp_map by_frame; /* number of a frame + 1 to number of its name + 1 */
    MP_VEC(struct name) all;
    MP_VEC(struct line) lines;
};

struct mp_top_names *mp_top_names_new(pid_t pid)
{
    struct mp_top_names *names = mp_alloc_zeroed(1, sizeof *names);
    struct mp_error error;
    snprintf(names->root, sizeof names->root, "/proc/%d/root", (int)pid);
    if (mp_symbols_open(&names->symbols, &error)) names->symbols = NULL;
    return names;
}

static void add_modules(struct mp_top_names *names, const struct mp_model *model)
{
    struct mp_error ignored;
    for (; names->modules < model->modules.count; names->modules++) {
        const struct mp_module *module = &model->modules.at[names->modules];
        (void)mp_symbols_add_module(names->symbols, (uint32_t)names->modules, mp_model_text(model, module->path),
                                    &module->file, names->root, &ignored);
    }
}

static void look_up(struct mp_top_names *names, const struct mp_frame *frame, struct name *name)
{
    const struct mp_symbol_line *found;
    size_t count = mp_symbols_resolve(names->symbols, frame->module, frame->address, &found);
    *name = (struct name){(uint32_t)names->lines.count, (uint32_t)count};
    for (size_t i = 0; i < count; i++) {
        struct line line = {found[i].function, found[i].file, found[i].line};
        mp_vec_add(&names->lines, line);
    }
}

static void name_frame(struct mp_top_names *names, struct mp_model *model, uint32_t number)
{
    struct mp_model_frame *frame = &model->frames.at[number];
    if (frame->line_count || frame->raw.language != MP_NATIVE) return;
    bool fresh;
    uint64_t *at = mp_map_at(&names->by_frame, (uint64_t)number + 1, &fresh);
    if (fresh) {
        struct name name;
        look_up(names, &frame->raw, &name);
        mp_vec_add(&names->all, name);
        *at = names->all.count;
    }
    const struct name *name = &names->all.at[*at - 1];
    frame->first_line = (uint32_t)model->lines.count;
    frame->line_count = name->count;
    for (uint32_t i = 0; i < name->count; i++) {
        const struct line *from = &names->lines.at[name->first + i];
        struct mp_model_line line = {from->function ? mp_intern_add_text(&model->strings, from->function) : 0,
                                     from->file ? mp_intern_add_text(&model->strings, from->file) : 0, from->line};
        mp_vec_add(&model->lines, line);
    }
}

void mp_top_names_fill(struct mp_top_names *names, struct mp_model *model, const struct mp_sites *sites)
{
    if (!names->symbols) return;
    unsigned char *seen = mp_alloc_zeroed(model->stacks.count + 1, 1);
    add_modules(names, model);
    for (size_t i = 0; i < sites->count; i++)
        for (uint32_t node = sites->at[i].stack; node && node < model->stacks.count && !seen[node];
             node = model->stacks.at[node].parent) {
            seen[node] = 1;
            if (model->stacks.at[node].frame < model->frames.count)
                name_frame(names, model, model->stacks.at[node].frame);
        }
    free(seen);
}

void mp_top_names_free(struct mp_top_names *names)
{
    if (!names) return;
    mp_symbols_close(names->symbols);
    mp_map_free(&names->by_frame);
    mp_vec_free(&names->all);
    mp_vec_free(&names->lines);
    free(names);
}
