#include "cli/mcp/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

extern char **environ;

static int spawn(char *const *arguments, int out, int messages, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    int failed = posix_spawn_file_actions_init(&actions);
    if (failed) return failed;
    failed = posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    if (!failed) failed = posix_spawn_file_actions_adddup2(&actions, out, 1);
    if (!failed) failed = posix_spawn_file_actions_adddup2(&actions, messages, 2);
    if (!failed) failed = posix_spawn(pid, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    return failed;
}

/* Takes what there is of one of the two; false at its end. What is beyond the bound is read and dropped. */
static bool take(int fd, struct mp_buffer *into, bool *more)
{
    char room[8192];
    ssize_t length = read(fd, room, sizeof room);
    if (length < 0) return errno == EINTR || errno == EAGAIN;
    size_t left = MP_MCP_ANSWER_MOST - into->size, taken = (size_t)length < left ? (size_t)length : left;
    mp_buffer_append(into, room, taken);
    *more |= taken < (size_t)length;
    return length > 0;
}

static void follow(pid_t pid, int out, int messages, struct mp_mcp_answer *answer)
{
    struct pollfd both[2] = {{.fd = out, .events = POLLIN}, {.fd = messages, .events = POLLIN}};
    uint64_t end = mp_clock_monotonic_ns() + MP_MCP_SECONDS * MP_NS_PER_SECOND;
    bool ignored = false;
    while (both[0].fd >= 0 || both[1].fd >= 0) {
        uint64_t now = mp_clock_monotonic_ns();
        answer->late = now >= end;
        if (answer->late || answer->cut) {
            kill(pid, SIGKILL);
            return;
        }
        if (poll(both, 2, (int)((end - now) / MP_NS_PER_MS + 1)) <= 0) continue;
        if (both[0].revents && !take(out, &answer->out, &answer->cut)) both[0].fd = -1;
        if (both[1].revents && !take(messages, &answer->messages, &ignored)) both[1].fd = -1;
    }
}

void mp_mcp_run(char *const *arguments, struct mp_mcp_answer *answer)
{
    int out[2] = {-1, -1}, messages[2] = {-1, -1}, status = 0;
    pid_t pid;
    *answer = (struct mp_mcp_answer){.status = -1};
    bool begun = !pipe2(out, O_CLOEXEC) && !pipe2(messages, O_CLOEXEC) && !spawn(arguments, out[1], messages[1], &pid);
    if (out[1] >= 0) close(out[1]);
    if (messages[1] >= 0) close(messages[1]);
    if (begun) {
        follow(pid, out[0], messages[0], answer);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (WIFEXITED(status)) answer->status = WEXITSTATUS(status);
    } else {
        mp_buffer_append_text(&answer->messages, strerror(errno));
    }
    if (out[0] >= 0) close(out[0]);
    if (messages[0] >= 0) close(messages[0]);
}
