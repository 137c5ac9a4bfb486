#include "collect/session/control.h"

#include <ctype.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collect/session/session_folder.h"

#define LOOKED_AT 65536 /* entries of a folder that are read */

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
