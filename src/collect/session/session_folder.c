#include "collect/session/session_folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "wire/config.h"

static const char prefix[] = "memprof-";
enum { SUFFIX = 6, OLD_S = 60, SWEPT_AT_ONCE = 4096 };

/* The collector holds the folder open and locked. However the collector ends, the kernel then unlocks the folder. */
static int lock(const char *path)
{
    int folder = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (folder < 0 || !flock(folder, LOCK_EX | LOCK_NB)) return folder;
    close(folder);
    return -1;
}

/* A new folder may have no lock and no listener yet. It gets its lock before it has a socket. */
static bool is_left_and_ours(int folder)
{
    struct stat facts, socket_facts;
    return !fstat(folder, &facts) && facts.st_uid == geteuid() && (facts.st_mode & 077) == 0 &&
           (!fstatat(folder, MP_SESSION_SOCKET, &socket_facts, AT_SYMLINK_NOFOLLOW) ||
            time(NULL) - facts.st_mtime >= OLD_S);
}

static bool is_deserted(const char *socket_path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(socket_path) >= sizeof address.sun_path) return false;
    strcpy(address.sun_path, socket_path);
    int connection = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (connection < 0) return false;
    bool deserted =
        connect(connection, (struct sockaddr *)&address, sizeof address) && (errno == ECONNREFUSED || errno == ENOENT);
    close(connection);
    return deserted;
}

bool mp_session_folder_is_name(const char *name)
{
    return !strncmp(name, prefix, strlen(prefix)) && strlen(name) == strlen(prefix) + SUFFIX;
}

/* Removes folders that unrecorded processes left there (collect/session/refused.h). */
static void sweep_refusals(const char *folder)
{
    DIR *entries = opendir(folder);
    struct dirent *entry;
    while (entries && (entry = readdir(entries)))
        if (strstr(entry->d_name, MP_REFUSED_SUFFIX)) unlinkat(dirfd(entries), entry->d_name, AT_REMOVEDIR);
    if (entries) closedir(entries);
}

/* Removes abandoned folders from `parent`: made by memprof, unlocked, with a socket that nobody listens on, or without
 * a socket for a minute. */
static void sweep(const char *parent)
{
    DIR *entries = opendir(parent);
    struct dirent *entry;
    for (int i = 0; i < SWEPT_AT_ONCE && entries && (entry = readdir(entries)); i++) {
        char folder[512], socket_path[512 + sizeof MP_SESSION_SOCKET + 1];
        if (!mp_session_folder_is_name(entry->d_name)) continue;
        snprintf(folder, sizeof folder, "%s/%s", parent, entry->d_name);
        snprintf(socket_path, sizeof socket_path, "%s/%s", folder, MP_SESSION_SOCKET);
        int locked = lock(folder);
        if (locked >= 0 && is_left_and_ours(locked) && is_deserted(socket_path)) {
            unlink(socket_path);
            sweep_refusals(folder);
            rmdir(folder); /* fails if anything else is in it */
        }
        if (locked >= 0) close(locked);
    }
    if (entries) closedir(entries);
}

enum mp_status mp_session_folder_make(char folder[MP_SESSION_FOLDER_ROOM], int *locked, struct mp_error *error)
{
    const char *parent = getenv("XDG_RUNTIME_DIR");
    struct stat facts; /* under sudo, another user may own the folder, and could exchange its contents */
    if (!parent || strlen(parent) > 32 || access(parent, W_OK) || stat(parent, &facts) || facts.st_uid != geteuid())
        parent = "/tmp";
    sweep(parent);
    snprintf(folder, MP_SESSION_FOLDER_ROOM, "%s/%sXXXXXX", parent, prefix);
    if (!mkdtemp(folder)) return mp_fail_errno(error, "cannot make a folder in %s", parent);
    if (chmod(folder, 0700)) return mp_fail_errno(error, "cannot open %s to its owner", folder); /* umask 0777 */
    *locked = lock(folder); /* if the file system has no locks, other processes cannot lock the folder either */
    return MP_OK;
}
