/*
 * Several recordings, a folder of them, or a file that `memprof merge` made, as one job: shared by the commands that
 * answer from it.
 */
#pragma once

#include "cli/command.h"
#include "cli/form.h"
#include "jobs/join.h"
#include "jobs/paths.h"
#include "jobs/report.h"
#include "jobs/view.h"

struct mp_job_query {
    const struct mp_invocation *invocation;
    struct mp_model *model;
    struct mp_job_view job;
    struct mp_view view;
    struct mp_buffer out;
    struct mp_text text;
    struct mp_document document; /* as in struct mp_query */
    struct mp_json json;
    bool as_json;
};

/* Loads the job that `count` operands name. Returns an exit status, after a message if it is not 0. */
int mp_job_load(const struct mp_invocation *invocation, char *const *operands, size_t count, struct mp_model **model);
/* Reads the options that all commands of jobs have. Refuses, with a message, options that need a single recording. */
int mp_job_read_options(const struct mp_invocation *invocation, struct mp_job_query *query);
/* Reads the job. Returns an exit status; if it is not 0, a message was printed and nothing is to be freed. */
int mp_job_open(const struct mp_invocation *invocation, struct mp_job_query *query);
/* Writes query->text or query->json if `status` is 0, reports the problems of the job on stderr, and frees the
 * query. */
int mp_job_close(struct mp_job_query *query, int status);
/* Does the same for a command that has already written its answer. */
int mp_job_end(struct mp_job_query *query, int status);
/* Reports the problems of a job on stderr; false if it has none. */
bool mp_job_report_problems(const char *path, const struct mp_job_view *job);

/* True if the job has a process; otherwise messages say why not. */
bool mp_job_holds_any(const struct mp_model *model);

/* Runs a command for a job, from options to output. `text` and `json` write the answer. */
typedef void mp_job_text_writer(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view);
typedef void mp_job_json_writer(struct mp_json *json, const char *key, const struct mp_job_view *job,
                                const struct mp_view *view);
int mp_job_answer(const struct mp_invocation *invocation, mp_job_text_writer *text, mp_job_json_writer *json);
