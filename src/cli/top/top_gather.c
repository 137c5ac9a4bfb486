#include "cli/top/top_gather.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/worker.h"
#include "collect/session/control.h"

#define ROUND_NS     MP_NS_PER_SECOND        /* a collector that does not answer within this time counts as silent */
#define LOOK_NS      (60 * MP_NS_PER_SECOND) /* longest time for an answer, which may have millions of blocks */
#define THOROUGH_NS  (5 * MP_NS_PER_SECOND)  /* time between two searches of all processes of the machine */
#define KEPT_NS      (60 * MP_NS_PER_SECOND) /* a process that has ended stays in the picture for this long */
#define SHARE_CHOSEN 10                      /* looks at the chosen process: at most 1/10 of the thread's time */
#define SHARE_OTHERS 40                      /* looks at other processes: at most 1/40 */
#define ANSWER_MOST  (64u << 20)

struct session {
    char path[128];
    int connection; /* -1: no question is open */
    int file;
    enum mp_status status; /* result of the last round */
};

struct mp_top_gather {
    /* used only by the thread of rounds */
    const char *only;
    uint64_t interval_ns, thorough_ns;
    struct mp_intern paths;          /* session N has path N + 1 */
    MP_VEC(struct session) sessions; /* one per path; rows are added under the lock */
    /* used only by the thread of looks */
    struct mp_top_names *names;
    uint64_t names_of;
    /* under the lock */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct mp_top_processes processes;
    uint64_t number, chosen;
    struct mp_top_blocks *blocks;
    uint64_t blocks_of;
    char why[240];
    bool started;
};

struct mp_top_gather *mp_top_gather_new(const char *socket, uint64_t interval_ns)
{
    struct mp_top_gather *gather = mp_alloc_zeroed(1, sizeof *gather);
    pthread_condattr_t clock;
    gather->only = socket;
    gather->interval_ns = interval_ns;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&gather->lock, NULL);
    pthread_cond_init(&gather->changed, &clock);
    pthread_condattr_destroy(&clock);
    return gather;
}

/* ---- one question ----------------------------------------------------------------------------------------------- */

static enum mp_status ask(const char *path, enum mp_control_command command, pid_t pid, int *connection, int *file)
{
    struct mp_error error;
    *connection = -1;
    *file = memfd_create("memprof-top", MFD_CLOEXEC);
    if (*file < 0) return MP_IO;
    enum mp_status status = mp_control_begin(path, command, pid, *file, connection, &error);
    if (!status) return MP_OK;
    close(*file);
    *file = *connection = -1;
    return status;
}

static void hang_up(int *connection, int *file)
{
    if (*connection >= 0) close(*connection);
    if (*file >= 0) close(*file);
    *connection = *file = -1;
}

/* ---- rounds ----------------------------------------------------------------------------------------------------- */

static void find_sessions(struct mp_top_gather *gather)
{
    uint64_t now = mp_clock_monotonic_ns();
    bool thorough = !gather->thorough_ns || now - gather->thorough_ns >= THOROUGH_NS;
    if (gather->only)
        (void)mp_intern_text(&gather->paths, gather->only);
    else
        (void)mp_sessions_find(thorough, &gather->paths);
    if (thorough) gather->thorough_ns = now;
    pthread_mutex_lock(&gather->lock); /* the other thread reads the sessions' paths */
    while (gather->sessions.count < gather->paths.count) {
        struct session session = {.connection = -1, .file = -1};
        snprintf(session.path, sizeof session.path, "%s",
                 mp_intern_get(&gather->paths, (uint32_t)gather->sessions.count + 1, NULL));
        mp_vec_add(&gather->sessions, session);
    }
    pthread_mutex_unlock(&gather->lock);
}

static enum mp_status read_overview(const struct session *session, uint32_t number, struct mp_top_processes *to)
{
    struct mp_error error;
    struct stat facts;
    enum mp_status status = mp_control_end(session->connection, &error);
    if (!status && (fstat(session->file, &facts) || facts.st_size > ANSWER_MOST)) status = MP_IO;
    if (status) return status;
    size_t size = (size_t)facts.st_size;
    char *text = mp_alloc(size + 1);
    if (pread(session->file, text, size, 0) != (ssize_t)size) status = MP_IO;
    text[size] = '\0';
    if (!status) status = mp_top_overview_read(text, number, to, &error);
    free(text);
    return status;
}

/* Takes the answers that come until `deadline`. Questions without an answer stay open. */
static void take_answers(struct mp_top_gather *gather, uint64_t deadline, struct mp_top_processes *to)
{
    size_t count = gather->sessions.count, open;
    struct pollfd *set = mp_alloc_zeroed(count + 1, sizeof *set);
    do {
        open = 0;
        for (size_t i = 0; i < count; i++) {
            set[i] = (struct pollfd){.fd = gather->sessions.at[i].connection, .events = POLLIN};
            open += set[i].fd >= 0;
        }
        uint64_t now = mp_clock_monotonic_ns();
        if (!open || now >= deadline) break;
        if (poll(set, count, (int)((deadline - now) / MP_NS_PER_MS) + 1) <= 0) continue;
        for (size_t i = 0; i < count; i++) {
            struct session *session = &gather->sessions.at[i];
            if (set[i].fd < 0 || !set[i].revents) continue;
            session->status = read_overview(session, (uint32_t)i, to);
            /* A collector that ended meanwhile hangs up without an answer. */
            if (session->status == MP_IO) session->status = MP_BUSY;
            hang_up(&session->connection, &session->file);
        }
    } while (open);
    free(set);
}

static enum mp_top_fate state_without(const struct session *session, const struct mp_top_process *process)
{
    bool alive = !kill(process->pid, 0) || errno != ESRCH;
    if (session->status == MP_OK || !alive) return MP_TOP_ENDED;
    return session->status == MP_NOT_FOUND ? MP_TOP_ORPHAN : MP_TOP_SILENT;
}

/* Call it under the lock. A process that is missing in `fresh` stays for a while, with the reason. */
static void merge(struct mp_top_gather *gather, struct mp_top_processes *fresh)
{
    uint64_t now = mp_clock_monotonic_ns();
    size_t count = fresh->count;
    for (size_t i = 0; i < gather->processes.count; i++) {
        struct mp_top_process *old = &gather->processes.at[i], *same = NULL;
        for (size_t k = 0; k < count && !same; k++)
            if (fresh->at[k].recording == old->recording) same = &fresh->at[k];
        if (same) {
            same->judged_steps = old->judged_steps;
            mp_vec_add_all(&same->growths, old->growths.at, old->growths.count);
        } else {
            if (old->state != MP_TOP_ENDED) old->state = state_without(&gather->sessions.at[old->session], old);
            if (!old->gone_ns || old->state == MP_TOP_SILENT) old->gone_ns = now;
            if (now - old->gone_ns < KEPT_NS) {
                mp_vec_add(fresh, *old);
                continue;
            }
        }
        mp_top_process_free(old);
    }
    mp_vec_free(&gather->processes);
    mp_top_processes_sort(fresh);
    gather->processes = *fresh;
    gather->number++;
    pthread_cond_broadcast(&gather->changed);
}

void mp_top_gather_round(struct mp_top_gather *gather)
{
    struct mp_top_processes fresh = {0};
    find_sessions(gather);
    mp_vec_each (struct session, session, &gather->sessions) {
        if (session->connection >= 0) continue;
        session->status = ask(session->path, MP_CONTROL_OVERVIEW, 0, &session->connection, &session->file);
    }
    for (size_t i = 0; i < gather->sessions.count; i++)
        if (gather->sessions.at[i].connection >= 0) gather->sessions.at[i].status = MP_BUSY;
    take_answers(gather, mp_clock_monotonic_ns() + ROUND_NS, &fresh);
    pthread_mutex_lock(&gather->lock);
    merge(gather, &fresh);
    pthread_mutex_unlock(&gather->lock);
}

/* ---- looks ------------------------------------------------------------------------------------------------------ */

/* Under the lock. */
static struct mp_top_process *process_of(struct mp_top_gather *gather, uint64_t recording)
{
    for (size_t i = 0; i < gather->processes.count; i++)
        if (gather->processes.at[i].recording == recording) return &gather->processes.at[i];
    return NULL;
}

/* Under the lock. */
static void release(struct mp_top_blocks *blocks)
{
    if (blocks && !--blocks->holders) mp_top_blocks_free(blocks);
}

static void publish(struct mp_top_gather *gather, uint64_t recording, struct mp_top_blocks *blocks, bool only_judge,
                    const struct mp_error *error)
{
    pthread_mutex_lock(&gather->lock);
    struct mp_top_process *process = process_of(gather, recording);
    if (process && blocks) {
        process->judged_steps = process->steps == MP_BYTES_UNKNOWN ? 0 : process->steps;
        mp_vec_free(&process->growths);
        mp_vec_add_all(&process->growths, blocks->growths, blocks->growth_count);
    } else if (process && only_judge) { /* do not ask again at once */
        process->judged_steps = process->steps;
    }
    if (only_judge) {
        mp_top_blocks_free(blocks);
    } else {
        snprintf(gather->why, sizeof gather->why, "%s", blocks ? "" : error->text);
        if (blocks || gather->blocks_of != recording) {
            release(gather->blocks);
            gather->blocks = blocks;
            gather->blocks_of = recording;
        }
    }
    gather->number++;
    pthread_cond_broadcast(&gather->changed);
    pthread_mutex_unlock(&gather->lock);
}

static enum mp_status look_at_process(const char *path, pid_t pid, struct mp_top_names *names,
                                      struct mp_top_blocks **blocks, struct mp_error *error)
{
    int connection, file;
    struct pollfd wait = {.events = POLLIN};
    *blocks = NULL;
    if (ask(path, MP_CONTROL_BARE, pid, &connection, &file))
        return mp_fail(error, MP_NOT_FOUND, "the memprof that records process %d does not answer", (int)pid);
    wait.fd = connection;
    enum mp_status status =
        poll(&wait, 1, (int)(LOOK_NS / MP_NS_PER_MS)) > 0
            ? mp_control_end(connection, error)
            : mp_fail(error, MP_BUSY, "the memprof that records process %d does not answer", (int)pid);
    if (!status) status = mp_top_blocks_read(file, names, blocks, error);
    hang_up(&connection, &file);
    return status;
}

void mp_top_gather_look(struct mp_top_gather *gather, uint64_t recording, bool only_judge)
{
    struct mp_error error = {.text = "it has ended"};
    struct mp_top_blocks *blocks = NULL;
    char path[128] = "";
    pid_t pid = 0;
    pthread_mutex_lock(&gather->lock);
    const struct mp_top_process *process = process_of(gather, recording);
    if (process && process->state == MP_TOP_RUNS) {
        pid = process->pid;
        snprintf(path, sizeof path, "%s", gather->sessions.at[process->session].path);
    }
    pthread_mutex_unlock(&gather->lock);
    if (!pid) return;
    if (!only_judge && gather->names_of != recording) {
        mp_top_names_free(gather->names);
        gather->names = mp_top_names_new(pid);
        gather->names_of = recording;
    }
    (void)look_at_process(path, pid, only_judge ? NULL : gather->names, &blocks, &error);
    publish(gather, recording, blocks, only_judge, &error);
}

uint64_t mp_top_gather_unjudged(struct mp_top_gather *gather)
{
    uint64_t found = 0;
    pthread_mutex_lock(&gather->lock);
    for (size_t i = 0; i < gather->processes.count && !found; i++) {
        const struct mp_top_process *process = &gather->processes.at[i];
        if (process->state != MP_TOP_RUNS || process->recording == gather->chosen) continue;
        if (process->steps == MP_BYTES_UNKNOWN || process->steps < MP_LEAK_STEPS) continue;
        if (process->steps >= process->judged_steps + process->judged_steps / 4 + 1) found = process->recording;
    }
    pthread_mutex_unlock(&gather->lock);
    return found;
}

/* ---- the threads ------------------------------------------------------------------------------------------------ */

/* Waits until `when`, or until the user chooses another process than *chosen. */
static void wait_until(struct mp_top_gather *gather, uint64_t when, const uint64_t *chosen)
{
    struct timespec moment = {(time_t)(when / MP_NS_PER_SECOND), (long)(when % MP_NS_PER_SECOND)};
    pthread_mutex_lock(&gather->lock);
    while (mp_clock_monotonic_ns() < when && (!chosen || *chosen == gather->chosen))
        pthread_cond_timedwait(&gather->changed, &gather->lock, &moment);
    pthread_mutex_unlock(&gather->lock);
}

static void *make_rounds(void *context)
{
    struct mp_top_gather *gather = context;
    for (;;) {
        uint64_t begun = mp_clock_monotonic_ns();
        mp_top_gather_round(gather);
        wait_until(gather, begun + gather->interval_ns, NULL);
    }
    return NULL;
}

static void *make_looks(void *context)
{
    struct mp_top_gather *gather = context;
    uint64_t due = 0, due_others = 0, last = 0;
    for (;;) {
        pthread_mutex_lock(&gather->lock);
        uint64_t chosen = gather->chosen;
        pthread_mutex_unlock(&gather->lock);
        uint64_t begun = mp_clock_monotonic_ns(), other = 0;
        if (chosen && (chosen != last || begun >= due)) {
            mp_top_gather_look(gather, chosen, false);
            uint64_t took = mp_clock_monotonic_ns() - begun, pause = SHARE_CHOSEN * took;
            due = begun + (pause > gather->interval_ns ? pause : gather->interval_ns);
            last = chosen;
        } else if (begun >= due_others && (other = mp_top_gather_unjudged(gather))) {
            mp_top_gather_look(gather, other, true);
            due_others = begun + SHARE_OTHERS * (mp_clock_monotonic_ns() - begun);
        }
        uint64_t now = mp_clock_monotonic_ns(),
                 next = due && due < now + gather->interval_ns ? due : now + gather->interval_ns;
        wait_until(gather, next, &chosen);
    }
    return NULL;
}

bool mp_top_gather_start(struct mp_top_gather *gather)
{
    gather->started = true;
    pthread_t thread;
    sigset_t all, before;
    sigfillset(&all); /* the drawing thread handles signals */
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = mp_worker_start(&thread, make_rounds, gather) && mp_worker_start(&thread, make_looks, gather);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

void mp_top_gather_choose(struct mp_top_gather *gather, uint64_t recording)
{
    pthread_mutex_lock(&gather->lock);
    if (gather->chosen != recording) {
        gather->chosen = recording;
        pthread_cond_broadcast(&gather->changed);
    }
    pthread_mutex_unlock(&gather->lock);
}

uint64_t mp_top_gather_number(struct mp_top_gather *gather)
{
    pthread_mutex_lock(&gather->lock);
    uint64_t number = gather->number;
    pthread_mutex_unlock(&gather->lock);
    return number;
}

void mp_top_gather_take(struct mp_top_gather *gather, struct mp_top_state *state)
{
    pthread_mutex_lock(&gather->lock);
    mp_top_processes_copy(&gather->processes, &state->processes);
    state->blocks = gather->blocks;
    state->blocks_of = gather->blocks_of;
    memcpy(state->why, gather->why, sizeof state->why);
    if (state->blocks) state->blocks->holders++;
    pthread_mutex_unlock(&gather->lock);
}

void mp_top_gather_give_back(struct mp_top_gather *gather, struct mp_top_state *state)
{
    pthread_mutex_lock(&gather->lock);
    release(state->blocks);
    pthread_mutex_unlock(&gather->lock);
    mp_top_processes_free(&state->processes);
    *state = (struct mp_top_state){0};
}

void mp_top_gather_free(struct mp_top_gather *gather)
{
    if (gather->started) return;
    for (size_t i = 0; i < gather->sessions.count; i++)
        hang_up(&gather->sessions.at[i].connection, &gather->sessions.at[i].file);
    release(gather->blocks);
    mp_top_processes_free(&gather->processes);
    mp_top_names_free(gather->names);
    mp_vec_free(&gather->sessions);
    mp_intern_free(&gather->paths);
    pthread_cond_destroy(&gather->changed);
    pthread_mutex_destroy(&gather->lock);
    free(gather);
}
