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

void mp_naming_host(char *to, size_t room)
{
    memset(to, 0, room);
    if (gethostname(to, room - 1)) snprintf(to, room, "localhost");
}

bool mp_naming_separates_processes(const char *pattern)
{
    for (const char *at = strchr(file_part(pattern), '%'); at && at[1]; at = strchr(at + 2, '%'))
        if (strchr("prn", at[1])) return true;
    return false;
}

/* Appends only letters that are plain to every shell and file system. */
static void put_plain(struct mp_buffer *to, const char *text, size_t length)
{
    for (size_t i = 0; i < length; i++) {
        char letter = text[i];
        bool plain = (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
                     (letter >= '0' && letter <= '9') || letter == '_' || (letter == '.' && i);
        mp_buffer_append(to, plain ? &letter : "-", 1);
    }
}

static void put_name(struct mp_buffer *to, const struct mp_named *process)
{
    const struct mp_member *member = &process->member;
    bool helps = mp_member_is_helper(member), ranked = mp_member_knows(member, MP_MEMBER_RANK);
    int width = 1;
    for (uint32_t most = member->number[MP_MEMBER_WORLD_SIZE];
         mp_member_knows(member, MP_MEMBER_WORLD_SIZE) && most > 10; most = (most + 9) / 10)
        width++;
    if (ranked) mp_buffer_printf(to, "rank%0*u", width, member->number[MP_MEMBER_RANK]);
    if (ranked && !helps) return;
    bool has_role = helps && strcmp(member->role, MP_ROLE_RAY) != 0;
    const char *name = has_role ? member->role : *process->program ? process->program : "process";
    size_t length = strlen(name);
    if (!helps && length > 3 && !strcmp(name + length - 3, ".py")) length -= 3;
    if (ranked) mp_buffer_append_text(to, "-");
    put_plain(to, name, length);
    mp_buffer_printf(to, "-%u", process->pid);
}

static void expand(struct mp_buffer *to, const struct mp_naming *naming, char letter, const struct mp_named *process)
{
    char text[64];
    time_t start = (time_t)naming->start_unix_s;
    struct tm local;
    switch (letter) {
    case 'p':
        mp_buffer_printf(to, "%u", process->pid);
        break;
    case 'n':
        put_name(to, process);
        break;
    case 'r':
        mp_buffer_printf(to, "%u",
                         mp_member_knows(&process->member, MP_MEMBER_RANK) ? process->member.number[MP_MEMBER_RANK]
                                                                           : process->pid);
        break;
    case 'h':
        mp_buffer_append_text(to, naming->host);
        break;
    case 't':
        strftime(text, sizeof text, "%Y%m%d-%H%M%S", localtime_r(&start, &local));
        mp_buffer_append_text(to, text);
        break;
    default:
        mp_buffer_append(to, &letter, 1);
    }
}

char *mp_naming_path(const struct mp_naming *naming, const struct mp_named *process, unsigned number)
{
    struct mp_buffer path = {0};
    const char *file = file_part(naming->pattern);
    for (const char *at = naming->pattern; *at; at++) {
        if (*at == '%' && at >= file && at[1])
            expand(&path, naming, *++at, process);
        else
            mp_buffer_append(&path, at, 1);
    }
    char *name = mp_buffer_take(&path);
    if (!name || !number) return name;
    char *slash = strrchr(name, '/'), *dot = strrchr(slash ? slash : name, '.');
    /* If the pattern has %p or %r, the pid would add nothing, so only a number is added. */
    bool apart = mp_naming_separates_processes(naming->pattern);
    char between[32] = "";
    if (!apart) snprintf(between, sizeof between, ".%u", process->pid);
    if (number > 1 || apart)
        snprintf(between + strlen(between), sizeof between - strlen(between), ".%u", apart ? number + 1 : number);
    size_t stem = dot && dot != (slash ? slash + 1 : name) ? (size_t)(dot - name) : strlen(name);
    char *result;
    if (asprintf(&result, "%.*s%s%s", (int)stem, name, between, name + stem) < 0) result = NULL;
    free(name);
    return result;
}
