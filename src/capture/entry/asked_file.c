#include "capture/entry/asked_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/kernel.h"
#include "capture/core/descriptor.h"

/* True if the path exists and must not be replaced. Only a regular file may be replaced, and only with `force`. */
static bool is_in_the_way(const char *path, bool force)
{
    struct stat facts;
    if (mp_syscall(SYS_newfstatat, AT_FDCWD, path, &facts, AT_SYMLINK_NOFOLLOW)) return false;
    return !force || !S_ISREG(facts.st_mode);
}

void mp_asked_file_make(struct mp_asked_file *file, const char *path, unsigned number, bool force)
{
    int length = snprintf(file->part, sizeof file->part, "%s.%d-%u.part", path, mp_getpid(), number);
    file->fd = -1;
    file->reason = length >= (int)sizeof file->part ? ENAMETOOLONG : is_in_the_way(path, force) ? EEXIST : 0;
    if (file->reason) return;
    int made = (int)mp_syscall(SYS_openat, AT_FDCWD, file->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    file->fd = mp_descriptor_move_up(made);
    if (file->fd < 0) file->reason = errno;
}

static bool move(const char *part, const char *path, bool force)
{
    if (is_in_the_way(path, force)) return false;
    enum { NO_REPLACE = 1 }; /* RENAME_NOREPLACE; some file systems do not know it */
    if (!mp_syscall(SYS_renameat2, AT_FDCWD, part, AT_FDCWD, path, force ? 0 : NO_REPLACE)) return true;
    return errno == EINVAL && !force && !mp_syscall(SYS_linkat, AT_FDCWD, part, AT_FDCWD, path, 0);
}

bool mp_asked_file_end(const struct mp_asked_file *file, const char *path, bool whole, bool force)
{
    if (file->fd < 0) return false;
    bool moved = whole && move(file->part, path, force);
    mp_syscall(SYS_unlinkat, AT_FDCWD, file->part, 0);
    mp_close(file->fd);
    return moved;
}
