#include "output/report/compare.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "output/form/plot.h"
#include "output/report/columns.h"
#include "output/report/coverage.h"
#include "output/report/site_rows.h"
#include "output/report/tensor_rows.h"

static const char *const sense_words[] = {[MP_PROFILE_PEAK] = "at the peak",
                                          [MP_PROFILE_OUTSTANDING] = "outstanding",
                                          [MP_PROFILE_ALLOCATED] = "allocated in all"};

static const struct {
    const char *name;
    enum mp_profile_of sense;
} figures[] = {{"peak", MP_PROFILE_PEAK}, {"outstanding", MP_PROFILE_OUTSTANDING}, {"allocated", MP_PROFILE_ALLOCATED}};

#define FIGURES (sizeof figures / sizeof *figures)

static const struct mp_compare_row *row_at(const struct mp_comparison *comparison, size_t row)
{
    return &comparison->compare->rows.at[row];
}

/* The number of rows shown: in text at most as many as requested. */
static size_t count_rows(const struct mp_comparison *comparison)
{
    size_t limit = comparison->view->limit, all = comparison->compare->rows.count;
    return limit && limit < all ? limit : all;
}

static bool by_site(const struct mp_comparison *comparison)
{
    return comparison->view->grouping.by == MP_GROUP_STACK;
}

/* "site", "category" */
static const char *row_word(const struct mp_comparison *comparison)
{
    return by_site(comparison) ? "site" : mp_group_name(comparison->view->grouping.by);
}

/* The recording whose stack of a site is shown: the later one, if it has the site. */
static enum mp_flame_side side_of(const struct mp_compare_row *row)
{
    return row->stacks[MP_AFTER] == MP_NONE ? MP_BEFORE : MP_AFTER;
}

static void put_sides(struct mp_json *json, const char *key, const struct mp_compare *compare, enum mp_profile_of sense)
{
    mp_json_object(json, key);
    mp_json_number(json, "before_bytes", compare->sums[MP_BEFORE][sense].bytes);
    mp_json_number(json, "after_bytes", compare->sums[MP_AFTER][sense].bytes);
    mp_json_number(json, "before_blocks", compare->sums[MP_BEFORE][sense].blocks);
    mp_json_number(json, "after_blocks", compare->sums[MP_AFTER][sense].blocks);
    mp_json_end_object(json);
}

static void get_command(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_buffer *command = &((const struct mp_compared *)row)->command;
    value->text = "";
    mp_buffer_append(&value->made, command->data, command->size);
}

#define COMPARED(member) MP_MEMBER(struct mp_compared, member)
const struct mp_column mp_compared_columns[] = {
    {"recording", "path", MP_NAME, COMPARED(path)},
    {"peak", "peak_bytes", MP_BYTES, COMPARED(peak_bytes)},
    {"outstanding", "outstanding_bytes", MP_BYTES, COMPARED(outstanding_bytes)},
    {NULL, "allocated_bytes", MP_BYTES, COMPARED(allocated_bytes)},
    {NULL, "command", MP_NAME, .get = get_command},
    {NULL, "events", MP_COUNT, COMPARED(events)},
    {NULL, "complete", MP_FLAG, COMPARED(complete)},
    {NULL},
};

/* ---- sites ------------------------------------------------------------------------------------------------------ */

enum { BY_STACK = 1, BY_GROUP = 2 }; /* bits of columns */

static void get_delta(struct mp_value *value, const void *of, const void *row)
{
    value->number = (uint64_t)mp_compare_delta(row);
    value->whole = ((const struct mp_comparison *)of)->most;
}

static void get_more_blocks(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_compare_row *pair = row;
    value->number = pair->values[MP_AFTER].blocks - pair->values[MP_BEFORE].blocks;
    mp_buffer_printf(&value->made, "%+lld", (long long)value->number);
}

static void get_site(struct mp_value *value, const void *of, const void *row)
{
    enum mp_flame_side side = side_of(row);
    value->site.stack = ((const struct mp_compare_row *)row)->stacks[side];
    value->model = ((const struct mp_comparison *)of)->models[side];
}

MP_GETTER(get_key, struct mp_compare_row, it,
          value->text = mp_group_key(&((const struct mp_comparison *)of)->compare->groups, it->group))

static void get_group(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_comparison *comparison = of;
    mp_group_text(&value->made, &comparison->compare->groups, ((const struct mp_compare_row *)row)->group,
                  comparison->view->grouping.by);
}

static void put_tensors(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct mp_comparison *comparison = of;
    enum mp_flame_side side = side_of(row);
    mp_stack_tensors_json(json, key, comparison->models[side], comparison->tracks[side],
                          ((const struct mp_compare_row *)row)->stacks[side]);
}

static void put_below(struct mp_table *table, unsigned columns, const void *of, const void *row)
{
    const struct mp_comparison *comparison = of;
    enum mp_flame_side side = side_of(row);
    if (by_site(comparison))
        mp_stack_tensor_row(table, columns, comparison->models[side], comparison->tracks[side],
                            ((const struct mp_compare_row *)row)->stacks[side]);
}

#define ROW(member) MP_MEMBER(struct mp_compare_row, member)

const struct mp_column mp_compare_columns[] = {
    {"before", "before_bytes", MP_BYTES, ROW(values[MP_BEFORE].bytes), .place = 1},
    {"after", "after_bytes", MP_BYTES, ROW(values[MP_AFTER].bytes), .place = 2},
    {"change", "delta_bytes", MP_CHANGE, .get = get_delta, .style = MP_BOLD},
    {NULL, "before_blocks", MP_COUNT, ROW(values[MP_BEFORE].blocks)},
    {NULL, "after_blocks", MP_COUNT, ROW(values[MP_AFTER].blocks)},
    {"blocks", NULL, MP_CHANGE, .get = get_more_blocks, .place = 3},
    {"site", "stack", MP_SITE, .get = get_site, .place = 4, .only = BY_STACK},
    {NULL, "tensors", .put = put_tensors, .only = BY_STACK},
    {NULL, "group", MP_NAME, .get = get_key, .only = BY_GROUP},
    {"group", NULL, MP_NAME, .get = get_group, .place = 4, .only = BY_GROUP},
    {NULL},
};

/* The differences between rows of one recording. The caller frees them. */
static struct mp_site_apart *tell_apart(const struct mp_comparison *comparison, size_t rows)
{
    struct mp_site_apart *apart = mp_alloc_zeroed(rows + 1, sizeof *apart);
    uint32_t *stacks = mp_alloc((rows + 1) * sizeof *stacks);
    for (int side = MP_BEFORE; by_site(comparison) && side < MP_SIDES; side++) {
        size_t count = 0;
        for (size_t i = 0; i < rows; i++)
            if (side_of(row_at(comparison, i)) == (enum mp_flame_side)side)
                stacks[count++] = row_at(comparison, i)->stacks[side];
        struct mp_site_apart *found = mp_stacks_apart(comparison->models[side], stacks, NULL, count, MP_APART_SITES);
        for (size_t i = rows; i-- > 0;)
            if (side_of(row_at(comparison, i)) == (enum mp_flame_side)side) apart[i] = found[--count];
        free(found);
    }
    free(stacks);
    return apart;
}

static struct mp_rows rows_of(const struct mp_comparison *comparison)
{
    return MP_ROWS(mp_compare_columns, comparison->compare->rows.at, count_rows(comparison), .of = comparison,
                   .never = by_site(comparison) ? BY_GROUP : BY_STACK, .word = row_word(comparison), .below = put_below,
                   .stacks = comparison->view->full_stacks ? MP_FULL_STACKS : MP_STACKS);
}

/* ---- JSON ------------------------------------------------------------------------------------------------------- */

void mp_compare_json(struct mp_json *json, const struct mp_comparison *comparison)
{
    const struct mp_model *after = comparison->models[MP_AFTER];
    const struct mp_rows rows = rows_of(comparison);
    char id[MP_TRACK_ID_MAX];
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.compare/1");
    mp_json_text(json, "track", mp_track_id(after, comparison->tracks[MP_AFTER], id));
    mp_rows_json(json, "files", &MP_ROWS(mp_compared_columns, comparison->all, comparison->count));
    for (size_t i = 0; i < FIGURES; i++)
        put_sides(json, figures[i].name, comparison->compare, figures[i].sense);
    mp_json_text(json, "of", figures[comparison->sense].name);
    mp_json_number(json, "moved_functions", comparison->compare->moved.functions.count);
    mp_rows_json(json, "sites", &rows);
    mp_coverage_json(json, comparison->covered);
    mp_json_end_object(json);
}

/* ---- for people ------------------------------------------------------------------------------------------------- */

struct figure {
    const char *name;
    uint64_t before, after;
};

MP_GETTER(get_change, struct figure, figure, value->number = figure->after - figure->before)
/* "+12.0 %"; empty if the value was 0 before. */
static void get_percent(struct mp_value *value, const void *of, const void *row)
{
    const struct figure *figure = row;
    double before = (double)figure->before, after = (double)figure->after;
    if (figure->before) mp_buffer_printf(&value->made, "%+.1f %%", 100.0 * (after - before) / before);
}

#define FIGURE(member) MP_MEMBER(struct figure, member)
static const struct mp_column figure_columns[] = {
    {"", NULL, MP_NAME, FIGURE(name)},        {"before", NULL, MP_BYTES, FIGURE(before)},
    {"after", NULL, MP_BYTES, FIGURE(after)}, {"change", NULL, MP_CHANGE, .get = get_change, .style = MP_BOLD},
    {"", NULL, MP_NAME, .get = get_percent},  {NULL},
};

static void put_figures(struct mp_text *text, const struct mp_comparison *comparison)
{
    struct figure rows[FIGURES];
    struct mp_text all = *text; /* --columns is for the tables below */
    if (mp_is_csv(text)) return;
    for (size_t i = 0; i < FIGURES; i++)
        rows[i] = (struct figure){figures[i].name, comparison->compare->sums[MP_BEFORE][figures[i].sense].bytes,
                                  comparison->compare->sums[MP_AFTER][figures[i].sense].bytes};
    all.columns = NULL;
    mp_rows_text(&all, &MP_ROWS(figure_columns, rows, FIGURES));
}

/* Writes a single line, however much code moved. */
static void put_moved(struct mp_text *text, const struct mp_moved *moved)
{
    if (!moved->functions.count) return;
    const struct mp_moved_function *first = &moved->functions.at[0];
    mp_say(text, "\nmoved: %s (%s:%u → %u)", mp_intern_get(&moved->names, first->function, NULL),
           mp_intern_get(&moved->names, first->file, NULL), first->before, first->after);
    if (moved->functions.count > 1) mp_say(text, " and %s", mp_counted(moved->functions.count - 1, "more function"));
    mp_say(text, "; lines below are those of the second recording\n");
}

/* Writes the commands if the program or its options differ. */
static void put_commands(struct mp_text *text, const struct mp_comparison *comparison)
{
    const struct mp_buffer *before = &comparison->all[0].command,
                           *after = &comparison->all[comparison->count - 1].command;
    if (!before->size || !after->size) return;
    if (before->size == after->size && !memcmp(before->data, after->data, before->size)) return;
    mp_say(text, "\nthe commands differ:\n  before  %.*s\n  after   %.*s\n", (int)before->size,
           (const char *)before->data, (int)after->size, (const char *)after->data);
}

static void put_curves(struct mp_text *text, const struct mp_comparison *comparison)
{
    struct mp_drawn_curve curves[MP_SIDES] = {{.name = "before"}, {.name = "after"}};
    if (!text->document || text->document->form != MP_HTML) return;
    for (int side = MP_BEFORE; side < MP_SIDES; side++) {
        curves[side].model = comparison->models[side];
        curves[side].track = comparison->tracks[side];
        curves[side].window = &comparison->windows[side];
        curves[side].peak = comparison->compare->sums[side][MP_PROFILE_PEAK].bytes;
    }
    mp_document_lines(text->document, text->out);
    if (mp_curves_picture(text->document->out, curves, MP_SIDES))
        mp_say(text, "The curves show every byte allocated on the track.\n");
}

/* Writes the sites. A bar compares each change with the largest. */
static void put_sites(struct mp_text *text, const struct mp_comparison *comparison)
{
    struct mp_comparison measured = *comparison;
    struct mp_rows rows = rows_of(&measured);
    struct mp_site_apart *apart = tell_apart(comparison, rows.count);
    for (size_t i = 0; i < rows.count; i++) {
        uint64_t change = (uint64_t)llabs(mp_compare_delta(row_at(comparison, i)));
        if (change > measured.most) measured.most = change;
    }
    mp_heading(text, "BY %s, %s", row_word(comparison), sense_words[comparison->sense]);
    mp_say(text, "\n");
    rows.apart = apart;
    if (!mp_rows_text(text, &rows) && !rows.count)
        mp_say(text, "no %s differs %s\n", row_word(comparison), sense_words[comparison->sense]);
    free(apart);
    size_t left = comparison->compare->rows.count - rows.count;
    if (left) mp_say(text, "^%zu more differ; -n 0 shows all^\n", left);
}

/* The coverage of every recording that was read. */
static void put_coverage(struct mp_text *text, const struct mp_comparison *comparison)
{
    if (text->document)
        mp_heading(text, "Coverage");
    else
        mp_say(text, "\n");
    for (size_t i = 0; i < comparison->count; i++) {
        const struct mp_compared *file = &comparison->all[i];
        mp_say(text, "%s: ", file->path);
        mp_buffer_append(text->out, file->coverage.data, file->coverage.size);
    }
}

void mp_compare_text(struct mp_text *text, const struct mp_comparison *comparison)
{
    char id[MP_TRACK_ID_MAX];
    mp_say(text, "%s → %s, %s\n", comparison->all[0].path, comparison->all[comparison->count - 1].path,
           mp_track_id(comparison->models[MP_AFTER], comparison->tracks[MP_AFTER], id));
    put_figures(text, comparison);
    put_commands(text, comparison);
    put_curves(text, comparison);
    if (by_site(comparison)) put_moved(text, &comparison->compare->moved);
    put_sites(text, comparison);
    if (comparison->count > MP_SIDES)
        mp_rows_text(text, &MP_ROWS(mp_compared_columns, comparison->all, comparison->count, .heading = ""));
    put_coverage(text, comparison);
}
