/* The course of a process's memory in at most MP_JOB_POINTS points a curve, whose units are powers of two, so that the
 * curves of any two processes have a unit in common. */
#ifndef MP_ANALYSIS_JOB_CURVES_H
#define MP_ANALYSIS_JOB_CURVES_H

#include "analysis/job/job_state.h"
#include "analysis/sites/steps.h"

/* By the clock: of each track that `wanted` (one byte each) picks. */
void mp_job_curves_by_time(struct mp_job *job, uint32_t process, const struct mp_model *model,
                           const unsigned char *wanted);
void mp_job_curve_by_step(struct mp_job *job, uint32_t process, uint32_t track, const struct mp_step_report *steps);

#endif
