#include "output/report/job_compare.h"

#include "base/units.h"

static const struct mp_job_view *side_of(const struct mp_job_comparison *comparison, enum mp_flame_side side)
{
    return &comparison->jobs[side == MP_BEFORE ? 0 : comparison->count - 1];
}

static size_t rows_of(const struct mp_job_comparison *comparison)
{
    size_t all = comparison->compare->rows.count;
    return comparison->limit && comparison->limit < all ? comparison->limit : all;
}

static const char *kind_of(const struct mp_job_view *job)
{
    return mp_model_text(job->model, job->groups.at[0].kind);
}

/* The later job's stack, where the site is there at all. */
static enum mp_flame_side shown_side(const struct mp_job_compare_row *row)
{
    return row->stacks[MP_AFTER] == MP_NONE ? MP_BEFORE : MP_AFTER;
}

static void put_sides(struct mp_json *json, const char *key, const struct mp_job_comparison *comparison,
                      enum mp_job_sense sense)
{
    mp_json_object(json, key);
    mp_json_number(json, "before_bytes", mp_job_most_of(side_of(comparison, MP_BEFORE), sense));
    mp_json_number(json, "after_bytes", mp_job_most_of(side_of(comparison, MP_AFTER), sense));
    mp_json_end_object(json);
}

void mp_job_compare_json(struct mp_json *json, const struct mp_job_comparison *comparison)
{
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.compare/1");
    mp_json_text(json, "track", kind_of(side_of(comparison, MP_AFTER)));
    mp_json_array(json, "files");
    for (size_t i = 0; i < comparison->count; i++) {
        const struct mp_job_view *job = &comparison->jobs[i];
        mp_json_object(json, NULL);
        mp_json_text(json, "path", comparison->paths[i]);
        mp_json_number(json, "processes", job->model->job.processes.count);
        mp_json_number(json, "peak_bytes", mp_job_most_of(job, MP_JOB_PEAK));
        mp_json_number(json, "mean_peak_bytes", job->groups.at[0].sum / job->groups.at[0].count);
        mp_json_number(json, "outstanding_bytes", mp_job_most_of(job, MP_JOB_END));
        mp_json_number(json, "events", job->events);
        mp_json_bool(json, "complete", !job->problems.count && !job->limited);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    put_sides(json, "peak", comparison, MP_JOB_PEAK);
    put_sides(json, "outstanding", comparison, MP_JOB_END);
    mp_json_text(json, "of", comparison->sense == MP_JOB_PEAK ? "peak" : "outstanding");
    mp_json_array(json, "sites");
    for (size_t i = 0, rows = rows_of(comparison); i < rows; i++) {
        const struct mp_job_compare_row *row = &comparison->compare->rows.at[i];
        enum mp_flame_side side = shown_side(row);
        mp_json_object(json, NULL);
        mp_json_number(json, "before_bytes", row->bytes[MP_BEFORE]);
        mp_json_number(json, "after_bytes", row->bytes[MP_AFTER]);
        mp_json_signed(json, "delta_bytes", (int64_t)(row->bytes[MP_AFTER] - row->bytes[MP_BEFORE]));
        mp_stack_json(json, side_of(comparison, side)->model, row->stacks[side]);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    mp_job_coverage_json(json, side_of(comparison, MP_AFTER));
    mp_json_end_object(json);
}

static void put_jobs(struct mp_text *text, const struct mp_job_comparison *comparison)
{
    char number[MP_UNIT_TEXT];
    struct mp_table table;
    mp_table_start_titled(&table, "lrrrr", NULL, "job", "processes", "peak, the highest", "mean",
                          "outstanding, the highest", NULL);
    for (size_t i = 0; i < comparison->count; i++) {
        const struct mp_job_view *job = &comparison->jobs[i];
        struct mp_buffer path = {0};
        mp_text_clean(&path, comparison->paths[i]);
        mp_table_cell(&table, MP_BOLD, "%.*s", (int)path.size, (const char *)path.data);
        mp_buffer_free(&path);
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_count(number, job->model->job.processes.count));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, mp_job_most_of(job, MP_JOB_PEAK)));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, job->groups.at[0].sum / job->groups.at[0].count));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, mp_job_most_of(job, MP_JOB_END)));
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, text);
}

void mp_job_compare_text(struct mp_text *text, const struct mp_job_comparison *comparison)
{
    char number[MP_UNIT_TEXT];
    struct mp_table table;
    const struct mp_job_compare *compare = comparison->compare;
    size_t rows = rows_of(comparison);
    uint64_t before = mp_job_most_of(side_of(comparison, MP_BEFORE), MP_JOB_PEAK);
    uint64_t after = mp_job_most_of(side_of(comparison, MP_AFTER), MP_JOB_PEAK);
    mp_text_put(text, MP_BOLD, "%s", mp_format_signed_bytes(number, (int64_t)(after - before)));
    if (before) mp_text_put(text, MP_BOLD, " (%+.1f %%)", 100.0 * ((double)after - (double)before) / (double)before);
    mp_text_put(text, MP_PLAIN, " at the highest peak of a process, on ");
    mp_text_clean(text->out, kind_of(side_of(comparison, MP_AFTER)));
    mp_text_put(text, MP_PLAIN, "\n\n");
    put_jobs(text, comparison);
    if (!rows) {
        mp_text_put(text, MP_PLAIN, "\nno site differs\n");
        return;
    }
    mp_text_put(text, MP_BOLD, "\nSITES");
    mp_text_put(text, MP_PLAIN, "  %s, on average a process\n",
                comparison->sense == MP_JOB_PEAK ? "at the peaks" : "outstanding");
    mp_table_start_titled(&table, "rrrlll", "site", "before", "after", "change", NULL);
    for (size_t i = 0; i < rows; i++) {
        const struct mp_job_compare_row *row = &compare->rows.at[i];
        enum mp_flame_side side = shown_side(row);
        const struct mp_site site = {.stack = row->stacks[side], .births = 1};
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, row->bytes[MP_BEFORE]));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, row->bytes[MP_AFTER]));
        mp_table_cell(&table, MP_BOLD, "%s",
                      mp_format_signed_bytes(number, (int64_t)(row->bytes[MP_AFTER] - row->bytes[MP_BEFORE])));
        mp_stack_rows(&table, 3, side_of(comparison, side)->model, NULL, &site, NULL, comparison->full_stacks);
    }
    mp_table_finish(&table, text);
    if (rows < compare->rows.count)
        mp_text_put(text, MP_DIM, "%zu more; -n %zu shows more\n", compare->rows.count - rows, rows * 2);
}
