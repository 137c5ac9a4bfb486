#include "collect/doctor/doctor.h"

#include <dlfcn.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "collect/device/device_watch.h"
#include "collect/device/nvml.h"
#include "collect/doctor/doctor_cupti.h"
#include "collect/doctor/doctor_python.h"
#include "collect/session/launch.h"
#include "wire/config.h"

/* ---- driver and devices ---- */

static void list_devices(FILE *out, const void *context)
{
    struct mp_nvml *nvml;
    struct mp_error error;
    struct mp_gpus gpus = {0};
    char version[80], total[MP_UNIT_TEXT];
    int cuda;
    (void)context; /* unused */
    enum mp_status status = mp_nvml_open(&nvml, &error);
    if (status) {
        fprintf(out, "%s\n%s", status == MP_NOT_FOUND ? "absent" : "broken", error.text);
        return;
    }
    mp_nvml_versions(nvml, version, &cuda);
    fprintf(out, "%s, CUDA %d.%d\n", *version ? version : "version unknown", cuda / 1000, cuda % 1000 / 10);
    (void)mp_nvml_gpus(nvml, &gpus, &error);
    for (size_t i = 0; i < gpus.count; i++)
        fprintf(out, "%s, %s, %s\n", gpus.at[i].name, mp_format_bytes(total, gpus.at[i].total_bytes), gpus.at[i].uuid);
    mp_nvml_close(nvml);
}

/* The message for a missing driver. In a container without the driver's libraries, only the kernel's side is
 * visible. */
static const char *advice_without_driver(void)
{
    if (!access("/proc/driver/nvidia/version", F_OK) || !access("/dev/nvidiactl", F_OK))
        return "the kernel has NVIDIA's driver, but its libraries are not here: in a container start it with --gpus "
               "all "
               "(NVIDIA Container Toolkit)";
    return "no GPU of NVIDIA can be used here: memprof plan -- COMMAND runs a PyTorch program for CUDA without one; "
           "tensors on the CPU and allocators that use memprof.h are recorded all the same";
}

static void check_driver(struct mp_checks *checks)
{
    char answer[MP_ANSWER_ROOM], *rest = answer;
    bool whole = mp_doctor_ask(list_devices, NULL, answer);
    const char *first = strsep(&rest, "\n");
    unsigned number = 0;
    if (!whole || !strcmp(first, "broken")) {
        mp_doctor_add(checks, "driver", MP_CHECK_LIMITED,
                      "device totals are not recorded; nvidia-smi should say the same, and why", "%s",
                      whole && rest ? rest : "NVML does not answer");
        return;
    }
    if (!strcmp(first, "absent")) {
        mp_doctor_add(checks, "driver", MP_CHECK_ABSENT, advice_without_driver(), "none: %s", rest);
        return;
    }
    mp_doctor_add(checks, "driver", MP_CHECK_OK, NULL, "%s", first);
    for (char *line; (line = strsep(&rest, "\n")) && *line; number++)
        mp_doctor_add(checks, "device", MP_CHECK_OK, NULL, "%u %s", number, line);
    if (!number)
        mp_doctor_add(checks, "device", MP_CHECK_ABSENT,
                      "the driver lists no device that this user may use; nvidia-smi -L lists all", "none");
}

/* ---- what the recorder needs ----- */

static void open_library(FILE *out, const void *name)
{
    if (dlopen(name, RTLD_NOW | RTLD_LOCAL)) fputs("there", out);
}

/* On x86-64 the recorder walks stacks by itself. */
static void check_libunwind(struct mp_checks *checks, const char *recorder)
{
#if !defined(__x86_64__)
    char answer[MP_ANSWER_ROOM], bundled[PATH_MAX];
    snprintf(bundled, sizeof bundled, "%.*s/" MP_LIBUNWIND_SONAME, (int)(strrchr(recorder, '/') - recorder), recorder);
    bool there = (mp_doctor_ask(open_library, bundled, answer) && *answer) ||
                 (mp_doctor_ask(open_library, MP_LIBUNWIND_SONAME, answer) && *answer);
    mp_doctor_add(checks, "libunwind", there ? MP_CHECK_OK : MP_CHECK_LIMITED,
                  there ? NULL : "stacks may lack their native frames; install libunwind8 (" MP_LIBUNWIND_SONAME ")",
                  there ? MP_LIBUNWIND_SONAME : "not found");
#else
    (void)checks, (void)recorder, (void)open_library;
#endif
}

static void check_recorder(struct mp_checks *checks)
{
    char *library, *folder;
    struct mp_error error;
    if (mp_launch_find_library(&library, &folder, &error)) {
        mp_doctor_add(checks, "recorder", MP_CHECK_ABSENT, "nothing can be recorded; install memprof whole", "%s",
                      error.text);
        return;
    }
    mp_doctor_add(checks, "recorder", folder ? MP_CHECK_OK : MP_CHECK_LIMITED,
                  folder ? NULL : "the module libmemprof is not there: `import libmemprof` will fail", "%s", library);
    check_libunwind(checks, library);
    free(library);
    free(folder);
}

#define ROOM_WANTED (UINT64_C(256) << 20) /* with less, a spool of some threads does not fit */

static void check_room(struct mp_checks *checks)
{
    const char *const folders[] = {getenv("XDG_RUNTIME_DIR"), "/dev/shm"};
    char size[MP_UNIT_TEXT];
    for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
        struct statfs facts;
        if (!folders[i] || statfs(folders[i], &facts) || access(folders[i], W_OK)) continue;
        uint64_t room = (uint64_t)facts.f_bavail * (uint64_t)facts.f_bsize;
        bool enough = room >= ROOM_WANTED;
        mp_doctor_add(checks, "shared memory", enough ? MP_CHECK_OK : MP_CHECK_LIMITED,
                      enough ? NULL
                             : "small: if it is too small, the spool goes to the output's folder, or many threads at "
                               "once lose events; docker run --shm-size=1g gives more",
                      "%s, %s free", folders[i], mp_format_bytes(size, room));
        return;
    }
    mp_doctor_add(checks, "shared memory", MP_CHECK_LIMITED,
                  "the spool goes to the output's folder, if that is on a local disk", "no folder for it");
}

static void check_ptrace(struct mp_checks *checks)
{
    static const char *const meanings[] = {"any process of the same user", "own children only", "root only",
                                           "nobody at all"};
    FILE *file = fopen("/proc/sys/kernel/yama/ptrace_scope", "re");
    int scope = 0;
    if (file && fscanf(file, "%d", &scope) != 1) scope = 0;
    if (file) fclose(file);
    if (scope < 0 || scope > 3) scope = 3;
    mp_doctor_add(checks, "ptrace", scope ? MP_CHECK_LIMITED : MP_CHECK_OK,
                  scope ? "programs that memprof starts are recorded all the same; to debug others: sysctl "
                          "kernel.yama.ptrace_scope=0"
                        : NULL,
                  "scope %d: %s", scope, meanings[scope]);
}

/* Looks for other libraries that the environment would load into the command. */
static void check_environment(struct mp_checks *checks)
{
    static const char *const taken[][2] = {
        {"LD_PRELOAD", "loaded with the recorder; a library that replaces dlsym may hide the program from it"},
        {"CUDA_INJECTION64_PATH", "another tool (Nsight Systems, compute-sanitizer) gets CUPTI first: memprof "
                                  "records through driver hooks; unset it to record with CUPTI"},
        {MP_NVTX_VARIABLE, "NVTX ranges go to that tool and are no regions; unset it to record them"}};
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        const char *value = getenv(taken[i][0]);
        if (value && *value)
            mp_doctor_add(checks, "environment", MP_CHECK_LIMITED, taken[i][1], "%s=%s", taken[i][0], value);
    }
}

void mp_doctor_examine(struct mp_checks *checks)
{
    char site[PATH_MAX] = "";
    struct mp_checks python = {0};
    mp_doctor_python(&python, site);
    check_driver(checks);
    mp_doctor_cupti(checks, site);
    mp_vec_add_all(checks, python.at, python.count);
    mp_vec_free(&python);
    check_recorder(checks);
    check_room(checks);
    check_ptrace(checks);
    check_environment(checks);
}
