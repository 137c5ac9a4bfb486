#include "collect/doctor/doctor.h"

#include <dlfcn.h>
#include <errno.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/statfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/units.h"
#include "collect/device/nvml.h"
#include "collect/doctor/doctor_parts.h"
#include "collect/session/launch.h"
#include "wire/config.h"

#define ANSWER_WITHIN_NS (10 * MP_NS_PER_SECOND)

struct mp_check *mp_doctor_add(struct mp_checks *checks, const char *name, enum mp_check_state state, const char *found,
                               ...)
{
    struct mp_check check = {.name = name, .state = state};
    va_list arguments;
    va_start(arguments, found);
    vsnprintf(check.found, sizeof check.found, found, arguments);
    va_end(arguments);
    return mp_vec_push(checks, check) ? &checks->at[checks->count - 1] : NULL;
}

void mp_doctor_advise(struct mp_check *check, const char *advice, ...)
{
    va_list arguments;
    if (!check) return;
    va_start(arguments, advice);
    vsnprintf(check->advice, sizeof check->advice, advice, arguments);
    va_end(arguments);
}

/* ---- asking in a child ---- */

static bool await(pid_t child)
{
    int status;
    for (uint64_t end = mp_clock_monotonic_ns() + ANSWER_WITHIN_NS; mp_clock_monotonic_ns() < end; usleep(2000))
        if (waitpid(child, &status, WNOHANG)) return WIFEXITED(status) && !WEXITSTATUS(status);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    return false;
}

bool mp_doctor_ask(mp_doctor_question *ask, const void *context, char answer[MP_ANSWER_ROOM])
{
    char *shared = mmap(NULL, MP_ANSWER_ROOM, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    *answer = '\0';
    if (shared == MAP_FAILED) return false;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        /* Hides its output from the user. */
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr)) _exit(1);
        ask(shared, context);
        _exit(0);
    }
    bool done = child > 0 && await(child);
    memcpy(answer, shared, MP_ANSWER_ROOM - 1);
    answer[MP_ANSWER_ROOM - 1] = '\0';
    munmap(shared, MP_ANSWER_ROOM);
    return done;
}

static void read_answer(int from, char answer[MP_ANSWER_ROOM])
{
    size_t length = 0;
    struct pollfd wait = {.fd = from, .events = POLLIN};
    for (uint64_t end = mp_clock_monotonic_ns() + ANSWER_WITHIN_NS; length + 1 < MP_ANSWER_ROOM;) {
        uint64_t now = mp_clock_monotonic_ns();
        if (now >= end || poll(&wait, 1, (int)((end - now) / MP_NS_PER_MS) + 1) <= 0) break;
        ssize_t more = read(from, answer + length, MP_ANSWER_ROOM - 1 - length);
        if (more <= 0) break;
        length += (size_t)more;
    }
    answer[length] = '\0';
}

bool mp_doctor_run(char *const *command, char answer[MP_ANSWER_ROOM])
{
    int ends[2];
    *answer = '\0';
    if (pipe(ends)) return false;
    fflush(NULL);
    pid_t child = fork();
    if (!child) {
        close(ends[0]);
        if (dup2(ends[1], STDOUT_FILENO) < 0 || !freopen("/dev/null", "r", stdin) || !freopen("/dev/null", "w", stderr))
            _exit(126);
        execvp(command[0], command);
        _exit(127);
    }
    close(ends[1]);
    if (child > 0) read_answer(ends[0], answer);
    close(ends[0]);
    return child > 0 && await(child);
}

/* ---- driver and devices ---- */

static void list_devices(char answer[MP_ANSWER_ROOM], const void *context)
{
    struct mp_nvml *nvml;
    struct mp_error error;
    struct mp_gpus gpus = {0};
    char version[80], total[MP_UNIT_TEXT];
    int cuda;
    enum mp_status status = mp_nvml_open(&nvml, &error);
    if (status) {
        snprintf(answer, MP_ANSWER_ROOM, "%s%s", status == MP_NOT_FOUND ? "absent\n" : "broken\n", error.text);
        return;
    }
    mp_nvml_versions(nvml, version, &cuda);
    size_t used = (size_t)snprintf(answer, MP_ANSWER_ROOM, "%s, CUDA %d.%d\n", *version ? version : "version unknown",
                                   cuda / 1000, cuda % 1000 / 10);
    (void)mp_nvml_gpus(nvml, &gpus, &error);
    for (size_t i = 0; i < gpus.count && used + 300 < MP_ANSWER_ROOM; i++)
        used += (size_t)snprintf(answer + used, MP_ANSWER_ROOM - used, "%s, %s, %s\n", gpus.at[i].name,
                                 mp_format_bytes(total, gpus.at[i].total_bytes), gpus.at[i].uuid);
    mp_nvml_close(nvml);
}

/* Whether only the kernel's side of the driver is there: a container that was started without the libraries. */
static bool kernel_has_driver(void)
{
    return !access("/proc/driver/nvidia/version", F_OK) || !access("/dev/nvidiactl", F_OK);
}

static void advise_on_driver(struct mp_check *check)
{
    if (kernel_has_driver())
        mp_doctor_advise(check,
                         "the kernel has NVIDIA's driver, but its libraries are not here: in a container start it "
                         "with --gpus all (NVIDIA Container Toolkit)");
    else
        mp_doctor_advise(check,
                         "no GPU of NVIDIA's is to be used here; tensors on the CPU and allocators that announce "
                         "themselves are recorded all the same");
}

static bool check_driver(struct mp_checks *checks)
{
    char answer[MP_ANSWER_ROOM], *rest = answer;
    bool whole = mp_doctor_ask(list_devices, NULL, answer);
    char *first = strsep(&rest, "\n");
    struct mp_check *check;
    if (!whole || !strcmp(first, "broken")) {
        check = mp_doctor_add(checks, "driver", MP_CHECK_LIMITED, "%s", whole && rest ? rest : "NVML does not answer");
        mp_doctor_advise(check, "device totals are not recorded; nvidia-smi should say the same, and why");
        return check;
    }
    if (!strcmp(first, "absent")) {
        check = mp_doctor_add(checks, "driver", MP_CHECK_ABSENT, "none: %s", rest);
        advise_on_driver(check);
        return check;
    }
    if (!mp_doctor_add(checks, "driver", MP_CHECK_OK, "%s", first)) return false;
    unsigned number = 0;
    for (char *line; (line = strsep(&rest, "\n")) && *line; number++)
        if (!mp_doctor_add(checks, "device", MP_CHECK_OK, "%u %s", number, line)) return false;
    if (number) return true;
    check = mp_doctor_add(checks, "device", MP_CHECK_ABSENT, "none");
    mp_doctor_advise(check, "the driver lists no device that this user may use; nvidia-smi -L lists all");
    return check;
}

/* ---- the recorder's needs ---- */

static bool check_recorder(struct mp_checks *checks)
{
    char *library, *folder;
    struct mp_error error;
    struct mp_check *check;
    if (mp_launch_find_library(&library, &folder, &error)) {
        check = mp_doctor_add(checks, "recorder", MP_CHECK_ABSENT, "%s", error.text);
        mp_doctor_advise(check, "nothing can be recorded; install memprof whole");
        return check;
    }
    check = mp_doctor_add(checks, "recorder", folder ? MP_CHECK_OK : MP_CHECK_LIMITED, "%s", library);
    if (check && !folder) mp_doctor_advise(check, "the module libmemprof is not there: `import libmemprof` will fail");
    free(library);
    free(folder);
    return check;
}

#if defined(__x86_64__)
static bool check_libunwind(struct mp_checks *checks)
{
    (void)checks; /* unused */
    return true;
}
#else
static void open_libunwind(char answer[MP_ANSWER_ROOM], const void *library)
{
    char beside[PATH_MAX];
    const char *slash = strrchr(library, '/');
    snprintf(beside, sizeof beside, "%.*s/%s", (int)(slash - (const char *)library), (const char *)library,
             MP_LIBUNWIND_SONAME);
    const char *const candidates[] = {beside, MP_LIBUNWIND_SONAME};
    for (size_t i = 0; i < 2; i++) {
        if (!dlopen(candidates[i], RTLD_NOW | RTLD_LOCAL)) continue;
        snprintf(answer, MP_ANSWER_ROOM, "%s", candidates[i]);
        return;
    }
}

static bool check_libunwind(struct mp_checks *checks)
{
    char *library, *folder, answer[MP_ANSWER_ROOM];
    struct mp_error error;
    if (mp_launch_find_library(&library, &folder, &error)) return true;
    bool there = mp_doctor_ask(open_libunwind, library, answer) && *answer;
    struct mp_check *check =
        mp_doctor_add(checks, "libunwind", there ? MP_CHECK_OK : MP_CHECK_LIMITED, "%s", there ? answer : "not found");
    if (!there)
        mp_doctor_advise(check, "stacks may lack their native frames; install libunwind8 (" MP_LIBUNWIND_SONAME ")");
    free(library);
    free(folder);
    return check;
}
#endif

/* ---- room and rights ---- */

/* With less, a spool of some threads does not fit; and the consequence of that. */
#define ROOM_WANTED (UINT64_C(256) << 20)

static bool check_room(struct mp_checks *checks)
{
    const char *const folders[] = {getenv("XDG_RUNTIME_DIR"), "/dev/shm"};
    char size[MP_UNIT_TEXT];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct statfs facts;
        if (!folders[i] || statfs(folders[i], &facts) || access(folders[i], W_OK)) continue;
        uint64_t room = (uint64_t)facts.f_bavail * (uint64_t)facts.f_bsize;
        bool enough = room >= ROOM_WANTED;
        struct mp_check *check = mp_doctor_add(checks, "shared memory", enough ? MP_CHECK_OK : MP_CHECK_LIMITED,
                                               "%s, %s free", folders[i], mp_format_bytes(size, room));
        if (!enough)
            mp_doctor_advise(check, "small: where it does not suffice the spool goes to the output's folder, or many "
                                    "threads at once lose events; docker run --shm-size=1g gives more");
        return check;
    }
    struct mp_check *check = mp_doctor_add(checks, "shared memory", MP_CHECK_LIMITED, "no folder for it");
    mp_doctor_advise(check, "the spool goes to the output's folder, if that is on a local disk");
    return check;
}

static bool check_ptrace(struct mp_checks *checks)
{
    static const char *const meanings[] = {"any process of the same user", "own children only", "root only",
                                           "nobody at all"};
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    int scope = 0;
    if (file && fscanf(file, "%d", &scope) != 1) scope = 0;
    if (file) fclose(file);
    if (scope < 0 || scope > 3) scope = 3;
    struct mp_check *check =
        mp_doctor_add(checks, "ptrace", scope ? MP_CHECK_LIMITED : MP_CHECK_OK, "scope %d: %s", scope, meanings[scope]);
    if (scope)
        mp_doctor_advise(check, "programs that memprof starts are recorded all the same; to debug others: sysctl "
                                "kernel.yama.ptrace_scope=0");
    return check;
}

/* Other libraries that would be loaded into the command. */
static bool check_environment(struct mp_checks *checks)
{
    static const struct {
        const char *variable, *advice;
    } taken[] = {{"LD_PRELOAD", "loaded beside the recorder; one that replaces dlsym may hide the program from it"},
                 {"CUDA_INJECTION64_PATH",
                  "another tool (Nsight Systems, compute-sanitizer) comes first to CUPTI: memprof "
                  "records through driver hooks; unset it to record with CUPTI"},
                 {MP_NVTX_VARIABLE, "NVTX ranges go to that tool and are no regions; unset it to record them"}};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        const char *value = getenv(taken[i].variable);
        if (!value || !*value) continue;
        struct mp_check *check =
            mp_doctor_add(checks, "environment", MP_CHECK_LIMITED, "%s=%s", taken[i].variable, value);
        mp_doctor_advise(check, "%s", taken[i].advice);
        if (!check) return false;
    }
    return true;
}

static bool check_system(struct mp_checks *checks)
{
    return mp_doctor_add(checks, "system", MP_CHECK_OK, "glibc %s", gnu_get_libc_version());
}

enum mp_status mp_doctor_examine(struct mp_checks *checks, struct mp_error *error)
{
    char site[PATH_MAX] = "";
    struct mp_checks pythons = {0};
    bool done = mp_doctor_pythons(&pythons, site) && check_driver(checks) && mp_doctor_cupti(checks, site);
    for (size_t i = 0; i < pythons.count && done; i++)
        done = mp_vec_push(checks, pythons.at[i]);
    mp_vec_free(&pythons);
    if (done && check_recorder(checks) && check_libunwind(checks) && check_room(checks) && check_ptrace(checks) &&
        check_environment(checks) && check_system(checks))
        return MP_OK;
    return mp_fail(error, MP_NO_MEMORY, "out of memory while looking at this machine");
}

void mp_doctor_free(struct mp_checks *checks)
{
    mp_vec_free(checks);
}
