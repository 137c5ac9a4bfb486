#include "collect/session/survivors.h"

#include <ctype.h>
#include <dirent.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/session/command_line.h"
#include "collect/session/control.h"

#define NAMED_MOST 4

/* Without a recording, a process that has greeted is known only by its environment. */
static bool is_recorded(const struct mp_collector *collector, uint32_t pid)
{
    for (size_t i = 0; i < collector->processes.count; i++)
        if (collector->processes.at[i].pid == pid && collector->processes.at[i].recording->events) return true;
    return false;
}

static void count_one(struct mp_survivors *survivors, uint32_t pid)
{
    size_t length = strlen(survivors->names), room = sizeof survivors->names - length;
    char name[MP_PROCESS_NAME];
    if (++survivors->count > NAMED_MOST) return;
    mp_process_name(pid, name);
    snprintf(survivors->names + length, room, "%spid %u%s%s", length ? ", " : "", pid, *name ? " " : "", name);
}

static bool has_ended(const struct mp_collected *process)
{
    struct pollfd end = {.fd = process->pidfd, .events = POLLIN};
    return process->pidfd < 0 || poll(&end, 1, 0) > 0;
}

static bool is_recorded_survivor(const struct mp_collector *collector, const struct mp_collected *process)
{
    return (pid_t)process->pid != collector->command && process->recording->events && !has_ended(process);
}

static bool is_unrecorded_survivor(const struct mp_collector *collector, uint32_t pid)
{
    char path[sizeof collector->socket_path];
    return pid && (pid_t)pid != getpid() && !is_recorded(collector, pid) &&
           mp_control_socket_of((pid_t)pid, path, sizeof path) && !strcmp(path, collector->socket_path);
}

void mp_survivors_find(const struct mp_collector *collector, struct mp_survivors *survivors)
{
    DIR *processes = opendir("/proc");
    struct dirent *entry;
    *survivors = (struct mp_survivors){0};
    for (size_t i = 0; i < collector->processes.count; i++)
        if (is_recorded_survivor(collector, &collector->processes.at[i]))
            count_one(survivors, collector->processes.at[i].pid);
    while (processes && (entry = readdir(processes))) {
        uint32_t pid = isdigit((unsigned char)*entry->d_name) ? (uint32_t)strtoul(entry->d_name, NULL, 10) : 0;
        if (!is_unrecorded_survivor(collector, pid)) continue;
        survivors->unrecorded = pid;
        count_one(survivors, pid);
    }
    if (processes) closedir(processes);
}

bool mp_survivors_are_left(const struct mp_collector *collector, struct mp_survivors *survivors)
{
    for (size_t i = 0; i < collector->processes.count; i++)
        if (is_recorded_survivor(collector, &collector->processes.at[i])) return true;
    if (is_unrecorded_survivor(collector, survivors->unrecorded)) return true;
    mp_survivors_find(collector, survivors);
    return survivors->count > 0;
}

void mp_survivors_say(const struct mp_survivors *survivors, char *text, size_t room)
{
    char more[32] = "";
    bool one = survivors->count == 1;
    if (survivors->count > NAMED_MOST) snprintf(more, sizeof more, " and %zu more", survivors->count - NAMED_MOST);
    snprintf(text, room, "%zu process%s still running (%s%s): %s here", survivors->count, one ? " was" : "es were",
             survivors->names, more, one ? "its recording ends" : "their recordings end");
}
