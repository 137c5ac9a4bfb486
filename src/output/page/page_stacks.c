#include "output/page/page_stacks.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/varint.h"
#include "model/stack.h"

/* An array of `count` ids, all MP_NONE. */
static uint32_t *no_ids(size_t count)
{
    uint32_t *ids = mp_alloc((count ? count : 1) * sizeof *ids);
    memset(ids, 0xff, (count ? count : 1) * sizeof *ids);
    return ids;
}

void mp_page_stacks_init(struct mp_page_stacks *stacks, const struct mp_model *model, struct mp_page_words *words)
{
    *stacks = (struct mp_page_stacks){
        .model = model,
        .words = words,
        .site_of_stack = no_ids(model->stacks.count),
        .string_of_model = no_ids(model->strings.count),
    };
    mp_page_stacks_string(stacks, 0);
}

uint32_t mp_page_stacks_site(struct mp_page_stacks *stacks, uint32_t stack)
{
    if (stack >= stacks->model->stacks.count) stack = 0;
    uint32_t *site = &stacks->site_of_stack[stack];
    if (*site != MP_NONE) return *site;
    mp_vec_add(&stacks->sites, stack);
    return *site = (uint32_t)stacks->sites.count - 1;
}

uint32_t mp_page_stacks_string(struct mp_page_stacks *stacks, uint32_t string)
{
    if (string >= stacks->model->strings.count) string = 0;
    if (!stacks->model->strings.count) return 0;
    uint32_t *id = &stacks->string_of_model[string];
    if (*id != MP_NONE) return *id;
    mp_vec_add(&stacks->strings, string);
    return *id = (uint32_t)stacks->strings.count - 1;
}

/* The number of the page's text about the graph's node that the frame's line was compiled from; 0: none. */
static uint32_t graph_node(struct mp_page_stacks *stacks, const struct mp_model_frame *frame)
{
    struct mp_buffer text = {0};
    mp_graph_node_text(stacks->model, frame->raw.more, &text);
    uint32_t number = mp_page_words_number(stacks->words, (const char *)text.data, text.size);
    mp_buffer_free(&text);
    return number;
}

/* `lines`: the frame's lines. */
static void write_frame(struct mp_page_stacks *stacks, const struct mp_model_frame *frame,
                        const struct mp_stack_lines *lines, struct mp_page_stack_columns *columns)
{
    const struct mp_model *model = stacks->model;
    uint32_t module = 0;
    if (frame->raw.language == MP_NATIVE && frame->raw.module < model->modules.count)
        module = model->modules.at[frame->raw.module].path;
    mp_buffer_append(&columns->language, &frame->raw.language, 1);
    mp_varint_append(&columns->module, mp_page_stacks_string(stacks, module));
    mp_varint_append(&columns->address, frame->raw.language == MP_NATIVE ? frame->raw.address : 0);
    mp_varint_append(&columns->graph, graph_node(stacks, frame));
    mp_varint_append(&columns->lines, frame->line_count);
    for (uint32_t i = 0; i < frame->line_count; i++) {
        const struct mp_model_line *line = &model->lines.at[frame->first_line + i];
        mp_varint_append(&columns->line, mp_page_stacks_string(stacks, line->function));
        mp_varint_append(&columns->line, mp_page_stacks_string(stacks, line->file));
        mp_varint_append(&columns->line, line->line);
        mp_buffer_append(&columns->user, lines->at[i].user ? "\1" : "", 1);
    }
    columns->frames++;
    columns->line_count += frame->line_count;
}

/* Marks every node on the path from a site to the root with 0. Other nodes keep MP_NONE. */
static void mark_paths(const struct mp_page_stacks *stacks, uint32_t *node_of_stack)
{
    node_of_stack[0] = 0;
    for (size_t i = 0; i < stacks->sites.count; i++) {
        uint32_t at = stacks->sites.at[i];
        while (node_of_stack[at] == MP_NONE) {
            node_of_stack[at] = 0;
            uint32_t parent = stacks->model->stacks.at[at].parent;
            at = parent < at ? parent : 0;
        }
    }
}

/* Numbers the marked nodes and writes them with their frames. Parents come before children, as in the model. */
static void write_nodes(struct mp_page_stacks *stacks, uint32_t *node_of_stack, uint32_t *frame_of_model,
                        struct mp_stack_lines *lines, struct mp_page_stack_columns *columns)
{
    const struct mp_model *model = stacks->model;
    for (size_t i = 1; i < model->stacks.count; i++) {
        if (node_of_stack[i] == MP_NONE) continue;
        const struct mp_stack_node *node = &model->stacks.at[i];
        uint32_t id = (uint32_t)++columns->nodes;
        node_of_stack[i] = id;
        mp_varint_append(&columns->parent, id - node_of_stack[node->parent < i ? node->parent : 0]);
        if (node->frame >= model->frames.count) {
            mp_varint_append(&columns->frame, 0);
            continue;
        }
        uint32_t *frame = &frame_of_model[node->frame];
        if (*frame == MP_NONE) {
            *frame = (uint32_t)columns->frames;
            mp_stack_resolve_frame(model, node->frame, lines);
            write_frame(stacks, &model->frames.at[node->frame], lines, columns);
        }
        mp_varint_append(&columns->frame, (uint64_t)*frame + 1);
    }
}

/* The page's string + 1 of a line's library. Each library's text is stored once. */
static uint64_t library_string(struct mp_page_stacks *stacks, const char *library)
{
    const struct mp_model *model = stacks->model;
    for (size_t i = 0; library && i < model->modules.count; i++)
        if (mp_model_text(model, model->modules.at[i].path) == library)
            return mp_page_stacks_string(stacks, model->modules.at[i].path) + UINT64_C(1);
    return 0;
}

static void write_sites(struct mp_page_stacks *stacks, const uint32_t *node_of_stack, struct mp_stack_lines *lines,
                        struct mp_page_stack_columns *columns)
{
    for (size_t i = 0; i < stacks->sites.count; i++) {
        uint32_t stack = stacks->sites.at[i];
        mp_stack_resolve(stacks->model, stack, lines);
        const struct mp_stack_line *headline = mp_stack_headline(lines);
        mp_varint_append(&columns->site, node_of_stack[stack]);
        mp_varint_append(&columns->headline, headline ? (uint64_t)(headline - lines->at) + 1 : 0);
        mp_varint_append(&columns->library, library_string(stacks, mp_stack_library(lines)));
    }
}

static void write_strings(const struct mp_page_stacks *stacks, struct mp_page_stack_columns *columns)
{
    for (size_t i = 0; i < stacks->strings.count; i++) {
        size_t length;
        const char *text = mp_intern_get(&stacks->model->strings, stacks->strings.at[i], &length);
        size_t before = columns->text.size;
        mp_page_words_append(&columns->text, text, length);
        mp_varint_append(&columns->length, columns->text.size - before);
    }
}

void mp_page_stacks_columns(struct mp_page_stacks *stacks, struct mp_page_stack_columns *columns)
{
    struct mp_stack_lines lines = {0};
    uint32_t *node_of_stack = no_ids(stacks->model->stacks.count);
    uint32_t *frame_of_model = no_ids(stacks->model->frames.count);
    *columns = (struct mp_page_stack_columns){0};
    mark_paths(stacks, node_of_stack);
    write_nodes(stacks, node_of_stack, frame_of_model, &lines, columns);
    write_sites(stacks, node_of_stack, &lines, columns);
    write_strings(stacks, columns);
    mp_stack_lines_free(&lines);
    free(node_of_stack);
    free(frame_of_model);
}

void mp_page_stacks_free(struct mp_page_stacks *stacks)
{
    free(stacks->site_of_stack);
    free(stacks->string_of_model);
    mp_vec_free(&stacks->sites);
    mp_vec_free(&stacks->strings);
}
