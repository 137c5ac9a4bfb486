/* The output of `memprof compare` of jobs. */
#pragma once

#include "jobs/compare.h"
#include "jobs/report.h"

/* The jobs in the order in which the user named them; `compare` compares the first with the last. */
struct mp_job_comparison {
    const struct mp_job_compare *compare;
    const struct mp_job_view *jobs;
    const char *const *paths;
    size_t count;
    enum mp_job_sense sense;
    size_t limit;
    bool full_stacks;
};

extern const struct mp_column mp_job_compare_columns[], mp_compared_job_columns[];

void mp_job_compare_text(struct mp_text *text, const struct mp_job_comparison *comparison);
void mp_job_compare_json(struct mp_json *json, const struct mp_job_comparison *comparison);
