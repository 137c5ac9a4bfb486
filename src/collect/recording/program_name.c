#include "collect/recording/program_name.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/member.h"

static_assert(MP_PROGRAM_NAME >= MP_MEMBER_TEXT, "a checked text must fit");

static const char *next_argument(const char *at, const char *end)
{
    at += strnlen(at, (size_t)(end - at));
    return at < end ? at + 1 : end;
}

static const char *base_name(const char *path, size_t length, size_t *left)
{
    while (length > 1 && path[length - 1] == '/')
        length--;
    const char *slash = memrchr(path, '/', length);
    const char *name = slash && slash + 1 < path + length ? slash + 1 : path;
    *left = (size_t)(path + length - name);
    return name;
}

/* True for an interpreter's option with a separate value. The next argument then is no script. */
static bool takes_value(const char *option, size_t length)
{
    return length == 2 && strchr("WX", option[1]);
}

void mp_program_name(const char *arguments, size_t room, char to[MP_PROGRAM_NAME])
{
    const char *end = arguments + room, *at = arguments;
    size_t length = strnlen(at, room), left;
    const char *name = base_name(at, length, &left);
    bool interpreter = left >= 6 && !strncmp(name, "python", 6);
    for (at = next_argument(at, end); interpreter && at < end && *at; at = next_argument(at, end)) {
        length = strnlen(at, (size_t)(end - at));
        if (length == 2 && !strncmp(at, "-m", 2)) {
            at = next_argument(at, end);
            name = at;
            left = strnlen(at, (size_t)(end - at));
            break;
        }
        if (length == 2 && !strncmp(at, "-c", 2)) break;
        if (*at == '-') {
            if (takes_value(at, length)) at = next_argument(at, end);
            continue;
        }
        name = base_name(at, length, &left);
        break;
    }
    mp_member_text(to, name, left);
}
