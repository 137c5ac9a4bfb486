#include "collect/session/process_end.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/words.h"

/* <linux/pidfd.h> of Linux 6.15, which older systems do not have. */
struct pidfd_info {
    uint64_t mask, cgroup;
    uint32_t ids[11];
    int32_t exit_code;
};
#define PIDFD_INFO_EXIT UINT64_C(8)
#define PIDFD_GET_INFO  _IOWR(0xff, 11, struct pidfd_info)

static bool from_kernel(int pidfd, int *wait_status)
{
    struct pidfd_info info = {.mask = PIDFD_INFO_EXIT};
    if (pidfd < 0 || ioctl(pidfd, PIDFD_GET_INFO, &info) || !(info.mask & PIDFD_INFO_EXIT)) return false;
    *wait_status = info.exit_code;
    return true;
}

/* True if the kernel shows us files of the process that only a debugger may see. A link of an ended process leads
 * nowhere. The kernel says so only to processes with that right, and refuses all others first. */
static bool is_open_to_us(uint32_t pid)
{
    char path[64], ignored[2];
    snprintf(path, sizeof path, "/proc/%u/exe", (unsigned)pid);
    return readlink(path, ignored, sizeof ignored) >= 0 || errno == ENOENT;
}

/* The wait status of an ended process whose parent has not waited for it yet: the last field of its stat. Without the
 * right to see it, the field is 0. The link is therefore checked first. Once the parent has waited, link and stat are
 * missing for everybody. */
static bool from_proc(uint32_t pid, int *wait_status)
{
    char path[64], text[2048];
    bool shown = is_open_to_us(pid);
    snprintf(path, sizeof path, "/proc/%u/stat", (unsigned)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = fd < 0 ? -1 : read(fd, text, sizeof text - 1);
    if (fd >= 0) close(fd);
    if (length <= 0) return false;
    text[length] = '\0';
    const char *state = strrchr(text, ')'), *last = strrchr(text, ' ');
    return state && last && !strncmp(state, ") Z ", 4) && sscanf(last, "%d", wait_status) == 1 &&
           (*wait_status || shown);
}

bool mp_process_end(int pidfd, uint32_t pid, int *wait_status)
{
    /* The parent may wait between the two looks. */
    return from_kernel(pidfd, wait_status) || from_proc(pid, wait_status) || from_kernel(pidfd, wait_status);
}

struct mp_exit mp_process_end_describe(int wait_status, char *text, size_t room)
{
    struct mp_exit how = {.known = true, .by_signal = WIFSIGNALED(wait_status)};
    how.status = (uint32_t)(how.by_signal ? WTERMSIG(wait_status) : WEXITSTATUS(wait_status));
    const char *name = how.by_signal ? mp_signal_name(how.status) : NULL;
    if (!how.by_signal)
        snprintf(text, room, "exit %u", how.status);
    else
        snprintf(text, room, "killed by %s%s", name ? "SIG" : "a signal", name ? name : "");
    return how;
}
