/* Two jobs, site by site: what a process that has memory of the first group's kind holds there on average, before
 * and after. Pure; the result
 * is the caller's. */
#ifndef MP_ANALYSIS_JOB_COMPARE_H
#define MP_ANALYSIS_JOB_COMPARE_H

#include "analysis/job/job_view.h"
#include "analysis/sites/flames.h"

struct mp_job_compare_row {
    uint64_t bytes[MP_SIDES];
    uint32_t stacks[MP_SIDES]; /* in the side's job; MP_NONE: not there */
};

struct mp_job_compare {
    MP_VEC(struct mp_job_compare_row) rows; /* those that differ, by the size of the change */
};

/* Sites are equal as in analysis/sites/flames.h. `sense`: MP_JOB_PEAK or MP_JOB_END. */
void mp_job_compare_make(const struct mp_job_view *const sides[MP_SIDES], enum mp_job_sense sense,
                         struct mp_job_compare *compare);
void mp_job_compare_free(struct mp_job_compare *compare);

/* The highest of what its processes have at their peaks, or outstanding at their ends. */
uint64_t mp_job_most_of(const struct mp_job_view *job, enum mp_job_sense sense);

#endif
