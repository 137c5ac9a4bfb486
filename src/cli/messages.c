#include "cli/messages.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/units.h"
#include "output/form/text.h"

void mp_message(const char *format, ...)
{
    char *made = NULL;
    va_list arguments;
    va_start(arguments, format);
    int length = vasprintf(&made, format, arguments);
    va_end(arguments);
    if (length < 0) return;
    struct mp_buffer clean = {0};
    mp_text_clean(&clean, made);
    fprintf(stderr, "memprof: %.*s\n", (int)clean.size, (const char *)clean.data);
    mp_buffer_free(&clean);
    free(made);
}

/* The path without the current folder in front. */
static const char *from_here(const char *path)
{
    char folder[PATH_MAX];
    size_t length = getcwd(folder, sizeof folder) ? strlen(folder) : 0;
    return length > 1 && !strncmp(path, folder, length) && path[length] == '/' ? path + length + 1 : path;
}

const char *mp_shown_path(char room[MP_SHOWN_ROOM], const char *path)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=@%+";
    path = from_here(path);
    size_t at = 0, first = strspn(path, plain);
    if (!path[first] && *path && *path != '-') {
        snprintf(room, MP_SHOWN_ROOM, "%s", path);
        return room;
    }
    room[at++] = '\'';
    for (; *path && at < MP_SHOWN_ROOM - 6; path++)
        if (*path == '\'')
            at += (size_t)sprintf(room + at, "'\\''");
        else
            room[at++] = *path;
    room[at++] = '\'';
    room[at] = '\0';
    return room;
}

int mp_message_error(const struct mp_error *error)
{
    mp_message("%s", error->text);
    return error->status == MP_INVALID ? MP_EXIT_USAGE : MP_EXIT_COULD_NOT;
}

static size_t least(size_t a, size_t b, size_t c)
{
    size_t smaller = a < b ? a : b;
    return smaller < c ? smaller : c;
}

/* In one row. */
size_t mp_distance(const char *a, const char *b)
{
    size_t row[MP_NAME_MOST + 1], width = strlen(b);
    for (size_t i = 0; i <= width; i++)
        row[i] = i;
    for (size_t line = 1; *a; a++, line++) {
        size_t diagonal = row[0];
        row[0] = line;
        for (size_t i = 1; i <= width; i++) {
            size_t above = row[i];
            row[i] = least(above + 1, row[i - 1] + 1, diagonal + (*a != b[i - 1]));
            diagonal = above;
        }
    }
    return row[width];
}

const char *mp_nearest(const char *name, const char *const *names)
{
    const char *nearest = NULL;
    size_t best = 3, length = strlen(name);
    if (length > MP_NAME_MOST) return NULL;
    for (; *names; names++) {
        if (strlen(*names) > MP_NAME_MOST) continue;
        bool begins = length > 1 && !strncmp(name, *names, length);
        size_t far = begins ? 1 : mp_distance(name, *names);
        if (far >= best || far >= length) continue;
        best = far;
        nearest = *names;
    }
    return nearest;
}

const char *mp_dropped_events(uint64_t count)
{
    static char text[MP_UNIT_TEXT + 16];
    char number[MP_UNIT_TEXT];
    snprintf(text, sizeof text, "%s event%s", mp_format_count(number, count), count == 1 ? " was" : "s were");
    return text;
}
