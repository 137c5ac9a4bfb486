/* Which member of a job a recording's process was. Pure. */
#ifndef MP_ANALYSIS_JOB_MEMBER_H
#define MP_ANALYSIS_JOB_MEMBER_H

#include "model/model.h"

struct mp_job_member {
    uint32_t rank, local_rank, world_size, node, parent; /* MP_NONE: unknown */
    const char *role, *job;                              /* "": unknown; the model's */
    bool helper;                                         /* works for the rank that started it */
};

struct mp_job_member mp_job_member_of(const struct mp_model *model);

#endif
