/* Compares two jobs site by site: the average bytes of a process with memory of the first group's kind, before and
 * after. Pure; the result is the caller's. */
#pragma once

#include "analysis/sites/flames.h"
#include "jobs/view.h"

struct mp_job_compare_row {
    uint64_t bytes[MP_SIDES];
    uint32_t stacks[MP_SIDES]; /* in the side's job; MP_NONE: absent */
};

struct mp_job_compare {
    MP_VEC(struct mp_job_compare_row) rows; /* rows that differ, largest change first */
};

/* Sites are equal as in analysis/sites/flames.h. `sense`: MP_JOB_PEAK or MP_JOB_END. */
void mp_job_compare_make(const struct mp_job_view *const sides[MP_SIDES], enum mp_job_sense sense,
                         struct mp_job_compare *compare);
void mp_job_compare_free(struct mp_job_compare *compare);

/* The highest peak of a process, or the highest outstanding bytes at an end. */
uint64_t mp_job_most_of(const struct mp_job_view *job, enum mp_job_sense sense);
