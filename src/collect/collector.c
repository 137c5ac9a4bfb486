#include "collect/collector.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "collect/launch.h"
#include "collect/naming.h"

#define ROUND_MS 20 /* at least so often; a ring that is half full rings the doorbell */

struct process {
    struct mp_recording *recording;
    int pidfd; /* -1: the command itself, whose end waitpid() tells */
    uint32_t pid;
};

struct collector {
    const struct mp_collector_options *options;
    struct mp_collector_result *result;
    struct mp_naming naming;
    char host[256];
    char *output_folder;
    char socket_folder[64], socket_path[96];
    int listener, signals, doorbell_memory, doorbell_heard;
    _Atomic uint32_t *doorbell;
    sigset_t newly_ignored; /* signals that were not ignored before: the command gets their default back */
    pid_t command;
    bool command_ended;
    int wait_status;
    MP_VEC(struct process) processes;
};

/* ---- naming and creating snapshot files ----------------------------------------------------------------------- */

static bool is_taken(const struct collector *collector, const char *path)
{
    for (size_t i = 0; i < collector->result->recordings.count; i++) {
        const char *known = collector->result->recordings.at[i].path;
        if (known && !strcmp(known, path)) return true;
    }
    for (size_t i = 0; i < collector->processes.count; i++) {
        const char *known = collector->processes.at[i].recording->path;
        if (known && !strcmp(known, path)) return true;
    }
    return false;
}

static enum mp_status create_snapshot_file(void *context, struct mp_recording *recording, char **path, int *fd,
                                           struct mp_error *error)
{
    struct collector *collector = context;
    for (unsigned number = 0;; number++) {
        char *candidate = mp_naming_path(&collector->naming, recording->spool.header->pid, number);
        if (!candidate) return mp_fail(error, MP_NO_MEMORY, "out of memory for a file name");
        if (!is_taken(collector, candidate)) {
            int how = collector->options->force ? O_TRUNC : O_EXCL;
            *fd = open(candidate, O_RDWR | O_CREAT | O_CLOEXEC | how, 0666);
            if (*fd >= 0) {
                *path = candidate;
                return MP_OK;
            }
            if (errno != EEXIST) {
                mp_fail_errno(error, "cannot create %s", candidate);
                free(candidate);
                return MP_IO;
            }
        }
        free(candidate);
    }
}

/* ---- processes that want to be recorded ----------------------------------------------------------------------- */

static void read_command(uint32_t pid, char *command, size_t room)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%u/cmdline", (unsigned)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? 0 : read(fd, command, room - 2);
    if (fd >= 0) close(fd);
    if (length < 0) length = 0;
    command[length] = command[length + 1] = '\0';
}

static enum mp_status new_process(struct collector *collector, uint32_t pid, struct mp_error *error)
{
    struct mp_spool_header *facts = calloc(1, sizeof *facts);
    if (!facts) return mp_fail(error, MP_NO_MEMORY, "out of memory for a recording");
    facts->magic = MP_SPOOL_MAGIC;
    facts->version = MP_SPOOL_VERSION;
    facts->header_bytes = sizeof *facts;
    if (getrandom(&facts->spool_id, sizeof facts->spool_id, 0) < 0) facts->spool_id = mp_clock_realtime_ns();
    facts->monotonic_ns = mp_clock_monotonic_ns();
    facts->realtime_ns = mp_clock_realtime_ns();
    facts->pid = pid;
    snprintf(facts->output, sizeof facts->output, "%s", collector->options->output);
    snprintf(facts->host, sizeof facts->host, "%s", collector->host);
    mp_record_config_format(&collector->options->record, facts->configuration, sizeof facts->configuration);
    read_command(pid, facts->command, sizeof facts->command);

    struct mp_spool_file spool;
    enum mp_status status = mp_spool_file_create(facts, collector->output_folder, &spool, error);
    free(facts);
    if (status) return status;
    struct process process = {.pid = pid, .pidfd = -1};
    process.recording = mp_recording_new(&spool, collector->options->symbols, collector->options->record.paused,
                                         create_snapshot_file, collector, error);
    if (!process.recording) return error->status;
    if ((pid_t)pid != collector->command) process.pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (mp_vec_push(&collector->processes, process)) return MP_OK;
    mp_recording_free(process.recording, true);
    return mp_fail(error, MP_NO_MEMORY, "out of memory for a recording");
}

static void send_answer(int connection, const struct collector *collector, const struct mp_recording *recording)
{
    struct mp_greeting_answer answer = {.magic = MP_GREETING_MAGIC, .version = MP_SPOOL_VERSION};
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
        int descriptors[2] = {recording->spool.fd, collector->doorbell_memory};
        memcpy(CMSG_DATA(rights), descriptors, sizeof descriptors);
    }
    sendmsg(connection, &message, MSG_NOSIGNAL);
}

static void end_process(struct collector *collector, size_t index, struct mp_exit how, const char *text);

static void accept_process(struct collector *collector)
{
    int connection = accept4(collector->listener, NULL, NULL, SOCK_CLOEXEC);
    if (connection < 0) return;
    struct timeval limit = {.tv_usec = 200000};
    setsockopt(connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    struct ucred who;
    socklen_t size = sizeof who;
    struct mp_greeting greeting = {0};
    bool greeted = !getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &who, &size) &&
                   recv(connection, &greeting, sizeof greeting, 0) == sizeof greeting &&
                   greeting.magic == MP_GREETING_MAGIC && greeting.version == MP_SPOOL_VERSION && who.pid > 0 &&
                   (collector->options->record.follow || who.pid == collector->command);
    const struct mp_recording *recording = NULL;
    struct mp_error error;
    if (greeted) {
        /* The same pid again: exec() replaced the program that had it. */
        for (size_t i = collector->processes.count; i-- > 0;)
            if (collector->processes.at[i].pid == (uint32_t)who.pid)
                end_process(collector, i, (struct mp_exit){.known = false}, "replaced by exec");
        if (!new_process(collector, (uint32_t)who.pid, &error))
            recording = collector->processes.at[collector->processes.count - 1].recording;
    }
    send_answer(connection, collector, recording);
    close(connection);
}

static void end_process(struct collector *collector, size_t index, struct mp_exit how, const char *text)
{
    struct process process = collector->processes.at[index];
    struct mp_recording_summary summary;
    mp_recording_finish(process.recording, how, text, &summary);
    collector->processes.at[index] = collector->processes.at[--collector->processes.count];
    if (process.pidfd >= 0) close(process.pidfd);
    bool worth_telling = summary.path || summary.failed;
    if (!worth_telling || !mp_vec_push(&collector->result->recordings, summary)) free(summary.path);
}

/* ---- the doorbell: a thread that turns futex wakes into something poll() sees ---------------------------------- */

static void *listen_for_doorbell(void *context)
{
    struct collector *collector = context;
    for (;;) {
        uint32_t seen = atomic_load(collector->doorbell);
        syscall(SYS_futex, collector->doorbell, FUTEX_WAIT, seen, NULL, NULL, 0);
        eventfd_write(collector->doorbell_heard, 1);
    }
    return NULL;
}

static enum mp_status hang_doorbell(struct collector *collector, struct mp_error *error)
{
    collector->doorbell_memory = memfd_create("memprof-doorbell", MFD_CLOEXEC);
    collector->doorbell_heard = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (collector->doorbell_memory < 0 || collector->doorbell_heard < 0 ||
        ftruncate(collector->doorbell_memory, MP_DOORBELL_BYTES) ||
        fallocate(collector->doorbell_memory, 0, 0, MP_DOORBELL_BYTES))
        return mp_fail_errno(error, "cannot make shared memory");
    void *page = mmap(NULL, MP_DOORBELL_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, collector->doorbell_memory, 0);
    if (page == MAP_FAILED) return mp_fail_errno(error, "cannot map shared memory");
    collector->doorbell = page;
    pthread_t thread;
    errno = pthread_create(&thread, NULL, listen_for_doorbell, collector);
    if (errno) return mp_fail_errno(error, "cannot start a thread");
    pthread_detach(thread);
    return MP_OK;
}

/* ---- setting up ----------------------------------------------------------------------------------------------- */

static enum mp_status open_socket(struct collector *collector, struct mp_error *error)
{
    const char *folder = getenv("XDG_RUNTIME_DIR");
    if (!folder || strlen(folder) > 32 || access(folder, W_OK)) folder = "/tmp";
    snprintf(collector->socket_folder, sizeof collector->socket_folder, "%s/memprof-XXXXXX", folder);
    if (!mkdtemp(collector->socket_folder)) return mp_fail_errno(error, "cannot make a folder in %s", folder);
    snprintf(collector->socket_path, sizeof collector->socket_path, "%s/socket", collector->socket_folder);
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, collector->socket_path, strlen(collector->socket_path) + 1);
    collector->listener = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (collector->listener < 0 || bind(collector->listener, (struct sockaddr *)&address, sizeof address) ||
        listen(collector->listener, 64))
        return mp_fail_errno(error, "cannot listen on %s", collector->socket_path);
    return MP_OK;
}

/* Terminal signals reach the command by themselves; what is sent to memprof is passed on. */
static enum mp_status catch_signals(struct collector *collector, struct mp_error *error)
{
    static const int passed_on[] = {SIGCHLD, SIGTERM, SIGHUP, SIGCONT, SIGTSTP};
    /* SIGXFSZ: a limit on file sizes is a write error to report, not an end. */
    static const int ignored[] = {SIGINT, SIGQUIT, SIGPIPE, SIGXFSZ};
    sigemptyset(&collector->newly_ignored);
    for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
        if (signal(ignored[i], SIG_IGN) != SIG_IGN) sigaddset(&collector->newly_ignored, ignored[i]);
    sigset_t set;
    sigemptyset(&set);
    for (size_t i = 0; i < sizeof passed_on / sizeof *passed_on; i++)
        sigaddset(&set, passed_on[i]);
    sigprocmask(SIG_BLOCK, &set, NULL);
    collector->signals = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    return collector->signals < 0 ? mp_fail_errno(error, "cannot watch signals") : MP_OK;
}

static enum mp_status set_up(struct collector *collector, struct mp_error *error)
{
    if (gethostname(collector->host, sizeof collector->host - 1))
        snprintf(collector->host, sizeof collector->host, "localhost");
    collector->naming = (struct mp_naming){.pattern = collector->options->output,
                                           .host = collector->host,
                                           .start_unix_s = mp_clock_realtime_ns() / MP_NS_PER_SECOND};
    collector->output_folder = strdup(collector->options->output);
    if (!collector->output_folder) return mp_fail(error, MP_NO_MEMORY, "out of memory");
    *strrchr(collector->output_folder, '/') = '\0';
    enum mp_status status = catch_signals(collector, error);
    if (!status) status = open_socket(collector, error);
    return status ? status : hang_doorbell(collector, error);
}

static void tear_down(struct collector *collector)
{
    if (collector->listener >= 0) close(collector->listener);
    if (*collector->socket_path) unlink(collector->socket_path);
    if (*collector->socket_folder) rmdir(collector->socket_folder);
    if (collector->signals >= 0) close(collector->signals);
    mp_vec_free(&collector->processes);
    free(collector->output_folder);
}

/* ---- the loop ------------------------------------------------------------------------------------------------- */

static void pass_on_signals(struct collector *collector)
{
    struct signalfd_siginfo info;
    while (read(collector->signals, &info, sizeof info) == sizeof info) {
        int number = (int)info.ssi_signo;
        if (number == SIGCHLD || collector->command_ended) continue;
        kill(collector->command, number);
        if (number == SIGTSTP) raise(SIGSTOP);
    }
    if (!collector->command_ended &&
        waitpid(collector->command, &collector->wait_status, WNOHANG) == collector->command)
        collector->command_ended = true;
}

static void watch(struct collector *collector)
{
    size_t fixed = 3, count = fixed;
    struct pollfd *set = calloc(fixed + collector->processes.count, sizeof *set);
    if (!set) {
        usleep(ROUND_MS * 1000);
        return;
    }
    set[0] = (struct pollfd){.fd = collector->listener, .events = POLLIN};
    set[1] = (struct pollfd){.fd = collector->signals, .events = POLLIN};
    set[2] = (struct pollfd){.fd = collector->doorbell_heard, .events = POLLIN};
    for (size_t i = 0; i < collector->processes.count; i++)
        set[count++] = (struct pollfd){.fd = collector->processes.at[i].pidfd, .events = POLLIN};
    poll(set, count, ROUND_MS);
    eventfd_t heard;
    (void)eventfd_read(collector->doorbell_heard, &heard);
    for (size_t i = count; i-- > fixed;)
        if (set[i].revents) end_process(collector, i - fixed, (struct mp_exit){.known = false}, "ended");
    if (set[0].revents) accept_process(collector);
    free(set);
    pass_on_signals(collector);
}

static struct mp_exit describe_end(int wait_status, char *text, size_t room)
{
    struct mp_exit how = {.known = true, .by_signal = WIFSIGNALED(wait_status)};
    how.status = (uint32_t)(how.by_signal ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
    const char *name = how.by_signal ? sigabbrev_np((int)how.status) : NULL;
    if (!how.by_signal)
        snprintf(text, room, "exit %u", how.status);
    else
        snprintf(text, room, "killed by %s%s", name ? "SIG" : "a signal", name ? name : "");
    return how;
}

static void end_all(struct collector *collector)
{
    char text[64];
    struct mp_exit how = describe_end(collector->wait_status, text, sizeof text);
    while (collector->processes.count) {
        size_t last = collector->processes.count - 1;
        bool is_command = (pid_t)collector->processes.at[last].pid == collector->command;
        end_process(collector, last, is_command ? how : (struct mp_exit){.known = false},
                    is_command ? text : "still running when the command ended");
    }
    collector->result->exit_status = how.by_signal ? 128 + (int)how.status : (int)how.status;
}

enum mp_status mp_collector_run(const struct mp_collector_options *options, struct mp_collector_result *result,
                                struct mp_error *error)
{
    struct collector collector = {.options = options, .result = result, .listener = -1, .signals = -1};
    struct mp_launch launch = {.command = options->command};
    char *library = NULL, *python_folder = NULL;
    enum mp_status status = mp_launch_find_library(&library, &python_folder, error);
    if (!status) status = set_up(&collector, error);
    if (!status) {
        int exec_errno;
        launch.library = library;
        launch.python_folder = python_folder;
        launch.socket_path = collector.socket_path;
        launch.default_signals = collector.newly_ignored;
        status = mp_launch_command(&launch, &collector.command, &exec_errno, error);
        if (exec_errno) result->exit_status = exec_errno == ENOENT ? 127 : 126;
    }
    if (!status) {
        while (!collector.command_ended) {
            watch(&collector);
            for (size_t i = 0; i < collector.processes.count; i++)
                mp_recording_round(collector.processes.at[i].recording, false);
        }
        end_all(&collector);
    }
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
