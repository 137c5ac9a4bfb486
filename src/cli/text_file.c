#include "cli/text_file.h"

#include <stdio.h>
#include <string.h>

#define BYTES_MAX (1u << 20)

static unsigned line_of(const unsigned char *text, const unsigned char *at)
{
    unsigned line = 1;
    while (text < at)
        line += *text++ == '\n';
    return line;
}

enum mp_status mp_text_file_read(const char *path, struct mp_buffer *text, struct mp_error *error)
{
    FILE *file = fopen(path, "re");
    if (!file) return mp_fail_errno(error, "cannot read %s", path);
    unsigned char *to = mp_buffer_room(text, BYTES_MAX + 1);
    size_t size = to ? fread(to, 1, BYTES_MAX + 1, file) : 0;
    const unsigned char *zero = size ? memchr(to, '\0', size) : NULL;
    enum mp_status status = MP_OK;
    if (!to)
        status = mp_fail(error, MP_NO_MEMORY, "not enough memory to read %s", path);
    else if (ferror(file))
        status = mp_fail_errno(error, "cannot read %s", path);
    else if (size > BYTES_MAX)
        status =
            mp_fail(error, MP_INVALID, "%s has more than 1 MiB: it is none of the texts that are wanted here", path);
    else if (zero)
        status = mp_fail(error, MP_INVALID, "%s, line %u: the line holds a byte 0", path, line_of(to, zero));
    fclose(file);
    if (status) return status;
    to[size] = '\0';
    mp_buffer_grew(text, size + 1);
    return MP_OK;
}
