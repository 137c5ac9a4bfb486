#include "collect/session/collector_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/recording/recording_devices.h"
#include "collect/session/asker.h"
#include "collect/session/control.h"
#include "collect/session/refused.h"
#include "format/new_file.h"

#define ACCEPTED_AT_ONCE 16 /* connections in one round */

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

void mp_collector_name_command(struct mp_collector *collector)
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
            mp_collector_end_process(collector, i, (struct mp_exit){.known = false}, "replaced by exec");
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
