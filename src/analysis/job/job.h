/*
 * Makes one job of many recordings: what each process held, and the sites of all of them merged by their symbolised
 * stacks. Recordings and jobs may be added in any order, and jobs of jobs: mp_job_finish() gives the same rows in the
 * same order. Every value is a union, a sum of integers, a minimum or a maximum, and rows are sorted by their texts.
 * Memory grows with the processes, not with the sizes of recordings. One thread at a time.
 */
#pragma once

#include "base/error.h"
#include "model/model.h"

/* Bounds of what is kept of one process. */
#define MP_JOB_POINTS   128 /* of each curve */
#define MP_JOB_HOLDINGS 16
/* and MP_JOB_TRACKS (format/job.h), the tracks with the highest peaks */

struct mp_job;

struct mp_job *mp_job_new(void);
/* Adds a recording, known to the user as `path`, or all processes of a job. Keeps nothing of the model. */
enum mp_status mp_job_add(struct mp_job *job, const char *path, const struct mp_model *model, struct mp_error *error);
/* Adds a file that gave nothing or not everything, with the reason (format/job.h). */
void mp_job_add_trouble(struct mp_job *job, enum mp_job_trouble_kind kind, const char *path, const char *why);
/* A model that mp_model_is_job(), which the caller frees. Frees the job, whatever the result. */
enum mp_status mp_job_finish(struct mp_job *job, struct mp_model **model, struct mp_error *error);
void mp_job_free(struct mp_job *job);
