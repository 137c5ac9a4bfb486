/* Results about a job. Rules as in view.h. */
#pragma once

#include "jobs/view.h"
#include "output/report/columns.h"
#include "output/report/view.h"

extern const struct mp_column mp_process_columns[], mp_job_site_columns[], mp_job_finding_columns[],
    mp_job_step_columns[];

void mp_job_report_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view);
void mp_job_report_json(struct mp_json *json, const struct mp_job_view *job, const struct mp_view *view);
void mp_job_peak_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view);
void mp_job_peak_json(struct mp_json *json, const char *key, const struct mp_job_view *job, const struct mp_view *view);
void mp_job_leaks_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view);
void mp_job_leaks_json(struct mp_json *json, const char *key, const struct mp_job_view *job,
                       const struct mp_view *view);
void mp_job_steps_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view);
void mp_job_steps_json(struct mp_json *json, const char *key, const struct mp_job_view *job,
                       const struct mp_view *view);
void mp_job_info_text(struct mp_text *text, const struct mp_job_view *job, const struct mp_view *view);
void mp_job_info_json(struct mp_json *json, const char *key, const struct mp_job_view *job, const struct mp_view *view);

/* ---- names and coverage, also for other results ---- */

#define MP_JOB_NAME 128 /* room for the beginning of a name */

/* A process in few words: "rank 3", "loader worker 4711 of rank 3", or its file's name. */
void mp_job_name(struct mp_buffer *out, const struct mp_job_view *job, uint32_t process);
/* A group's name: "8 loader workers", "4 ranks of train.py". */
void mp_job_group_name(struct mp_buffer *out, const struct mp_job_view *job, const struct mp_job_group *group,
                       size_t count);
void mp_job_coverage_json(struct mp_json *json, const struct mp_job_view *job);
