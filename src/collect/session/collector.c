#include "collect/session/collector.h"

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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "collect/recording/recording_devices.h"
#include "collect/session/asker.h"
#include "collect/session/command_line.h"
#include "collect/session/control.h"
#include "collect/session/doorbell.h"
#include "collect/session/launch.h"
#include "collect/session/membership.h"
#include "collect/session/new_recording.h"
#include "collect/session/overview.h"
#include "collect/session/process_end.h"
#include "collect/session/refused.h"
#include "collect/session/session.h"
#include "collect/session/survivors.h"
#include "collect/symbols/symbol_file.h"
#include "format/new_file.h"
#include "wire/config.h"

#define ANCESTORS_MAX    16
#define ACCEPTED_AT_ONCE 16 /* connections in one round */

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
    uint64_t units = finished->recording->window.state.position.units;
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
            if (collector->processes.at[i].pid == pid && collector->processes.at[i].recording->file.path)
                return collector->processes.at[i].recording;
    return NULL;
}

/* A process that was not recorded has no file of its own. If no other file fits, the note goes into the last file. */
static void note_refused(struct mp_collector *collector, struct mp_recording *recording)
{
    struct mp_refused refused = {0};
    char text[MP_REFUSED_TEXT];
    bool is_last = collector->ending && !collector->processes.count;
    mp_refused_take(collector->socket_path, collector->doorbell.page, is_last ? 0 : recording->pid, collector->ending,
                    &refused);
    if (is_last) {
        mp_refused_merge(&refused, &collector->unplaced);
        collector->unplaced = (struct mp_refused){0};
    }
    if (!mp_refused_any(&refused)) return;
    mp_refused_say(&refused, text, sizeof text);
    mp_recording_lacks_processes(recording, text);
    mp_refused_merge(&collector->result->refused, &refused);
}

/* The process has ended, or exec() replaced its program. */
static void end_process(struct mp_collector *collector, size_t index, struct mp_exit how, const char *text)
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

/* ---- naming and creating snapshot files ----------------------------------------------------------------------- */

static bool is_taken(const struct mp_collector *collector, const char *path)
{
    for (size_t i = 0; i < collector->paths.count; i++)
        if (!strcmp(collector->paths.at[i], path)) return true;
    return false;
}

/* A Ray worker has the name of its actor only once it runs it. */
static void read_name_again(struct mp_spool_header *facts)
{
    char command[sizeof facts->command];
    if (strncmp(facts->command, "ray::", 5) != 0) return;
    mp_command_line_masked(facts->pid, command, sizeof command);
    if (!strncmp(command, "ray::", 5)) memcpy(facts->command, command, sizeof command);
}

static enum mp_status create_snapshot_file(void *context, struct mp_recording *recording, char **path, int *fd,
                                           struct mp_error *error)
{
    struct mp_collector *collector = context;
    struct mp_spool_header *facts = recording->spool.header;
    char program[MP_PROGRAM_NAME];
    read_name_again(facts);
    mp_program_name(facts->command, sizeof facts->command, program);
    const struct mp_named process = {facts->pid, mp_member_copy(&facts->member), program};
    for (unsigned number = 0;; number++) {
        char *candidate = mp_naming_path(&collector->naming, &process, number);
        if (!candidate) return mp_fail(error, MP_NO_MEMORY, "out of memory for a file name");
        if (!is_taken(collector, candidate)) {
            /* A link is followed only if the user named it. */
            struct stat link;
            bool is_named = !strcmp(candidate, collector->options->output);
            bool is_link = !lstat(candidate, &link) && S_ISLNK(link.st_mode);
            bool force = collector->options->force && (is_named || !is_link);
            enum mp_new_file_way way = !force ? MP_NEW_FILE_FRESH : is_named ? MP_NEW_FILE_FORCE : MP_NEW_FILE_CHOSEN;
            enum mp_status status = mp_new_recording_file(recording, candidate, way, fd, error);
            if (!status) {
                char *known = strdup(candidate);
                if (!known || !mp_vec_push(&collector->paths, known)) free(known);
                *path = candidate;
                return MP_OK;
            }
            struct stat there;
            if (force || lstat(candidate, &there)) {
                free(candidate);
                return status;
            }
        }
        free(candidate);
    }
}

static bool move(struct mp_recording_summary *summary, char *path)
{
    bool moved = path && mp_new_file_move(summary->path, path);
    free(moved ? summary->path : path);
    if (moved) summary->path = path;
    return moved;
}

/* With --host, a compiler or shell that the command starts may have the first events, and so get the plain file name.
 * At the end, the command's own process gets that name, if it has a file. */
static void name_command(struct mp_collector *collector)
{
    const char *plain = collector->options->output;
    struct mp_recording_summary *first = NULL, *own = NULL;
    mp_vec_each (struct mp_recording_summary, summary, &collector->result->recordings) {
        if (!mp_recording_is_in_place(summary)) continue;
        if (!strcmp(summary->path, plain)) first = summary;
        if ((pid_t)summary->pid == collector->command && !own) own = summary;
    }
    if (!collector->options->record.host_bytes || !first || !own || first == own || first->used_device) return;
    const struct mp_named named = {first->pid, mp_member_copy(&first->member), first->program};
    if (move(first, mp_naming_path(&collector->naming, &named, 1))) move(own, strdup(plain));
}

/* ---- new processes -------------------------------------------------------------------------------------------- */

static enum mp_status new_process(struct mp_collector *collector, uint32_t pid, struct mp_error *error)
{
    const struct mp_collector_options *options = collector->options;
    const struct mp_new_recording begun = {.pid = pid,
                                           .output = options->output,
                                           .config = &options->record,
                                           .symbols = options->symbols,
                                           .keep_command = options->keep_command,
                                           .name = create_snapshot_file,
                                           .context = collector};
    struct mp_collected process = {.pid = pid, .pidfd = -1, .recording = mp_new_recording(&begun, error)};
    if (!process.recording) return error->status;
    mp_device_samples_begin(process.recording, collector->devices);
    if (getenv(MP_NVTX_VARIABLE))
        mp_recording_note(process.recording, "NVTX ranges went to another tool: " MP_NVTX_VARIABLE " was set before");
    if (mp_schedule_is_set(&options->schedule)) mp_recording_schedule(process.recording, &options->schedule);
    if ((pid_t)pid != collector->command) process.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (mp_vec_push(&collector->processes, process)) return MP_OK;
    mp_recording_free(process.recording, true);
    return mp_fail(error, MP_NO_MEMORY, "out of memory for a recording");
}

static void send_answer(int connection, const struct mp_collector *collector, const struct mp_recording *recording,
                        int64_t shift_ns)
{
    struct mp_greeting_answer answer = {
        .magic = MP_GREETING_MAGIC, .version = MP_SPOOL_VERSION, .clock_shift_ns = shift_ns};
    union {
        char bytes[CMSG_SPACE(2 * sizeof(int))];
        struct cmsghdr align;
    } control;
    memset(&control, 0, sizeof control);
    struct iovec part = {.iov_base = &answer, .iov_len = sizeof answer};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    if (recording) {
        answer.file_bytes = recording->spool.bytes;
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
        rights->cmsg_level = SOL_SOCKET;
        rights->cmsg_type = SCM_RIGHTS;
        rights->cmsg_len = CMSG_LEN(2 * sizeof(int));
        int descriptors[2] = {recording->spool.fd, collector->doorbell.memory};
        memcpy(CMSG_DATA(rights), descriptors, sizeof descriptors);
    }
    sendmsg(connection, &message, MSG_NOSIGNAL);
}

/* True if the process belongs to the user or to root. */
static bool is_ours(const struct ucred *who)
{
    return who->pid > 0 && (who->uid == geteuid() || !who->uid);
}

static bool is_connected_to_ours(int connection)
{
    struct ucred who;
    socklen_t size = sizeof who;
    return !getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &size) && is_ours(&who);
}

static bool is_greeting(const struct mp_collector *collector, const struct ucred *who, const void *message, size_t size,
                        struct mp_greeting *greeting)
{
    if (size != sizeof *greeting || who->uid != geteuid()) return false;
    memcpy(greeting, message, sizeof *greeting);
    return greeting->magic == MP_GREETING_MAGIC && greeting->version == MP_SPOOL_VERSION &&
           (collector->options->record.follow || who->pid == collector->command);
}

/* The time in ns by which a process's time namespace is ahead of the first one (man 7 time_namespaces). */
static int64_t clock_offset(const char *process)
{
    char path[64], line[128];
    long long seconds, ns;
    int64_t offset = 0;
    snprintf(path, sizeof path, "/proc/%s/timens_offsets", process);
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "monotonic %lld %lld", &seconds, &ns) == 2) offset = seconds * (int64_t)MP_NS_PER_SECOND + ns;
    if (file) fclose(file);
    return offset;
}

/* The difference to add to a process's clock. The kernel gives it, but possibly for a namespace that only later
 * children enter. So the greeting's age decides: a greeting is read soon after it was sent, and never before. */
static int64_t clock_shift(pid_t pid, uint64_t sent)
{
    const int64_t soon = 3 * (int64_t)MP_NS_PER_SECOND;
    char process[24];
    int64_t apart = (int64_t)(mp_clock_monotonic_ns() - sent);
    snprintf(process, sizeof process, "%d", (int)pid);
    int64_t shift = clock_offset("self") - clock_offset(process), late = apart - shift;
    if (late >= 0 && late < soon) return shift;
    if (apart >= 0 && apart < soon) return 0;
    return late >= 0 ? shift : apart;
}

static const struct mp_recording *greet(struct mp_collector *collector, const struct ucred *who)
{
    struct mp_error error;
    /* If the pid is known already, exec() has replaced the program that had it. */
    for (size_t i = collector->processes.count; i-- > 0;)
        if (collector->processes.at[i].pid == (uint32_t)who->pid)
            end_process(collector, i, (struct mp_exit){.known = false}, "replaced by exec");
    if (!new_process(collector, (uint32_t)who->pid, &error))
        return collector->processes.at[collector->processes.count - 1].recording;
    mp_refused_add(&collector->unplaced, (uint32_t)who->pid, NULL, &error);
    return NULL;
}

/* The recording of a process. For the command or memprof itself, if it does not allocate: the recording with most
 * events. */
static struct mp_collected *asked_for(const struct mp_collector *collector, uint32_t pid)
{
    struct mp_collected *found = NULL;
    bool any = pid == (uint32_t)collector->command || pid == (uint32_t)getpid();
    mp_vec_each (struct mp_collected, process, &collector->processes) {
        if (process->pid == pid) return process;
        if (any && (!found || process->recording->events > found->recording->events)) found = process;
    }
    return found;
}

static enum mp_status begin_answer(struct mp_collector *collector, struct mp_recording *recording,
                                   const struct mp_control_question *question, int file, int connection,
                                   struct mp_error *error)
{
    static const enum mp_snapshot_of files[] = {[MP_CONTROL_LIVE] = MP_SNAPSHOT_OF_LIVE,
                                                [MP_CONTROL_SNAPSHOT] = MP_SNAPSHOT_OF_ALL,
                                                [MP_CONTROL_BARE] = MP_SNAPSHOT_OF_BARE};
    if (question->command != MP_CONTROL_HOLDERS)
        return mp_snapshots_start_for(&collector->snapshots, recording, files[question->command], file, connection,
                                      error);
    bool known = question->budget_ms && question->budget_ms <= MP_HOLDERS_MS_MOST;
    struct mp_wished_look wish = {
        .budget_ms = known ? question->budget_ms : MP_HOLDERS_MS, .file = file, .connection = connection};
    return mp_looks_ask(&collector->looks, recording, wish, error);
}

/* An overview is written at once, since it takes little time. */
static enum mp_status write_overview(const struct mp_collector *collector, int file, struct mp_error *error)
{
    struct mp_buffer text = {0};
    mp_overview_write(&text, collector);
    bool written = !text.failed && pwrite(file, text.data, text.size, 0) == (ssize_t)text.size;
    mp_buffer_free(&text);
    return written ? MP_OK : mp_fail(error, MP_IO, "cannot write the overview");
}

/* A process may ask about itself. It may ask about others only if the kernel would let it look at them, too. */
static enum mp_status may_ask(const struct ucred *who, const struct mp_collected *process, struct mp_error *error)
{
    if (!is_ours(who))
        return mp_fail(error, MP_NOT_FOUND, "pid %d runs as uid %u and may not ask the memprof of uid %u",
                       (int)who->pid, (unsigned)who->uid, (unsigned)geteuid());
    bool is_root = !who->uid && geteuid(); /* the kernel shows root's namespaces to nobody else */
    if ((process && process->pid == (uint32_t)who->pid) || is_root) return MP_OK;
    int refusal = mp_asker_may_not_look((uint32_t)who->pid);
    if (!refusal) return MP_OK;
    if (refusal != EPERM)
        return mp_fail(error, MP_NOT_FOUND, "cannot read the rights of pid %d: %s", (int)who->pid, strerror(refusal));
    return mp_fail(error, MP_NOT_FOUND, "pid %d has fewer rights than memprof and may not ask about others",
                   (int)who->pid);
}

static void answer_question(struct mp_collector *collector, const struct ucred *who, int connection,
                            const struct mp_control_question *question, int file)
{
    struct mp_error error;
    struct stat facts;
    struct mp_collected *process = asked_for(collector, question->pid);
    bool of_all = question->command == MP_CONTROL_OVERVIEW;
    enum mp_status status = may_ask(who, of_all ? NULL : process, &error);
    if (status)
        process = NULL;
    else if (question->command < MP_CONTROL_LIVE || question->command > MP_CONTROL_BARE)
        status = mp_fail(&error, MP_INVALID, "the memprof that records does not know this question");
    else if (!process && !of_all)
        status = mp_fail(&error, MP_NOT_FOUND, "process %u has allocated nothing that is recorded", question->pid);
    else if (file == MP_CONTROL_NO_ROOM)
        status = mp_fail(&error, MP_IO, "cannot write the answer: %s", strerror(EMFILE));
    else if (file < 0 || fstat(file, &facts) || !S_ISREG(facts.st_mode) || facts.st_size)
        status = mp_fail(&error, MP_INVALID, "the answer needs an empty regular file");
    else if (of_all && fcntl(file, F_GET_SEALS) < 0) /* writing to any other kind of file might wait */
        status = mp_fail(&error, MP_INVALID, "the answer needs a file in memory");
    else if (of_all)
        status = write_overview(collector, file, &error);
    int copy = status || of_all ? -1 : fcntl(file, F_DUPFD_CLOEXEC, 0);
    int waiting = copy < 0 ? -1 : fcntl(connection, F_DUPFD_CLOEXEC, 0);
    if (!status && !of_all && waiting < 0) {
        status = mp_fail_errno(&error, "cannot write the answer");
        if (copy >= 0) close(copy);
    } else if (!status && !of_all) {
        status = begin_answer(collector, process->recording, question, copy, waiting, &error);
        if (!status) return;
    }
    mp_control_answer(connection, status, process ? process->pid : 0, &error);
}

/* ---- connections ---------------------------------------------------------------------------------------------- */

static void leave_visitor(struct mp_collector *collector, size_t index)
{
    close(collector->visitors.at[index]);
    collector->visitors.count--;
    memmove(&collector->visitors.at[index], &collector->visitors.at[index + 1],
            (collector->visitors.count - index) * sizeof *collector->visitors.at);
}

/* Takes a connection from the queue. False: no connection was waiting, or there is no descriptor for it. Messages of
 * earlier visitors are read first, since the oldest silent visitor may be closed to make room. */
static bool take_visitor(struct mp_collector *collector)
{
    struct pollfd queue = {.fd = collector->listener, .events = POLLIN};
    if (poll(&queue, 1, 0) <= 0) return false; /* accept() needs a descriptor even if nobody waits */
    int connection = accept4(collector->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    struct mp_error error;
    if (connection < 0 && (errno == EMFILE || errno == ENFILE)) {
        if (collector->visitors.count) { /* a silent visitor must not keep others out */
            leave_visitor(collector, 0);
            return true;
        }
        mp_fail_errno(&error, "cannot accept its connection");
        mp_refused_add(&collector->unplaced, 0, "", &error);
        usleep(MP_ROUND_MS * 1000); /* the connection stays in the queue, so wait instead of spinning */
    }
    if (connection < 0) return false;
    if (!is_connected_to_ours(connection)) {
        send_answer(connection, collector, NULL, 0);
        close(connection);
        return true;
    }
    if (collector->visitors.count == MP_VISITORS) leave_visitor(collector, 0);
    if (!mp_vec_push(&collector->visitors, connection)) close(connection);
    return true;
}

/* Answers a message on a connection. The sender of the message counts, not the process that connected. */
static void hear_visitor(struct mp_collector *collector, int connection)
{
    struct ucred who;
    struct mp_control_question question;
    struct mp_greeting greeting;
    char message[256];
    int file = -1;
    size_t size = mp_control_receive(connection, message, sizeof message, &file, &who);
    if (mp_control_is_question(message, size, &question))
        answer_question(collector, &who, connection, &question, file);
    else if (is_greeting(collector, &who, message, size, &greeting))
        send_answer(connection, collector, greet(collector, &who), clock_shift(who.pid, greeting.monotonic_ns));
    else
        send_answer(connection, collector, NULL, 0);
    if (file >= 0) close(file);
}

static void hear_visitors(struct mp_collector *collector)
{
    struct pollfd set[MP_VISITORS];
    size_t count = collector->visitors.count;
    for (size_t i = 0; i < count; i++)
        set[i] = (struct pollfd){.fd = collector->visitors.at[i], .events = POLLIN};
    if (poll(set, count, 0) <= 0) return;
    for (size_t i = 0, left = 0; i < count; i++)
        if (set[i].revents) {
            /* A process that has closed its end gets no recording and no answer. */
            if (!(set[i].revents & POLLHUP)) hear_visitor(collector, set[i].fd);
            leave_visitor(collector, i - left++);
        }
}

void mp_collector_accept(struct mp_collector *collector)
{
    hear_visitors(collector);
    for (int i = 0; i < ACCEPTED_AT_ONCE && take_visitor(collector); i++)
        hear_visitors(collector);
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
    const char *path = recording->file.path ? recording->file.path : collector->options->output;
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
        (void)mp_vec_push(&recording->ooms.requests, request);
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
        mp_asker_refusal(recording->pid, recording->file.path ? recording->file.path : collector->options->output);
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
    end_process(collector, index, how, text);
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
    const struct mp_record_config *config = &process->recording->config;
    struct mp_wished_look wish = {.budget_ms = config->holders_share ? MP_HOLDERS_MS_MOST : config->holders_ms,
                                  .may_be_short = true,
                                  .file = -1,
                                  .connection = -1};
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
        end_process(collector, collector->processes.count - 1, how, text);
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
                               .host_holders = options->record.host_bytes && options->record.holders,
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
        name_command(&collector);
    }
    mp_refused_merge(&result->refused, &collector.unplaced);
    mp_refused_take(collector.socket_path, collector.doorbell.page, 0, true,
                    &result->refused); /* processes that failed meanwhile */
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
