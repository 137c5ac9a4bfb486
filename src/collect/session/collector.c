#include "collect/session/collector_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/session/asker.h"
#include "collect/session/launch.h"
#include "collect/session/membership.h"
#include "collect/session/refused.h"
#include "collect/session/survivors.h"
#include "collect/symbols/symbol_file.h"
#include "wire/config.h"

#define ANCESTORS_MAX 16

/* Helpers of a program, such as multiprocessing's resource tracker, end a moment after the program. */
#define LEAVE_WITHIN_NS (1 * MP_NS_PER_SECOND)
#define LOOK_EVERY_NS   (50 * MP_NS_PER_MS)

static void keep_note(const struct mp_recording *recording, struct mp_collector_result *result)
{
    if (!recording->notes.count) return;
    snprintf(result->note, sizeof result->note, "%s",
             mp_intern_get(&recording->tables.strings, recording->notes.at[0], NULL));
}

static void take_finished(struct mp_collector *collector, struct mp_finished *finished)
{
    /* Data that a full disk refused stays in the spool for `memprof recover`. */
    uint64_t units = finished->recording->schedule_state.position.units;
    if (units > collector->result->units_seen) collector->result->units_seen = units;
    bool worth_reporting = finished->summary.path || finished->summary.failed;
    if (!worth_reporting && !*collector->result->note) keep_note(finished->recording, collector->result);
    mp_recording_free(finished->recording, !finished->summary.failed || finished->summary.replaced);
    if (!worth_reporting || !mp_vec_push(&collector->result->recordings, finished->summary))
        free(finished->summary.path);
}

/* The recording of the nearest recorded ancestor with a file; NULL. */
static const struct mp_recording *owner_of(const struct mp_collector *collector, const struct mp_collected *process)
{
    const struct mp_member *member = &process->recording->spool.header->member;
    uint32_t pid = mp_member_knows(member, MP_MEMBER_PARENT) ? member->number[MP_MEMBER_PARENT] : 0;
    for (int level = 0; pid && level < ANCESTORS_MAX; level++, pid = mp_membership_parent(pid))
        for (size_t i = 0; i < collector->processes.count; i++)
            if (collector->processes.at[i].pid == pid && collector->processes.at[i].recording->path)
                return collector->processes.at[i].recording;
    return NULL;
}

/* A process that was not recorded has no file of its own. If no other file fits, the note goes into the last file. */
static void note_refused(struct mp_collector *collector, struct mp_recording *recording)
{
    struct mp_refused refused = {0};
    char text[MP_REFUSED_TEXT];
    bool is_last = collector->ending && !collector->processes.count;
    mp_refused_take(collector, is_last ? 0 : recording->pid, collector->ending, &refused);
    if (is_last) {
        mp_refused_merge(&refused, &collector->unplaced);
        collector->unplaced = (struct mp_refused){0};
    }
    if (!mp_refused_any(&refused)) return;
    mp_refused_say(&refused, text, sizeof text);
    mp_recording_lacks_processes(recording, text);
    mp_refused_merge(&collector->result->refused, &refused);
}

void mp_collector_end_process(struct mp_collector *collector, size_t index, struct mp_exit how, const char *text)
{
    struct mp_collected process = collector->processes.at[index];
    struct mp_finished finished;
    collector->processes.at[index] = collector->processes.at[--collector->processes.count];
    if (process.pidfd >= 0) close(process.pidfd);
    mp_suspicion_free(&process.suspicion);
    note_refused(collector, process.recording);
    mp_recording_end(process.recording, how, text);
    mp_looks_serve(&collector->looks, &collector->snapshots, process.recording, true);
    mp_snapshots_serve(&collector->snapshots, process.recording);
    const struct mp_recording *owner = owner_of(collector, &process);
    process.recording->under_rank =
        owner && mp_member_same_rank(&process.recording->spool.header->member, &owner->spool.header->member);
    bool may_leave = owner && (pid_t)process.pid != collector->command &&
                     mp_leaving_may(process.recording, collector->options->file_from_bytes);
    if (mp_finisher_add(&collector->finisher, process.recording, may_leave ? owner->id : 0, &finished))
        take_finished(collector, &finished);
}

/* ---- setting up ----------------------------------------------------------------------------------------------- */

enum mp_status mp_collector_listen(struct mp_collector *collector, struct mp_error *error)
{
    enum mp_status status = mp_session_folder_make(collector->socket_folder, &collector->locked, error);
    if (status) return status;
    snprintf(collector->socket_path, sizeof collector->socket_path, "%s/%s", collector->socket_folder,
             MP_SESSION_SOCKET);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, collector->socket_path, strlen(collector->socket_path) + 1);
    collector->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int on = 1; /* connections inherit this option: the sender of a message counts, not the process that connected */
    if (collector->listener < 0 || setsockopt(collector->listener, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) ||
        bind(collector->listener, (struct sockaddr *)&address, sizeof address) ||
        listen(collector->listener, SOMAXCONN))
        return mp_fail_errno(error, "cannot listen on %s", collector->socket_path);
    return MP_OK;
}

/* A program may shrink its spool under the collector. The lost page then reads as zeros, so that the recordings of
 * other programs go on. */
static void blank_page(int number, siginfo_t *info, void *context)
{
    (void)context;
    uintptr_t size = (uintptr_t)sysconf(_SC_PAGESIZE);
    void *page = (void *)((uintptr_t)info->si_addr & ~(size - 1)); /* NOLINT */
    if (info->si_code != BUS_ADRERR ||
        mmap(page, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
        signal(number, SIG_DFL);
}

/* Signals from the terminal reach the command directly; signals sent to memprof are passed on. After the command's end,
 * each of them ends the waiting. */
static enum mp_status catch_signals(struct mp_collector *collector, struct mp_error *error)
{
    static const int heard[] = {SIGCHLD, SIGINT, SIGTERM, SIGHUP, SIGCONT, SIGTSTP};
    /* SIGXFSZ: a limit on file sizes is a write error to report, and must not end memprof. */
    static const int ignored[] = {SIGINT, SIGQUIT, SIGPIPE, SIGXFSZ};
    const struct sigaction blank = {.sa_sigaction = blank_page, .sa_flags = SA_SIGINFO};
    sigaction(SIGBUS, &blank, NULL);
    sigemptyset(&collector->newly_ignored);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (signal(ignored[i], SIG_IGN) != SIG_IGN) sigaddset(&collector->newly_ignored, ignored[i]);
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof heard / sizeof *heard; i++)
        sigaddset(&set, heard[i]);
    if (collector->options->snapshot_signal) sigaddset(&set, collector->options->snapshot_signal);
    sigprocmask(SIG_BLOCK, &set, &collector->mask);
    signal(SIGCHLD, SIG_DFL); /* if our parent ignored it, there would be no exit status to wait for */
    collector->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return collector->signals < 0 ? mp_fail_errno(error, "cannot watch signals") : MP_OK;
}

static enum mp_status set_up(struct mp_collector *collector, struct mp_error *error)
{
    mp_naming_host(collector->host, sizeof collector->host);
    collector->naming = (struct mp_naming){.pattern = collector->options->output,
                                           .host = collector->host,
                                           .start_unix_s = mp_clock_realtime_ns() / MP_NS_PER_SECOND};
    mp_finisher_open(&collector->finisher);
    mp_symbol_files_share(true);
    collector->snapshots = (struct mp_snapshots){.calls = &collector->options->snapshot_calls,
                                                 .at_oom = collector->options->snapshot_at_oom};
    enum mp_status status = catch_signals(collector, error);
    if (!status) status = mp_metrics_open(collector->options->metrics, &collector->metrics, error);
    if (!status) status = mp_collector_listen(collector, error);
    return status ? status : mp_doorbell_open(&collector->doorbell, error);
}

void mp_collector_listen_no_more(struct mp_collector *collector)
{
    if (collector->listener >= 0) close(collector->listener);
    for (size_t i = 0; i < collector->visitors.count; i++)
        close(collector->visitors.at[i]);
    mp_vec_free(&collector->visitors);
    if (*collector->socket_path) unlink(collector->socket_path);
    if (*collector->socket_folder) rmdir(collector->socket_folder);
    if (collector->locked >= 0) close(collector->locked);
}

static void tear_down(struct mp_collector *collector)
{
    mp_collector_listen_no_more(collector);
    if (collector->signals >= 0) close(collector->signals);
    mp_doorbell_close(&collector->doorbell);
    mp_finisher_close(&collector->finisher);
    mp_symbol_files_share(false);
    mp_snapshots_free(&collector->snapshots);
    mp_looks_free(&collector->looks);
    mp_unreached_free(&collector->unreached);
    mp_device_watch_close(collector->devices);
    mp_metrics_close(&collector->metrics);
    mp_vec_free(&collector->processes);
    for (size_t i = 0; i < collector->paths.count; i++)
        free(collector->paths.at[i]);
    mp_vec_free(&collector->paths);
}

/* Each recorded process takes a few descriptors, and each of its modules one more. Only memprof gets the higher limit,
 * as the command has already started. */
static void allow_many_files(void)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit)) return;
    limit.rlim_cur = limit.rlim_max;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* ---- the loop ------------------------------------------------------------------------------------------------- */

/* True if the sender of a signal may write where the file would be. If the sender has ended, the kernel's permission
 * for the signal suffices. */
static bool may_snapshot(const struct mp_collector *collector, uint32_t sender, const struct mp_recording *recording)
{
    const struct mp_snapshot_calls *calls = &collector->options->snapshot_calls;
    const char *path = recording->path ? recording->path : collector->options->output;
    struct mp_snapshot_outcome outcome = {.path = path};
    int refusal = sender && sender != (uint32_t)getpid() ? mp_asker_refusal(sender, path) : 0;
    if (!refusal || refusal == ESRCH) return true;
    outcome.status = mp_asker_fail(sender, path, refusal, &outcome.error);
    if (calls->ended) calls->ended(calls->context, &outcome);
    return false;
}

/* With --holders, each snapshot includes a look, if the program responds in time. */
static void snapshot_all(struct mp_collector *collector, uint32_t sender)
{
    for (size_t i = 0; i < collector->processes.count; i++) {
        struct mp_recording *recording = collector->processes.at[i].recording;
        if (!may_snapshot(collector, sender, recording)) continue;
        struct mp_snapshot_request request = {0};
        struct mp_wished_look wish = {
            .budget_ms = recording->config.holders_ms, .file = -1, .connection = -1, .then_snapshot = true};
        struct mp_error unused;
        if (recording->config.holders && !mp_looks_ask(&collector->looks, recording, wish, &unused)) continue;
        (void)mp_vec_push(&recording->requests, request);
    }
}

/* Answers programs whose snapshots are written; with `wait`, waits for all. */
static void reap_snapshots(struct mp_collector *collector, bool wait)
{
    uint64_t recording;
    uint32_t number;
    bool written;
    while (mp_snapshots_reap(&collector->snapshots, wait, &recording, &number, &written))
        for (size_t i = 0; i < collector->processes.count; i++)
            if (collector->processes.at[i].recording->id == recording)
                mp_snapshots_answer(collector->processes.at[i].recording, number, written);
}

/* Notes a process's rights while the kernel still has them, until its parent has waited for it. */
static void see_rights(struct mp_collector *collector, size_t index)
{
    struct mp_recording *recording = collector->processes.at[index].recording;
    recording->may_not_write =
        mp_asker_refusal(recording->pid, recording->path ? recording->path : collector->options->output);
}

static void pass_on_signals(struct mp_collector *collector)
{
    struct signalfd_siginfo info;
    while (read(collector->signals, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD) continue;
        if (number == collector->options->snapshot_signal) {
            snapshot_all(collector, info.ssi_pid);
            continue;
        }
        if (collector->command_ended) collector->waits_no_longer |= number != SIGCONT;
        if (collector->command_ended || number == SIGINT) continue;
        kill(collector->command, number);
        if (number == SIGTSTP) raise(SIGSTOP);
    }
    siginfo_t end = {.si_pid = 0};
    if (collector->command_ended ||
        (!waitid(P_PID, (id_t)collector->command, &end, WEXITED | WNOHANG | WNOWAIT) && !end.si_pid))
        return;
    for (size_t i = 0; i < collector->processes.count; i++)
        if ((pid_t)collector->processes.at[i].pid == collector->command) see_rights(collector, i);
    waitpid(collector->command, &collector->wait_status, 0);
    collector->command_ended = true;
}

/* Handles the end of a process that is not memprof's child. */
static void end_child(struct mp_collector *collector, size_t index, const char *otherwise)
{
    const struct mp_collected *process = &collector->processes.at[index];
    struct mp_exit how = {.known = false};
    int wait_status;
    char text[64];
    snprintf(text, sizeof text, "%s", otherwise);
    see_rights(collector, index);
    if (mp_process_end(process->pidfd, process->pid, &wait_status))
        how = mp_process_end_describe(wait_status, text, sizeof text);
    mp_collector_end_process(collector, index, how, text);
}

static void watch(struct mp_collector *collector)
{
    size_t fixed = 3, count = fixed, watched = fixed + collector->processes.count;
    struct pollfd *set = calloc(watched + collector->visitors.count, sizeof *set);
    if (!set) {
        usleep(MP_ROUND_MS * 1000);
        return;
    }
    set[0] = (struct pollfd){.fd = collector->listener, .events = POLLIN};
    set[1] = (struct pollfd){.fd = collector->signals, .events = POLLIN};
    set[2] = (struct pollfd){.fd = collector->doorbell.heard, .events = POLLIN};
    for (size_t i = 0; i < collector->processes.count; i++)
        set[count++] = (struct pollfd){.fd = collector->processes.at[i].pidfd, .events = POLLIN};
    for (size_t i = 0; i < collector->visitors.count; i++)
        set[count++] = (struct pollfd){.fd = collector->visitors.at[i], .events = POLLIN};
    poll(set, count, MP_ROUND_MS);
    mp_doorbell_hear(&collector->doorbell);
    for (size_t i = watched; i-- > fixed;)
        if (set[i].revents) end_child(collector, i - fixed, "ended");
    if (collector->visitors.count || set[0].revents) mp_collector_accept(collector);
    struct mp_finished finished;
    while (mp_finisher_take(&collector->finisher, false, &finished))
        take_finished(collector, &finished);
    free(set);
    pass_on_signals(collector);
}

static void serve_metrics(struct mp_collector *collector)
{
    size_t count = collector->processes.count;
    if (!collector->options->metrics) return;
    struct mp_recording **recordings = malloc((count + 1) * sizeof *recordings);
    if (!recordings) return;
    for (size_t i = 0; i < count; i++)
        recordings[i] = collector->processes.at[i].recording;
    mp_metrics_serve(&collector->metrics, recordings, count);
    free(recordings);
}

/* A leak that shows while the program runs may be gone at its end, and its holders with it. So this function asks for a
 * look now. */
static void look_where_suspected(struct mp_collector *collector, struct mp_collected *process)
{
    uint32_t given = process->recording->config.holders_ms;
    struct mp_wished_look wish = {
        .budget_ms = given == MP_HOLDERS_MS ? MP_HOLDERS_MS_MOST : given, .file = -1, .connection = -1};
    struct mp_error unused;
    if (mp_suspicion_round(&process->suspicion, process->recording))
        (void)mp_looks_ask(&collector->looks, process->recording, wish, &unused);
}

static void serve(struct mp_collector *collector, struct mp_collected *process)
{
    mp_recording_round(process->recording, false);
    look_where_suspected(collector, process);
    mp_looks_serve(&collector->looks, &collector->snapshots, process->recording, false);
    mp_snapshots_serve(&collector->snapshots, process->recording);
}

static bool has_recording(const void *context, uint32_t pid)
{
    const struct mp_collector *collector = context;
    for (size_t i = 0; i < collector->processes.count; i++)
        if (collector->processes.at[i].pid == pid) return true;
    return false;
}

static void go_round(struct mp_collector *collector)
{
    watch(collector);
    if (collector->options->record.follow)
        mp_unreached_look(&collector->unreached, collector->command, collector->options->file_from_bytes,
                          collector->doorbell.page, has_recording, collector);
    for (size_t i = 0; i < collector->processes.count; i++)
        serve(collector, &collector->processes.at[i]);
    reap_snapshots(collector, false);
    serve_metrics(collector);
}

/* Records processes that outlive the command: for a moment, or with --wait to their ends. */
static void wait_for_survivors(struct mp_collector *collector)
{
    struct mp_collector_result *result = collector->result;
    struct mp_survivors survivors = {0};
    uint64_t begun = mp_clock_monotonic_ns(), now = begun, looked = 0;
    while (!collector->waits_no_longer && (collector->options->wait || now - begun < LEAVE_WITHIN_NS)) {
        if (now - looked >= LOOK_EVERY_NS) {
            if (!mp_survivors_are_left(collector, &survivors)) return;
            looked = now;
        }
        go_round(collector);
        now = mp_clock_monotonic_ns();
    }
    mp_survivors_find(collector, &survivors);
    result->survivors = survivors.count;
    if (survivors.count) mp_survivors_say(&survivors, result->survived, sizeof result->survived);
}

/* Adds a note to the file of each process that goes on, and to the command's file. */
static void note_survivors(const struct mp_collector *collector)
{
    for (size_t i = 0; i < collector->processes.count && collector->result->survivors; i++)
        mp_recording_ends_early(collector->processes.at[i].recording, collector->result->survived);
}

static void end_all(struct mp_collector *collector)
{
    wait_for_survivors(collector);
    collector->ending = true;
    note_survivors(collector);
    char text[64];
    struct mp_exit how = mp_process_end_describe(collector->wait_status, text, sizeof text);
    /* The command comes last, because its file gets the notes about its children. */
    for (size_t i = collector->processes.count; i-- > 0;)
        if ((pid_t)collector->processes.at[i].pid != collector->command)
            end_child(collector, i, MP_STILL_RUNNING " when the command ended");
    while (collector->processes.count)
        mp_collector_end_process(collector, collector->processes.count - 1, how, text);
    struct mp_finished finished;
    while (mp_finisher_take(&collector->finisher, true, &finished))
        take_finished(collector, &finished);
    reap_snapshots(collector, true);
    collector->result->exit_status = how.by_signal ? 128 + (int)how.status : (int)how.status;
}

enum mp_status mp_collector_run(const struct mp_collector_options *options, struct mp_collector_result *result,
                                struct mp_error *error)
{
    struct mp_collector collector = {.options = options, .result = result, .listener = -1, .signals = -1, .locked = -1};
    struct mp_launch launch = {.command = options->command,
                               .cupti = options->record.cupti,
                               .hooks = options->record.hooks,
                               .libunwind = options->record.libunwind,
                               .host = options->record.host_bytes,
                               .shim = options->record.shim,
                               .step_at = options->record.step_at};
    char *library = NULL, *python_folder = NULL;
    enum mp_status status = mp_launch_find_library(&library, &python_folder, error);
    if (!status) status = set_up(&collector, error);
    if (!status) {
        int exec_errno;
        collector.devices = mp_device_watch_open();
        launch.library = library;
        launch.python_folder = python_folder;
        launch.socket_path = collector.socket_path;
        launch.default_signals = collector.newly_ignored;
        launch.mask = collector.mask;
        status = mp_launch_command(&launch, &collector.command, &exec_errno, error);
        if (exec_errno) result->exit_status = exec_errno == ENOENT ? 127 : 126;
    }
    if (!status) {
        allow_many_files();
        while (!collector.command_ended)
            go_round(&collector);
        end_all(&collector);
        mp_collector_name_command(&collector);
    }
    mp_refused_merge(&result->refused, &collector.unplaced);
    mp_refused_take(&collector, 0, true, &result->refused); /* processes that failed meanwhile */
    free(library);
    free(python_folder);
    tear_down(&collector);
    return status;
}

void mp_collector_result_free(struct mp_collector_result *result)
{
    for (size_t i = 0; i < result->recordings.count; i++)
        free(result->recordings.at[i].path);
    mp_vec_free(&result->recordings);
}
