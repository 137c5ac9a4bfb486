/* Answers from a job: which process needs most memory, and when; which process is out of line, and by which site; which
 * processes share a device; what is wrong with the recordings. Pure; the result is the caller's, but refers to rows and
 * strings of the model. */
#pragma once

#include "base/vec.h"
#include "jobs/devices.h"
#include "jobs/problems.h"
#include "model/model.h"

/* Processes that should be alike: they have the same role, program, kind of track, and attempt. */
struct mp_job_group {
    uint32_t role, kind; /* strings of the model; kind 0: no memory */
    char *program;       /* "train.py" */
    bool helper;
    uint32_t attempt;
    uint32_t *processes; /* in order of their peaks, highest first */
    size_t count, room;
    uint64_t median, spread; /* the peaks' median, and the median distance from it */
    uint64_t sum, growth, end_bytes;
    uint32_t leaking; /* processes with a leak */
};

#define MP_JOB_REASONS 3

/* A process far from its group's median, and the sites that cause the difference. */
struct mp_job_outlier {
    uint32_t process, group;
    bool more;
    uint64_t distance; /* from the median; in a group of two, from the other process */
    struct mp_job_reason {
        uint32_t stack;
        uint64_t own, others; /* the site's bytes in this process, and on average in the group's other processes */
    } reasons[MP_JOB_REASONS];
    size_t reason_count;
};

/* One step, or 2^shift steps, over all processes of a group. */
struct mp_job_step {
    uint64_t first;
    uint32_t processes, most_process, least_process;
    uint64_t most, least, sum;
};

struct mp_job_view {
    const struct mp_model *model;
    uint32_t *chosen;                       /* by process: its chosen track, an index into job.tracks; MP_NONE: none */
    uint32_t *group;                        /* by process */
    uint32_t *attempt;                      /* by process: counted from 1, if ranks were started again; else 0 */
    MP_VEC(struct mp_job_group) groups;     /* the group with the highest peak on a device first */
    MP_VEC(struct mp_job_outlier) outliers; /* the farthest first */
    struct mp_job_devices devices;
    MP_VEC(struct mp_job_step) steps; /* the first group's */
    unsigned step_shift;
    MP_VEC(uint32_t) leaks; /* findings that are leaks, the fastest first */
    uint32_t leaking;       /* number of processes with a leak */
    uint32_t unjudged;      /* launchers and the like, without which the job has its verdict */
    uint32_t highest;       /* process with the highest peak; MP_NONE: none has memory */
    uint64_t events, dropped, end_bytes;
    uint64_t from_unix_ns, to_unix_ns;
    struct mp_job_texts problems; /* sentences about what the job lacks */
    struct mp_job_texts notes;    /* sentences about what does not affect the numbers */
    bool limited;
    uint8_t verdict; /* enum mp_verdict: leak if any process leaks, unknown if not all are clean */
};

void mp_job_view_make(const struct mp_model *model, struct mp_job_view *view);
void mp_job_view_free(struct mp_job_view *view);
bool mp_job_is_unjudged(const struct mp_job_view *view, uint32_t process);

/* The chosen track of a process; NULL: none. */
static inline const struct mp_job_track *mp_job_chosen(const struct mp_job_view *view, uint32_t process)
{
    uint32_t track = view->chosen[process];
    return track == MP_NONE ? NULL : &view->model->job.tracks.at[track];
}

/* The peak of a process's chosen track; 0: no track. */
uint64_t mp_job_peak_of(const struct mp_job_view *view, uint32_t process);

/* A process's outstanding bytes at the end, on its chosen track. */
uint64_t mp_job_end_of(const struct mp_job_view *view, uint32_t process);
