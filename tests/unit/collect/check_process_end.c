/* Ends of processes that nobody has waited for, compared with the wait status that the parent gets. */
#include "collect/session/process_end.h"

#include <linux/capability.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/suite.h"

#define NOBODY 65534

/* A child that has ended and was not waited for. */
static pid_t ended(uid_t user, int by)
{
    pid_t pid = fork();
    if (!pid) {
        if (user && setuid(user)) _exit(99);
        signal(SIGSEGV, SIG_DFL); /* a sanitizer has a handler */
        if (by) raise(by);
        _exit(0);
    }
    siginfo_t ignored;
    ck_assert_int_eq(waitid(P_PID, (id_t)pid, &ignored, WEXITED | WNOWAIT), 0);
    return pid;
}

/* True if the end is known; then it is the true one. */
static bool is_known(uid_t user, int by)
{
    pid_t pid = ended(user, by);
    int said = -1, status;
    bool known = mp_process_end(-1, (uint32_t)pid, &said);
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    if (known) ck_assert_int_eq(said, status);
    ck_assert_int_eq(WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status), by);
    return known;
}

START_TEST(ends_are_read)
{
    ck_assert(is_known(0, 0));
    ck_assert(is_known(0, SIGSEGV));
    ck_assert(is_known(0, SIGKILL));
}

/* The kernel reports 0 to callers that may not debug the process, whatever its end was. */
START_TEST(ends_that_are_hidden_are_unknown)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct sets[2];
    if (geteuid()) { /* only root can become another user */
        ck_assert(is_known(0, SIGSEGV));
        return;
    }
    ck_assert_int_eq(syscall(SYS_capget, &header, sets), 0);
    sets[0].permitted = sets[0].effective &= ~((1u << CAP_SYS_PTRACE) | (1u << CAP_SYS_ADMIN));
    ck_assert_int_eq(syscall(SYS_capset, &header, sets), 0);
    ck_assert(is_known(0, SIGSEGV));
    ck_assert(!is_known(NOBODY, SIGSEGV));
    ck_assert(!is_known(NOBODY, 0));
}

MP_SUITE("process end", ends_are_read, ends_that_are_hidden_are_unknown)
