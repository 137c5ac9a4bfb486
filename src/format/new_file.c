#include "format/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/reader.h"

/* ---- files that must not be replaced ---- */

static bool is_recording(const char *path)
{
    struct mp_reader *reader = NULL;
    enum mp_status status = mp_reader_open(path, &reader, NULL);
    mp_reader_close(reader);
    return status == MP_OK || status == MP_TOO_NEW;
}

/* Files that people write by hand or that a training run leaves. No report has such a name. */
static bool is_precious(const char *path, const struct stat *facts)
{
    static const char *const endings[] = {
        ".py", ".pyx", ".ipynb", ".c",    ".h",   ".cc",   ".hh",          ".cpp", ".hpp", ".cxx",  ".cu",   ".cuh",
        ".rs", ".go",  ".jl",    ".java", ".js",  ".ts",   ".sh",          ".pl",  ".rb",  ".toml", ".yaml", ".yml",
        ".so", ".a",   ".o",     ".pt",   ".pth", ".ckpt", ".safetensors", ".npy", ".npz", ".onnx"};
    const char *slash = strrchr(path, '/'), *dot = strrchr(slash ? slash : path, '.');
    for (size_t i = 0; dot && i < sizeof endings / sizeof *endings; i++)
        if (!strcmp(dot, endings[i])) return true;
    return facts->st_size && (facts->st_mode & 0111);
}

static bool is_one_of(const char *const *inputs, const struct stat *facts)
{
    for (; inputs && *inputs; inputs++) {
        struct stat input;
        if (!stat(*inputs, &input) && input.st_dev == facts->st_dev && input.st_ino == facts->st_ino) return true;
    }
    return false;
}

static enum mp_status may_replace(const char *path, const struct mp_new_file_rule *rule, const struct stat *facts,
                                  struct mp_error *error)
{
    switch (rule->way) {
    case MP_NEW_FILE_FORCE:
    case MP_NEW_FILE_CHOSEN:
        return MP_OK;
    case MP_NEW_FILE_OWN:
        if (rule->own_device == facts->st_dev && rule->own_inode == facts->st_ino) return MP_OK;
        return mp_fail(error, MP_IO, "%s already exists: name another file", path);
    case MP_NEW_FILE_REPORT:
        if (is_one_of(rule->inputs, facts))
            return mp_fail(error, MP_IO, "%s is an input of the command: name another file; --force overwrites it",
                           path);
        if (is_recording(path))
            return mp_fail(error, MP_IO, "%s is a recording and stays as it is; --force overwrites it", path);
        if (is_precious(path, facts))
            return mp_fail(
                error, MP_IO,
                "%s has the name of a source, a program or a checkpoint, or may be executed, and stays as it "
                "is; --force overwrites it",
                path);
        return MP_OK;
    default:
        return mp_fail(error, MP_IO, "%s is already there; choose another name or add --force", path);
    }
}

/* ---- where the file goes ---- */

/* A name such as /dev/stdout means an open file. Opening such a file again would write from its beginning. */
static bool is_stdout(const struct stat *facts)
{
    struct stat out;
    return !fstat(STDOUT_FILENO, &out) && out.st_dev == facts->st_dev && out.st_ino == facts->st_ino;
}

static enum mp_status open_in_place(const char *path, const struct mp_new_file_rule *rule, const struct stat *facts,
                                    struct mp_new_file *file, struct mp_error *error)
{
    bool writable = S_ISFIFO(facts->st_mode) || S_ISCHR(facts->st_mode) || is_stdout(facts);
    if (rule->way == MP_NEW_FILE_OWN || rule->way == MP_NEW_FILE_FRESH || !writable)
        return mp_fail(error, MP_IO, "cannot write %s: it is no regular file", path);
    file->in_place = true;
    int how = (S_ISCHR(facts->st_mode) ? O_RDWR : O_WRONLY) | (rule->at_once ? O_NONBLOCK : 0);
    file->fd = is_stdout(facts) ? fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 0) : open(path, how | O_CLOEXEC | O_NOCTTY);
    return file->fd < 0 ? mp_fail_errno(error, "cannot write %s", path) : MP_OK;
}

/* Finds out what exists at `path`. */
static enum mp_status look(const char *path, const struct mp_new_file_rule *rule, struct mp_new_file *file,
                           struct stat *facts, struct mp_error *error)
{
    struct stat link;
    bool is_there = !lstat(path, &link), is_link = is_there && S_ISLNK(link.st_mode);
    if (is_there && rule->way == MP_NEW_FILE_CHOSEN && !S_ISREG(link.st_mode))
        return mp_fail(error, MP_IO, "cannot write %s: it is a link or no regular file, and memprof chose that name",
                       path);
    if (stat(path, facts)) {
        if (errno != ENOENT) return mp_fail_errno(error, "cannot write %s", path);
        if (is_link) return mp_fail(error, MP_IO, "cannot write %s: it is a link to a missing file", path);
        file->path = strdup(path);
        return file->path ? MP_OK : mp_fail(error, MP_NO_MEMORY, "out of memory for a file name");
    }
    if (S_ISDIR(facts->st_mode))
        return mp_fail(error, MP_IO, "cannot write %s: it is a folder; give the name of a file", path);
    if (!S_ISREG(facts->st_mode) || (is_link && !strncmp(path, "/dev/", 5) && is_stdout(facts)))
        return open_in_place(path, rule, facts, file, error);
    bool follows = is_link && rule->way != MP_NEW_FILE_CHOSEN;
    file->path = follows ? realpath(path, NULL) : strdup(path); /* follows a link instead of replacing it */
    if (!file->path) return mp_fail_errno(error, "cannot write %s", path);
    file->replaces = true;
    file->device = facts->st_dev;
    file->inode = facts->st_ino;
    return may_replace(file->path, rule, facts, error);
}

/* ---- the file itself ---- */

/* Returns FOLDER/.memprof-XXXX with an unguessable number. */
static char *make_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    unsigned long long number = 0;
    char *name;
    if (getrandom(&number, sizeof number, 0) != sizeof number) return NULL;
    int length = asprintf(&name, "%.*s.memprof-%016llx", slash ? (int)(slash + 1 - path) : 0, path, number);
    return length < 0 ? NULL : name;
}

static int open_nameless(const char *path)
{
    char *copy = access("/proc/self/fd", X_OK) ? NULL : strdup(path); /* give_name() needs /proc/self/fd */
    int fd = copy ? open(dirname(copy), O_TMPFILE | O_RDWR | O_CLOEXEC, 0666) : -1;
    free(copy);
    return fd;
}

enum mp_status mp_new_file_open(const char *path, const struct mp_new_file_rule *rule, struct mp_new_file *file,
                                struct mp_error *error)
{
    struct stat facts;
    *file = (struct mp_new_file){.fd = -1, .force = rule->way == MP_NEW_FILE_FORCE || rule->way == MP_NEW_FILE_CHOSEN};
    enum mp_status status = look(path, rule, file, &facts, error);
    if (!status && !file->in_place) {
        if (rule->nameless) file->fd = open_nameless(file->path);
        if (file->fd < 0) {
            file->name = make_name(file->path);
            if (file->name) file->fd = open(file->name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        }
        if (file->fd < 0) {
            status = mp_fail_errno(error, "cannot write %s", path);
            free(file->name);
            file->name = NULL;
        } else if (file->replaces) {
            (void)fchmod(file->fd, facts.st_mode & 0777);
        }
    }
    if (status) mp_new_file_close(file);
    return status;
}

/* Gives a nameless file its name. */
static bool give_name(struct mp_new_file *file)
{
    char from[64];
    snprintf(from, sizeof from, "/proc/self/fd/%d", file->fd);
    file->name = make_name(file->path);
    if (file->name && !linkat(AT_FDCWD, from, AT_FDCWD, file->name, AT_SYMLINK_FOLLOW)) return true;
    free(file->name);
    file->name = NULL;
    return false;
}

bool mp_new_file_move(const char *from, const char *to)
{
    if (!renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE)) return true;
    if (errno != EINVAL && errno != ENOSYS) return false;
    if (!link(from, to)) return !unlink(from);
    struct stat facts;
    if (errno == EEXIST) return false;
    if (lstat(to, &facts) == 0) errno = EEXIST;
    return errno != EEXIST && !rename(from, to);
}

enum mp_status mp_new_file_put(struct mp_new_file *file, struct mp_error *error)
{
    struct stat now;
    if (file->in_place) return MP_OK;
    if (!file->name && !give_name(file)) return mp_fail_errno(error, "cannot write %s", file->path);
    bool is_there = !lstat(file->path, &now), moved = false;
    bool is_same = is_there && file->replaces && now.st_dev == file->device && now.st_ino == file->inode;
    if (is_same || (is_there && file->force && S_ISREG(now.st_mode)))
        moved = !rename(file->name, file->path);
    else if (is_there)
        return mp_fail(error, MP_IO, "another program made %s meanwhile: name another file", file->path);
    else
        moved = mp_new_file_move(file->name, file->path);
    if (!moved) return mp_fail_errno(error, "cannot write %s", file->path);
    free(file->name);
    file->name = NULL;
    return MP_OK;
}

void mp_new_file_close(struct mp_new_file *file)
{
    if (file->name) unlink(file->name);
    free(file->name);
    free(file->path);
    file->name = file->path = NULL;
}

void mp_new_file_remove(const char *path, dev_t device, ino_t inode)
{
    struct stat facts;
    if (!lstat(path, &facts) && facts.st_dev == device && facts.st_ino == inode) unlink(path);
}
