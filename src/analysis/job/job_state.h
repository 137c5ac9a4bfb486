/* A job while it is being made. Only for the files in this folder that make it. */
#pragma once

#include "analysis/job/job.h"
#include "analysis/sites/steps.h"
#include "base/intern.h"
#include "base/vec.h"
#include "model/model.h"

/* A source line of a stack. Texts are ids in mp_job.texts. A native line without a function has only its `address`.
 * Structs are compared as bytes, so this one has no padding. */
struct mp_job_frame {
    uint32_t language, module, function, file, line;
    uint32_t address[2]; /* low, high */
};

struct mp_job_node {
    uint32_t parent, frame; /* MP_FRAME_CUT: MP_FRAME_CUT: lines are missing here */
};

struct mp_job_site_key {
    uint32_t stack, kind, sense;
};

struct mp_job {
    struct mp_intern texts, frames, stacks; /* frame N has id N + 1; stack 0 is empty */
    MP_VEC(uint16_t) depths;                /* of stacks */
    struct mp_intern keys;                  /* keys of sites: site N has id N + 1 */
    struct mp_model_job rows;
};

/* Ids in the job, added if new. */
uint32_t mp_job_text(struct mp_job *job, const char *text);
uint32_t mp_job_frame(struct mp_job *job, const struct mp_job_frame *frame);
uint32_t mp_job_stack(struct mp_job *job, uint32_t parent, uint32_t frame);
struct mp_job_frame mp_job_frame_at(const struct mp_job *job, uint32_t frame);
struct mp_job_node mp_job_node_at(const struct mp_job *job, uint32_t stack);

/* Merges the values of a site. Its processes must be rows of the job. */
void mp_job_add_site(struct mp_job *job, const struct mp_job_site *site);
/* The order of processes: by rank, each rank before its helpers; then by node, host and path. */
int mp_job_compare(const struct mp_job *job, uint32_t left, uint32_t right);

void mp_job_add_recording(struct mp_job *job, const char *path, const struct mp_model *model, enum mp_status *status,
                          struct mp_error *error);
/* The losses of a recording, in the words of its own reports, as a text of the job; 0: none. */
uint32_t mp_job_missing(struct mp_job *job, const struct mp_model *model);

/* A process's memory over time, in at most MP_JOB_POINTS points a curve. Units are powers of two, so any two curves
 * have a common unit. */

/* Makes the curves over time, for each track whose byte in `wanted` is set. */
void mp_job_curves_by_time(struct mp_job *job, uint32_t process, const struct mp_model *model,
                           const unsigned char *wanted);
void mp_job_curve_by_step(struct mp_job *job, uint32_t process, uint32_t track, const struct mp_step_report *steps);

/* The role of a recording's process in its job. Pure. */

struct mp_job_member {
    uint32_t rank, local_rank, world_size, node, parent; /* MP_NONE: unknown */
    const char *role, *job;                              /* owned by the model; "": unknown */
    bool helper;                                         /* works for the rank that started it */
};

struct mp_job_member mp_job_member_of(const struct mp_model *model);
