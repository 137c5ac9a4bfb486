#include "base/units.h"
#include "output/report/reports.h"

/* The first row shown, of `count`: with a limit the last rows are shown, since recent ones say most. */
static size_t first_shown(size_t count, const struct mp_view *view)
{
    return view->limit && view->limit < count ? count - view->limit : 0;
}

/* The bytes that a step held at its peak. */
static void put_groups(struct mp_json *json, const struct mp_step_groups *groups, size_t row)
{
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

void mp_steps_json(struct mp_json *json, const char *key, const struct mp_model *model,
                   const struct mp_step_report *report, const struct mp_step_groups *groups, const struct mp_view *view)
{
    char id[MP_TRACK_ID_MAX];
    mp_json_object(json, key);
    mp_json_text(json, "schema", "memprof.steps/1");
    mp_json_text(json, "track", mp_track_id(model, report->track, id));
    mp_json_text(json, "source", report->source);
    mp_json_array(json, "steps");
    for (size_t i = first_shown(report->steps.count, view); i < report->steps.count; i++) {
        const struct mp_step_row *row = &report->steps.at[i];
        mp_json_object(json, NULL);
        json->flat = true;
        mp_json_number(json, "step", row->number);
        mp_json_number(json, "start_ns", row->start_ns);
        mp_json_number(json, "end_ns", row->end_ns);
        mp_json_number(json, "allocated_bytes", row->allocated_bytes);
        mp_json_number(json, "freed_bytes", row->freed_bytes);
        mp_json_number(json, "peak_bytes", row->peak_bytes);
        mp_json_number(json, "end_bytes", row->end_bytes);
        if (groups) put_groups(json, groups, i);
        mp_json_end_object(json);
        json->flat = false;
    }
    mp_json_end_array(json);
    mp_json_array(json, "regions");
    for (size_t i = 0; i < report->regions.count; i++) {
        const struct mp_region_row *row = &report->regions.at[i];
        mp_json_object(json, NULL);
        json->flat = true;
        mp_json_text(json, "name", mp_model_text(model, row->name));
        mp_json_number(json, "count", row->count);
        mp_json_number(json, "mean_peak_bytes", row->mean_peak_bytes);
        mp_json_number(json, "p50_peak_bytes", row->p50_peak_bytes);
        mp_json_number(json, "p95_peak_bytes", row->p95_peak_bytes);
        mp_json_number(json, "p99_peak_bytes", row->p99_peak_bytes);
        mp_json_number(json, "max_peak_bytes", row->max_peak_bytes);
        mp_json_number(json, "total_allocated_bytes", row->total_allocated_bytes);
        mp_json_number(json, "kept_bytes", row->kept_bytes);
        mp_json_number(json, "total_ns", row->total_ns);
        mp_json_end_object(json);
        json->flat = false;
    }
    mp_json_end_array(json);
    mp_coverage_json(json, model);
    mp_json_end_object(json);
}

static void step_table(struct mp_text *text, const struct mp_step_report *report, const struct mp_view *view)
{
    struct mp_table table;
    char number[MP_UNIT_TEXT];
    mp_table_start(&table, "rrrrrrr");
    static const char *const heads[] = {"step", "begins", "lasts", "allocated", "freed", "peak", "at its end"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        mp_table_cell(&table, MP_DIM, "%s", heads[i]);
    mp_table_end_row(&table);
    for (size_t i = first_shown(report->steps.count, view); i < report->steps.count; i++) {
        const struct mp_step_row *row = &report->steps.at[i];
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_count(number, row->number));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_duration(number, row->start_ns));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_duration(number, row->end_ns - row->start_ns));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, row->allocated_bytes));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, row->freed_bytes));
        mp_table_cell(&table, MP_BOLD, "%s", mp_format_bytes(number, row->peak_bytes));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, row->end_bytes));
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, text);
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

static void region_table(struct mp_text *text, const struct mp_model *model, const struct mp_step_report *report)
{
    struct mp_table table;
    char number[MP_UNIT_TEXT];
    mp_table_start(&table, "lrrrrrrrrr");
    static const char *const heads[] = {"region", "count",    "peak mean", "p50",  "p95",
                                        "p99",    "peak max", "allocated", "kept", "time"};
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        mp_table_cell(&table, MP_DIM, "%s", heads[i]);
    mp_table_end_row(&table);
    for (size_t i = 0; i < report->regions.count; i++) {
        const struct mp_region_row *row = &report->regions.at[i];
        mp_table_cell(&table, MP_PLAIN, "%s", row->name ? mp_model_text(model, row->name) : "(unnamed)");
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_count(number, row->count));
        const uint64_t sizes[] = {row->mean_peak_bytes, row->p50_peak_bytes, row->p95_peak_bytes,
                                  row->p99_peak_bytes,  row->max_peak_bytes, row->total_allocated_bytes,
                                  row->kept_bytes};
        for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
            mp_table_cell(&table, k == 4 ? MP_BOLD : MP_PLAIN, "%s", mp_format_bytes(number, sizes[k]));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_duration(number, row->total_ns));
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, text);
}

void mp_steps_text(struct mp_text *text, const struct mp_model *model, const struct mp_step_report *report,
                   const struct mp_step_groups *groups, const struct mp_view *view)
{
    char id[MP_TRACK_ID_MAX], number[MP_UNIT_TEXT];
    size_t left_out = first_shown(report->steps.count, view);
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
        step_table(text, report, view);
        if (left_out) mp_text_put(text, MP_DIM, "%zu earlier ones; -n 0 shows all\n", left_out);
        say_end(text, report);
        if (groups) {
            mp_text_put(text, MP_BOLD, "\nAT THE PEAK of each step, by %s\n", mp_group_name(view->grouping.by));
            group_table(text, report, groups, view);
        }
    }
    if (report->regions.count) {
        mp_text_put(text, MP_PLAIN, "\n");
        region_table(text, model, report);
    }
    mp_text_put(text, MP_PLAIN, "\n");
    mp_coverage_text(text, model);
}
