#include "output/report/compare.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/units.h"
#include "model/frame_text.h"
#include "output/report/columns.h"
#include "output/report/page_links.h"
#include "output/report/plot.h"

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

/* The recording that has a site's stack: the later one where it is there at all. */
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
    (void)of;
    value->text = "";
    mp_buffer_append(&value->made, command->data, command->size);
}

#define COMPARED(member) MP_MEMBER(struct mp_compared, member)
static const struct mp_column file_columns[] = {
    {"recording", "path", MP_NAME, COMPARED(path)},
    {"peak", "peak_bytes", MP_BYTES, COMPARED(peak_bytes)},
    {"outstanding", "outstanding_bytes", MP_BYTES, COMPARED(outstanding_bytes)},
    {NULL, "allocated_bytes", MP_BYTES, COMPARED(allocated_bytes)},
    {NULL, "command", MP_NAME, .get = get_command},
    {NULL, "events", MP_COUNT, COMPARED(events)},
    {NULL, "complete", MP_FLAG, COMPARED(complete)},
    {NULL},
};

void mp_compare_json(struct mp_json *json, const struct mp_comparison *comparison)
{
    const struct mp_model *after = comparison->models[MP_AFTER];
    char id[MP_TRACK_ID_MAX];
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.compare/1");
    mp_json_text(json, "track", mp_track_id(after, comparison->tracks[MP_AFTER], id));
    mp_rows_json(json, "files", &MP_ROWS(file_columns, comparison->all, comparison->count));
    for (size_t i = 0; i < FIGURES; i++)
        put_sides(json, figures[i].name, comparison->compare, figures[i].sense);
    mp_json_text(json, "of", figures[comparison->sense].name);
    mp_json_number(json, "moved_functions", comparison->compare->moved.functions.count);
    mp_json_array(json, "sites");
    for (size_t i = 0, rows = count_rows(comparison); i < rows; i++) {
        const struct mp_compare_row *row = row_at(comparison, i);
        enum mp_flame_side side = side_of(row);
        mp_json_object(json, NULL);
        mp_json_number(json, "before_bytes", row->values[MP_BEFORE].bytes);
        mp_json_number(json, "after_bytes", row->values[MP_AFTER].bytes);
        mp_json_signed(json, "delta_bytes", mp_compare_delta(row));
        mp_json_number(json, "before_blocks", row->values[MP_BEFORE].blocks);
        mp_json_number(json, "after_blocks", row->values[MP_AFTER].blocks);
        if (by_site(comparison))
            mp_stack_json(json, comparison->models[side], row->stacks[side]);
        else
            mp_group_json(json, &comparison->compare->groups, row->group);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    mp_coverage_json(json, comparison->covered);
    mp_json_end_object(json);
}

/* " (+12 %)"; nothing where the value was 0 before. */
static const char *percent(char to[MP_UNIT_TEXT], uint64_t before, uint64_t after)
{
    *to = '\0';
    if (before) snprintf(to, MP_UNIT_TEXT, " (%+.1f %%)", 100.0 * ((double)after - (double)before) / (double)before);
    return to;
}

struct figure_text {
    char before[MP_UNIT_TEXT], after[MP_UNIT_TEXT], change[MP_UNIT_TEXT], part[MP_UNIT_TEXT];
};

static struct figure_text figure_text(uint64_t before, uint64_t after)
{
    struct figure_text text;
    mp_format_bytes(text.before, before);
    mp_format_bytes(text.after, after);
    mp_format_signed_bytes(text.change, (int64_t)(after - before));
    percent(text.part, before, after);
    return text;
}

static void put_figures(struct mp_text *text, const struct mp_comparison *comparison)
{
    const struct mp_compare *compare = comparison->compare;
    struct mp_table table;
    mp_table_start(&table, "lrlrl");
    for (size_t i = 0; i < FIGURES; i++) {
        struct figure_text figure = figure_text(compare->sums[MP_BEFORE][figures[i].sense].bytes,
                                                compare->sums[MP_AFTER][figures[i].sense].bytes);
        mp_table_cell(&table, MP_PLAIN, "%s", figures[i].name);
        mp_table_cell(&table, MP_PLAIN, "%s", figure.before);
        mp_table_cell(&table, MP_PLAIN, "→ %s", figure.after);
        mp_table_cell(&table, MP_BOLD, "%s", figure.change);
        mp_table_wide(&table, MP_PLAIN, "%s", figure.part);
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, text);
}

/* One line, however much code moved. */
static void put_moved(struct mp_text *text, const struct mp_moved *moved)
{
    if (!moved->functions.count) return;
    const struct mp_moved_function *first = &moved->functions.at[0];
    mp_text_put(text, MP_PLAIN, "\nmoved: ");
    mp_text_clean(text->out, mp_intern_get(&moved->names, first->function, NULL));
    mp_text_put(text, MP_PLAIN, " (");
    mp_text_clean(text->out, mp_intern_get(&moved->names, first->file, NULL));
    mp_text_put(text, MP_PLAIN, ":%u → %u)", first->before, first->after);
    if (moved->functions.count > 1)
        mp_text_put(text, MP_PLAIN, " and %zu more function%s", moved->functions.count - 1,
                    moved->functions.count == 2 ? "" : "s");
    mp_text_put(text, MP_PLAIN, "; lines below are those of the second recording\n");
}

/* What distinguishes the rows of one recording from each other. The caller frees it. */
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

static void put_sites(struct mp_text *text, const struct mp_comparison *comparison, size_t rows)
{
    struct mp_table table;
    char word[16] = "";
    for (size_t i = 0; i < sizeof word - 1 && row_word(comparison)[i]; i++)
        word[i] = (char)toupper(row_word(comparison)[i]);
    mp_text_put(text, MP_BOLD, "\nBY %s, %s\n", word, sense_words[comparison->sense]);
    mp_table_start_titled(&table, "rrrrll", row_word(comparison), "change", "before", "after", "blocks", NULL);
    struct mp_site_apart *apart = tell_apart(comparison, rows);
    for (size_t i = 0; i < rows; i++) {
        const struct mp_compare_row *row = row_at(comparison, i);
        enum mp_flame_side side = side_of(row);
        const struct mp_site site = {.stack = row->stacks[side]};
        struct figure_text figure = figure_text(row->values[MP_BEFORE].bytes, row->values[MP_AFTER].bytes);
        mp_table_cell(&table, MP_BOLD, "%s", figure.change);
        mp_table_cell(&table, MP_PLAIN, "%s", figure.before);
        mp_table_cell(&table, MP_PLAIN, "%s", figure.after);
        mp_table_cell(&table, MP_PLAIN, "%+lld",
                      (long long)(row->values[MP_AFTER].blocks - row->values[MP_BEFORE].blocks));
        if (by_site(comparison)) {
            mp_stack_rows(&table, 4, comparison->models[side], NULL, &site, &apart[i], comparison->view->full_stacks);
        } else {
            mp_group_cell(&table, &comparison->compare->groups, row->group, comparison->view->grouping.by);
            mp_table_end_row(&table);
        }
    }
    free(apart);
    mp_table_finish(&table, text);
}

/* Most comparisons are of recordings of one program; in others the options or the program differ. */
static bool other_command(const struct mp_comparison *comparison)
{
    const struct mp_buffer *before = &comparison->all[0].command,
                           *after = &comparison->all[comparison->count - 1].command;
    return before->size && after->size &&
           (before->size != after->size || memcmp(before->data, after->data, before->size) != 0);
}

static void put_commands(struct mp_text *text, const struct mp_comparison *comparison)
{
    static const char *const heads[] = {"before", "after"};
    const struct mp_compared *sides[] = {&comparison->all[0], &comparison->all[comparison->count - 1]};
    if (!other_command(comparison)) return;
    mp_text_put(text, MP_PLAIN, "\nthe commands differ:\n");
    for (size_t i = 0; i < MP_SIDES; i++) {
        mp_text_put(text, MP_PLAIN, "  %-6s  ", heads[i]);
        mp_text_put(text, MP_PLAIN, "%.*s\n", (int)sides[i]->command.size, (const char *)sides[i]->command.data);
    }
}

/* Of every recording that was read. */
static void put_coverage(struct mp_text *text, const struct mp_comparison *comparison)
{
    mp_text_put(text, MP_PLAIN, "\n");
    for (size_t i = 0; i < comparison->count; i++) {
        const struct mp_compared *file = &comparison->all[i];
        mp_text_clean(text->out, file->path);
        mp_text_put(text, MP_PLAIN, ": ");
        mp_buffer_append(text->out, file->coverage.data, file->coverage.size);
    }
}

void mp_compare_text(struct mp_text *text, const struct mp_comparison *comparison)
{
    char id[MP_TRACK_ID_MAX];
    size_t rows = count_rows(comparison), differing = comparison->compare->rows.count;
    mp_text_clean(text->out, comparison->all[0].path);
    mp_text_put(text, MP_PLAIN, " → ");
    mp_text_clean(text->out, comparison->all[comparison->count - 1].path);
    mp_text_put(text, MP_PLAIN, ", ");
    mp_text_clean(text->out, mp_track_id(comparison->models[MP_AFTER], comparison->tracks[MP_AFTER], id));
    mp_text_put(text, MP_PLAIN, "\n");
    put_figures(text, comparison);
    put_commands(text, comparison);
    if (comparison->count > MP_SIDES) {
        mp_text_put(text, MP_PLAIN, "\n");
        mp_rows_text(text, &MP_ROWS(file_columns, comparison->all, comparison->count));
    }
    if (by_site(comparison)) put_moved(text, &comparison->compare->moved);
    if (rows) put_sites(text, comparison, rows);
    if (!differing)
        mp_text_put(text, MP_PLAIN, "\nno %s differs %s\n", row_word(comparison), sense_words[comparison->sense]);
    if (rows < differing) mp_text_put(text, MP_DIM, "%zu more differ; -n 0 shows all\n", differing - rows);
    put_coverage(text, comparison);
}

static void put_group(struct mp_document *document, const struct mp_comparison *comparison,
                      const struct mp_compare_row *row)
{
    struct mp_buffer name = {0};
    mp_group_text(&name, &comparison->compare->groups, row->group, comparison->view->grouping.by);
    mp_document_cell(document, "%.*s", (int)name.size, (const char *)name.data);
    mp_buffer_free(&name);
}

static void put_curves(struct mp_document *document, const struct mp_comparison *comparison)
{
    struct mp_drawn_curve curves[MP_SIDES] = {{.name = "before"}, {.name = "after"}};
    for (int side = MP_BEFORE; side < MP_SIDES; side++) {
        curves[side].model = comparison->models[side];
        curves[side].track = comparison->tracks[side];
        curves[side].window = &comparison->windows[side];
        curves[side].peak = comparison->compare->sums[side][MP_PROFILE_PEAK].bytes;
    }
    if (mp_curves_picture(document->out, curves, MP_SIDES))
        mp_document_paragraph(document, "The curves have all that was allocated there.");
}

/* What is there no more has no place in the later recording's page. */
static void link_site(struct mp_document *document, const struct mp_comparison *comparison,
                      const struct mp_compare_row *row)
{
    const struct mp_model *model = comparison->models[MP_AFTER];
    const struct mp_window *window = &comparison->windows[MP_AFTER];
    const struct mp_page_links links = {.model = model, .site_of_stack = comparison->site_of_stack};
    char words[96] = "of=peak&v=sites";
    if (!comparison->site_of_stack || side_of(row) != MP_AFTER || !row->values[MP_AFTER].blocks) return;
    if (comparison->sense == MP_PROFILE_OUTSTANDING) strcpy(words, "of=end&v=sites");
    if (comparison->sense == MP_PROFILE_ALLOCATED)
        snprintf(words, sizeof words, "of=born&v=sites&w=%" PRIu64 "-%" PRIu64, window->from_ns,
                 window->to_ns < model->duration_ns ? window->to_ns : model->duration_ns);
    mp_link_site(document, &links, comparison->tracks[MP_AFTER], row->stacks[MP_AFTER], words);
}

/* Bars say how large a change is beside the largest. */
static void put_rows(struct mp_document *document, const struct mp_comparison *comparison, size_t rows)
{
    const char *const heads[] = {"change", "before", "after", "blocks", row_word(comparison)};
    uint64_t most = 0;
    struct mp_site_apart *apart = tell_apart(comparison, rows);
    for (size_t i = 0; i < rows; i++) {
        uint64_t change = (uint64_t)llabs(mp_compare_delta(row_at(comparison, i)));
        if (change > most) most = change;
    }
    mp_document_table(document, "rrrrl", heads);
    for (size_t i = 0; i < rows; i++) {
        const struct mp_compare_row *row = row_at(comparison, i);
        enum mp_flame_side side = side_of(row);
        const struct mp_site site = {.stack = row->stacks[side]};
        struct figure_text figure = figure_text(row->values[MP_BEFORE].bytes, row->values[MP_AFTER].bytes);
        mp_document_bar(document, (uint64_t)llabs(mp_compare_delta(row)), most, "%s", figure.change);
        mp_document_cell(document, "%s", figure.before);
        mp_document_cell(document, "%s", figure.after);
        mp_document_cell(document, "%+lld", (long long)(row->values[MP_AFTER].blocks - row->values[MP_BEFORE].blocks));
        if (by_site(comparison)) link_site(document, comparison, row);
        if (by_site(comparison))
            mp_document_site(document, comparison->models[side], &site, &apart[i]);
        else
            put_group(document, comparison, row);
    }
    mp_document_end_table(document);
    free(apart);
}

void mp_compare_document(struct mp_document *document, const struct mp_comparison *comparison)
{
    static const char *const figure_heads[] = {"", "before", "after", "change"};
    char id[MP_TRACK_ID_MAX];
    size_t rows = count_rows(comparison), differing = comparison->compare->rows.count;
    const char *last = comparison->all[comparison->count - 1].path;
    mp_document_paragraph(document, "%s → %s, %s", comparison->all[0].path, last,
                          mp_track_id(comparison->models[MP_AFTER], comparison->tracks[MP_AFTER], id));
    if (other_command(comparison)) {
        const struct mp_buffer *before = &comparison->all[0].command;
        const struct mp_buffer *after = &comparison->all[comparison->count - 1].command;
        mp_document_paragraph(document, "The commands differ: %.*s → %.*s", (int)before->size,
                              (const char *)before->data, (int)after->size, (const char *)after->data);
    }
    mp_document_table(document, "lrrr", figure_heads);
    for (size_t i = 0; i < FIGURES; i++) {
        struct figure_text figure = figure_text(comparison->compare->sums[MP_BEFORE][figures[i].sense].bytes,
                                                comparison->compare->sums[MP_AFTER][figures[i].sense].bytes);
        mp_document_cell(document, "%s", figures[i].name);
        mp_document_cell(document, "%s", figure.before);
        mp_document_cell(document, "%s", figure.after);
        mp_document_cell(document, "%s%s", figure.change, figure.part);
    }
    mp_document_end_table(document);
    if (document->form == MP_HTML) put_curves(document, comparison);
    mp_document_heading(document, "By %s, %s", row_word(comparison), sense_words[comparison->sense]);
    if (!rows) mp_document_paragraph(document, "No %s differs.", row_word(comparison));
    if (rows) put_rows(document, comparison, rows);
    if (rows < differing) mp_document_paragraph(document, "%zu more differ.", differing - rows);
    mp_document_coverage(document, comparison->covered);
}
