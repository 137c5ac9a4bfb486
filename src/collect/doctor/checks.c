#include "collect/doctor/checks.h"

#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

#define ANSWER_WITHIN_NS (10 * MP_NS_PER_SECOND)

void mp_doctor_add(struct mp_checks *checks, const char *name, enum mp_check_state state, const char *advice,
                   const char *found, ...)
{
    struct mp_check check = {.name = name, .state = state};
    va_list arguments;
    va_start(arguments, found);
    vsnprintf(check.found, sizeof check.found, found, arguments);
    va_end(arguments);
    if (advice) snprintf(check.advice, sizeof check.advice, "%s", advice);
    mp_vec_add(checks, check);
}

/* ---- asking in a child ---- */

static bool ended_well(pid_t child, uint64_t deadline)
{
    int status;
    for (; mp_clock_monotonic_ns() < deadline; usleep(2000))
        if (waitpid(child, &status, WNOHANG)) return WIFEXITED(status) && !WEXITSTATUS(status);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
}

bool mp_doctor_ask(mp_doctor_question *ask, const void *context, char answer[MP_ANSWER_ROOM])
{
    int ends[2];
    size_t length = 0;
    uint64_t now, deadline = mp_clock_monotonic_ns() + ANSWER_WITHIN_NS;
    *answer = '\0';
    if (pipe(ends)) return false;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        FILE *out = fdopen(ends[1], "w");
        close(ends[0]);
        if (!out || !freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(126);
        setvbuf(out, NULL, _IOLBF, 0);
        ask(out, context);
        fflush(out);
        _exit(0);
    }
    close(ends[1]);
    struct pollfd wait = {.fd = ends[0], .events = POLLIN};
    while (child > 0 && length + 1 < MP_ANSWER_ROOM && (now = mp_clock_monotonic_ns()) < deadline &&
           poll(&wait, 1, (int)((deadline - now) / MP_NS_PER_MS) + 1) > 0) {
        ssize_t more = read(ends[0], answer + length, MP_ANSWER_ROOM - 1 - length);
        if (more <= 0) break;
        length += (size_t)more;
    }
    answer[length] = '\0';
    close(ends[0]);
    return child > 0 && ended_well(child, deadline);
}
