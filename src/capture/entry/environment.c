#include "capture/entry/environment.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/kernel.h"
#include "capture/core/session.h"
#include "wire/config.h"

extern char **environ;

#define KEPT_MOST 32
/* A thread's stack may be small, and a child of vfork() has only its parent's memory: a larger environment is passed
 * as it is. The kernel allows 128 KiB for one variable. */
#define ROOM_MOST ((size_t)128 << 10)

static char *kept[KEPT_MOST]; /* NAME=VALUE, copies */
static size_t kept_count;
static long own_user;

/* Variables that are lists. A program's value stays, behind memprof's part: `from` is the variable with that part. */
static const struct listed {
    const char *name, *from, *always;
    bool at_start; /* a program puts it into its own environment, for its interpreter; others at an exec */
} lists[] = {
    {"LD_PRELOAD", MP_PRELOAD_VARIABLE, NULL, false},
    {"ASAN_OPTIONS", NULL, MP_ASAN_OPTION, false}, /* gcc's sanitizer expects to be loaded first */
    {"PYTHONPATH", MP_PYTHON_VARIABLE, NULL, true},
};
#define LISTS (sizeof lists / sizeof *lists)

/* The value, if `entry` is the variable `name`; NULL. */
static const char *value_if(const char *entry, const char *name)
{
    size_t length = strlen(name);
    return !strncmp(entry, name, length) && entry[length] == '=' ? entry + length + 1 : NULL;
}

static const char *value_in(char *const *environment, const char *name)
{
    for (; environment && *environment; environment++) {
        const char *value = value_if(*environment, name);
        if (value) return value;
    }
    return NULL;
}

static bool is_ours(const char *entry)
{
    return !strncmp(entry, "MEMPROF_", 8) || !strncmp(entry, "SOFTGPU_", 8) || value_if(entry, MP_CUDA_VARIABLE) ||
           value_if(entry, MP_NVTX_VARIABLE) || value_if(entry, MP_RAY_VARIABLE);
}

static const char *kept_value(const char *name)
{
    for (size_t i = 0; i < kept_count; i++) {
        const char *value = value_if(kept[i], name);
        if (value) return value;
    }
    return NULL;
}

static const char *part_of(const struct listed *list)
{
    return list->from ? kept_value(list->from) : list->always;
}

/* True if the list begins with `part`, or has it behind other entries. */
static bool has_part(const char *value, const char *part)
{
    size_t length = strlen(part);
    for (const char *at = value; (at = strstr(at, part)); at++)
        if ((at == value || at[-1] == ':' || at[-1] == ' ') && (!at[length] || at[length] == ':' || at[length] == ' '))
            return true;
    return false;
}

/* In another root the library may be missing, and ld.so would complain about it. */
static bool library_is_here(void)
{
    const char *preload = kept_value(MP_PRELOAD_VARIABLE);
    char path[4096];
    size_t length = preload ? strcspn(preload, ":") : 0;
    if (!length || length >= sizeof path) return false;
    memcpy(path, preload, length);
    path[length] = '\0';
    return !mp_syscall(SYS_faccessat, AT_FDCWD, path, R_OK);
}

/* ---- another program ------------------------------------------------------------------------------------------ */

/* An engine may hand on the session of another machine, whose socket is not here. */
static bool is_elsewhere(const char *entry)
{
    const char *value = value_if(entry, MP_SESSION_VARIABLE);
    return value && value[0] == MP_SESSION_VERSION && mp_syscall(SYS_faccessat, AT_FDCWD, value + 2, F_OK);
}

/* The variables that an environment lacks. */
struct lack {
    bool kept[KEPT_MOST], list[LISTS];
    size_t entries, bytes; /* of the whole new environment, and of the new lists */
};

static bool look_for_lack(char *const *environment, struct lack *lack)
{
    bool any = false;
    *lack = (struct lack){0};
    while (environment && environment[lack->entries])
        lack->entries++;
    for (size_t i = 0; i < kept_count; i++) {
        size_t length = strcspn(kept[i], "=");
        lack->kept[i] = true;
        for (size_t j = 0; j < lack->entries && lack->kept[i]; j++)
            lack->kept[i] = strncmp(environment[j], kept[i], length + 1) != 0 || is_elsewhere(environment[j]);
        any |= lack->kept[i];
    }
    for (size_t i = 0; i < LISTS; i++) {
        const char *part = lists[i].at_start ? NULL : part_of(&lists[i]), *value;
        if (!part) continue;
        value = value_in(environment, lists[i].name);
        lack->list[i] = !value || !has_part(value, part);
        if (lack->list[i]) lack->bytes += strlen(lists[i].name) + strlen(part) + (value ? strlen(value) : 0) + 3;
        any |= lack->list[i];
    }
    return any;
}

size_t mp_environment_room(char *const *environment)
{
    struct lack lack;
    int saved = errno;
    bool lacks = kept_count && mp_session_passes_on() && mp_syscall(SYS_geteuid) == own_user &&
                 look_for_lack(environment, &lack) && library_is_here();
    errno = saved;
    if (!lacks) return 0;
    size_t room = (lack.entries + KEPT_MOST + LISTS + 1) * sizeof(char *) + lack.bytes;
    return room > ROOM_MOST ? 0 : room;
}

static char *put(char *to, const char *text)
{
    size_t length = strlen(text);
    memcpy(to, text, length + 1);
    return to + length;
}

/* NAME=PART:VALUE. Returns the place behind its NUL. */
static char *put_list(char *to, const struct listed *list, const char *value)
{
    to = put(to, list->name);
    to = put(to, "=");
    to = put(to, part_of(list));
    if (value && *value) {
        to = put(to, ":");
        to = put(to, value);
    }
    return to + 1;
}

char **mp_environment_fill(char *const *environment, void *room)
{
    struct lack lack;
    look_for_lack(environment, &lack);
    char **result = room, *text = (char *)(result + lack.entries + KEPT_MOST + LISTS + 1);
    size_t used = 0;
    for (size_t i = 0; i < LISTS; i++) {
        if (!lack.list[i]) continue;
        result[used++] = text;
        text = put_list(text, &lists[i], value_in(environment, lists[i].name));
    }
    for (size_t i = 0; i < kept_count; i++)
        if (lack.kept[i]) result[used++] = kept[i];
    for (; environment && *environment; environment++) {
        bool replaced = is_elsewhere(*environment);
        for (size_t i = 0; i < LISTS && !replaced; i++)
            replaced = lack.list[i] && value_if(*environment, lists[i].name);
        if (!replaced) result[used++] = *environment;
    }
    result[used] = NULL;
    return result;
}

void mp_environment_complete(void)
{
    size_t room = mp_environment_room(environ);
    void *pages = room ? mp_mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) : MAP_FAILED;
    if (pages != MAP_FAILED) environ = mp_environment_fill(environ, pages);
}

/* ---- this program --------------------------------------------------------------------------------------------- */

/* The entry with `list` takes the place of the program's own, or goes behind the last one in a new array. */
static void set_own(const struct listed *list, char *text, char **array)
{
    const char *value = value_in(environ, list->name);
    char **at = environ;
    put_list(text, list, value);
    while (*at && !value_if(*at, list->name))
        at++;
    if (*at) {
        *at = text;
        return;
    }
    size_t count = (size_t)(at - environ);
    memcpy(array, environ, count * sizeof *array);
    array[count] = text;
    array[count + 1] = NULL;
    environ = array;
}

void mp_environment_keep(void)
{
    size_t bytes = 0, entries = 0;
    if (!mp_session.page || !environ) return;
    own_user = mp_syscall(SYS_geteuid);
    for (; environ[entries]; entries++)
        if (is_ours(environ[entries])) bytes += strlen(environ[entries]) + 1;
    const char *python = value_in(environ, MP_PYTHON_VARIABLE), *path = value_in(environ, "PYTHONPATH");
    bytes += (python ? strlen(python) : 0) + (path ? strlen(path) : 0) + 16 + (entries + 2) * sizeof(char *);
    char **array = mp_mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if ((void *)array == MAP_FAILED) return;
    char *text = (char *)(array + entries + 2);
    for (size_t i = 0; i < entries && kept_count < KEPT_MOST; i++) {
        if (!is_ours(environ[i])) continue;
        kept[kept_count++] = text;
        text = put(text, environ[i]) + 1;
    }
    for (size_t i = 0; i < LISTS; i++) {
        const char *part = lists[i].at_start ? part_of(&lists[i]) : NULL;
        if (part && !(path && has_part(path, part))) set_own(&lists[i], text, array);
    }
}
