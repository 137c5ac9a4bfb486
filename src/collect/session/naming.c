#include "collect/session/naming.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"

/* Folders are literal: their names may contain an unintended percent sign. */
static const char *file_part(const char *pattern)
{
    const char *slash = strrchr(pattern, '/');
    return slash ? slash + 1 : pattern;
}

static bool names_one_of(const char *pattern, const char *letters)
{
    for (const char *at = strchr(file_part(pattern), '%'); at && at[1]; at = strchr(at + 2, '%'))
        if (strchr(letters, at[1])) return true;
    return false;
}

bool mp_naming_separates_processes(const char *pattern)
{
    return names_one_of(pattern, "pr");
}

bool mp_naming_separates_cycles(const char *pattern)
{
    return names_one_of(pattern, "c");
}

static void expand(struct mp_buffer *to, const struct mp_naming *naming, char what, uint32_t pid,
                   const struct mp_member *member)
{
    char text[64];
    time_t start = (time_t)naming->start_unix_s;
    struct tm local;
    switch (what) {
    case 'p':
        mp_buffer_printf(to, "%u", (unsigned)pid);
        break;
    case 'r':
        mp_buffer_printf(to, "%u", mp_member_knows(member, MP_MEMBER_RANK) ? member->number[MP_MEMBER_RANK] : pid);
        break;
    case 'h':
        mp_buffer_append_text(to, naming->host);
        break;
    case 't':
        strftime(text, sizeof text, "%Y%m%d-%H%M%S", localtime_r(&start, &local));
        mp_buffer_append_text(to, text);
        break;
    case 'c':
        mp_buffer_printf(to, "%u", naming->cycle);
        break;
    default:
        mp_buffer_append(to, &what, 1);
    }
}

char *mp_naming_path(const struct mp_naming *naming, uint32_t pid, const struct mp_member *member, unsigned number)
{
    struct mp_buffer path = {0};
    const char *file = file_part(naming->pattern);
    for (const char *at = naming->pattern; *at; at++) {
        if (*at == '%' && at >= file && at[1])
            expand(&path, naming, *++at, pid, member);
        else
            mp_buffer_append(&path, at, 1);
    }
    mp_buffer_append(&path, "", 1);
    if (path.failed) {
        mp_buffer_free(&path);
        return NULL;
    }
    char *name = (char *)path.data, *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    if (!number) return name;
    /* With %p or %r in the pattern, the pid adds nothing: only a number is added. */
    bool apart = mp_naming_separates_processes(naming->pattern);
    char between[32] = "";
    if (!apart) snprintf(between, sizeof between, ".%u", (unsigned)pid);
    if (number > 1 || apart)
        snprintf(between + strlen(between), sizeof between - strlen(between), ".%u", apart ? number + 1 : number);
    size_t stem = dot && dot != (slash ? slash + 1 : name) ? (size_t)(dot - name) : strlen(name);
    char *result;
    if (asprintf(&result, "%.*s%s%s", (int)stem, name, between, name + stem) < 0) result = NULL;
    free(name);
    return result;
}
