#include "analysis/sites.h"

#include <stdlib.h>
#include <string.h>

#include "analysis/growth.h"
#include "base/buffer.h"
#include "base/map.h"

enum mp_status mp_group_parse(const char *text, struct mp_grouping *grouping, struct mp_error *error)
{
    static const struct {
        const char *name;
        enum mp_group_by by;
    } names[] = {{"stack", MP_GROUP_STACK},
                 {"function", MP_GROUP_FUNCTION},
                 {"file", MP_GROUP_FILE},
                 {"library", MP_GROUP_LIBRARY}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i].name)) continue;
        grouping->by = names[i].by;
        return MP_OK;
    }
    char *end = NULL;
    unsigned long frames = strncmp(text, "stack:", 6) ? 0 : strtoul(text + 6, &end, 10);
    if (!frames || frames > 4096 || *end)
        return mp_fail(error, MP_INVALID,
                       "cannot group by \"%s\"; groups are stack, stack:N, function, file and library", text);
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

static uint64_t known(uint64_t bytes)
{
    return bytes == MP_BYTES_UNKNOWN ? 0 : bytes;
}

/* One site per (track, stack). Blocks come in order of their numbers, hence of birth: a site's periods only rise, and
 * a distinct one is one that differs from the last. */
static bool make_stacks(const struct mp_model *model, const struct mp_live *live, const struct mp_steps *steps,
                        struct mp_sites *sites)
{
    const struct mp_model_blocks *blocks = &model->blocks;
    struct mp_map index = {0};
    MP_VEC(uint32_t) last_period = {0};
    bool done = true;
    for (size_t i = 0; i < live->count && done; i++) {
        uint32_t block = live->at[i].block, stack = blocks->stack[block];
        bool fresh;
        uint64_t *at = mp_map_insert(&index, ((uint64_t)blocks->track[block] << 32 | stack) + 1, &fresh);
        done = at;
        if (done && fresh) {
            struct mp_site site = {.stack = stack, .group = MP_NONE, .track = blocks->track[block]};
            *at = sites->count;
            done = mp_vec_push(sites, site) && mp_vec_push(&last_period, 0);
        }
        if (!done) break;
        struct mp_site *site = &sites->at[*at];
        site->bytes += known(live->at[i].bytes);
        site->blocks++;
        sites->bytes += known(live->at[i].bytes);
        sites->blocks++;
        site->unknown_blocks += live->at[i].bytes == MP_BYTES_UNKNOWN;
        sites->unknown_blocks += live->at[i].bytes == MP_BYTES_UNKNOWN;
        if (blocks->alloc_event[block] == MP_NONE) continue;
        uint32_t period = mp_birth_period(model, steps, blocks->alloc_event[block]);
        if (period != last_period.at[*at]) site->births++;
        last_period.at[*at] = period;
        uint32_t step = mp_step_of(steps, blocks->alloc_event[block]);
        if (!site->first_step) site->first_step = step;
        site->last_step = step;
    }
    mp_map_free(&index);
    mp_vec_free(&last_period);
    return done;
}

static void append_line(struct mp_buffer *text, const struct mp_stack_line *line)
{
    if (text->size) mp_buffer_append_text(text, " < ");
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

/* Writes the name of a stack's group to `text`; nothing where it is unknown. */
static void name_group(const struct mp_stack_lines *lines, const struct mp_grouping *grouping, struct mp_buffer *text)
{
    const struct mp_stack_line *headline = mp_stack_headline(lines);
    const char *name = NULL;
    mp_buffer_clear(text);
    if (grouping->by == MP_GROUP_FRAMES)
        append_frames(text, lines, grouping->frames);
    else if (grouping->by == MP_GROUP_LIBRARY)
        name = mp_stack_library(lines);
    else if (headline)
        name = grouping->by == MP_GROUP_FILE ? headline->file : headline->function;
    if (name) mp_buffer_append_text(text, name);
}

static void merge_site(struct mp_site *into, const struct mp_site *from, uint64_t *heaviest)
{
    into->bytes += from->bytes;
    into->blocks += from->blocks;
    into->unknown_blocks += from->unknown_blocks;
    if (from->births > into->births) into->births = from->births;
    if (from->first_step && (!into->first_step || from->first_step < into->first_step))
        into->first_step = from->first_step;
    if (from->last_step > into->last_step) into->last_step = from->last_step;
    if (from->bytes <= *heaviest) return;
    *heaviest = from->bytes;
    into->stack = from->stack;
}

/* Replaces the sites by one for each (track, group name). */
static bool merge_groups(const struct mp_model *model, const struct mp_grouping *grouping, struct mp_sites *sites)
{
    struct mp_stack_lines lines = {0};
    struct mp_buffer text = {0};
    struct mp_map index = {0};
    MP_VEC(uint64_t) heaviest = {0};
    size_t merged = 0;
    bool done = true;
    for (size_t i = 0; i < sites->count && done; i++) {
        struct mp_site site = sites->at[i];
        done = mp_stack_resolve(model, site.stack, &lines);
        if (!done) break;
        name_group(&lines, grouping, &text);
        uint32_t id = text.size ? mp_intern_bytes(&sites->groups, (const char *)text.data, text.size) : MP_NONE;
        bool fresh;
        uint64_t *at = mp_map_insert(&index, ((uint64_t)site.track << 32 | id) + 1, &fresh);
        done = at && !text.failed && (id != MP_INTERN_FAILED || !text.size);
        if (!done) break;
        if (fresh) {
            *at = merged;
            site.group = id;
            done = mp_vec_push(&heaviest, site.bytes);
            sites->at[merged++] = site;
        } else {
            merge_site(&sites->at[*at], &site, &heaviest.at[*at]);
        }
    }
    sites->count = merged;
    mp_stack_lines_free(&lines);
    mp_buffer_free(&text);
    mp_map_free(&index);
    mp_vec_free(&heaviest);
    return done;
}

static int compare(uint64_t a, uint64_t b)
{
    return a > b ? -1 : a < b;
}

static int by_bytes(const void *left, const void *right)
{
    const struct mp_site *a = left, *b = right;
    int order = compare(a->bytes, b->bytes);
    if (!order) order = compare(a->blocks, b->blocks);
    if (!order) order = compare(b->track, a->track);
    if (!order) order = compare(b->stack, a->stack); /* the rest is the recording's order: the same every time */
    return order;
}

static int by_blocks(const void *left, const void *right)
{
    const struct mp_site *a = left, *b = right;
    int order = compare(a->blocks, b->blocks);
    return order ? order : by_bytes(left, right);
}

static int by_growth(const void *left, const void *right)
{
    const struct mp_site *a = left, *b = right;
    int order = compare(a->births, b->births);
    return order ? order : by_bytes(left, right);
}

enum mp_status mp_sites_make(const struct mp_model *model, const struct mp_live *live, const struct mp_steps *steps,
                             const struct mp_grouping *grouping, struct mp_sites *sites, struct mp_error *error)
{
    static int (*const orders[])(const void *, const void *) = {
        [MP_SORT_BYTES] = by_bytes, [MP_SORT_BLOCKS] = by_blocks, [MP_SORT_GROWTH] = by_growth};
    *sites = (struct mp_sites){0};
    if (!make_stacks(model, live, steps, sites) ||
        (grouping->by != MP_GROUP_STACK && !merge_groups(model, grouping, sites))) {
        mp_sites_free(sites);
        return mp_fail(error, MP_NO_MEMORY, "not enough memory for the table of sites");
    }
    if (sites->count) qsort(sites->at, sites->count, sizeof *sites->at, orders[grouping->sort]);
    return MP_OK;
}

void mp_sites_free(struct mp_sites *sites)
{
    mp_vec_free(sites);
    mp_intern_free(&sites->groups);
}
