#include "jobs/compare_report.h"

#include "output/report/columns.h"

static const struct mp_job_view *side_of(const struct mp_job_comparison *comparison, enum mp_flame_side side)
{
    return &comparison->jobs[side == MP_BEFORE ? 0 : comparison->count - 1];
}

static const char *kind_of(const struct mp_job_view *job)
{
    return mp_model_text(job->model, job->groups.at[0].kind);
}

/* The job whose stack of a site is shown: the later one, if it has the site. */
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

/* ---- tables ----------------------------------------------------------------------------------------------------- */

static void get_path(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_job_comparison *comparison = of;
    value->text = comparison->paths[(const struct mp_job_view *)row - comparison->jobs];
}

MP_GETTER(get_processes, struct mp_job_view, it, value->number = it->model->job.processes.count)

static void get_peak(struct mp_value *value, const void *of, const void *row)
{
    value->number = mp_job_most_of(row, MP_JOB_PEAK);
}

static void get_mean(struct mp_value *value, const void *of, const void *row)
{
    const struct mp_job_group *group = &((const struct mp_job_view *)row)->groups.at[0];
    value->number = group->sum / group->count;
}

static void get_outstanding(struct mp_value *value, const void *of, const void *row)
{
    value->number = mp_job_most_of(row, MP_JOB_END);
}

MP_GETTER(get_complete, struct mp_job_view, job, value->number = !job->problems.count && !job->limited)

const struct mp_column mp_compared_job_columns[] = {
    {"job", "path", MP_NAME, .get = get_path, .style = MP_BOLD},
    {"processes", "processes", MP_COUNT, .get = get_processes},
    {"highest peak", "peak_bytes", MP_BYTES, .get = get_peak},
    {"mean", "mean_peak_bytes", MP_BYTES, .get = get_mean},
    {"most outstanding", "outstanding_bytes", MP_BYTES, .get = get_outstanding},
    {NULL, "events", MP_COUNT, MP_MEMBER(struct mp_job_view, events)},
    {NULL, "complete", MP_FLAG, .get = get_complete},
    {NULL},
};

MP_GETTER(get_delta, struct mp_job_compare_row, pair, value->number = pair->bytes[MP_AFTER] - pair->bytes[MP_BEFORE])

static void get_site(struct mp_value *value, const void *of, const void *row)
{
    enum mp_flame_side side = shown_side(row);
    value->site = (struct mp_site){.stack = ((const struct mp_job_compare_row *)row)->stacks[side]};
    value->model = side_of(of, side)->model;
}

#define ROW(member) MP_MEMBER(struct mp_job_compare_row, member)

const struct mp_column mp_job_compare_columns[] = {
    {"before", "before_bytes", MP_BYTES, ROW(bytes[MP_BEFORE])},
    {"after", "after_bytes", MP_BYTES, ROW(bytes[MP_AFTER])},
    {"change", "delta_bytes", MP_CHANGE, .get = get_delta, .style = MP_BOLD},
    {"site", "stack", MP_SITE, .get = get_site},
    {NULL},
};

/* The table of rows. Sites with equal texts are not numbered, as the rows come from two jobs. */
static struct mp_rows rows_of(const struct mp_job_comparison *comparison)
{
    return MP_ROWS(mp_job_compare_columns, comparison->compare->rows.at,
                   mp_shown(comparison->compare->rows.count, comparison->limit), .of = comparison,
                   .stacks = comparison->full_stacks ? MP_FULL_STACKS : MP_STACKS, .not_apart = true);
}

/* ---- forms ------------------------------------------------------------------------------------------------------ */

void mp_job_compare_json(struct mp_json *json, const struct mp_job_comparison *comparison)
{
    const struct mp_rows rows = rows_of(comparison);
    mp_json_object(json, NULL);
    mp_json_text(json, "schema", "memprof.compare/1");
    mp_json_text(json, "track", kind_of(side_of(comparison, MP_AFTER)));
    mp_rows_json(json, "files",
                 &MP_ROWS(mp_compared_job_columns, comparison->jobs, comparison->count, .of = comparison));
    put_sides(json, "peak", comparison, MP_JOB_PEAK);
    put_sides(json, "outstanding", comparison, MP_JOB_END);
    mp_json_text(json, "of", comparison->sense == MP_JOB_PEAK ? "peak" : "outstanding");
    mp_rows_json(json, "sites", &rows);
    mp_job_coverage_json(json, side_of(comparison, MP_AFTER));
    mp_json_end_object(json);
}

void mp_job_compare_text(struct mp_text *text, const struct mp_job_comparison *comparison)
{
    const struct mp_rows rows = rows_of(comparison);
    uint64_t before = mp_job_most_of(side_of(comparison, MP_BEFORE), MP_JOB_PEAK);
    uint64_t after = mp_job_most_of(side_of(comparison, MP_AFTER), MP_JOB_PEAK);
    mp_say(text, "`%s", mp_delta((int64_t)(after - before)));
    if (before) mp_say(text, " (%+.1f %%)", 100.0 * ((double)after - (double)before) / (double)before);
    mp_say(text, "` at the highest peak of a process, on %s\n", kind_of(side_of(comparison, MP_AFTER)));
    mp_heading(text, "SITES");
    mp_say(text, "  %s, on average a process\n", comparison->sense == MP_JOB_PEAK ? "at the peaks" : "outstanding");
    if (!mp_rows_text(text, &rows) && !rows.count) mp_say(text, "no site differs\n");
    mp_say_more(text, comparison->compare->rows.count - rows.count, comparison->limit);
    mp_rows_text(text, &MP_ROWS(mp_compared_job_columns, comparison->jobs, comparison->count, .of = comparison,
                                .heading = "JOBS"));
}
