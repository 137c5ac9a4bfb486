#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/record/advise_try.h"
#include "cli/record/snapshot_record.h"
#include "collect/session/launch.h"
#include "plan/devices.h"
#include "plan/messages.h"
#include "plan/ranks.h"
#include "plan/size.h"
#include "plan/try.h"
#include "plan/words.h"

#define DEVICE_DEFAULT   "h100-80gb"
#define DEVICES_MAX      8
#define READY_DEFAULT    (15 * 60 * MP_NS_PER_SECOND)
#define SELECTED_DEFAULT 0.5
#define WORLD_MAX        65536

struct planning {
    struct mp_plan_device device;
    unsigned devices, rank, world;
    char values[16];
    double selected;
    uint64_t ready_ns; /* how long a server may take until it is ready */
    bool random;       /* random values are also made for the CPU's tensors */
    bool has_budget;   /* the user says how long a look for holders may take */
    char folder[PATH_MAX];
    char state[PATH_MAX]; /* file that counts the devices' memory in use while processes run; "": none */
};

/* ---- the user's options ---------------------------------------------------------------------------------------- */

static bool read_values(struct planning *planning, const char *text)
{
    static const char *const known[] = {"zeros", "ones", "host"};
    const char *comma = text ? strchr(text, ',') : NULL;
    size_t length = !text ? 0 : comma ? (size_t)(comma - text) : strlen(text);
    snprintf(planning->values, sizeof planning->values, "zeros");
    if (!text) return true;
    planning->random = comma && !strcmp(comma + 1, "random");
    for (size_t i = 0; i < sizeof known / sizeof *known && (!comma || planning->random); i++) {
        if (strlen(known[i]) != length || memcmp(known[i], text, length)) continue;
        snprintf(planning->values, sizeof planning->values, "%s", known[i]);
        return true;
    }
    mp_message("--values %s: give zeros, ones or host, followed by ,random if random values on the CPU matter", text);
    return false;
}

static bool read_selected(struct planning *planning, const char *text)
{
    char *end;
    planning->selected = SELECTED_DEFAULT;
    if (!text) return true;
    planning->selected = strtod(text, &end);
    if (*text && !*end && planning->selected >= 0 && planning->selected <= 1) return true;
    mp_message("--selected %s: give a share from 0 to 1, such as 0.25", text);
    return false;
}

static bool read_ready(struct planning *planning, const char *text)
{
    planning->ready_ns = READY_DEFAULT;
    if (!text || (mp_parse_duration(text, &planning->ready_ns) && planning->ready_ns >= MP_NS_PER_SECOND)) return true;
    mp_message("--ready-within %s: give a time of at least 1s, such as 30m", text);
    return false;
}

/* Finds the folder of the stand-in libraries: next to the program, in the build, or in the installation. */
static bool find_folder(char folder[PATH_MAX])
{
    static const char *const drivers[] = {"src/softgpu/lib/libcuda.so.1", "softgpu/lib/libcuda.so.1",
                                          "../lib/memprof/softgpu/lib/libcuda.so.1",
                                          PKGLIBDIR "/softgpu/lib/libcuda.so.1"};
    char *driver = mp_launch_find(drivers, sizeof drivers / sizeof *drivers);
    char *lib = driver ? strstr(driver, "/lib/libcuda.so") : NULL;
    snprintf(folder, PATH_MAX, "%.*s", lib ? (int)(lib - driver) : 0, driver ? driver : "");
    free(driver);
    if (!*folder)
        mp_message("the stand-in GPU is not installed: there is no %s", drivers[3]);
    else if (strpbrk(folder, ": \t\n"))
        mp_message("the loader cannot preload libraries from %s: a colon or a space would end the path", folder);
    else
        return true;
    return false;
}

/* Finds the device, or prints the list and sets *listed. In a build that is not installed, the list is among the
 * sources. */
static enum mp_status find_device(const struct mp_invocation *invocation, struct planning *planning, bool *listed,
                                  struct mp_error *error)
{
    const char *wanted = invocation->value[MP_OPT_DEVICE];
    char path[PATH_MAX + 32];
    snprintf(path, sizeof path, "%s/devices", planning->folder);
    const char *folder = access(path, R_OK) ? MP_SOURCE_DIR "/src/softgpu" : planning->folder;
    *listed = wanted && !strcmp(wanted, "list");
    return *listed ? mp_plan_devices_print(folder, error)
                   : mp_plan_device_find(folder, wanted ? wanted : DEVICE_DEFAULT, &planning->device, error);
}

/* ---- the stand-in GPU for the command ---------------------------------------------------------------------------- */

static bool set(const char *name, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool set(const char *name, const char *format, ...)
{
    char *value;
    va_list arguments;
    va_start(arguments, format);
    int made = vasprintf(&value, format, arguments);
    va_end(arguments);
    bool done = made >= 0 && !setenv(name, value, 1);
    if (made >= 0) free(value);
    return done;
}

/* Adds the stand-ins to LD_PRELOAD by path. When the command then looks for a library by run path, one of that name is
 * already loaded. All major versions are added, since we do not know which one PyTorch needs; their symbols have
 * versions, so they do not clash. */
static bool preload(const struct planning *planning)
{
    static const char *const libraries[] = {
        "lib/libcuda.so.1",       "lib/libnvidia-ml.so.1",  "cuda/libnccl.so.2",      "cuda/libcudnn.so.9",
        "cuda/libcudart.so.12",   "cuda/libcublas.so.12",   "cuda/libcublasLt.so.12", "cuda/libcudart.so.13",
        "cuda/libcublas.so.13",   "cuda/libcublasLt.so.13", "cuda/libcudart.so.11.0", "cuda/libcublas.so.11",
        "cuda/libcublasLt.so.11", "cuda/libcupti.so.12",    "cuda/libcupti.so.13",    "cuda/libsoftmath.so.1",
    };
    const char *present = getenv("LD_PRELOAD");
    struct mp_buffer list = {0};
    for (size_t i = 0; i < sizeof libraries / sizeof *libraries; i++)
        mp_buffer_printf(&list, "%s%s/%s", i ? ":" : "", planning->folder, libraries[i]);
    if (present && *present) mp_buffer_printf(&list, ":%s", present);
    bool done = !setenv("LD_PRELOAD", mp_buffer_text(&list), 1);
    mp_buffer_free(&list);
    return done;
}

/* Makes the folder through which the ranks on several devices exchange small data (src/softgpu/nccl). */
static bool make_messages(const struct planning *planning)
{
    unsetenv("SOFTGPU_MESSAGES");
    if (planning->devices < 2 || planning->world > 1) return true;
    char folder[PATH_MAX + 16];
    snprintf(folder, sizeof folder, "%s.messages", planning->state);
    return !mkdir(folder, 0700) && set("SOFTGPU_MESSAGES", "%s", folder);
}

static void remove_messages(void)
{
    const char *folder = getenv("SOFTGPU_MESSAGES");
    DIR *open = folder ? opendir(folder) : NULL;
    for (const struct dirent *one; open && (one = readdir(open));)
        unlinkat(dirfd(open), one->d_name, 0);
    if (open) closedir(open), rmdir(folder);
}

static bool make_state(struct planning *planning)
{
    const char *parent = getenv("TMPDIR");
    snprintf(planning->state, sizeof planning->state, "%s/memprof-plan-XXXXXX", parent && *parent ? parent : "/tmp");
    int file = mkstemp(planning->state);
    if (file < 0) {
        *planning->state = '\0';
        return false;
    }
    close(file);
    return set("SOFTGPU_STATE", "%s", planning->state);
}

/* Sets up the environment, which the command inherits. Loads NVML's stand-in into this process, too: a real GPU's
 * memory must not enter the plan. */
static bool set_up(struct planning *planning)
{
    const struct mp_plan_device *device = &planning->device;
    char nvml[PATH_MAX + 32];
    snprintf(nvml, sizeof nvml, "%s/lib/libnvidia-ml.so.1", planning->folder);
    struct mp_buffer profile = {0};
    mp_plan_device_profile(device, &profile);
    unsetenv("CUDA_VISIBLE_DEVICES");
    bool done = make_state(planning) && make_messages(planning) && preload(planning) && set("SOFTGPU_ON", "plan") &&
                set("SOFTGPU_MEMORY", "%llu", (unsigned long long)device->total) &&
                set("SOFTGPU_CONTEXT", "%llu", (unsigned long long)device->context) &&
                set("SOFTGPU_DEVICES", "%u", planning->devices) && set("SOFTGPU_VALUES", "%s", planning->values) &&
                set("SOFTGPU_SELECTED", "%g", planning->selected) &&
                set("SOFTGPU_PROFILE", "kernels=1;%s", mp_buffer_text(&profile)) &&
                set("TRITON_LIBCUDA_PATH", "%s/lib", planning->folder) && /* Triton would ask ldconfig, which does not
                                                                           * know the stand-in */
                set("MEMPROF_PLAN", "random=%s;values=%s;rank=%u;world=%u;ready=%llu",
                    planning->random ? "made" : "left", planning->values, planning->rank, planning->world,
                    (unsigned long long)(planning->ready_ns / MP_NS_PER_SECOND));
    mp_buffer_free(&profile);
    if (done && dlopen(nvml, RTLD_NOW | RTLD_GLOBAL)) return true;
    mp_message("cannot set up the stand-in GPU: %s", done ? dlerror() : strerror(errno));
    return false;
}

/* ---- the command --------------------------------------------------------------------------------------------------
 */

static void prepare(void *context, struct mp_record_config *config)
{
    const struct planning *planning = context;
    config->cupti = false;
    config->hooks = config->torch = config->operators = true;
    config->cpu_tensors = config->cpu_throughout; /* only if --capture asks */
    config->holders = true;
    if (!planning->has_budget) config->holders_ms = MP_HOLDERS_MS_MOST; /* its time is not the user's */
    snprintf(config->plan, sizeof config->plan, "%.63s|%llu|%llu|%s|%u|%u|%u|%g", planning->device.key,
             (unsigned long long)planning->device.total, (unsigned long long)planning->device.context, planning->values,
             planning->devices, planning->rank, planning->world, planning->selected);
}

static bool report(void *context, struct mp_collector_result *result, bool quiet)
{
    const struct planning *planning = context;
    return mp_plan_report(result, &planning->device, quiet);
}

static int run_plan(const struct mp_invocation *invocation)
{
    struct planning planning = {.devices = 1, .world = 1, .has_budget = mp_given(invocation, MP_OPT_BUDGET)};
    struct mp_error error;
    bool all = mp_given(invocation, MP_OPT_RANK) && !strcmp(invocation->value[MP_OPT_RANK], "all");
    bool listed;
    if (!find_folder(planning.folder)) return MP_EXIT_COULD_NOT;
    enum mp_status found = find_device(invocation, &planning, &listed, &error);
    if (listed) return found ? mp_message_error(&error) : MP_EXIT_DONE;
    if (!invocation->operand_count) {
        mp_message("plan needs a command: memprof plan --device " DEVICE_DEFAULT " -- python3 train.py");
        return MP_EXIT_USAGE;
    }
    if (mp_option_number(invocation, MP_OPT_DEVICES, 1, DEVICES_MAX, &planning.devices) ||
        mp_option_number(invocation, MP_OPT_WORLD_SIZE, 1, WORLD_MAX, &planning.world) ||
        (!all && mp_option_number(invocation, MP_OPT_RANK, 0, WORLD_MAX - 1, &planning.rank)) ||
        !read_values(&planning, invocation->value[MP_OPT_VALUES]) ||
        !read_selected(&planning, invocation->value[MP_OPT_SELECTED]) ||
        !read_ready(&planning, invocation->value[MP_OPT_READY_WITHIN]))
        return MP_EXIT_USAGE;
    if (planning.rank >= planning.world) {
        mp_message("--rank %u: there are %u ranks, from 0 (--world-size)", planning.rank, planning.world);
        return MP_EXIT_USAGE;
    }
    if (found) {
        mp_message("--device %s: %s", invocation->value[MP_OPT_DEVICE] ? invocation->value[MP_OPT_DEVICE] : "",
                   error.text);
        return MP_EXIT_USAGE;
    }
    if (mp_given(invocation, MP_OPT_SIZE)) return mp_plan_size(invocation, &planning.device);
    if (mp_given(invocation, MP_OPT_TRY)) return mp_plan_try(invocation);
    if (mp_given(invocation, MP_OPT_ADVISE)) return mp_advise_try(invocation, ~0u, mp_plan_words);
    if (all) return mp_plan_ranks(invocation, &planning.device);
    int status = set_up(&planning) ? MP_EXIT_DONE : MP_EXIT_COULD_NOT;
    if (!status) status = mp_snapshot_record(invocation, &(struct mp_snapshot_way){&planning, "plan", prepare, report});
    remove_messages();
    if (*planning.state) unlink(planning.state);
    return status;
}

const struct mp_command mp_command_plan = {
    .name = "plan",
    .summary = "run a command on a stand-in GPU, to see if it fits a real one",
    .usage = "-- COMMAND [ARGUMENT...]",
    .about =
        "Runs the command with its own CUDA build of PyTorch or JAX, without a GPU and without a driver, on stand-ins "
        "of "
        "NVIDIA's libraries that compute nothing. PyTorch's own code runs and decides its memory: it allocates and "
        "reserves the same as on the device. Memory runs out at the same moment as on the device. The "
        "result is a recording like any other. The memory of the CUDA context and NVIDIA's libraries is estimated and "
        "listed separately.\n\n"
        "Nothing is computed, so values that the program reads back from the device are made up as --values says. The "
        "sites of such reads are listed at the end. Numbers are finite, a test of all elements holds, one of "
        "any does not. If conditions decide sizes (nonzero, masks), --selected gives the share that is selected. "
        "Experts "
        "get equally many rows.\n\n"
        "--size batch=8 plans the command with other numbers in place of {batch}, or of 8 in the command, until it has "
        "the largest that fits; it writes no recording. --advise plans it once with each advised change that can be "
        "made "
        "from outside, and shows what that saved. A server (vllm serve, sglang.launch_server) ends when it is "
        "ready; "
        "a config.json is enough of its model, and --try max_num_batched_tokens=2048,kv_cache_dtype=fp8 plans it with "
        "other settings. Many ranks run as usual (torchrun with --devices). With --world-size the command is one rank "
        "of many, and the others need not exist. With --rank all it runs once for each stage of a pipeline, and the "
        "highest peak is shown.\n\n"
        "Exits with the command's own status.",
    .example = "memprof plan --device h100-80gb -- python3 train.py --batch-size 32",
    .meanings = {{MP_OPT_OUTPUT,
                  "the file, or the folder of a file for each process, as run/ (here, as COMMAND.PID.mp)"},
                 {MP_OPT_CAPTURE, "torch,cpu: record tensors on the CPU, too"},
                 {MP_OPT_ADVISE,
                  "plan the command as it is, and with each advised change that can be made from outside"}},
    .options = {MP_OPT_DEVICE,  MP_OPT_DEVICES,     MP_OPT_CAPTURE,    MP_OPT_SIZE,         MP_OPT_TRY,
                MP_OPT_ADVISE,  MP_OPT_COLOR,       MP_OPT_VALUES,     MP_OPT_SELECTED,     MP_OPT_WORLD_SIZE,
                MP_OPT_RANK,    MP_OPT_OUTPUT,      MP_OPT_FORCE,      MP_OPT_READY_WITHIN, MP_OPT_JSON,
                MP_OPT_STACKS,  MP_OPT_FREE_STACKS, MP_OPT_DEPTH,      MP_OPT_ON_OOM,       MP_OPT_STEP_RANGE,
                MP_OPT_STEP_AT, MP_OPT_NO_SYMBOLS,  MP_OPT_NO_COMMAND, MP_OPT_HOLDERS,      MP_OPT_BUDGET,
                MP_OPT_QUIET,   MP_OPT_STRICT},
    .operands_max = SIZE_MAX,
    .stops_at_operand = true,
    .run = run_plan,
};
