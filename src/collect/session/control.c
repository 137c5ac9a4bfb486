#include "collect/session/control.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "collect/session/session_folder.h"
#include "wire/config.h"

#define ANSWER_WITHIN_S 30 /* a collector may be busy with millions of blocks */
#define ENVIRON_MAX     (4u << 20)
#define LOOKED_AT       65536 /* entries of a folder that are read */

/* ---- the collector's side ------------------------------------------------------------------------------------- */

union rights {
    char bytes[CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct ucred))];
    struct cmsghdr align;
};

/* Takes the sender and the first descriptor, and closes all other descriptors. */
static int take_descriptor(struct msghdr *message, struct ucred *who)
{
    int file = -1;
    for (struct cmsghdr *part = CMSG_FIRSTHDR(message); part; part = CMSG_NXTHDR(message, part)) {
        if (part->cmsg_level == SOL_SOCKET && part->cmsg_type == SCM_CREDENTIALS)
            memcpy(who, CMSG_DATA(part), sizeof *who);
        if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
        for (size_t at = CMSG_LEN(0); at + sizeof(int) <= part->cmsg_len; at += sizeof(int)) {
            int descriptor;
            memcpy(&descriptor, (const char *)part + at, sizeof descriptor);
            if (file < 0)
                file = descriptor;
            else
                close(descriptor);
        }
    }
    return file;
}

size_t mp_control_receive(int connection, void *message, size_t room, int *file, struct ucred *who)
{
    union rights control;
    struct iovec part = {.iov_base = message, .iov_len = room};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = sizeof control};
    *file = -1;
    ssize_t got = recvmsg(connection, &header, MSG_CMSG_CLOEXEC);
    if (got <= 0) return 0;
    *who = (struct ucred){.pid = 0, .uid = (uid_t)-1, .gid = (gid_t)-1};
    *file = take_descriptor(&header, who);
    bool is_cut = header.msg_flags & MSG_CTRUNC;
    if (is_cut && *file < 0) *file = MP_CONTROL_NO_ROOM;
    if (!(header.msg_flags & MSG_TRUNC) && (!is_cut || *file == MP_CONTROL_NO_ROOM)) return (size_t)got;
    if (*file >= 0) close(*file);
    *file = -1;
    return 0;
}

bool mp_control_is_question(const void *message, size_t size, struct mp_control_question *question)
{
    if (size != sizeof *question) return false;
    memcpy(question, message, sizeof *question);
    return question->magic == MP_CONTROL_MAGIC && question->version == MP_CONTROL_VERSION;
}

void mp_control_answer(int connection, enum mp_status status, uint32_t pid, const struct mp_error *error)
{
    struct mp_control_answer answer = {
        .magic = MP_CONTROL_MAGIC, .version = MP_CONTROL_VERSION, .status = (uint32_t)status, .pid = pid};
    if (status) snprintf(answer.text, sizeof answer.text, "%.*s", (int)sizeof answer.text - 1, error->text);
    send(connection, &answer, sizeof answer, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* ---- the client's side ---------------------------------------------------------------------------------------- */

/* The contents of a small file of /proc, with a NUL at the end, to be freed; NULL. */
static char *read_small(const char *path, size_t *size)
{
    char *text = NULL;
    size_t room = 0;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t got = fd < 0 ? -1 : 1;
    for (*size = 0; got > 0 && *size < ENVIRON_MAX; *size += (size_t)got) {
        if (*size + 4096 >= room) {
            char *more = realloc(text, room += 65536);
            if (!more) break;
            text = more;
        }
        got = read(fd, text + *size, room - *size - 1);
        if (got < 0) break;
    }
    if (fd >= 0) close(fd);
    if (got) {
        free(text);
        return NULL;
    }
    text[*size] = '\0';
    return text;
}

bool mp_control_socket_of(pid_t pid, char *path, size_t room)
{
    static const char variable[] = MP_SESSION_VARIABLE "=";
    char name[64];
    size_t size;
    snprintf(name, sizeof name, "/proc/%d/environ", (int)pid);
    char *all = read_small(name, &size);
    bool found = false;
    for (const char *at = all; !found && all && at < all + size; at += strlen(at) + 1) {
        const char *value = at + sizeof variable - 1;
        if (strncmp(at, variable, sizeof variable - 1) || value[0] != MP_SESSION_VERSION || value[1] != ';') continue;
        found = snprintf(path, room, "%s", value + 2) < (int)room;
    }
    free(all);
    return found;
}

/* The first child of a memprof, which is the command that it started. This child knows the socket. */
static pid_t first_child(pid_t pid)
{
    char name[96];
    size_t size;
    snprintf(name, sizeof name, "/proc/%d/task/%d/children", (int)pid, (int)pid);
    char *children = read_small(name, &size);
    pid_t child = children ? (pid_t)strtol(children, NULL, 10) : 0;
    free(children);
    return child;
}

/* True if the listener is the memprof of `pid`, or of its child. This is checked because another user may listen at
 * that path after a collector's end. */
static bool is_memprof_of(int connection, pid_t pid, pid_t child)
{
    struct ucred peer;
    struct stat process;
    socklen_t size = sizeof peer;
    char name[64];
    snprintf(name, sizeof name, "/proc/%d", (int)pid);
    if (getsockopt(connection, SOL_SOCKET, SO_PEERCRED, &peer, &size) || (child && peer.pid != pid)) return false;
    return !peer.uid || peer.uid == geteuid() || (!stat(name, &process) && peer.uid == process.st_uid);
}

static enum mp_status not_recorded(pid_t pid, struct mp_error *error)
{
    return mp_fail(error, MP_NOT_FOUND,
                   "process %d is not being recorded, or is another user's: start it under memprof snapshot, or run "
                   "memprof attach %d first",
                   (int)pid, (int)pid);
}

static bool connect_at(const char *path, int *connection)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct timeval limit = {.tv_sec = ANSWER_WITHIN_S};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    *connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
    if (*connection < 0) return false;
    setsockopt(*connection, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(*connection, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (!connect(*connection, (struct sockaddr *)&address, sizeof address)) return true;
    int number = errno;
    close(*connection);
    errno = number;
    return false;
}

static enum mp_status send_question(int connection, struct mp_control_question *question, int file,
                                    struct mp_error *error)
{
    union rights control = {{0}};
    struct iovec part = {.iov_base = question, .iov_len = sizeof *question};
    struct msghdr header = {
        .msg_iov = &part, .msg_iovlen = 1, .msg_control = &control, .msg_controllen = CMSG_SPACE(sizeof file)};
    struct cmsghdr *rights = CMSG_FIRSTHDR(&header);
    question->magic = MP_CONTROL_MAGIC;
    question->version = MP_CONTROL_VERSION;
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof file);
    memcpy(CMSG_DATA(rights), &file, sizeof file);
    if (sendmsg(connection, &header, MSG_NOSIGNAL) == sizeof *question) return MP_OK;
    return mp_fail_errno(error, "cannot ask the memprof that records");
}

static enum mp_status receive_answer(int connection, struct mp_control_answer *answer, struct mp_error *error)
{
    ssize_t got;
    do /* a process that is stopped and continued gets EINTR, because the socket has a time limit */
        got = recv(connection, answer, sizeof *answer, 0);
    while (got < 0 && errno == EINTR);
    if (got != sizeof *answer || answer->magic != MP_CONTROL_MAGIC || answer->version != MP_CONTROL_VERSION)
        return mp_fail(error, MP_IO, "the memprof that records did not answer%s",
                       got > 0 ? ": it is of another version" : "");
    answer->text[sizeof answer->text - 1] = '\0';
    enum mp_status status = answer->status == MP_BUSY ? MP_BUSY : MP_NOT_FOUND;
    return answer->status ? mp_fail(error, status, "%s", answer->text) : MP_OK;
}

/* Asks the user's sessions in turn for the process, because an attached program does not know its socket. The question
 * asks for an answer in /dev/null: the session that records the process names it in its refusal. */
static bool find_attached(pid_t pid, char *path, size_t room)
{
    struct mp_intern paths = {0};
    bool found = false;
    int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    (void)mp_sessions_find(false, &paths);
    for (uint32_t i = 0; !found && nowhere >= 0 && i < paths.count; i++) {
        struct mp_control_question question = {.command = MP_CONTROL_LIVE, .pid = (uint32_t)pid};
        struct mp_control_answer answer = {0};
        struct mp_error refused;
        int connection;
        snprintf(path, room, "%s", mp_intern_get(&paths, i, NULL));
        if (!connect_at(path, &connection)) continue;
        if (!send_question(connection, &question, nowhere, &refused))
            (void)receive_answer(connection, &answer, &refused);
        found = answer.pid == question.pid;
        close(connection);
    }
    if (nowhere >= 0) close(nowhere);
    mp_intern_free(&paths);
    return found;
}

/* *child: the child that knew the path, if `pid` itself did not; else 0. */
static enum mp_status find_path(pid_t pid, char *path, size_t room, pid_t *child, struct mp_error *error)
{
    *child = 0;
    if (kill(pid, 0) && errno == ESRCH) return mp_fail(error, MP_NOT_FOUND, "there is no process %d", (int)pid);
    if (mp_control_socket_of(pid, path, room)) return MP_OK;
    *child = first_child(pid);
    if (*child > 0 && mp_control_socket_of(*child, path, room)) return MP_OK;
    *child = 0;
    return find_attached(pid, path, room) ? MP_OK : not_recorded(pid, error);
}

static enum mp_status connect_to(pid_t pid, int *connection, struct mp_error *error)
{
    char path[sizeof((struct sockaddr_un *)NULL)->sun_path];
    pid_t child;
    enum mp_status status = find_path(pid, path, sizeof path, &child, error);
    if (status) return status;
    if (!connect_at(path, connection))
        return mp_fail(error, MP_NOT_FOUND, "the memprof that recorded process %d is gone (%s)", (int)pid,
                       strerror(errno));
    /* Another program's child may be recorded, although that program is not. */
    if (is_memprof_of(*connection, pid, child)) return MP_OK;
    close(*connection);
    return not_recorded(pid, error);
}

enum mp_status mp_control_find(pid_t pid, char *path, size_t room, struct mp_error *error)
{
    int connection;
    pid_t child;
    enum mp_status status = connect_to(pid, &connection, error);
    if (status) return status;
    close(connection);
    return find_path(pid, path, room, &child, error);
}

enum mp_status mp_control_print_variables(pid_t pid, FILE *to, struct mp_error *error)
{
    static const char *const ours[] = {"MEMPROF_", MP_CUDA_VARIABLE "=", MP_NVTX_VARIABLE "="};
    static const char preload[] = MP_PRELOAD_VARIABLE "=";
    const char *own = getenv("LD_PRELOAD"); /* PYTHONPATH stays the worker's: the recorder completes it */
    char path[PATH_MAX];
    enum mp_status status = mp_control_find(pid, path, sizeof path, error);
    if (status) return status;
    if (!mp_control_socket_of(pid, path, sizeof path)) pid = first_child(pid);
    size_t size = 0;
    snprintf(path, sizeof path, "/proc/%d/environ", (int)pid);
    char *all = read_small(path, &size);
    for (const char *at = all; at && at < all + size; at += strlen(at) + 1) {
        for (size_t i = 0; i < sizeof ours / sizeof *ours; i++)
            if (!strncmp(at, ours[i], strlen(ours[i]))) fprintf(to, "%s\n", at);
        const char *part = strncmp(at, preload, strlen(preload)) ? NULL : at + strlen(preload);
        bool joins = part && own && *own && !strstr(own, part);
        if (part) fprintf(to, "LD_PRELOAD=%s%s%s\n", part, joins ? ":" : "", joins ? own : "");
    }
    free(all);
    fprintf(to, MP_WORKER_VARIABLE "=1\n");
    return MP_OK;
}

enum mp_status mp_control_begin(const char *path, enum mp_control_command command, pid_t pid, int file, int *connection,
                                struct mp_error *error)
{
    struct mp_control_question question = {.command = command, .pid = (uint32_t)pid};
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(path) >= sizeof address.sun_path) return mp_fail(error, MP_INVALID, "%s is too long a path", path);
    strcpy(address.sun_path, path);
    *connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (*connection < 0) return mp_fail_errno(error, "cannot make a socket");
    enum mp_status status = MP_OK;
    if (connect(*connection, (struct sockaddr *)&address, sizeof address))
        status = mp_fail(error, errno == ECONNREFUSED || errno == ENOENT ? MP_NOT_FOUND : MP_BUSY,
                         "the memprof that records does not answer (%s)", strerror(errno));
    if (!status) status = send_question(*connection, &question, file, error);
    if (status) close(*connection);
    return status;
}

enum mp_status mp_control_end(int connection, struct mp_error *error)
{
    struct mp_control_answer answer = {0};
    return receive_answer(connection, &answer, error);
}

static enum mp_status ask_for_file(struct mp_control_question question, int fd, pid_t *answered_pid,
                                   struct mp_error *error)
{
    struct mp_control_answer answer = {0};
    int connection = -1;
    enum mp_status status = connect_to((pid_t)question.pid, &connection, error);
    if (status) return status;
    status = send_question(connection, &question, fd, error);
    if (!status) status = receive_answer(connection, &answer, error);
    close(connection);
    *answered_pid = (pid_t)answer.pid;
    return status;
}

static enum mp_status ask_for_memory(struct mp_control_question question, int *fd, pid_t *answered_pid,
                                     struct mp_error *error)
{
    *fd = memfd_create("memprof-live", MFD_CLOEXEC);
    if (*fd < 0) return mp_fail_errno(error, "cannot make a file in memory");
    enum mp_status status = ask_for_file(question, *fd, answered_pid, error);
    if (!status && lseek(*fd, 0, SEEK_SET)) status = mp_fail_errno(error, "cannot read the answer");
    if (status) close(*fd);
    if (status) *fd = -1;
    return status;
}

enum mp_status mp_control_ask_live(pid_t pid, int *fd, pid_t *answered_pid, struct mp_error *error)
{
    struct mp_control_question question = {.command = MP_CONTROL_LIVE, .pid = (uint32_t)pid};
    return ask_for_memory(question, fd, answered_pid, error);
}

enum mp_status mp_control_ask_holders(pid_t pid, uint32_t budget_ms, int *fd, pid_t *answered_pid,
                                      struct mp_error *error)
{
    struct mp_control_question question = {.command = MP_CONTROL_HOLDERS, .pid = (uint32_t)pid, .budget_ms = budget_ms};
    return ask_for_memory(question, fd, answered_pid, error);
}

enum mp_status mp_control_ask_snapshot(pid_t pid, int fd, pid_t *answered_pid, struct mp_error *error)
{
    struct mp_control_question question = {.command = MP_CONTROL_SNAPSHOT, .pid = (uint32_t)pid};
    return ask_for_file(question, fd, answered_pid, error);
}

/* ---- the user's sessions -------------------------------------------------------------------------------------- */

/* True if the folder and its contents belong to the user: nobody else can answer there. */
static bool is_own_folder(const char *path)
{
    struct stat facts;
    return !lstat(path, &facts) && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() && !(facts.st_mode & 077);
}

static bool add_folder(struct mp_intern *paths, const char *folder)
{
    char path[512];
    struct stat facts;
    if (snprintf(path, sizeof path, "%s/%s", folder, MP_SESSION_SOCKET) >= (int)sizeof path) return true;
    if (!is_own_folder(folder) || lstat(path, &facts) || !S_ISSOCK(facts.st_mode)) return true;
    return mp_intern_text(paths, path) != MP_INTERN_FAILED;
}

static bool find_in(const char *parent, struct mp_intern *paths)
{
    DIR *entries = opendir(parent);
    struct dirent *entry;
    bool done = true;
    for (int i = 0; done && i < LOOKED_AT && entries && (entry = readdir(entries)); i++) {
        char folder[512];
        if (!mp_session_folder_is_name(entry->d_name)) continue;
        if (snprintf(folder, sizeof folder, "%s/%s", parent, entry->d_name) < (int)sizeof folder)
            done = add_folder(paths, folder);
    }
    if (entries) closedir(entries);
    return done;
}

static bool find_by_processes(struct mp_intern *paths)
{
    DIR *entries = opendir("/proc");
    struct dirent *entry;
    bool done = true;
    while (done && entries && (entry = readdir(entries))) {
        char path[128];
        struct stat facts;
        if (!isdigit((unsigned char)*entry->d_name) || fstatat(dirfd(entries), entry->d_name, &facts, 0)) continue;
        if (facts.st_uid != geteuid()) continue;
        if (!mp_control_socket_of((pid_t)strtol(entry->d_name, NULL, 10), path, sizeof path)) continue;
        char *slash = strrchr(path, '/');
        if (!slash || slash == path) continue;
        *slash = '\0';
        done = add_folder(paths, path);
    }
    if (entries) closedir(entries);
    return done;
}

bool mp_sessions_find(bool thorough, struct mp_intern *paths)
{
    const char *parent = getenv("XDG_RUNTIME_DIR");
    char usual[64];
    snprintf(usual, sizeof usual, "/run/user/%u", (unsigned)geteuid());
    bool done = find_in("/tmp", paths) && find_in(usual, paths);
    if (done && parent && strcmp(parent, usual)) done = find_in(parent, paths);
    return done && (!thorough || find_by_processes(paths));
}
