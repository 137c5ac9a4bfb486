#include "collect/replacement.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int open_nameless(const char *path)
{
    char *copy = strdup(path);
    int fd = copy ? open(dirname(copy), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600) : -1;
    free(copy);
    return fd;
}

enum mp_status mp_replacement_open(const char *path, int like, struct mp_replacement *replacement, int *fd,
                                   struct mp_error *error)
{
    struct stat facts;
    *replacement = (struct mp_replacement){.path = realpath(path, NULL)};
    if (!replacement->path) replacement->path = strdup(path);
    if (!replacement->path || asprintf(&replacement->name, "%s.XXXXXX", replacement->path) < 0) {
        replacement->name = NULL;
        mp_replacement_close(replacement);
        return mp_fail(error, MP_NO_MEMORY, "out of memory for a file name");
    }
    *fd = open_nameless(replacement->path);
    if (*fd >= 0) {
        free(replacement->name);
        replacement->name = NULL;
    } else {
        *fd = mkostemp(replacement->name, O_CLOEXEC);
    }
    if (*fd < 0) {
        enum mp_status status = mp_fail_errno(error, "cannot create a file beside %s", path);
        free(replacement->name);
        replacement->name = NULL;
        mp_replacement_close(replacement);
        return status;
    }
    if (!fstat(like, &facts)) (void)fchmod(*fd, facts.st_mode & 0777);
    return MP_OK;
}

/* A nameless file gets a name that was free a moment ago. */
static bool give_name(struct mp_replacement *replacement, int fd)
{
    char from[64];
    snprintf(from, sizeof from, "/proc/self/fd/%d", fd);
    for (int attempt = 0; attempt < 8; attempt++) {
        if (asprintf(&replacement->name, "%s.XXXXXX", replacement->path) < 0) {
            replacement->name = NULL;
            return false;
        }
        int placeholder = mkostemp(replacement->name, O_CLOEXEC);
        if (placeholder >= 0) {
            close(placeholder);
            unlink(replacement->name);
            if (!linkat(AT_FDCWD, from, AT_FDCWD, replacement->name, AT_SYMLINK_FOLLOW)) return true;
        }
        free(replacement->name);
        replacement->name = NULL;
        if (placeholder < 0 || errno != EEXIST) return false;
    }
    return false;
}

enum mp_status mp_replacement_put(struct mp_replacement *replacement, int fd, struct mp_error *error)
{
    if ((!replacement->name && !give_name(replacement, fd)) || rename(replacement->name, replacement->path))
        return mp_fail_errno(error, "cannot replace %s", replacement->path);
    free(replacement->name);
    replacement->name = NULL;
    return MP_OK;
}

void mp_replacement_close(struct mp_replacement *replacement)
{
    if (replacement->name) unlink(replacement->name);
    free(replacement->name);
    free(replacement->path);
    *replacement = (struct mp_replacement){0};
}
