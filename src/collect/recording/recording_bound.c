#include "collect/recording/recording_bound.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/worker.h"
#include "collect/fold/fold.h"
#include "format/new_file.h"

struct mp_bound_job {
    struct mp_written from;
    uint64_t events; /* events in the file when the job began */
    uint64_t keep;
    struct mp_new_file file; /* the file that will replace the old one */
    int fd;                  /* a duplicate of the new file's descriptor; the writer owns the original */
    int new_fd;
    struct mp_folded folded;
    enum mp_status status;
    struct mp_error error;
    pthread_t thread;
    bool has_thread;
    atomic_bool done;
};

static void *work(void *job_pointer)
{
    struct mp_bound_job *job = job_pointer;
    job->status = mp_fold(&job->from, job->events, job->keep, job->new_fd, &job->folded, &job->error);
    atomic_store(&job->done, true);
    return NULL;
}

static void free_job(struct mp_recording *recording)
{
    struct mp_bound_job *job = recording->bound.job;
    if (!job) return;
    if (job->has_thread) pthread_join(job->thread, NULL);
    mp_writer_abandon(job->folded.writer);
    mp_new_file_close(&job->file);
    if (job->fd >= 0) close(job->fd);
    free(job->from.chunks);
    free(job);
    recording->bound.job = NULL;
}

/* Begins a fold. With `here`, or if no thread can be started, folds completely on this thread. */
static enum mp_status begin_fold(struct mp_recording *recording, bool here, struct mp_error *error)
{
    struct mp_bound *bound = &recording->bound;
    struct mp_bound_job *job = calloc(1, sizeof *job);
    if (!job) return mp_fail(error, MP_NO_MEMORY, "out of memory to keep the recording short");
    bound->job = job;
    job->fd = job->new_fd = -1;
    job->events = bound->file_events;
    job->keep = bound->max_events;
    enum mp_status status = mp_writer_written(recording->file.writer, &job->from, error);
    struct stat facts = {0};
    if (!status) fstat(job->from.fd, &facts);
    const struct mp_new_file_rule rule = {
        .way = MP_NEW_FILE_OWN, .own_device = facts.st_dev, .own_inode = facts.st_ino, .nameless = true};
    if (!status) status = mp_new_file_open(recording->file.path, &rule, &job->file, error);
    if (!status) {
        job->new_fd = job->file.fd;
        job->fd = job->file.fd = fcntl(job->new_fd, F_DUPFD_CLOEXEC, 0);
        if (job->fd < 0) {
            status = mp_fail_errno(error, "cannot keep the recording short");
            close(job->new_fd);
        }
    }
    if (status) {
        free_job(recording);
        return status;
    }
    job->has_thread = !here && mp_worker_start(&job->thread, work, job);
    if (!job->has_thread) work(job);
    return MP_OK;
}

/* Adds the events written meanwhile to the folded file, which then replaces the old file. */
static enum mp_status take_fold(struct mp_recording *recording, struct mp_error *error)
{
    struct mp_bound *bound = &recording->bound;
    struct mp_bound_job *job = bound->job;
    struct mp_written now = {0};
    if (job->has_thread) pthread_join(job->thread, NULL);
    job->has_thread = false;
    enum mp_status status = job->status;
    if (status) *error = job->error;
    if (!status) status = mp_writer_written(recording->file.writer, &now, error);
    if (!status) status = mp_writer_copy(job->folded.writer, &now, job->folded.next_offset, error);
    if (!status) status = mp_new_file_put(&job->file, error);
    free(now.chunks);
    if (!status) {
        mp_writer_abandon(recording->file.writer);
        recording->file.writer = job->folded.writer;
        job->folded.writer = NULL;
        bound->file_events = job->folded.events + bound->file_events - job->events;
    }
    free_job(recording);
    return status;
}

static uint64_t slack(const struct mp_bound *bound)
{
    return bound->max_events > MP_BOUND_SLACK ? bound->max_events : MP_BOUND_SLACK;
}

/* Decides when to fold next. After a failure the file keeps growing until the next attempt. */
static enum mp_status go_on(struct mp_recording *recording, enum mp_status status, const struct mp_error *error)
{
    struct mp_bound *bound = &recording->bound;
    if (status) {
        char text[sizeof error->text + 64];
        snprintf(text, sizeof text, "the recording could not be kept to its newest events: %s", error->text);
        mp_recording_note(recording, text);
    }
    bound->fold_at = (status ? bound->file_events : bound->max_events) + slack(bound);
    return MP_OK;
}

enum mp_status mp_recording_bound(struct mp_recording *recording, struct mp_error *error)
{
    struct mp_bound *bound = &recording->bound;
    if (!bound->max_events || !recording->file.writer) return MP_OK;
    if (!bound->fold_at) bound->fold_at = bound->max_events + slack(bound);
    if (bound->job)
        return atomic_load(&bound->job->done) ? go_on(recording, take_fold(recording, error), error) : MP_OK;
    if (bound->file_events < bound->fold_at) return MP_OK;
    enum mp_status status = begin_fold(recording, false, error);
    return status ? go_on(recording, status, error) : MP_OK;
}

enum mp_status mp_recording_bound_end(struct mp_recording *recording, struct mp_error *error)
{
    struct mp_bound *bound = &recording->bound;
    enum mp_status status = MP_OK;
    if (!bound->max_events || !recording->file.writer) return MP_OK;
    if (bound->job) status = go_on(recording, take_fold(recording, error), error);
    if (status || bound->file_events <= bound->max_events) return status;
    status = begin_fold(recording, true, error);
    if (!status) status = take_fold(recording, error);
    return go_on(recording, status, error);
}

void mp_recording_bound_free(struct mp_recording *recording)
{
    free_job(recording);
}
