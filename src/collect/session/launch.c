#include "collect/session/launch.h"

#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "wire/config.h"

extern char **environ;

/* The folder of the running program. */
static bool own_folder(char self[PATH_MAX])
{
    ssize_t length = readlink("/proc/self/exe", self, PATH_MAX - 1);
    if (length < 0) return false;
    self[length] = '\0';
    char *slash = strrchr(self, '/');
    if (slash) *slash = '\0';
    return true;
}

char *mp_launch_find(const char *const *candidates, size_t count)
{
    char folder[PATH_MAX];
    for (size_t i = 0; own_folder(folder) && i < count; i++) {
        char path[PATH_MAX];
        bool absolute = candidates[i][0] == '/';
        int length = snprintf(path, sizeof path, "%s%s%s", absolute ? "" : folder, absolute ? "" : "/", candidates[i]);
        if (length > 0 && (size_t)length < sizeof path && access(path, R_OK) == 0) return realpath(path, NULL);
    }
    return NULL;
}

char *mp_launch_find_python(void)
{
    static const char *const modules[] = {"python/libmemprof.py", "../share/memprof/python/libmemprof.py",
                                          PKGDATADIR "/python/libmemprof.py", MP_SOURCE_DIR "/python/libmemprof.py"};
    char *folder = mp_launch_find(modules, sizeof modules / sizeof *modules);
    if (folder) *strrchr(folder, '/') = '\0';
    return folder;
}

enum mp_status mp_launch_find_library(char **library, char **python_folder, struct mp_error *error)
{
    static const char *const libraries[] = {"libmemprof.so", "../lib/memprof/libmemprof.so",
                                            PKGLIBDIR "/libmemprof.so"};
    *library = mp_launch_find(libraries, sizeof libraries / sizeof *libraries);
    *python_folder = mp_launch_find_python();
    if (*library && !strpbrk(*library, ": \t\n")) return MP_OK;
    free(*python_folder);
    *python_folder = NULL;
    if (*library)
        return mp_fail(error, MP_UNSUPPORTED, "the loader cannot preload %s: a colon or a space would end the path",
                       *library);
    return mp_fail(error, MP_NOT_FOUND, "libmemprof.so is neither next to memprof nor in " PKGLIBDIR);
}

/* NAME=VALUE, followed by ":" and the variable's current value if it has one. */
static char *prepended(const char *name, const char *value)
{
    const char *present = getenv(name);
    char *entry;
    bool joined = present && *present;
    return asprintf(&entry, "%s=%s%s%s", name, value, joined ? ":" : "", joined ? present : "") < 0 ? NULL : entry;
}

/* Variables added to the command's environment; the caller frees the entries. */
struct additions {
    char *entries[16]; /* NULL-terminated */
    size_t count;
    bool failed;
};

static void add_variable(struct additions *to, char *entry)
{
    if (entry)
        to->entries[to->count++] = entry;
    else
        to->failed = true;
}

static char *entry_of(const char *name, const char *value)
{
    char *entry;
    return asprintf(&entry, "%s=%s", name, value) < 0 ? NULL : entry;
}

/* True if the driver's hooks should be loaded: if there can be a driver, or on request. */
static bool wants_hooks(const struct mp_launch *launch, const char *hooks)
{
    if (!launch->hooks || access(hooks, R_OK)) return false;
    void *driver = launch->cupti ? dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL) : NULL;
    if (driver) dlclose(driver);
    return driver || !launch->cupti;
}

static void add_preloads(struct additions *to, const struct mp_launch *launch)
{
    char hooks[PATH_MAX], all[4 * PATH_MAX];
    const char *slash = strrchr(launch->library, '/');
    int folder = slash ? (int)(slash - launch->library) + 1 : 0;
    int used = snprintf(all, sizeof all, "%s", launch->library);
    snprintf(hooks, sizeof hooks, "%.*slibmemprof-hooks.so", folder, launch->library);
    if (wants_hooks(launch, hooks)) used += snprintf(all + used, sizeof all - (size_t)used, ":%s", hooks);
    if (launch->host)
        used += snprintf(all + used, sizeof all - (size_t)used, ":%.*slibmemprof-malloc.so", folder, launch->library);
    add_variable(to, prepended("LD_PRELOAD", all));
    /* A stand-in GPU goes along. */
    const char *stand_in = getenv("SOFTGPU_ON") ? getenv("LD_PRELOAD") : NULL;
    if (stand_in) snprintf(all + used, sizeof all - (size_t)used, ":%s", stand_in);
    add_variable(to, entry_of(MP_PRELOAD_VARIABLE, all));
}

/* The shim's start comes first: Python runs only the first sitecustomize that it finds. memprof's sitecustomize runs
 * the program's afterwards. */
static void add_python_path(struct additions *to, const struct mp_launch *launch)
{
    char both[2 * PATH_MAX];
    snprintf(both, sizeof both, "%s/start:%s", launch->python_folder, launch->python_folder);
    const char *path = launch->shim ? both : launch->python_folder;
    add_variable(to, prepended("PYTHONPATH", path));
    add_variable(to, entry_of(MP_PYTHON_VARIABLE, path));
}

static void add_all(struct additions *to, const struct mp_launch *launch)
{
    char session[PATH_MAX];
    snprintf(session, sizeof session, "%c;%s", MP_SESSION_VERSION, launch->socket_path);
    add_preloads(to, launch);
    add_variable(to, entry_of(MP_SESSION_VARIABLE, session));
    /* An injection of another tool stays, because there can be only one of each kind. */
    if (!getenv(MP_NVTX_VARIABLE)) add_variable(to, entry_of(MP_NVTX_VARIABLE, launch->library));
    if (launch->cupti && !getenv(MP_CUDA_VARIABLE)) add_variable(to, entry_of(MP_CUDA_VARIABLE, launch->library));
    /* For gcc's address sanitizer, which expects to be loaded first in the program. */
    add_variable(to, prepended("ASAN_OPTIONS", MP_ASAN_OPTION));
    if (launch->libunwind) add_variable(to, entry_of(MP_UNWIND_VARIABLE, "libunwind"));
    if (launch->python_folder) add_python_path(to, launch);
    const char *hook = getenv(MP_RAY_VARIABLE); /* one of the program's own runs first */
    bool is_new = hook && *hook && strcmp(hook, MP_RAY_HOOK) != 0;
    if (launch->python_folder && is_new) add_variable(to, entry_of("MEMPROF_RAY_HOOK", hook));
    if (launch->python_folder) add_variable(to, entry_of(MP_RAY_VARIABLE, MP_RAY_HOOK));
    if (launch->shim && launch->host_holders) add_variable(to, entry_of("MEMPROF_HOST_HOLDERS", "1"));
    if (launch->shim && launch->step_at && *launch->step_at)
        add_variable(to, entry_of("MEMPROF_STEP_AT", launch->step_at));
}

static bool is_one_of(const char *entry, char *const *added)
{
    for (; *added; added++) {
        size_t name = (size_t)(strchr(*added, '=') - *added) + 1;
        if (!strncmp(entry, *added, name)) return true;
    }
    return false;
}

/* The current environment with `added` in it; only the array is allocated. */
static char **environment_with(char *const *added)
{
    size_t count = 0, extra = 0;
    while (environ[count])
        count++;
    while (added[extra])
        extra++;
    char **result = malloc((count + extra + 1) * sizeof *result);
    if (!result) return NULL;
    size_t used = 0;
    for (size_t i = 0; i < count; i++)
        if (!is_one_of(environ[i], added)) result[used++] = environ[i];
    for (size_t i = 0; i <= extra; i++)
        result[used++] = added[i];
    return result;
}

#define STACK_WANTED (UINT64_C(1) << 20)
#define STACK_LEAST  (UINT64_C(64) << 10)

static struct rlimit given_stack, own_stack; /* they differ if the limit was raised */

enum mp_status mp_launch_stack(struct mp_error *error)
{
    if (getrlimit(RLIMIT_STACK, &given_stack)) return MP_OK;
    own_stack = given_stack;
    if (given_stack.rlim_cur >= STACK_WANTED) return MP_OK;
    own_stack.rlim_cur = given_stack.rlim_max < STACK_WANTED ? given_stack.rlim_max : STACK_WANTED;
    if (own_stack.rlim_cur < STACK_LEAST)
        return mp_fail(error, MP_LIMIT,
                       "memprof needs %u KiB of stack, and the limit is %llu KiB (ulimit -s): set it for the command "
                       "alone, as in memprof snapshot -- sh -c 'ulimit -s 32; exec COMMAND'",
                       (unsigned)(STACK_LEAST >> 10), (unsigned long long)given_stack.rlim_max >> 10);
    setrlimit(RLIMIT_STACK, &own_stack);
    return MP_OK;
}

static void set_stack_limit(const struct rlimit *limit)
{
    if (given_stack.rlim_cur != own_stack.rlim_cur) setrlimit(RLIMIT_STACK, limit);
}

/* Runs a script without its first line in /bin/sh, as a shell and execvp() do. */
static int spawn_script(pid_t *pid, const posix_spawnattr_t *attributes, char *const *command, char **environment)
{
    static char shell[] = "/bin/sh";
    size_t count = 0;
    while (command[count])
        count++;
    char **with_shell = malloc((count + 2) * sizeof *with_shell);
    if (!with_shell) return ENOMEM;
    with_shell[0] = shell;
    memcpy(with_shell + 1, command, (count + 1) * sizeof *with_shell);
    int failed = posix_spawn(pid, shell, NULL, attributes, with_shell, environment);
    free(with_shell);
    return failed;
}

enum mp_status mp_launch_command(const struct mp_launch *launch, pid_t *pid, int *exec_errno, struct mp_error *error)
{
    struct additions added = {0};
    add_all(&added, launch);
    char **environment = added.failed ? NULL : environment_with(added.entries);
    *exec_errno = 0;
    enum mp_status status = MP_OK;
    if (!environment) {
        status = mp_fail(error, MP_NO_MEMORY, "out of memory for the command's environment");
    } else {
        posix_spawnattr_t attributes;
        posix_spawnattr_init(&attributes);
        posix_spawnattr_setsigmask(&attributes, &launch->mask);
        posix_spawnattr_setsigdefault(&attributes, &launch->default_signals);
        posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
        set_stack_limit(&given_stack);
        *exec_errno = posix_spawnp(pid, launch->command[0], NULL, &attributes, launch->command, environment);
        if (*exec_errno == ENOEXEC && strchr(launch->command[0], '/'))
            *exec_errno = spawn_script(pid, &attributes, launch->command, environment);
        set_stack_limit(&own_stack);
        posix_spawnattr_destroy(&attributes);
        errno = *exec_errno;
        if (*exec_errno) status = mp_fail_errno(error, "cannot run %s", launch->command[0]);
    }
    free(environment);
    for (size_t i = 0; i < added.count; i++)
        free(added.entries[i]);
    return status;
}
