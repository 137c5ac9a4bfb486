#include "jobs/query.h"

#include <stdlib.h>
#include <string.h>

#include "cli/output_file.h"
#include "cli/progress.h"
#include "cli/query.h"
#include "exchange/load/load.h"
#include "jobs/compare_report.h"

#define ROWS_OF_TEXT 10
#define MORE_TO_SAY  8 /* most problems that are listed on stderr */

/* ---- a query ---------------------------------------------------------------------------------------------------- */

/* Refuses options that need a single recording. */
static int check_options(const struct mp_invocation *invocation)
{
    static const enum mp_option single[] = {MP_OPT_TRACK,  MP_OPT_FROM,  MP_OPT_TO,    MP_OPT_GROUP,
                                            MP_OPT_FILTER, MP_OPT_RULES, MP_OPT_SIZES, MP_OPT_SUPPRESSIONS};
    for (size_t i = 0; i < sizeof single / sizeof *single; i++) {
        if (!mp_given(invocation, single[i])) continue;
        return mp_refuse("--%s needs a single recording, but this is a job: name one of its recordings",
                         mp_option_rows[single[i]].name);
    }
    return mp_progress_valid(invocation) ? MP_EXIT_DONE : MP_EXIT_USAGE;
}

bool mp_job_holds_any(const struct mp_model *model)
{
    const struct mp_model_job *rows = &model->job;
    if (rows->processes.count) return true;
    for (size_t i = 0; i < rows->troubles.count && i < MORE_TO_SAY; i++) {
        const char *text = mp_model_text(model, rows->troubles.at[i].text);
        const char *path = mp_model_text(model, rows->troubles.at[i].path);
        if (rows->troubles.at[i].kind == MP_JOB_UNUSED)
            mp_message("%s", text);
        else if (rows->troubles.at[i].kind == MP_JOB_PARTIAL)
            mp_message("%s holds no process (%s)", path, text);
    }
    if (!rows->troubles.count) mp_message("there is no process in the job");
    return false;
}

int mp_job_load(const struct mp_invocation *invocation, char *const *operands, size_t count, struct mp_model **model)
{
    struct mp_job_paths paths;
    struct mp_error error;
    int status = mp_job_paths_find(operands, count, &paths);
    if (status) return status;
    if (paths.count == 1 && paths.at[0].is_job) {
        if (mp_exchange_load_any(paths.at[0].path, model, &error)) status = mp_message_error(&error);
    } else {
        struct mp_job *job = mp_job_new();
        mp_job_add_paths(invocation, &paths, 0, 1, job);
        if (mp_job_finish(job, model, &error)) status = mp_message_error(&error);
    }
    mp_job_paths_free(&paths);
    if (status) return status;
    if (!mp_job_holds_any(*model))
        status = MP_EXIT_COULD_NOT;
    else if (mp_query_skip(invocation, *model, &error))
        status = mp_message_error(&error);
    if (status) mp_model_free(*model);
    return status;
}

/* Each command's tables whose columns can be chosen. */
static const struct mp_column *const *tables_of(const char *command)
{
    static const struct {
        const char *command;
        const struct mp_column *tables[4];
    } all[] = {{"report", {mp_process_columns, mp_job_site_columns}},
               {"peak", {mp_process_columns, mp_job_site_columns}},
               {"leaks", {mp_job_finding_columns, mp_job_site_columns}},
               {"steps", {mp_job_step_columns}},
               {"compare", {mp_job_compare_columns, mp_compared_job_columns}},
               {"info", {mp_process_columns}}};
    static const struct mp_column *const none[] = {NULL};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (!strcmp(all[i].command, command)) return all[i].tables;
    return none;
}

int mp_job_read_options(const struct mp_invocation *invocation, struct mp_job_query *query)
{
    *query = (struct mp_job_query){.invocation = invocation};
    mp_json_start(&query->json, &query->out);
    query->as_json = mp_given(invocation, MP_OPT_JSON);
    query->view.path = invocation->operands[0];
    query->view.full_stacks = mp_given(invocation, MP_OPT_FULL_STACKS);
    query->view.outstanding = mp_given(invocation, MP_OPT_OUTSTANDING);
    int status = check_options(invocation);
    if (!status)
        status =
            mp_form_open(invocation, tables_of(invocation->command->name), &query->out, &query->text, &query->document);
    bool all = query->as_json || (query->document.out && query->document.form == MP_CSV);
    query->view.limit = all ? 0 : ROWS_OF_TEXT;
    if (!status) status = mp_query_limit(invocation, &query->view.limit);
    return status || query->document.out ? status : mp_query_color(invocation, &query->text.color);
}

int mp_job_open(const struct mp_invocation *invocation, struct mp_job_query *query)
{
    int status = mp_job_read_options(invocation, query);
    if (!status) status = mp_job_load(invocation, invocation->operands, invocation->operand_count, &query->model);
    if (!status) mp_job_view_make(query->model, &query->job);
    return status;
}

bool mp_job_report_problems(const char *path, const struct mp_job_view *job)
{
    bool damaged = mp_query_report_missing(path, job->model);
    for (size_t i = 0; i < job->problems.count; i++)
        mp_message("%s", job->problems.at[i]);
    for (size_t i = 0; i < job->notes.count; i++)
        mp_message("%s", job->notes.at[i]);
    return damaged || job->problems.count;
}

int mp_job_close(struct mp_job_query *query, int status)
{
    mp_form_close(&query->document);
    if (!status) status = mp_output_buffer(query->invocation, &query->out);
    return mp_job_end(query, status);
}

int mp_job_end(struct mp_job_query *query, int status)
{
    if (!status && mp_job_report_problems(query->view.path, &query->job)) status = MP_EXIT_INCOMPLETE;
    mp_job_view_free(&query->job);
    mp_model_free(query->model);
    mp_buffer_free(&query->out);
    return status;
}

int mp_job_answer(const struct mp_invocation *invocation, mp_job_text_writer *text, mp_job_json_writer *json)
{
    struct mp_job_query query;
    int status = mp_job_open(invocation, &query);
    if (status) return status;
    if (query.as_json)
        json(&query.json, NULL, &query.job, &query.view);
    else
        text(&query.text, &query.job, &query.view);
    return mp_job_close(&query, MP_EXIT_DONE);
}
