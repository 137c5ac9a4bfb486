#include "collect/session/refused.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "collect/session/command_line.h"
#include "collect/session/unreached.h"

void mp_refused_add(struct mp_refused *refused, uint32_t pid, const char *name, const struct mp_error *why)
{
    if (!refused->count) refused->why = *why;
    if (refused->count++ >= MP_REFUSED_NAMED) return;
    struct mp_refused_process *process = &refused->first[refused->count - 1];
    process->pid = pid;
    if (name)
        snprintf(process->name, sizeof process->name, "%.*s", MP_PROCESS_NAME - 1, name);
    else
        mp_process_name(pid, process->name);
    mp_process_name_clean(process->name);
}

void mp_refused_merge(struct mp_refused *into, const struct mp_refused *from)
{
    if (!into->count) into->why = from->why;
    if (!*into->engine) memcpy(into->engine, from->engine, sizeof into->engine);
    for (size_t i = 0; i < MP_REFUSED_NAMED && i < from->count && into->count + i < MP_REFUSED_NAMED; i++)
        into->first[into->count + i] = from->first[i];
    into->count += from->count;
}

static void explain(int reason, struct mp_error *why)
{
    static const char *const unreached[] = {
        [-MP_UNREACHED_STATIC] = "a static program loads no recorder",
        [-MP_UNREACHED_RIGHTS] = "it has other rights than the program that started it",
        [-MP_UNREACHED_VARIABLES] = "it was started without memprof's variables, by a call that memprof does not see",
        [-MP_UNREACHED_CLONE] = "a raw clone() made it, or a fork in a handler that interrupted the recorder"};
    bool apart = reason == EACCES || reason == ENOENT || reason == EPERM;
    if (reason < 0 && reason > -(int)(sizeof unreached / sizeof *unreached) && unreached[-reason])
        mp_fail(why, MP_UNSUPPORTED, "%s", unreached[-reason]);
    else if (reason == EAGAIN)
        mp_fail(why, MP_IO, "memprof did not answer in time");
    else if (apart)
        mp_fail(why, MP_IO, "another user, another root or a sandbox keeps memprof out of reach (%s)",
                strerror(reason));
    else
        mp_fail(why, MP_IO, "the system refused what the recorder needs (%s)", strerror(reason));
}

static bool is_gone(uint32_t pid)
{
    return kill((pid_t)pid, 0) && errno == ESRCH;
}

/* A worker's folder stays until the end, for each process that gave it work. */
static void take_folders(const char *socket_path, uint32_t above, bool ending, struct mp_refused *refused)
{
    const char *name = strrchr(socket_path, '/');
    char path[128] = "";
    if (name) snprintf(path, sizeof path, "%.*s", (int)(name - socket_path), socket_path);
    DIR *folder = *path ? opendir(path) : NULL;
    bool worker_came = false;
    for (struct dirent *entry; folder && (entry = readdir(folder));) {
        int reason, length = 0;
        uint32_t pid, over;
        struct mp_error why;
        char expected[sizeof entry->d_name];
        const char *number = strstr(entry->d_name, MP_REFUSED_SUFFIX);
        if (!number || sscanf(number + strlen(MP_REFUSED_SUFFIX), "%3d.%10" SCNu32 ".%10" SCNu32 ".%n", &reason, &pid,
                              &over, &length) != 3)
            continue;
        const char *process = number + strlen(MP_REFUSED_SUFFIX) + length;
        snprintf(expected, sizeof expected, "%s" MP_REFUSED_SUFFIX MP_REFUSED_FORM "%s", name + 1, reason, pid, over,
                 process);
        worker_came |= reason == MP_REACHED_WORKER;
        if ((above && (over != above || reason == MP_REACHED_WORKER)) || (!ending && !is_gone(pid))) continue;
        if (!length || strcmp(entry->d_name, expected) || unlinkat(dirfd(folder), expected, AT_REMOVEDIR)) continue;
        if (reason == MP_UNREACHED_ENGINE) snprintf(refused->engine, sizeof refused->engine, "%s", process);
        if (reason == MP_UNREACHED_ENGINE || reason == MP_REACHED_WORKER) continue;
        explain(reason, &why);
        mp_refused_add(refused, pid, process, &why);
    }
    if (folder) closedir(folder);
    if (worker_came) *refused->engine = '\0';
    mp_process_name_clean(refused->engine);
}

/* Every program can write to the page. */
static void take_rows(struct mp_doorbell_page *page, uint32_t above, struct mp_refused *refused)
{
    for (size_t i = 0; page && i < MP_UNREACHED_MOST; i++) {
        struct mp_unreached *row = &page->rows[i];
        struct mp_error why;
        char name[MP_PROCESS_NAME];
        uint32_t pid = atomic_load(&row->pid);
        if (!pid || (above && row->above != above)) continue;
        memcpy(name, row->name, sizeof name);
        name[sizeof name - 1] = '\0';
        explain(row->reason, &why);
        mp_refused_add(refused, pid, name, &why);
        atomic_store(&row->pid, 0);
    }
    uint32_t begun = page ? atomic_load(&page->unreached) : 0;
    if (above || begun <= MP_UNREACHED_MOST) return;
    refused->count += begun - MP_UNREACHED_MOST;
    atomic_store(&page->unreached, MP_UNREACHED_MOST);
}

void mp_refused_take(const char *socket_path, struct mp_doorbell_page *page, uint32_t above, bool ending,
                     struct mp_refused *refused)
{
    take_folders(socket_path, above, ending, refused);
    take_rows(page, above, refused);
}

void mp_refused_say(const struct mp_refused *refused, char *text, size_t room)
{
    char names[MP_REFUSED_NAMED * (MP_PROCESS_NAME + 24)] = "";
    size_t length = 0, named = 0;
    for (size_t i = 0; i < MP_REFUSED_NAMED && i < refused->count; i++) {
        const struct mp_refused_process *process = &refused->first[i];
        if (!process->pid) continue;
        length += (size_t)snprintf(names + length, sizeof names - length, "%spid %u%s%s", named++ ? ", " : " (",
                                   process->pid, *process->name ? " " : "", process->name);
    }
    if (named && refused->count > named)
        snprintf(names + length, sizeof names - length, " and %zu more)", refused->count - named);
    else if (named)
        snprintf(names + length, sizeof names - length, ")");
    if (refused->count)
        snprintf(text, room, "%zu process%s could not be recorded%s: %s", refused->count,
                 refused->count == 1 ? "" : "es", names, refused->why.text);
    if (!*refused->engine) return;
    length = refused->count ? strlen(text) : 0;
    snprintf(
        text + length, room - length,
        "%swork went to %s: its tasks ran in processes that memprof did not start. Start its workers under memprof "
        "snapshot, or with the variables of memprof snapshot --print-env (launchers.md)",
        length ? "; " : "", refused->engine);
}
