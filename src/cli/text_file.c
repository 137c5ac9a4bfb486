#include "cli/text_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BYTES_MAX (1u << 20)

static unsigned line_of(const unsigned char *text, const unsigned char *at)
{
    unsigned line = 1;
    while (text < at)
        line += *text++ == '\n';
    return line;
}

enum mp_status mp_text_file_open(const char *path, FILE **file, struct mp_error *error)
{
    struct stat facts;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    *file = NULL;
    if (fd < 0 || fstat(fd, &facts)) {
        enum mp_status status = mp_fail_errno(error, "cannot read %s", path);
        if (fd >= 0) close(fd);
        return status;
    }
    /* A pipe of another process, such as <(command), is read to its end, although that may take a while. */
    bool is_open = !strncmp(path, "/dev/fd/", strlen("/dev/fd/")) || !strcmp(path, "/dev/stdin");
    bool is_pipe = S_ISFIFO(facts.st_mode) && is_open;
    if (is_pipe) fcntl(fd, F_SETFL, 0); /* only for pipes: reads of /proc/kmsg could block forever */
    if ((S_ISREG(facts.st_mode) || is_pipe) && (*file = fdopen(fd, "r"))) return MP_OK;
    close(fd);
    errno = EISDIR;
    if (S_ISDIR(facts.st_mode)) return mp_fail_errno(error, "cannot read %s", path);
    return mp_fail(error, MP_INVALID, "%s is a pipe or a device, not a file", path);
}

enum mp_status mp_text_file_read(const char *path, struct mp_buffer *text, struct mp_error *error)
{
    FILE *file;
    enum mp_status status = mp_text_file_open(path, &file, error);
    if (status) return status;
    unsigned char *to = mp_buffer_room(text, BYTES_MAX + 1);
    size_t size = fread(to, 1, BYTES_MAX + 1, file);
    const unsigned char *zero = size ? memchr(to, '\0', size) : NULL;
    if (ferror(file))
        status = mp_fail_errno(error, "cannot read %s", path);
    else if (size > BYTES_MAX)
        status =
            mp_fail(error, MP_INVALID, "%s has more than 1 MiB, too much for a file that somebody wrote by hand", path);
    else if (zero)
        status = mp_fail(error, MP_INVALID, "%s, line %u: the line holds a byte 0", path, line_of(to, zero));
    fclose(file);
    if (status) return status;
    to[size] = '\0';
    mp_buffer_grew(text, size + 1);
    return MP_OK;
}
