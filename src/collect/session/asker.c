#include "collect/session/asker.h"

#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <libgen.h>
#include <limits.h>
#include <linux/capability.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* Only this many groups of a user are read: with more, memprof may refuse wrongly, but never allow wrongly. */
#define GROUPS_MOST 1024

struct rights {
    unsigned user, group; /* owner of the files that it makes */
    unsigned long long capabilities;
    gid_t groups[GROUPS_MOST];
    size_t group_count;
};

static void read_groups(const char *text, struct rights *rights)
{
    char *end;
    for (rights->group_count = 0; rights->group_count < GROUPS_MOST; text = end) {
        unsigned long group = strtoul(text, &end, 10);
        if (end == text) return;
        rights->groups[rights->group_count++] = (gid_t)group;
    }
}

/* False, with errno; mostly because the process is gone. */
static bool read_rights(uint32_t pid, struct rights *rights)
{
    char path[64], *line = NULL;
    size_t room = 0;
    int found = 0;
    snprintf(path, sizeof path, "/proc/%u/status", pid);
    FILE *file = fopen(path, "re");
    while (file && getline(&line, &room, file) > 0) {
        found += sscanf(line, "Uid: %*u %*u %*u %u", &rights->user) == 1;
        found += sscanf(line, "Gid: %*u %*u %*u %u", &rights->group) == 1;
        found += sscanf(line, "CapEff: %llx", &rights->capabilities) == 1;
        if (!strncmp(line, "Groups:", strlen("Groups:"))) read_groups(line + strlen("Groups:"), rights);
    }
    int number = file ? ESRCH : errno;
    free(line);
    if (file) fclose(file);
    errno = number;
    return found == 3;
}

/* True if both have the same entry under /proc/PID, such as a root or a namespace. */
static bool shares(uint32_t pid, const char *what)
{
    char own[64], theirs[64];
    struct stat left, right;
    snprintf(own, sizeof own, "/proc/self/%s", what);
    snprintf(theirs, sizeof theirs, "/proc/%u/%s", pid, what);
    return !stat(own, &left) && !stat(theirs, &right) && left.st_dev == right.st_dev && left.st_ino == right.st_ino;
}

static bool is_inside(uint32_t pid)
{
    return shares(pid, "ns/user");
}

int mp_asker_may_not_look(uint32_t pid)
{
    struct rights own, theirs;
    if (!is_inside(pid)) return EPERM;
    if (!read_rights((uint32_t)getpid(), &own) || !read_rights(pid, &theirs)) return errno;
    return own.capabilities & ~theirs.capabilities ? EPERM : 0;
}

/* A path to the root of the process's paths. The kernel drops this root when the process ends. */
static void name_root(uint32_t pid, char root[64])
{
    struct stat facts;
    snprintf(root, 64, "/proc/%u/root", pid);
    if (stat(root, &facts) && errno == ENOENT) *root = '\0';
}

/* True if the process has every right that memprof has. */
static bool has_all(uint32_t pid, const struct rights *theirs, const char *root)
{
    struct rights own;
    return read_rights((uint32_t)getpid(), &own) && theirs->user == own.user && theirs->group == own.group &&
           !(own.capabilities & ~theirs->capabilities) && is_inside(pid) &&
           (!*root || (shares(pid, "root") && shares(pid, "ns/mnt")));
}

/* Takes on the process's rights, in a child that runs as root. Capabilities of another namespace do not count here. */
static bool become(uint32_t pid, const struct rights *rights, const char *root)
{
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2] = {{0}};
    unsigned long long kept = is_inside(pid) ? rights->capabilities : 0;
    if (*root && (chroot(root) || chdir("/"))) return false;
    if (setgroups(rights->group_count, rights->groups) || setresgid(rights->group, rights->group, rights->group) ||
        setresuid(rights->user, rights->user, rights->user))
        return false;
    if (rights->user) return true; /* the kernel removed all capabilities with the user */
    for (int i = 0; i < 2; i++)
        data[i].effective = data[i].permitted = (uint32_t)(kept >> 32 * i);
    return !syscall(SYS_capset, &header, data);
}

static int try_in(const char *root, const char *folder, const struct stat *wanted)
{
    char path[PATH_MAX];
    struct stat there;
    if (snprintf(path, sizeof path, "%s%s", root, folder) >= (int)sizeof path) return ENAMETOOLONG;
    if (stat(path, &there)) return errno;
    if (there.st_dev != wanted->st_dev || there.st_ino != wanted->st_ino) return ENOENT;
    return access(path, W_OK | X_OK) ? errno : 0;
}

/* Tries to make the file in a child with the other process's rights, since rights belong to a whole process. */
static int try_as(uint32_t pid, const struct rights *rights, const char *root, const char *folder)
{
    struct stat wanted;
    int how = 0;
    if (stat(folder, &wanted)) return errno;
    pid_t child = fork();
    if (!child) _exit(become(pid, rights, root) ? try_in("", folder, &wanted) : EPERM);
    while (child > 0 && waitpid(child, &how, 0) < 0 && errno == EINTR) {
    }
    return child > 0 && WIFEXITED(how) ? WEXITSTATUS(how) : EPERM;
}

int mp_asker_refusal(uint32_t pid, const char *path)
{
    struct rights rights = {0};
    char *copy, root[64];
    struct stat wanted;
    name_root(pid, root);
    if (!read_rights(pid, &rights)) return geteuid() ? 0 : ESRCH;
    if (has_all(pid, &rights, root)) return 0;
    if (!(copy = strdup(path))) return ENOMEM;
    const char *folder = dirname(copy);
    int refusal = 0;
    if (!geteuid())
        refusal = try_as(pid, &rights, root, folder);
    else if (rights.user != geteuid())
        refusal = EACCES;
    else
        refusal = stat(folder, &wanted) ? errno : try_in(root, folder, &wanted);
    free(copy);
    return refusal;
}

enum mp_status mp_asker_fail(uint32_t pid, const char *path, int reason, struct mp_error *error)
{
    struct rights rights = {0};
    char elsewhere[48] = "";
    if (reason == ESRCH || !read_rights(pid, &rights))
        return mp_fail(error, MP_IO, "pid %u ended before memprof saw whether it may write %s", pid, path);
    if (!is_inside(pid)) snprintf(elsewhere, sizeof elsewhere, " in a user namespace of its own");
    return mp_fail(error, MP_IO, "pid %u runs as uid %u%s and may not write %s (%s)", pid, rights.user, elsewhere, path,
                   strerror(reason));
}
