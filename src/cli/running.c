#include "cli/running.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/output_file.h"
#include "collect/session/collector.h"
#include "collect/session/control.h"

static int read_pid(const struct mp_invocation *invocation, pid_t *pid)
{
    const char *text = invocation->value[MP_OPT_PID];
    char *end;
    long number = strtol(text, &end, 10);
    *pid = (pid_t)number;
    if (number > 0 && number <= INT_MAX && !*end) return MP_EXIT_DONE;
    return mp_refuse("--pid %s: give the number of a process", text);
}

int mp_running_budget(const struct mp_invocation *invocation, uint32_t *budget_ms)
{
    const char *text = invocation->value[MP_OPT_BUDGET];
    uint64_t least = MP_NS_PER_SECOND / 1000, most = MP_HOLDERS_MS_MOST * least, ns = MP_HOLDERS_MS * least;
    bool good = !text || (mp_parse_duration(text, &ns) && ns >= least && ns <= most);
    *budget_ms = (uint32_t)(ns / least);
    if (good) return MP_EXIT_DONE;
    return mp_refuse("--budget %s: give a time from 1ms to 2s", text);
}

static void note_other(pid_t asked, pid_t answered)
{
    if (answered != asked)
        mp_message("process %d does not allocate itself; this is process %d", (int)asked, (int)answered);
}

int mp_running_ask(struct mp_invocation *invocation, bool holders, int *fd)
{
    static char path[64], *operands[] = {path, NULL};
    struct mp_error error;
    uint32_t budget_ms = 0;
    pid_t pid, answered;
    int status = read_pid(invocation, &pid);
    if (!status && holders) status = mp_running_budget(invocation, &budget_ms);
    if (status) return status;
    if (holders ? mp_control_ask_holders(pid, budget_ms, fd, &answered, &error)
                : mp_control_ask_live(pid, fd, &answered, &error))
        return mp_message_error(&error);
    note_other(pid, answered);
    snprintf(path, sizeof path, "/proc/self/fd/%d", *fd);
    invocation->operands = operands;
    invocation->operand_count = 1;
    return MP_EXIT_DONE;
}

/* snapshot.PID.mp, or the first of snapshot.PID.2.mp, ... that is free. */
static void choose_name(pid_t pid, char *path, size_t room)
{
    snprintf(path, room, "snapshot.%d.mp", (int)pid);
    for (unsigned number = 2; !access(path, F_OK); number++)
        snprintf(path, room, "snapshot.%d.%u.mp", (int)pid, number);
}

int mp_running_snapshot(const struct mp_invocation *invocation)
{
    const char *path = invocation->value[MP_OPT_OUTPUT];
    char chosen[64], size[MP_UNIT_TEXT], shown[MP_SHOWN_ROOM];
    struct mp_output_file output;
    struct mp_error error;
    struct stat facts;
    pid_t pid, answered;
    int status = read_pid(invocation, &pid);
    if (status) return status;
    if (!path) choose_name(pid, chosen, sizeof chosen);
    if (!path) path = chosen;
    status = mp_output_open(invocation, path, &output);
    if (status) return status;
    if (mp_control_ask_snapshot(pid, fileno(output.file), &answered, &error)) {
        status = mp_message_error(&error);
        mp_output_close(&output, false);
        return status;
    }
    uint64_t bytes = fstat(fileno(output.file), &facts) ? 0 : (uint64_t)facts.st_size;
    status = mp_output_close(&output, true);
    if (status || mp_given(invocation, MP_OPT_QUIET)) return status;
    note_other(pid, answered);
    mp_shown_path(shown, path);
    mp_message("%s  %s, of process %d as it is now.   Next: memprof report %s", shown, mp_format_bytes(size, bytes),
               (int)answered, shown);
    return MP_EXIT_DONE;
}

int mp_running_print_env(const struct mp_invocation *invocation)
{
    struct mp_error error;
    pid_t pid = getpid();
    int status = mp_given(invocation, MP_OPT_PID) ? read_pid(invocation, &pid) : MP_EXIT_DONE;
    if (status) return status;
    return mp_control_print_variables(pid, stdout, &error) ? mp_message_error(&error) : MP_EXIT_DONE;
}
