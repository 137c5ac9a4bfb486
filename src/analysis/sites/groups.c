#include "analysis/sites/groups.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/sites/site_shares.h"
#include "model/module_path.h"
#include "model/spans.h"
#include "model/stack.h"

static const char *const words[MP_GROUPS] = {
    [MP_GROUP_STACK] = "stack", [MP_GROUP_FRAMES] = "stack",     [MP_GROUP_FUNCTION] = "function",
    [MP_GROUP_FILE] = "file",   [MP_GROUP_LIBRARY] = "library",  [MP_GROUP_REGION] = "region",
    [MP_GROUP_SIZE] = "size",   [MP_GROUP_THREAD] = "thread",    [MP_GROUP_STREAM] = "stream",
    [MP_GROUP_POOL] = "pool",   [MP_GROUP_MODULE] = "module",    [MP_GROUP_CATEGORY] = "category",
    [MP_GROUP_DTYPE] = "dtype", [MP_GROUP_SHAPE] = "shape",      [MP_GROUP_OPERATOR] = "operator",
    [MP_GROUP_IDLE] = "idle",   [MP_GROUP_METADATA] = "metadata"};

enum mp_status mp_group_parse(const char *text, struct mp_grouping *grouping, struct mp_error *error)
{
    for (int by = 0; by < MP_GROUPS; by++) {
        if (by == MP_GROUP_FRAMES || strcmp(text, words[by])) continue;
        grouping->by = (enum mp_group_by)by;
        return MP_OK;
    }
    char *end = NULL;
    unsigned long frames = strncmp(text, "stack:", 6) ? 0 : strtoul(text + 6, &end, 10);
    if (!frames || frames > 4096 || *end)
        return mp_fail(error, MP_INVALID,
                       "cannot group by \"%s\"; groups are stack, stack:N, function, file, library, region, size, "
                       "thread, stream, pool, module, dtype, shape, operator, idle, metadata and category",
                       text);
    grouping->by = MP_GROUP_FRAMES;
    grouping->frames = (unsigned)frames;
    return MP_OK;
}

enum mp_status mp_sort_parse(const char *text, struct mp_grouping *grouping, struct mp_error *error)
{
    static const struct {
        const char *name;
        enum mp_sort_by sort;
    } names[] = {
        {"bytes", MP_SORT_BYTES}, {"blocks", MP_SORT_BLOCKS}, {"peak", MP_SORT_BYTES}, {"growth", MP_SORT_GROWTH}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i].name)) continue;
        grouping->sort = names[i].sort;
        return MP_OK;
    }
    return mp_fail(error, MP_INVALID, "cannot sort by \"%s\"; orders are bytes, blocks, peak and growth", text);
}

const char *mp_group_name(enum mp_group_by by)
{
    return words[by];
}

bool mp_group_is_of_stack(enum mp_group_by by)
{
    return by <= MP_GROUP_LIBRARY;
}

void mp_groups_open(const struct mp_model *model, const struct mp_grouping *grouping, uint32_t moment,
                    struct mp_intern *names, struct mp_groups *groups)
{
    *groups = (struct mp_groups){.model = model, .grouping = grouping, .names = names, .moment = moment};
    switch (grouping->by) {
    case MP_GROUP_REGION:
        groups->regions = mp_regions_of_births(model);
        return;
    case MP_GROUP_STREAM:
    case MP_GROUP_POOL:
        mp_placements_find(model, &groups->placements);
        return;
    case MP_GROUP_CATEGORY:
        if (!grouping->categories) groups->made = mp_categories_make(model, grouping->rules);
        groups->categories = grouping->categories ? grouping->categories : groups->made;
        return;
    case MP_GROUP_IDLE:
        mp_idle_view_at(model, moment ? model->events.time_ns[moment - 1] : 0, &groups->idle);
        return;
    case MP_GROUP_MODULE:
        groups->root = mp_module_root(model);
        return;
    default:
        return;
    }
}

static void append_line(struct mp_buffer *text, const struct mp_stack_line *line)
{
    mp_buffer_append_text(text, text->size ? " < " : mp_frame_prefix(line));
    mp_buffer_append_text(text, line->function ? line->function : "?");
    if (line->file) mp_buffer_printf(text, " %s:%u", mp_path_short(line->file), line->line);
}

static void append_frames(struct mp_buffer *text, const struct mp_stack_lines *lines, unsigned frames)
{
    const struct mp_stack_line *headline = mp_stack_headline(lines);
    for (size_t i = headline ? (size_t)(headline - lines->at) : lines->count; i < lines->count && frames; i++) {
        if (lines->at[i].cut || lines->at[i].language != headline->language) continue;
        append_line(text, &lines->at[i]);
        frames--;
    }
}

/* Adds the name in `text`; an empty name is unknown. */
static uint32_t take_name(struct mp_groups *groups)
{
    struct mp_buffer *text = &groups->text;
    return text->size ? mp_intern_add(groups->names, (const char *)text->data, text->size) : MP_NONE;
}

uint32_t mp_groups_of_stack(struct mp_groups *groups, uint32_t stack)
{
    const struct mp_grouping *grouping = groups->grouping;
    const char *name = NULL;
    mp_buffer_clear(&groups->text);
    mp_stack_resolve(groups->model, stack, &groups->lines);
    const struct mp_stack_line *headline = mp_stack_headline(&groups->lines);
    if (grouping->by == MP_GROUP_FRAMES)
        append_frames(&groups->text, &groups->lines, grouping->frames);
    else if (grouping->by == MP_GROUP_LIBRARY)
        name = mp_stack_library(&groups->lines);
    else if (headline)
        name = grouping->by == MP_GROUP_FILE ? headline->file : headline->function;
    if (name && grouping->by == MP_GROUP_FUNCTION) mp_buffer_append_text(&groups->text, mp_frame_prefix(headline));
    if (name) mp_buffer_append_text(&groups->text, name);
    return take_name(groups);
}

static void name_thread(struct mp_groups *groups, uint32_t block)
{
    const struct mp_model *model = groups->model;
    uint32_t born = model->blocks.alloc_event[block];
    uint32_t thread = born == MP_NONE ? MP_NONE : model->events.thread[born];
    if (thread >= model->threads.count) return;
    const struct mp_thread_info *info = &model->threads.at[thread];
    if (!info->tid) return; /* the file does not say it */
    if (info->name) mp_buffer_printf(&groups->text, "%s ", mp_model_text(model, info->name));
    mp_buffer_printf(&groups->text, "%u", info->tid);
}

static void name_pool(struct mp_groups *groups, uint32_t block)
{
    const struct mp_model *model = groups->model;
    uint64_t pool = mp_placed(groups->placements.pool, block);
    uint32_t name = model->tracks.at[model->blocks.track[block]].name;
    if (pool == MP_PLACE_UNKNOWN)
        mp_buffer_append_text(&groups->text, mp_model_text(model, name));
    else if (!pool)
        mp_buffer_append_text(&groups->text, "default");
    else
        mp_buffer_printf(&groups->text, "(%u, %u)", (unsigned)(pool >> 32), (unsigned)pool);
}

static void name_module(struct mp_groups *groups, uint32_t block)
{
    size_t length;
    const char *path = mp_module_of_block(groups->model, groups->root, block, &length);
    mp_buffer_append(&groups->text, path, length);
}

static void name_category(struct mp_groups *groups, uint32_t block)
{
    unsigned category = mp_category_look(groups->categories, block, groups->moment, &groups->guessed);
    const char *name = mp_category_name(groups->categories, category);
    if (name) mp_buffer_append_text(&groups->text, name);
}

static void name_tensor(struct mp_groups *groups, uint32_t block, enum mp_group_by by)
{
    const struct mp_model *model = groups->model;
    struct mp_tensor tensor;
    struct mp_shape shape;
    char text[MP_SHAPE_TEXT];
    mp_tensor_of(model, block, &tensor);
    if (by == MP_GROUP_OPERATOR) mp_buffer_append_text(&groups->text, mp_model_text(model, tensor.operator));
    if (by == MP_GROUP_OPERATOR || !mp_shape_read(mp_model_text(model, tensor.shape), &shape)) return;
    mp_shape_text(&shape, text, sizeof text);
    mp_buffer_printf(&groups->text, "%s%s%s", shape.dtype, by == MP_GROUP_SHAPE ? " " : "",
                     by == MP_GROUP_SHAPE ? text : "");
}

static void name_idle(struct mp_groups *groups, uint32_t block)
{
    struct mp_idle idle;
    mp_idle_of(&groups->idle, block, &idle);
    if (idle.since_ns == MP_BYTES_UNKNOWN) return;
    mp_buffer_append_text(&groups->text, idle.never                          ? "never read again"
                                         : idle.again_ns == MP_BYTES_UNKNOWN ? "not read again in the recording"
                                                                             : "read again");
}

uint32_t mp_groups_of_block(struct mp_groups *groups, uint32_t block, uint64_t bytes)
{
    struct mp_buffer *text = &groups->text;
    mp_buffer_clear(text);
    switch (groups->grouping->by) {
    case MP_GROUP_REGION:
        if (groups->regions[block] != MP_NONE)
            mp_buffer_append_text(text, mp_model_text(groups->model, groups->regions[block]));
        break;
    case MP_GROUP_SIZE:
        if (bytes != MP_BYTES_UNKNOWN) mp_buffer_printf(text, "%llu", (unsigned long long)bytes);
        break;
    case MP_GROUP_THREAD:
        name_thread(groups, block);
        break;
    case MP_GROUP_STREAM:
        if (mp_placed(groups->placements.stream, block) != MP_PLACE_UNKNOWN)
            mp_buffer_printf(text, "%llu", (unsigned long long)groups->placements.stream[block]);
        break;
    case MP_GROUP_POOL:
        name_pool(groups, block);
        break;
    case MP_GROUP_MODULE:
        name_module(groups, block);
        break;
    case MP_GROUP_DTYPE:
    case MP_GROUP_SHAPE:
    case MP_GROUP_OPERATOR:
        name_tensor(groups, block, groups->grouping->by);
        break;
    case MP_GROUP_IDLE:
        name_idle(groups, block);
        break;
    case MP_GROUP_METADATA:
        mp_metadata_text(groups->model, block, text);
        break;
    case MP_GROUP_CATEGORY:
        name_category(groups, block);
        break;
    default:
        return mp_groups_of_stack(groups, groups->model->blocks.stack[block]);
    }
    return take_name(groups);
}

void mp_groups_close(struct mp_groups *groups)
{
    mp_stack_lines_free(&groups->lines);
    mp_buffer_free(&groups->text);
    free(groups->regions);
    mp_placements_free(&groups->placements);
    mp_categories_free(groups->made);
}
