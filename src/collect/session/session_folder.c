#include "collect/session/session_folder.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

static const char prefix[] = "memprof-";
enum { SUFFIX = 6, OLD_S = 60, SWEPT_AT_ONCE = 4096 };

/* A folder that was just made may not be listened on yet. */
static bool is_old_and_ours(const char *path)
{
    struct stat facts;
    return !lstat(path, &facts) && S_ISDIR(facts.st_mode) && facts.st_uid == geteuid() && (facts.st_mode & 077) == 0 &&
           time(NULL) - facts.st_mtime >= OLD_S;
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

/* Removes left folders from `parent`: of our making, a minute old, with a socket that nobody listens on. */
static void sweep(const char *parent)
{
    DIR *entries = opendir(parent);
    struct dirent *entry;
    for (int i = 0; i < SWEPT_AT_ONCE && entries && (entry = readdir(entries)); i++) {
        char folder[512], socket_path[512 + sizeof MP_SESSION_SOCKET + 1];
        if (!mp_session_folder_is_name(entry->d_name)) continue;
        snprintf(folder, sizeof folder, "%s/%s", parent, entry->d_name);
        snprintf(socket_path, sizeof socket_path, "%s/%s", folder, MP_SESSION_SOCKET);
        if (!is_old_and_ours(folder) || !is_deserted(socket_path)) continue;
        unlink(socket_path);
        rmdir(folder); /* fails where anything else lies in it */
    }
    if (entries) closedir(entries);
}

enum mp_status mp_session_folder_make(char folder[MP_SESSION_FOLDER_ROOM], struct mp_error *error)
{
    const char *parent = getenv("XDG_RUNTIME_DIR");
    if (!parent || strlen(parent) > 32 || access(parent, W_OK)) parent = "/tmp";
    sweep(parent);
    snprintf(folder, MP_SESSION_FOLDER_ROOM, "%s/%sXXXXXX", parent, prefix);
    if (!mkdtemp(folder)) return mp_fail_errno(error, "cannot make a folder in %s", parent);
    return chmod(folder, 0700) ? mp_fail_errno(error, "cannot open %s to its owner", folder) : MP_OK; /* umask 0777 */
}
