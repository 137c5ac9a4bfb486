#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/units.h"
#include "cli/output_recording.h"
#include "exchange/load/load.h"
#include "jobs/mpi_tree.h"
#include "jobs/query.h"

/* Refuses to overwrite a recording, which would be lost. A job may be overwritten, so that the user can add recordings
 * to it. */
static int check_output(const char *output, const struct mp_job_paths *paths)
{
    struct stat there, input;
    if (stat(output, &there) || mp_exchange_is_job(output)) return MP_EXIT_DONE;
    for (size_t i = 0; i < paths->count; i++) {
        if (stat(paths->at[i].path, &input) || input.st_dev != there.st_dev || input.st_ino != there.st_ino) continue;
        return mp_give_up("%s is one of the recordings, which the job would replace: choose another name", output);
    }
    return MP_EXIT_DONE;
}

/* *model: `out` is NULL in all MPI ranks but the first. */
static int merge(const struct mp_invocation *invocation, const struct mp_mpi_ranks *ranks, int rank, int size,
                 struct mp_model **model)
{
    struct mp_job_paths paths = {0};
    struct mp_error error;
    *model = NULL;
    int status = rank ? MP_EXIT_DONE : mp_output_recording_check(invocation); /* only rank 0 writes */
    if (!status && !rank) status = mp_job_paths_find(invocation->operands, invocation->operand_count, &paths);
    if (!status && !rank) status = check_output(invocation->value[MP_OPT_OUTPUT], &paths);
    if (ranks) status = mp_mpi_tell_paths(ranks, rank, size, status, invocation, &paths);
    struct mp_job *job = mp_job_new();
    if (!status) mp_job_add_paths(invocation, &paths, (size_t)rank, (size_t)size, job);
    if (ranks) status = mp_mpi_join(ranks, rank, size, status, &job);
    if (job && !status && mp_job_finish(job, model, &error))
        status = mp_message_error(&error);
    else if (status)
        mp_job_free(job);
    mp_job_paths_free(&paths);
    return status;
}

static int write_job(const struct mp_invocation *invocation, struct mp_model *model)
{
    char shown[MP_SHOWN_ROOM], processes[MP_UNIT_TEXT];
    struct mp_job_view job;
    const char *path = invocation->value[MP_OPT_OUTPUT];
    mp_job_view_make(model, &job);
    int status = mp_output_recording(invocation, model);
    if (!status) {
        mp_message("%s  %s process%s.   Next: memprof report %s", mp_shown_path(shown, path),
                   mp_format_count(processes, model->job.processes.count), model->job.processes.count == 1 ? "" : "es",
                   shown);
        if (mp_job_report_problems(path, &job)) status = MP_EXIT_INCOMPLETE;
    }
    mp_job_view_free(&job);
    return status;
}

static int run_merge(const struct mp_invocation *invocation)
{
    struct mp_model *model;
    int rank, size;
    const struct mp_mpi_ranks *ranks = mp_mpi_find(&rank, &size);
    if (!size) return MP_EXIT_COULD_NOT;
    int status = merge(invocation, ranks, rank, size, &model);
    if (model) {
        status = mp_job_holds_any(model) ? write_job(invocation, model) : MP_EXIT_COULD_NOT;
        mp_model_free(model);
    }
    if (ranks) ranks->end();
    return status;
}

const struct mp_command mp_command_merge = {
    .name = "merge",
    .summary = "make one job of the recordings of many processes or ranks",
    .usage = "FILE...",
    .about =
        "Merges the sites of all processes by their stacks, with the sum, mean, least and most bytes, and keeps each "
        "process's peaks, curves, leaks and coverage. The result is a file for report, peak, leaks, steps, compare, "
        "info and trace_plot; other commands need one of the recordings. FILE may be a folder or a merged job, in any "
        "order. Under mpirun, if memprof was built with MPI, each rank reads its share, and the file is the same. A "
        "file that cannot be used is named, and the rest is merged (status 4).",
    .example = "memprof merge run/*.mp -o job.mp",
    .meanings = {{MP_OPT_OUTPUT, "the new recording; needed"}},
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE, MP_OPT_PROGRESS},
    .operands_min = 1,
    .operands_max = 1000000,
    .run = run_merge,
};
