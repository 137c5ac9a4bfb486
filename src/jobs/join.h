/*
 * Makes one job of many recordings: what each process held, and the sites of all of them merged by their symbolised
 * stacks. Recordings, jobs, and jobs of jobs may be added in any order: mp_job_finish() always gives the same rows in
 * the same order. Every value is a union, a sum of integers, a minimum or a maximum, and rows are sorted by their
 * texts. Memory grows with the processes, not with the sizes of recordings. One thread at a time.
 */
#pragma once

#include "base/error.h"
#include "model/model.h"

/* The most rows that are kept of one process. */
#define MP_JOB_POINTS   128 /* of each curve */
#define MP_JOB_HOLDINGS 16
/* and MP_JOB_TRACKS (format/job.h) tracks, the ones with the highest peaks */

struct mp_job;

struct mp_job *mp_job_new(void);
/* Adds a recording, known to the user as `path`, or all processes of a job. Keeps nothing of the model. */
enum mp_status mp_job_add(struct mp_job *job, const char *path, const struct mp_model *model, struct mp_error *error);
/* Adds a file that could not be read in full, with the reason (format/job.h). */
void mp_job_add_trouble(struct mp_job *job, enum mp_job_trouble_kind kind, const char *path, const char *why);
/* Makes a model of the kind that mp_model_is_job() tests for; the caller frees it. Frees the job even after an
 * error. */
enum mp_status mp_job_finish(struct mp_job *job, struct mp_model **model, struct mp_error *error);
void mp_job_free(struct mp_job *job);
