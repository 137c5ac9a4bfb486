#include <stdio.h>

#include "base/memory.h"
#include "base/units.h"
#include "output/report/columns.h"
#include "output/report/coverage.h"
#include "output/report/steps.h"
#include "output/report/view.h"

/* The first row shown, of `count`: a limit leaves the last rows, since recent steps say most. */
static size_t first_shown(size_t count, const struct mp_view *view)
{
    return view->limit && view->limit < count ? count - view->limit : 0;
}

struct steps {
    const struct mp_step_report *report;
    const struct mp_step_groups *groups; /* NULL: none */
};

/* Writes the bytes of each group at the step's peak. */
static void put_groups(struct mp_json *json, const char *key, const void *of, const void *row)
{
    const struct steps *steps = of;
    const struct mp_step_groups *groups = steps->groups;
    size_t number = (size_t)((const struct mp_step_row *)row - steps->report->steps.at);
    if (!groups) return;
    mp_json_array(json, key);
    mp_vec_each (const struct mp_step_group, group, &groups->groups) {
        uint64_t bytes = groups->bytes[number * groups->columns + group->column];
        if (!bytes) continue;
        mp_json_object(json, NULL);
        mp_json_text(json, "group", mp_group_key(&groups->names, group->name));
        mp_json_number(json, "bytes", bytes);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

MP_GETTER(get_length, struct mp_step_row, step, value->number = step->end_ns - step->start_ns)

#define EACH           1 /* bit of columns with a mean per occurrence */
#define STEP(member)   MP_MEMBER(struct mp_step_row, member)
#define REGION(member) MP_MEMBER(struct mp_region_row, member)

const struct mp_column mp_step_columns[] = {
    {"step", "step", MP_COUNT, STEP(number)},
    {"begins", "start_ns", MP_DURATION, STEP(start_ns)},
    {"lasts", NULL, MP_DURATION, .get = get_length},
    {NULL, "end_ns", MP_DURATION, STEP(end_ns)},
    {"allocated", "allocated_bytes", MP_BYTES, STEP(allocated_bytes)},
    {"freed", "freed_bytes", MP_BYTES, STEP(freed_bytes)},
    {"peak", "peak_bytes", MP_BYTES, STEP(peak_bytes), .style = MP_BOLD},
    {"at its end", "end_bytes", MP_BYTES, STEP(end_bytes)},
    {NULL, "groups", .put = put_groups},
    {NULL},
};

MP_GETTER(get_name, struct mp_region_row, region,
          value->text = region->name ? mp_model_text(of, region->name) : "(unnamed)")
MP_GETTER(get_allocated_each, struct mp_region_row, region,
          value->number = region->total_allocated_bytes / region->count)
MP_GETTER(get_kept_each, struct mp_region_row, region, value->number = region->kept_bytes / region->count)

const struct mp_column mp_region_columns[] = {
    {NULL, "name", MP_STRING, REGION(name)},
    {"region", NULL, MP_NAME, .get = get_name},
    {"count", "count", MP_COUNT, REGION(count)},
    {"peak mean", "mean_peak_bytes", MP_BYTES, REGION(mean_peak_bytes)},
    {"p50", "p50_peak_bytes", MP_BYTES, REGION(p50_peak_bytes)},
    {"p95", "p95_peak_bytes", MP_BYTES, REGION(p95_peak_bytes)},
    {"p99", "p99_peak_bytes", MP_BYTES, REGION(p99_peak_bytes)},
    {"peak max", "max_peak_bytes", MP_BYTES, REGION(max_peak_bytes), .style = MP_BOLD},
    {"allocated", "total_allocated_bytes", MP_BYTES, REGION(total_allocated_bytes)},
    {"kept", "kept_bytes", MP_BYTES, REGION(kept_bytes)},
    {"allocated each", NULL, MP_BYTES, .get = get_allocated_each, .only = EACH},
    {"kept each", NULL, MP_BYTES, .get = get_kept_each, .only = EACH},
    {"time", "total_ns", MP_DURATION, REGION(total_ns)},
    {NULL},
};

void mp_steps_json(struct mp_json *json, const char *key, const struct mp_model *model,
                   const struct mp_step_report *report, const struct mp_step_groups *groups, const struct mp_view *view)
{
    char id[MP_TRACK_ID_MAX];
    const struct mp_rows steps =
        MP_ROWS(mp_step_columns, report->steps.at, report->steps.count, .flat = true,
                .of = &(const struct steps){report, groups}, .first = first_shown(report->steps.count, view));
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.steps/1");
    mp_json_text(json, "track", mp_track_id(model, report->track, id));
    mp_json_text(json, "source", report->source);
    mp_rows_json(json, "steps", &steps);
    mp_rows_json(json, "regions",
                 &MP_ROWS(mp_region_columns, report->regions.at, report->regions.count, .model = model, .flat = true));
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

/* Says that the last step includes the program's end, which frees blocks. Otherwise it would seem that the step itself
 * frees them. */
static void say_end(struct mp_text *text, const struct mp_step_report *report)
{
    const struct mp_step_row *last = &report->steps.at[report->steps.count - 1];
    if (last->to_end && last->freed_bytes > last->allocated_bytes)
        mp_say(text, "^step %s goes to the recording's end, and includes the frees there^\n", mp_count(last->number));
}

/* ---- what each step held at its peak, by group ------------------------------------------------------------------ */

#define GROUPS_OF_TEXT 6 /* most columns; further groups are added up */

/* A row of bytes, one for each column of groups. A column finds its bytes by its index. */
struct group_row {
    uint64_t number, peak, bytes[GROUPS_OF_TEXT + 1];
};

#define GROUP_ROW(member) MP_MEMBER(struct group_row, member)

static void name_columns(const struct mp_step_groups *groups, size_t shown, struct mp_column *columns, char *rest)
{
    *columns++ = (struct mp_column){"step", NULL, MP_COUNT, GROUP_ROW(number)};
    *columns++ = (struct mp_column){"peak", NULL, MP_BYTES, GROUP_ROW(peak), .style = MP_BOLD};
    for (size_t i = 0; i < shown; i++) {
        const char *name = mp_group_key(&groups->names, groups->groups.at[i].name);
        *columns = (struct mp_column){name ? name : "(unknown)", NULL, MP_BYTES, GROUP_ROW(bytes[0])};
        columns++->offset = (unsigned short)(offsetof(struct group_row, bytes) + i * sizeof(uint64_t));
    }
    if (shown == groups->groups.count) return;
    snprintf(rest, MP_UNIT_TEXT, "%zu more", groups->groups.count - shown);
    *columns = (struct mp_column){rest, NULL, MP_BYTES, GROUP_ROW(bytes[0])};
    columns->offset = (unsigned short)(offsetof(struct group_row, bytes) + shown * sizeof(uint64_t));
}

static void group_table(struct mp_text *text, const struct mp_step_report *report, const struct mp_step_groups *groups,
                        size_t first)
{
    size_t shown = groups->groups.count > GROUPS_OF_TEXT + 1 ? GROUPS_OF_TEXT : groups->groups.count;
    struct mp_column columns[GROUPS_OF_TEXT + 5] = {{0}};
    char rest[MP_UNIT_TEXT];
    struct mp_text all = *text; /* users cannot choose columns of groups, because their names are not fixed */
    MP_VEC(struct group_row) rows = {0};
    name_columns(groups, shown, columns, rest);
    for (size_t i = first; i < report->steps.count; i++) {
        struct group_row row = {report->steps.at[i].number, report->steps.at[i].peak_bytes, {0}};
        uint64_t left = row.peak;
        for (size_t k = 0; k < shown; k++) {
            row.bytes[k] = groups->bytes[i * groups->columns + groups->groups.at[k].column];
            left -= row.bytes[k];
        }
        if (shown < groups->groups.count) row.bytes[shown] = left;
        mp_vec_add(&rows, row);
    }
    all.columns = NULL;
    mp_rows_text(&all, &MP_ROWS(columns, rows.at, rows.count));
    mp_vec_free(&rows);
}

/* ---- text ------------------------------------------------------------------------------------------------------- */

void mp_regions_text(struct mp_text *text, const struct mp_model *model, const struct mp_step_report *report,
                     const char *heading, const char *shown)
{
    mp_rows_text(text, &MP_ROWS(mp_region_columns, report->regions.at, report->regions.count, .of = model,
                                .model = model, .without = EACH, .heading = heading, .shown = shown));
}

void mp_steps_text(struct mp_text *text, const struct mp_model *model, const struct mp_step_report *report,
                   const struct mp_step_groups *groups, const struct mp_view *view)
{
    char id[MP_TRACK_ID_MAX];
    size_t first = first_shown(report->steps.count, view);
    mp_say(text, "`%s` (%s) and %s on %s\n", mp_counted(report->steps.count, "step"), report->source,
           mp_counted(report->regions.count, "region"), mp_track_id(model, report->track, id));
    if (!report->steps.count && !report->regions.count)
        mp_say(text, "%s\n",
               mp_model_was_recorded(model)
                   ? "the program marked none: call libmemprof.step() and region() in Python, memprof_step() and "
                     "memprof_region_push() in C"
                   : "the file marks none");
    const struct mp_rows steps =
        MP_ROWS(mp_step_columns, report->steps.at, report->steps.count, .first = first, .heading = "");
    if (mp_rows_text(text, &steps) && report->steps.count) {
        if (first) mp_say(text, "^%zu earlier ones; -n 0 shows all^\n", first);
        say_end(text, report);
        if (groups) {
            mp_heading(text, "AT THE PEAK of each step, by %s", mp_group_name(view->grouping.by));
            mp_say(text, "\n");
            group_table(text, report, groups, first);
        }
    }
    mp_regions_text(text, model, report, "", NULL);
    mp_coverage_end(text, model);
}
