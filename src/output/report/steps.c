#include "base/units.h"
#include "output/report/columns.h"
#include "output/report/reports.h"

/* The first row shown, of `count`: with a limit the last rows are shown, since recent ones say most. */
static size_t first_shown(size_t count, const struct mp_view *view)
{
    return view->limit && view->limit < count ? count - view->limit : 0;
}

/* The bytes that a step held at its peak. */
static void put_groups(struct mp_json *json, const void *of, size_t row)
{
    const struct mp_step_groups *groups = of;
    if (!groups) return;
    mp_json_array(json, "groups");
    for (size_t i = 0; i < groups->groups.count; i++) {
        const struct mp_step_group *group = &groups->groups.at[i];
        uint64_t bytes = groups->bytes[row * groups->columns + group->column];
        if (!bytes) continue;
        mp_json_object(json, NULL);
        mp_json_text(json, "group", group->name == MP_NONE ? NULL : mp_intern_get(&groups->names, group->name, NULL));
        mp_json_number(json, "bytes", bytes);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
}

static void get_length(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_step_row *step = row;
    (void)of;
    value->number = step->end_ns - step->start_ns;
}

#define STEP(member)   MP_MEMBER(struct mp_step_row, member)
#define REGION(member) MP_MEMBER(struct mp_region_row, member)

static const struct mp_column step_columns[] = {
    {"step", "step", MP_COUNT, STEP(number)},
    {"begins", "start_ns", MP_DURATION, STEP(start_ns)},
    {"lasts", NULL, MP_DURATION, .get = get_length},
    {NULL, "end_ns", MP_DURATION, STEP(end_ns)},
    {"allocated", "allocated_bytes", MP_BYTES, STEP(allocated_bytes)},
    {"freed", "freed_bytes", MP_BYTES, STEP(freed_bytes)},
    {"peak", "peak_bytes", MP_BYTES, STEP(peak_bytes), .style = MP_BOLD},
    {"at its end", "end_bytes", MP_BYTES, STEP(end_bytes)},
    {NULL},
};

static void get_name(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_region_row *region = row;
    value->text = region->name ? mp_model_text(of, region->name) : "(unnamed)";
}

static const struct mp_column region_columns[] = {
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
    {"time", "total_ns", MP_DURATION, REGION(total_ns)},
    {NULL},
};

void mp_steps_json(struct mp_json *json, const char *key, const struct mp_model *model,
                   const struct mp_step_report *report, const struct mp_step_groups *groups, const struct mp_view *view)
{
    char id[MP_TRACK_ID_MAX];
    const struct mp_rows steps =
        MP_ROWS(step_columns, report->steps.at, report->steps.count, .of = groups, .flat = true,
                .first = first_shown(report->steps.count, view), .members = put_groups);
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.steps/1");
    mp_json_text(json, "track", mp_track_id(model, report->track, id));
    mp_json_text(json, "source", report->source);
    mp_rows_json(json, "steps", &steps);
    mp_rows_json(json, "regions",
                 &MP_ROWS(region_columns, report->regions.at, report->regions.count, .model = model, .flat = true));
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

/* The end of a program frees what no step did: its last step must not pass for one that clears up. */
static void say_end(struct mp_text *text, const struct mp_step_report *report)
{
    const struct mp_step_row *last = &report->steps.at[report->steps.count - 1];
    char number[MP_UNIT_TEXT];
    if (last->to_end && last->freed_bytes > last->allocated_bytes)
        mp_text_put(text, MP_DIM, "step %s lasts to the recording's end, and has all that was freed there\n",
                    mp_format_count(number, last->number));
}

#define GROUPS_OF_TEXT 6 /* columns; the others are added up */

/* Bytes of each step at its peak, with a column per group. */
static void group_table(struct mp_text *text, const struct mp_step_report *report, const struct mp_step_groups *groups,
                        const struct mp_view *view)
{
    struct mp_table table;
    char number[MP_UNIT_TEXT];
    size_t shown = groups->groups.count > GROUPS_OF_TEXT + 1 ? GROUPS_OF_TEXT : groups->groups.count;
    mp_table_start(&table, "rrrrrrrrr");
    mp_table_cell(&table, MP_DIM, "step");
    mp_table_cell(&table, MP_DIM, "peak");
    for (size_t i = 0; i < shown; i++) {
        uint32_t name = groups->groups.at[i].name;
        mp_table_cell(&table, MP_DIM, "%s", name == MP_NONE ? "(unknown)" : mp_intern_get(&groups->names, name, NULL));
    }
    if (shown < groups->groups.count) mp_table_cell(&table, MP_DIM, "%zu more", groups->groups.count - shown);
    mp_table_end_row(&table);
    for (size_t row = first_shown(report->steps.count, view); row < report->steps.count; row++) {
        const uint64_t *bytes = groups->bytes + row * groups->columns;
        uint64_t rest = report->steps.at[row].peak_bytes;
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_count(number, report->steps.at[row].number));
        mp_table_cell(&table, MP_BOLD, "%s", mp_format_bytes(number, rest));
        for (size_t i = 0; i < shown; i++) {
            rest -= bytes[groups->groups.at[i].column];
            mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, bytes[groups->groups.at[i].column]));
        }
        if (shown < groups->groups.count) mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, rest));
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, text);
}

void mp_steps_text(struct mp_text *text, const struct mp_model *model, const struct mp_step_report *report,
                   const struct mp_step_groups *groups, const struct mp_view *view)
{
    char id[MP_TRACK_ID_MAX], number[MP_UNIT_TEXT];
    const struct mp_rows steps =
        MP_ROWS(step_columns, report->steps.at, report->steps.count, .first = first_shown(report->steps.count, view));
    mp_text_put(text, MP_BOLD, "%s step%s", mp_format_count(number, report->steps.count),
                report->steps.count == 1 ? "" : "s");
    mp_text_put(text, MP_PLAIN, " (%s) and %zu region%s on ", report->source, report->regions.count,
                report->regions.count == 1 ? "" : "s");
    mp_text_clean(text->out, mp_track_id(model, report->track, id));
    mp_text_put(text, MP_PLAIN, "\n");
    if (!report->steps.count && !report->regions.count)
        mp_text_put(text, MP_PLAIN, "%s\n",
                    mp_model_was_recorded(model)
                        ? "the program marked none: libmemprof.step() and region() in Python, memprof_step() and "
                          "memprof_region_push() in C do"
                        : "the file marks none");
    if (report->steps.count) {
        mp_text_put(text, MP_PLAIN, "\n");
        mp_rows_text(text, &steps);
        if (steps.first) mp_text_put(text, MP_DIM, "%zu earlier ones; -n 0 shows all\n", steps.first);
        say_end(text, report);
        if (groups) {
            mp_text_put(text, MP_BOLD, "\nAT THE PEAK of each step, by %s\n", mp_group_name(view->grouping.by));
            group_table(text, report, groups, view);
        }
    }
    if (report->regions.count) {
        mp_text_put(text, MP_PLAIN, "\n");
        mp_rows_text(text, &MP_ROWS(region_columns, report->regions.at, report->regions.count, .of = model));
    }
    mp_text_put(text, MP_PLAIN, "\n");
    mp_coverage_text(text, model);
}
