#include "cli/mcp/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

/* Forks rather than spawns: only so can the child ask to end with us. */
static pid_t start(char *const *arguments, int out, int messages)
{
    pid_t parent = getpid(), pid = fork();
    if (pid) return pid;
    int none = open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && dup2(none, 0) >= 0 && dup2(out, 1) >= 0 && dup2(messages, 2) >= 0)
        execv("/proc/self/exe", arguments);
    dprintf(messages, "memprof %s could not be started: %s\n", arguments[1], strerror(errno));
    _exit(127);
}

/* Takes what there is of one of the two; false at its end. */
static bool take(int fd, struct mp_buffer *into, struct mp_mcp_answer *answer)
{
    char room[8192];
    ssize_t length = read(fd, room, sizeof room);
    if (length < 0) return errno == EINTR || errno == EAGAIN;
    answer->cut |= answer->out.size + answer->messages.size + (size_t)length > MP_MCP_ANSWER_MOST;
    if (!answer->cut) mp_buffer_append(into, room, (size_t)length);
    return length > 0;
}

static void follow(pid_t pid, int out, int messages, struct mp_mcp_answer *answer)
{
    enum { OUT, MESSAGES, CLIENT };
    struct pollfd all[] = {
        [OUT] = {.fd = out, .events = POLLIN}, [MESSAGES] = {.fd = messages, .events = POLLIN}, [CLIENT] = {.fd = 1}};
    uint64_t end = mp_clock_monotonic_ns() + MP_MCP_SECONDS * MP_NS_PER_SECOND;
    while (all[OUT].fd >= 0 || all[MESSAGES].fd >= 0) {
        uint64_t now = mp_clock_monotonic_ns();
        answer->late = now >= end;
        if (answer->late || answer->cut || all[CLIENT].revents) {
            kill(pid, SIGKILL);
            return;
        }
        if (poll(all, 3, (int)((end - now) / MP_NS_PER_MS + 1)) <= 0) continue;
        if (all[OUT].revents && !take(out, &answer->out, answer)) all[OUT].fd = -1;
        if (all[MESSAGES].revents && !take(messages, &answer->messages, answer)) all[MESSAGES].fd = -1;
    }
}

void mp_mcp_run(char *const *arguments, struct mp_mcp_answer *answer)
{
    int out[2] = {-1, -1}, messages[2] = {-1, -1}, status = 0;
    pid_t pid = -1;
    *answer = (struct mp_mcp_answer){.status = -1};
    if (!pipe2(out, O_CLOEXEC) && !pipe2(messages, O_CLOEXEC)) pid = start(arguments, out[1], messages[1]);
    int reason = errno;
    if (out[1] >= 0) close(out[1]);
    if (messages[1] >= 0) close(messages[1]);
    if (pid > 0) {
        follow(pid, out[0], messages[0], answer);
        while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
            ;
        if (WIFEXITED(status)) answer->status = WEXITSTATUS(status);
    } else {
        mp_buffer_printf(&answer->messages, "memprof %s could not be started: %s\n", arguments[1], strerror(reason));
    }
    if (out[0] >= 0) close(out[0]);
    if (messages[0] >= 0) close(messages[0]);
}
