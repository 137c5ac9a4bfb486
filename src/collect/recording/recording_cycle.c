#include "collect/recording/recording_cycle.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "collect/recording/recording_parts.h"

/* How the child ended; shared with it. */
struct ended {
    enum mp_status status;
    struct mp_error error;
    uint64_t kept;
};

struct mp_cycle_job {
    pid_t child; /* 0: none was needed */
    struct ended *ended;
    struct mp_recording_summary summary;
};

static void free_job(struct mp_cycle_job *job)
{
    if (job->ended) munmap(job->ended, sizeof *job->ended);
    free(job->summary.path);
    free(job);
}

static void end_file(struct mp_recording *recording, struct ended *ended)
{
    ended->status = mp_recording_bound_end(recording, &ended->error);
    if (!ended->status) ended->status = mp_recording_write_end(recording, &ended->error);
    ended->kept = recording->bound.file_events;
}

static _Noreturn void run_child(struct mp_recording *recording, struct ended *ended)
{
    /* A signal that a terminal sends to all must not leave half a file. */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    end_file(recording, ended);
    _exit(0);
}

/* Starts again while nothing is written yet, in a file whose first events are those of the next window. */
static enum mp_status begin_anew(struct mp_recording *recording, struct mp_error *error)
{
    struct mp_bound *bound = &recording->bound;
    mp_writer_abandon(recording->writer);
    recording->writer = NULL;
    recording->cycles.number++;
    recording->spool.header->spool_id++;
    recording->events_before = recording->events;
    recording->events_since_base = 0;
    bound->file_events = bound->fold_at = 0;
    recording->samples.count = 0;
    mp_history_forget(&recording->history);
    recording->resident_bytes = recording->shared_bytes = 0;
    mp_device_samples_rewind(&recording->devices);
    mp_tables_rewind(&recording->tables);
    return mp_ledger_unnumber(&recording->state.ledger, error);
}

enum mp_status mp_recording_end_cycle(struct mp_recording *recording, struct mp_error *error)
{
    struct mp_cycle_job *job = calloc(1, sizeof *job);
    void *shared = mmap(NULL, sizeof *job->ended, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (job) job->ended = shared == MAP_FAILED ? NULL : shared;
    if (!job || !job->ended || !mp_vec_push(&recording->cycles.jobs, job)) {
        if (job) free_job(job);
        return mp_fail(error, MP_NO_MEMORY, "out of memory for a cycle's file");
    }
    mp_recording_bound_free(recording); /* a child has no other threads: it folds by itself */
    recording->how = (struct mp_exit){.time_ns = recording->state.time_ns};
    snprintf(recording->how_text, sizeof recording->how_text, MP_STILL_RUNNING " when its cycle of the schedule ended");
    mp_recording_summarise(recording, &job->summary);
    job->summary.path = recording->path;
    job->summary.duration_ns = recording->state.time_ns;
    recording->path = NULL;
    job->ended->status = mp_fail(&job->ended->error, MP_IO, "the process that wrote the cycle's end was killed");
    job->child = mp_device_watch_fork(recording->devices.watch);
    if (!job->child) {
        recording->path = job->summary.path;
        run_child(recording, job->ended);
    }
    if (job->child < 0) {
        job->child = 0;
        recording->path = job->summary.path;
        end_file(recording, job->ended);
        recording->path = NULL;
    }
    return begin_anew(recording, error);
}

bool mp_recording_reap_cycle(struct mp_recording *recording, bool wait, struct mp_recording_summary *summary)
{
    struct mp_cycles *cycles = &recording->cycles;
    for (size_t i = 0; i < cycles->jobs.count; i++) {
        struct mp_cycle_job *job = cycles->jobs.at[i];
        pid_t ended = 1;
        while (job->child && (ended = waitpid(job->child, NULL, wait ? 0 : WNOHANG)) < 0 && errno == EINTR) {
        }
        if (!ended) continue;
        for (cycles->jobs.count--; i < cycles->jobs.count; i++)
            cycles->jobs.at[i] = cycles->jobs.at[i + 1];
        *summary = job->summary;
        job->summary.path = NULL;
        summary->failed = job->ended->status;
        summary->failure = job->ended->error;
        if (!summary->failed) summary->kept = job->ended->kept;
        struct stat facts;
        if (stat(summary->path, &facts) == 0) summary->file_bytes = (uint64_t)facts.st_size;
        free_job(job);
        return true;
    }
    return false;
}

void mp_recording_free_cycles(struct mp_recording *recording)
{
    for (size_t i = 0; i < recording->cycles.jobs.count; i++)
        free_job(recording->cycles.jobs.at[i]);
    mp_vec_free(&recording->cycles.jobs);
}
