#include "collect/session/snapshots.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/recording/live_file.h"
#include "collect/recording/recording_write.h"
#include "collect/session/asker.h"
#include "collect/session/control.h"

#define BARE_NICE 10

/* ---- in the child: all data is a copy, except for the spool, which it only reads -------------------------------- */

static enum mp_status write_now(struct mp_recording *recording, int fd, struct mp_error *error)
{
    enum mp_status status = mp_writer_redirect(recording->file.writer, fd, error);
    if (!status && recording->state.ledger.paused) status = mp_ledger_resume(&recording->state.ledger, error);
    if (!status) status = mp_recording_write_base(recording, error);
    recording->how = (struct mp_exit){.time_ns = mp_recording_time(recording, mp_clock_monotonic_ns())};
    snprintf(recording->how_text, sizeof recording->how_text, MP_SNAPSHOT_RUNNING);
    return status ? status : mp_recording_write_end(recording, error);
}

static _Noreturn void run_child(const struct mp_snapshots *snapshots, struct mp_recording *recording,
                                const struct mp_snapshot_job *job, int fd)
{
    struct mp_snapshot_outcome *outcome = job->shared;
    /* A terminal's signal to all processes must not leave half a file. */
    signal(SIGINT, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    if (job->of == MP_SNAPSHOT_OF_BARE) {
        recording->symbols = NULL;
        setpriority(PRIO_PROCESS, 0, BARE_NICE); /* the recorded program comes first */
    }
    int own = job->path ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : fd; /* the writer closes its own descriptor */
    enum mp_status status = (job->of ? mp_live_file_write : write_now)(recording, own, &outcome->error);
    struct stat facts;
    struct mp_new_file file = job->file;
    if (!status && file.path) status = mp_new_file_put(&file, &outcome->error);
    if (!status && job->path && !fstat(fd, &facts)) outcome->file_bytes = (uint64_t)facts.st_size;
    outcome->status = status;
    if (!status && file.path && snapshots->calls->written)
        snapshots->calls->written(snapshots->calls->context, outcome);
    _exit(0);
}

/* ---- in the collector ------------------------------------------------------------------------------------------- */

/* Makes run.now.2.mp from run.mp, "now" and 2. Freed by the caller. */
static char *path_near(const char *recording, const char *word, unsigned number)
{
    const char *slash = strrchr(recording, '/'), *dot = strrchr(slash, '.');
    int stem = dot && dot != slash + 1 ? (int)(dot - recording) : (int)strlen(recording);
    char count[16] = "", *path;
    if (number > 1) snprintf(count, sizeof count, ".%u", number);
    return asprintf(&path, "%.*s.%s%s%s", stem, recording, word, count, recording + stem) < 0 ? NULL : path;
}

/* Makes a file next to the recording, under the first free name. */
static enum mp_status make_file(const struct mp_recording *recording, const struct mp_snapshot_request *request,
                                struct mp_snapshot_job *job, struct mp_error *error)
{
    const struct mp_new_file_rule rule = {.way = MP_NEW_FILE_FRESH, .nameless = true};
    bool is_asked = request->number || request->at_oom; /* the program asked; otherwise memprof's user did */
    for (unsigned number = 1;; number++) {
        struct stat facts;
        job->path = path_near(recording->file.path, request->at_oom ? "oom" : "now", number);
        if (!job->path) return mp_fail(error, MP_NO_MEMORY, "out of memory for a snapshot");
        int refusal = is_asked && number == 1 ? mp_asker_refusal(recording->pid, job->path) : 0;
        if (is_asked && recording->ended && (!refusal || refusal == ESRCH)) refusal = recording->may_not_write;
        if (refusal) return mp_asker_fail(recording->pid, job->path, refusal, error);
        enum mp_status status = mp_new_file_open(job->path, &rule, &job->file, error);
        if (!status || lstat(job->path, &facts)) return status;
        free(job->path);
    }
}

/* The error if the program's own file cannot be written: `reason` is an errno. */
static enum mp_status refuse_file(uint32_t pid, const char *path, int reason, struct mp_error *error)
{
    if (reason == EEXIST)
        return mp_fail(error, MP_IO, "%s is already there: only --force lets pid %u replace it, and only a file", path,
                       pid);
    if (reason == EACCES || reason == EPERM || reason == EROFS) return mp_asker_fail(pid, path, reason, error);
    return mp_fail(error, MP_IO, "pid %u cannot write %s: %s", pid, path, strerror(reason));
}

/* Copies a descriptor that is open in the program. Kernels before 5.6, and containers, refuse this. The file is then
 * opened anew, if the program has no more rights than memprof. -1 with errno. */
static int take_descriptor(uint32_t pid, int theirs)
{
    char name[64];
    struct stat process;
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    int fd = pidfd < 0 ? -1 : (int)syscall(SYS_pidfd_getfd, pidfd, theirs, 0);
    int reason = errno;
    if (pidfd >= 0) close(pidfd);
    if (fd >= 0) return fd;
    snprintf(name, sizeof name, "/proc/%u", pid);
    if (geteuid() && !stat(name, &process) && process.st_uid == geteuid()) {
        snprintf(name, sizeof name, "/proc/%u/fd/%d", pid, theirs);
        if ((fd = open(name, O_RDWR | O_CLOEXEC | O_NONBLOCK)) >= 0) return fd;
    }
    errno = reason;
    return -1;
}

/* Takes the file that the program made for its path. */
static enum mp_status take_file(const struct mp_recording *recording, const struct mp_snapshot_request *request,
                                struct mp_snapshot_job *job, struct mp_error *error)
{
    struct stat facts;
    job->path = strdup(mp_intern_get(&recording->tables.strings, request->path, NULL));
    if (!job->path) return mp_fail(error, MP_NO_MEMORY, "out of memory for a snapshot");
    if (request->reason) return refuse_file(recording->pid, job->path, request->reason, error);
    uint32_t pid = recording->pid;
    job->file.fd = take_descriptor(pid, request->file);
    if (job->file.fd < 0)
        return mp_fail_errno(error, "memprof may not take over %s, which pid %u made", job->path, pid);
    int flags = fcntl(job->file.fd, F_GETFL);
    if (!fstat(job->file.fd, &facts) && S_ISREG(facts.st_mode) && !facts.st_size && (flags & O_ACCMODE) == O_RDWR)
        return MP_OK;
    close(job->file.fd);
    return mp_fail(error, MP_IO, "pid %u has no empty file for %s any more", pid, job->path);
}

static void free_job(struct mp_snapshot_job *job)
{
    if (job->shared) munmap(job->shared, sizeof *job->shared);
    if (job->connection >= 0) close(job->connection);
    mp_new_file_close(&job->file);
    free(job->path);
}

static enum mp_status start_child(struct mp_snapshots *snapshots, struct mp_recording *recording,
                                  struct mp_snapshot_job *job, const struct mp_snapshot_outcome *outcome, int fd,
                                  struct mp_error *error)
{
    void *shared = mmap(NULL, sizeof *job->shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    job->shared = shared == MAP_FAILED ? NULL : shared;
    job->recording = recording->id;
    job->pid = recording->pid;
    if (!job->shared || !mp_vec_push(&snapshots->jobs, *job))
        return mp_fail(error, MP_NO_MEMORY, "out of memory for a snapshot");
    struct mp_snapshot_job *kept = &snapshots->jobs.at[snapshots->jobs.count - 1];
    *job->shared = *outcome;
    job->shared->events = recording->events;
    job->shared->status = mp_fail(&job->shared->error, MP_IO, "the process that wrote the snapshot was killed");
    kept->child = mp_device_watch_fork(recording->devices.watch);
    if (!kept->child) run_child(snapshots, recording, kept, fd);
    if (kept->child > 0) return MP_OK;
    snapshots->jobs.count--;
    return mp_fail_errno(error, "cannot start a process to write a snapshot");
}

/* First writes the records taken so far to the recording's own file, for the child to copy. A snapshot of only live
 * blocks needs no file. */
static enum mp_status prepare(struct mp_recording *recording, enum mp_snapshot_of of, struct mp_error *error)
{
    if (recording->file.failed) {
        *error = recording->file.failure;
        return recording->file.failed;
    }
    if (of == MP_SNAPSHOT_OF_BARE) return MP_OK;
    enum mp_status status = mp_recording_write(recording, false, error);
    if (!mp_recording_check(recording, status, error)) return status;
    if (recording->file.writer) return MP_OK;
    return mp_fail(error, MP_NOT_FOUND, "nothing was recorded yet");
}

static enum mp_status begin(struct mp_snapshots *snapshots, struct mp_recording *recording,
                            const struct mp_snapshot_request *request, struct mp_error *error)
{
    struct mp_snapshot_job job = {.child = -1, .number = request->number, .connection = -1};
    enum mp_status status = prepare(recording, MP_SNAPSHOT_OF_ALL, error);
    if (!status && request->path) status = take_file(recording, request, &job, error);
    if (!status && !request->path) status = make_file(recording, request, &job, error);
    if (!status) {
        struct mp_snapshot_outcome outcome = {.path = job.path, .at_oom = request->at_oom, .oom_ns = request->oom_ns};
        status = start_child(snapshots, recording, &job, &outcome, job.file.fd, error);
        close(job.file.fd);
    }
    if (status) free_job(&job);
    return status;
}

#define ANSWERS_AT_ONCE 16 /* most snapshots at one time: each is a process with a copy of the collector's data */

static bool are_too_many(const struct mp_snapshots *snapshots)
{
    size_t answers = 0;
    for (size_t i = 0; i < snapshots->jobs.count; i++)
        answers += snapshots->jobs.at[i].connection >= 0;
    return answers >= ANSWERS_AT_ONCE;
}

enum mp_status mp_snapshots_start_for(struct mp_snapshots *snapshots, struct mp_recording *recording,
                                      enum mp_snapshot_of of, int fd, int connection, struct mp_error *error)
{
    struct mp_snapshot_job job = {.child = -1, .connection = connection, .of = of};
    struct mp_snapshot_outcome outcome = {0};
    enum mp_status status = MP_OK;
    if (are_too_many(snapshots))
        status =
            mp_fail(error, MP_BUSY, "memprof answers %d questions about its programs already; ask again in a while",
                    ANSWERS_AT_ONCE);
    else
        mp_recording_round(recording, false); /* so that the state is the one at the request, not at the last round */
    if (!status) status = prepare(recording, of, error);
    if (!status) status = start_child(snapshots, recording, &job, &outcome, fd, error);
    close(fd);
    if (status) free_job(&job);
    return status;
}

void mp_snapshots_serve(struct mp_snapshots *snapshots, struct mp_recording *recording)
{
    for (size_t i = 0; i < recording->ooms.requests.count; i++) {
        const struct mp_snapshot_request *request = &recording->ooms.requests.at[i];
        struct mp_snapshot_outcome outcome = {.at_oom = request->at_oom};
        if (request->at_oom && !snapshots->at_oom) continue;
        outcome.status = begin(snapshots, recording, request, &outcome.error);
        if (!outcome.status) continue;
        mp_snapshots_answer(recording, request->number, false);
        if (snapshots->calls->ended) snapshots->calls->ended(snapshots->calls->context, &outcome);
    }
    recording->ooms.requests.count = 0;
}

bool mp_snapshots_reap(struct mp_snapshots *snapshots, bool wait, uint64_t *recording, uint32_t *number, bool *written)
{
    for (size_t i = 0; i < snapshots->jobs.count; i++) {
        struct mp_snapshot_job job = snapshots->jobs.at[i];
        pid_t ended;
        while ((ended = waitpid(job.child, NULL, wait ? 0 : WNOHANG)) < 0 && errno == EINTR) {
        }
        if (!ended) continue;
        snapshots->jobs.at[i] = snapshots->jobs.at[--snapshots->jobs.count];
        *recording = job.recording;
        *number = job.number;
        *written = !job.shared->status;
        if (job.connection >= 0)
            mp_control_answer(job.connection, job.shared->status, job.pid, &job.shared->error);
        else if (snapshots->calls->ended)
            snapshots->calls->ended(snapshots->calls->context, job.shared);
        free_job(&job);
        return true;
    }
    return false;
}

void mp_snapshots_answer(struct mp_recording *recording, uint32_t number, bool written)
{
    struct mp_spool_snapshot_answer *answer = &recording->spool.header->snapshot_answer;
    if (!number) return;
    atomic_store(&answer->written, written);
    atomic_store(&answer->answered, number);
    syscall(SYS_futex, &answer->answered, FUTEX_WAKE, 1, NULL, NULL, 0);
}

void mp_snapshots_free(struct mp_snapshots *snapshots)
{
    for (size_t i = 0; i < snapshots->jobs.count; i++)
        free_job(&snapshots->jobs.at[i]);
    mp_vec_free(&snapshots->jobs);
}
