#include <stdlib.h>
#include <string.h>

#include "analysis/leaks/leaks.h"
#include "base/memory.h"
#include "base/units.h"
#include "output/report/job.h"

#define NO_TEXT(text) (*(text) ? (text) : NULL)

/* ---- names ------------------------------------------------------------------------------------------------------ */

void mp_job_name(struct mp_buffer *out, const struct mp_job_view *job, uint32_t process)
{
    const struct mp_job_process *row = &job->model->job.processes.at[process];
    const char *role = mp_model_text(job->model, row->role);
    if (row->rank != MP_NONE && !row->helper) {
        mp_buffer_printf(out, "rank %u", row->rank);
    } else if (*role && row->pid != MP_NONE) {
        mp_text_clean(out, role);
        mp_buffer_printf(out, " %u", row->pid);
        if (row->rank != MP_NONE) mp_buffer_printf(out, " of rank %u", row->rank);
    } else {
        mp_text_clean(out, mp_path_short(mp_model_text(job->model, row->path)));
    }
}

static bool are_ranks(const struct mp_job_view *job, const struct mp_job_group *group)
{
    for (size_t i = 0; i < group->count; i++)
        if (job->model->job.processes.at[group->processes[i]].rank == MP_NONE) return false;
    return !group->helper;
}

void mp_job_group_name(struct mp_buffer *out, const struct mp_job_view *job, const struct mp_job_group *group,
                       size_t count)
{
    char number[MP_UNIT_TEXT];
    const char *role = mp_model_text(job->model, group->role);
    mp_format_count(number, count);
    if (group->helper && *role) {
        mp_buffer_printf(out, "%s ", number);
        mp_text_clean(out, role);
        mp_buffer_append_text(out, count == 1 ? "" : "s");
        return;
    }
    const char *what = are_ranks(job, group) ? count == 1 ? "rank" : "ranks" : count == 1 ? "process" : "processes";
    mp_buffer_printf(out, "%s %s", number, what);
    if (!*group->program) return;
    mp_buffer_append_text(out, " of ");
    mp_text_clean(out, group->program);
}

/* ---- coverage --------------------------------------------------------------------------------------------------- */

void mp_job_coverage_json(struct mp_json *json, const struct mp_job_view *job)
{
    mp_json_object(json, "coverage");
    mp_json_bool(json, "complete", !job->problems.count && !job->limited && !mp_model_incomplete(job->model));
    mp_json_number(json, "events", job->events);
    mp_json_number(json, "dropped", job->dropped);
    mp_json_number(json, "lost_file_bytes", job->model->damage.lost_bytes);
    mp_json_null(json, "truncated_stacks");
    mp_json_null(json, "unattributed_bytes");
    mp_json_array(json, "sources");
    mp_json_end_array(json);
    mp_json_array(json, "notes");
    for (size_t i = 0; i < job->problems.count; i++)
        mp_json_text(json, NULL, job->problems.at[i]);
    for (size_t i = 0; i < job->notes.count; i++)
        mp_json_text(json, NULL, job->notes.at[i]);
    mp_json_end_array(json);
    mp_json_end_object(json);
}

static void put_notes(struct mp_text *text, const struct mp_job_texts *notes)
{
    for (size_t i = 0; i < notes->count; i++) {
        mp_buffer_append_text(text->out, "  note: ");
        mp_text_clean(text->out, notes->at[i]);
        mp_buffer_append_text(text->out, "\n");
    }
}

void mp_job_coverage_text(struct mp_text *text, const struct mp_job_view *job)
{
    const size_t count = job->model->job.processes.count;
    const char *noun = count == 1 ? "recording" : "recordings";
    char number[MP_UNIT_TEXT], events[MP_UNIT_TEXT];
    mp_format_count(number, count);
    mp_format_count(events, job->events);
    const char *s = job->events == 1 ? "" : "s";
    if (job->problems.count || mp_model_incomplete(job->model))
        mp_text_put(text, MP_BOLD, "INCOMPLETE: %s %s, %s event%s\n", number, noun, events, s);
    else if (job->limited)
        mp_text_put(text, MP_BOLD, "PARTIAL: %s %s, %s event%s; some had limits\n", number, noun, events, s);
    else
        mp_text_put(text, MP_DIM, "complete: %s %s, %s event%s, none dropped\n", number, noun, events, s);
    put_notes(text, &job->problems);
    put_notes(text, &job->notes);
}

/* ---- processes -------------------------------------------------------------------------------------------------- */

static void number_or_null(struct mp_json *json, const char *key, uint32_t number)
{
    mp_json_known(json, key, number == MP_NONE ? UINT64_MAX : number);
}

static void process_json(struct mp_json *json, const struct mp_job_view *job, uint32_t process)
{
    const struct mp_model *model = job->model;
    const struct mp_job_process *row = &model->job.processes.at[process];
    const struct mp_job_track *track = mp_job_chosen(job, process);
    mp_json_object(json, NULL);
    mp_json_text(json, "path", mp_model_text(model, row->path));
    number_or_null(json, "pid", row->pid);
    number_or_null(json, "rank", row->rank);
    mp_json_text(json, "role", NO_TEXT(mp_model_text(model, row->role)));
    mp_json_bool(json, "helper", row->helper);
    mp_json_text(json, "track", track ? mp_model_text(model, track->id) : NULL);
    mp_json_known(json, "peak_bytes", track ? track->peak_bytes : UINT64_MAX);
    mp_json_known(json, "peak_ns", track ? track->peak_ns : UINT64_MAX);
    mp_json_known(json, "step", track && track->peak_step ? track->peak_step : UINT64_MAX);
    mp_json_known(json, "outstanding_bytes", track ? track->end_bytes : UINT64_MAX);
    mp_json_known(json, "reserved_peak_bytes", track ? track->reserved_bytes : UINT64_MAX);
    mp_json_text(json, "verdict", mp_verdict_name(row->verdict));
    mp_json_number(json, "bytes_per_step", row->growth);
    mp_json_object(json, "steps");
    mp_json_number(json, "count", row->steps);
    mp_json_text(json, "source", mp_model_text(model, row->step_source));
    mp_json_end_object(json);
    number_or_null(json, "local_rank", row->local_rank);
    number_or_null(json, "world_size", row->world_size);
    number_or_null(json, "node", row->node);
    number_or_null(json, "parent_pid", row->parent);
    mp_json_text(json, "job", NO_TEXT(mp_model_text(model, row->job)));
    mp_json_text(json, "host", NO_TEXT(mp_model_text(model, row->host)));
    mp_json_text(json, "command", NO_TEXT(mp_model_text(model, row->command)));
    mp_json_text(json, "exit", NO_TEXT(mp_model_text(model, row->exit)));
    mp_json_known(json, "start_unix_ns", row->start_unix_ns ? row->start_unix_ns : UINT64_MAX);
    mp_json_number(json, "duration_ns", row->duration_ns);
    mp_json_number(json, "events", row->events);
    mp_json_number(json, "dropped", row->dropped);
    mp_json_text(json, "missing", NO_TEXT(mp_model_text(model, row->missing)));
    mp_json_end_object(json);
}

void mp_job_processes_json(struct mp_json *json, const struct mp_job_view *job)
{
    mp_json_array(json, "processes");
    for (uint32_t i = 0; i < job->model->job.processes.count; i++)
        process_json(json, job, i);
    mp_json_end_array(json);
}

static void process_row(struct mp_table *table, const struct mp_job_view *job, uint32_t process)
{
    char number[MP_UNIT_TEXT];
    const struct mp_job_process *row = &job->model->job.processes.at[process];
    const struct mp_job_track *track = mp_job_chosen(job, process);
    struct mp_buffer name = {0};
    mp_job_name(&name, job, process);
    mp_table_cell(table, MP_BOLD, "%.*s", (int)name.size, (const char *)name.data);
    mp_buffer_free(&name);
    mp_table_cell(table, MP_PLAIN, "%s", mp_format_bytes(number, track ? track->peak_bytes : 0));
    mp_table_cell(table, MP_PLAIN, "%s", track ? mp_format_duration(number, track->peak_ns) : "");
    if (track && track->peak_step)
        mp_table_cell(table, MP_PLAIN, "%s", mp_format_count(number, track->peak_step));
    else
        mp_table_skip(table, 1);
    mp_table_cell(table, MP_PLAIN, "%s", mp_format_bytes(number, track ? track->end_bytes : 0));
    mp_table_cell(table, MP_PLAIN, "%s%s", row->growth ? "+" : "", mp_format_bytes(number, row->growth));
    mp_table_cell(table, row->verdict == MP_VERDICT_LEAK ? MP_BOLD : MP_PLAIN, "%s", mp_verdict_name(row->verdict));
    if (row->missing)
        mp_table_wide(table, MP_PLAIN, "%s", mp_model_text(job->model, row->missing));
    else if (track)
        mp_table_cell(table, MP_DIM, "%s", mp_model_text(job->model, track->id));
    mp_table_end_row(table);
}

/* Of a group that is told in a line. */
static void group_line(struct mp_text *text, const struct mp_job_view *job, const struct mp_job_group *group)
{
    char number[MP_UNIT_TEXT];
    struct mp_buffer name = {0};
    mp_job_group_name(&name, job, group, group->count);
    mp_text_put(text, MP_PLAIN, "  %.*s: ", (int)name.size, (const char *)name.data);
    mp_buffer_free(&name);
    if (!group->kind) {
        mp_text_put(text, MP_PLAIN, "no memory recorded\n");
        return;
    }
    mp_text_put(text, MP_PLAIN, "%s%s", mp_format_bytes(number, mp_job_peak_of(job, group->processes[0])),
                group->count == 1 ? "" : " each at most");
    mp_text_put(text, MP_PLAIN, " on ");
    mp_text_clean(text->out, mp_model_text(job->model, group->kind));
    if (group->leaking)
        mp_text_put(text, MP_BOLD, "; %u with a leak, +%s a step together", group->leaking,
                    mp_format_bytes(number, group->growth));
    mp_text_put(text, MP_PLAIN, "\n");
}

void mp_job_processes_text(struct mp_text *text, const struct mp_job_view *job, size_t limit)
{
    struct mp_table table;
    char number[MP_UNIT_TEXT];
    mp_table_start_titled(&table, "lrrrrrll", NULL, "process", "peak", "at", "step", "outstanding", "a step", "verdict",
                          "track", NULL);
    size_t shown = 0, told = 0;
    for (size_t i = 0; i < job->groups.count; i++) {
        const struct mp_job_group *group = &job->groups.at[i];
        if (i && (group->helper || !group->kind || group->count > 2 || (limit && shown >= limit))) continue;
        size_t rows = limit && group->count > limit ? limit : group->count;
        for (size_t k = 0; k < rows; k++)
            process_row(&table, job, group->processes[k]);
        shown += rows;
        told |= (size_t)1 << (i < 63 ? i : 63);
    }
    mp_table_finish(&table, text);
    if (job->groups.count && limit && job->groups.at[0].count > limit) {
        const struct mp_job_group *group = &job->groups.at[0];
        mp_text_put(text, MP_DIM, "  %s more, down to %s; -n %zu shows more\n",
                    mp_format_count(number, group->count - limit),
                    mp_format_bytes((char[MP_UNIT_TEXT]){0}, mp_job_peak_of(job, group->processes[group->count - 1])),
                    limit * 2);
    }
    for (size_t i = 1; i < job->groups.count; i++)
        if (i >= 63 || !(told >> i & 1)) group_line(text, job, &job->groups.at[i]);
}

/* ---- sites ------------------------------------------------------------------------------------------------------ */

static int by_bytes(const void *left, const void *right)
{
    const struct mp_job_site *a = *(const struct mp_job_site *const *)left;
    const struct mp_job_site *b = *(const struct mp_job_site *const *)right;
    if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
    return a < b ? -1 : a > b;
}

/* Those of a sense and, for people, of the first group's kind of track; *bytes: of all of them. */
static const struct mp_job_site **choose_sites(const struct mp_job_view *job, enum mp_job_sense sense, bool one_kind,
                                               size_t *count, uint64_t *bytes)
{
    const struct mp_model_job *rows = &job->model->job;
    const struct mp_job_site **sites = mp_alloc((rows->sites.count + 1) * sizeof *sites);
    *count = 0;
    *bytes = 0;
    for (size_t i = 0; i < rows->sites.count; i++) {
        const struct mp_job_site *site = &rows->sites.at[i];
        if (site->sense != sense || (one_kind && site->kind != job->groups.at[0].kind)) continue;
        *bytes += site->bytes;
        sites[(*count)++] = site;
    }
    qsort(sites, *count, sizeof *sites, by_bytes);
    return sites;
}

uint64_t mp_job_sites_sum(const struct mp_job_view *job, enum mp_job_sense sense)
{
    size_t count;
    uint64_t bytes;
    free(choose_sites(job, sense, true, &count, &bytes));
    return bytes;
}

/* "rank 2" in a cell. */
static void name_cell(struct mp_table *table, const struct mp_job_view *job, uint32_t process)
{
    struct mp_buffer name = {0};
    mp_job_name(&name, job, process);
    mp_table_cell(table, MP_PLAIN, "%.*s", (int)name.size, (const char *)name.data);
    mp_buffer_free(&name);
}

void mp_job_sites_text(struct mp_text *text, const struct mp_job_view *job, enum mp_job_sense sense, size_t limit,
                       enum mp_job_stacks stacks)
{
    struct mp_table table;
    char number[MP_UNIT_TEXT];
    size_t count;
    uint64_t whole;
    const struct mp_job_site **sites = choose_sites(job, sense, true, &count, &whole);
    size_t rows = limit && limit < count ? limit : count;
    if (rows) mp_table_start_titled(&table, "rrrrrlll", "site", "all", "share", "in", "mean", "most", "by", NULL);
    uint32_t *stacks_shown = mp_alloc((rows + 1) * sizeof *stacks_shown);
    for (size_t i = 0; i < rows; i++)
        stacks_shown[i] = sites[i]->stack;
    struct mp_site_apart *apart = mp_stacks_apart(job->model, stacks_shown, NULL, rows, MP_APART_SITES);
    free(stacks_shown);
    for (size_t i = 0; i < rows; i++) {
        const struct mp_site site = {.stack = sites[i]->stack, .births = 1};
        mp_table_cell(&table, MP_BOLD, "%s", mp_format_bytes(number, sites[i]->bytes));
        mp_table_cell(&table, MP_PLAIN, "%.1f %%", whole ? 100.0 * (double)sites[i]->bytes / (double)whole : 0.0);
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_count(number, sites[i]->processes));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, sites[i]->bytes / sites[i]->processes));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, sites[i]->most));
        if (sites[i]->processes > 1 && sites[i]->most == sites[i]->least)
            mp_table_cell(&table, MP_DIM, "all alike");
        else
            name_cell(&table, job, sites[i]->most_process);
        if (stacks == MP_JOB_LINES) {
            mp_site_cell(&table, job->model, NULL, &site, &apart[i]);
            mp_table_end_row(&table);
        } else {
            mp_stack_rows(&table, 6, job->model, NULL, &site, &apart[i], stacks == MP_JOB_FULL_STACKS);
        }
    }
    free(apart);
    if (rows) mp_table_finish(&table, text);
    if (rows < count)
        mp_text_put(text, MP_DIM, "%s more; -n %zu shows more\n", mp_format_count(number, count - rows), rows * 2);
    free(sites);
}

void mp_job_sites_json(struct mp_json *json, const char *key, const struct mp_job_view *job, enum mp_job_sense sense,
                       size_t limit)
{
    size_t count;
    uint64_t whole;
    const struct mp_job_site **sites = choose_sites(job, sense, false, &count, &whole);
    mp_json_array(json, key);
    for (size_t i = 0; i < count && (!limit || i < limit); i++) {
        mp_json_object(json, NULL);
        mp_json_text(json, "kind", mp_model_text(job->model, sites[i]->kind));
        mp_json_number(json, "bytes", sites[i]->bytes);
        mp_json_number(json, "blocks", sites[i]->blocks);
        mp_json_share(json, "share", sites[i]->bytes, whole);
        mp_json_number(json, "processes", sites[i]->processes);
        mp_json_number(json, "least_bytes", sites[i]->least);
        mp_json_number(json, "mean_bytes", sites[i]->bytes / sites[i]->processes);
        mp_json_number(json, "most_bytes", sites[i]->most);
        mp_json_number(json, "least_process", sites[i]->least_process);
        mp_json_number(json, "most_process", sites[i]->most_process);
        mp_stack_json(json, job->model, sites[i]->stack);
        mp_json_end_object(json);
    }
    mp_json_end_array(json);
    free(sites);
}

/* ---- leaks ------------------------------------------------------------------------------------------------------ */

void mp_job_findings_text(struct mp_text *text, const struct mp_job_view *job, size_t limit, bool full_stacks)
{
    const struct mp_model *model = job->model;
    struct mp_table table;
    char number[MP_UNIT_TEXT];
    size_t rows = limit && limit < job->leaks.count ? limit : job->leaks.count;
    mp_table_start_titled(&table, "lrrrlll", "place", "process", "a step", "since step", "by now", "track", NULL);
    for (size_t i = 0; i < rows; i++) {
        const struct mp_job_finding *finding = &model->job.findings.at[job->leaks.at[i]];
        const struct mp_site site = {.stack = finding->stack, .births = 1};
        name_cell(&table, job, finding->process);
        mp_table_cell(&table, MP_BOLD, "+%s", mp_format_bytes(number, finding->bytes_per_step));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_count(number, finding->first_step));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_format_bytes(number, finding->bytes));
        mp_table_cell(&table, MP_PLAIN, "%s", mp_model_text(model, finding->track));
        if (finding->stack) {
            mp_stack_rows(&table, 5, model, NULL, &site, NULL, full_stacks);
        } else {
            mp_table_wide(&table, MP_DIM, "(no stack)");
            mp_table_end_row(&table);
        }
        mp_table_skip(&table, 5);
        mp_table_wide(&table, MP_PLAIN, "%s, %s", mp_leak_class_name(finding->class),
                      finding->certain ? "certain" : "probable");
        mp_table_end_row(&table);
    }
    mp_table_finish(&table, text);
    if (rows < job->leaks.count)
        mp_text_put(text, MP_DIM, "%zu more; -n %zu shows more\n", job->leaks.count - rows, rows * 2);
}
