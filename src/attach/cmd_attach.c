#include "attach/attach.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "base/vec.h"
#include "cli/command.h"
#include "cli/invocation.h"
#include "cli/record/snapshot_closing.h"

static int read_pid(const char *text, uint32_t *pid)
{
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    *pid = (uint32_t)number;
    if (*text >= '0' && *text <= '9' && !*end && !errno && number > 0 && number <= INT_MAX) return MP_EXIT_DONE;
    return mp_refuse("attach %s: give the number of a running process", text);
}

static int read_options(const struct mp_invocation *invocation, struct mp_attach_options *options)
{
    const char *stacks = invocation->value[MP_OPT_STACKS], *duration = invocation->value[MP_OPT_FOR],
               *most = invocation->value[MP_OPT_MAX_OVERHEAD];
    struct mp_record_config *record = &options->record;
    mp_record_config_defaults(record);
    record->attached = true;
    record->shim = record->torch_history = record->follow = record->cupti = record->hooks = false;
    record->free_stacks = mp_given(invocation, MP_OPT_FREE_STACKS);
    if (stacks) {
        record->native_stacks = strstr(stacks, "native") != NULL;
        record->python_stacks = strstr(stacks, "python") != NULL;
        if (strcmp(stacks, "native,python") && strcmp(stacks, "python,native") && strcmp(stacks, "native") &&
            strcmp(stacks, "python") && strcmp(stacks, "none")) {
            return mp_refuse("--stacks %s: give native,python, native, python or none", stacks);
        }
    }
    if (duration && (!mp_parse_duration(duration, &options->for_ns) || !options->for_ns))
        return mp_refuse("--for %s: give a time, such as 60s or 5min", duration);
    if (most) {
        char *end;
        double percent = strtod(most, &end);
        options->overhead_most = percent / 100;
        if (end == most || strcmp(end, *end == '%' ? "%" : "") || !(percent > 0) || percent > 100)
            return mp_refuse("--max-overhead %s: give a share of the time, such as 5%%", most);
    }
    int status = mp_option_unwind(invocation, &record->libunwind);
    if (!status) status = mp_option_number(invocation, MP_OPT_DEPTH, 8, MP_DEPTH_MAX, &record->depth);
    return status ? status : mp_option_number(invocation, MP_OPT_MAX_EVENTS, 1, UINT32_MAX, &record->max_events);
}

/* The file's absolute path, freed by the caller; NULL after a message. */
static char *find_output(const struct mp_invocation *invocation, uint32_t pid)
{
    const char *given = invocation->value[MP_OPT_OUTPUT];
    char folder[PATH_MAX];
    struct stat facts;
    if (given && (!*given || !strcmp(given, "-") || given[strlen(given) - 1] == '/' ||
                  (!stat(given, &facts) && S_ISDIR(facts.st_mode)))) {
        mp_message("-o needs the name of a file");
        return NULL;
    }
    if (!getcwd(folder, sizeof folder)) {
        mp_message("cannot tell the current folder: %s", strerror(errno));
        return NULL;
    }
    char *path = !given          ? mp_text_make("%s/attach.%u.mp", folder, (unsigned)pid)
                 : *given == '/' ? mp_text_copy(given)
                                 : mp_text_make("%s/%s", folder, given);
    char *slash = strrchr(path, '/');
    *slash = '\0';
    bool good = !access(*path ? path : "/", W_OK);
    if (!good) mp_message("cannot write in %s: %s; nothing was attached", *path ? path : "/", strerror(errno));
    *slash = '/';
    if (good && !mp_given(invocation, MP_OPT_FORCE) && !lstat(path, &facts)) {
        mp_message("%s is already there; choose another name or add --force. Nothing was attached", path);
        good = false;
    }
    if (good) return path;
    free(path);
    return NULL;
}

/* Context of the callbacks. */
struct attaching {
    const struct mp_invocation *invocation;
    struct mp_attach_options *options;
    MP_VEC(pid_t) children; /* pids of further memprofs, one for each child of the program */
    bool told;              /* that there are too many */
};

static void say(void *context, const char *sentence)
{
    const struct attaching *attaching = context;
    if (!mp_given(attaching->invocation, MP_OPT_QUIET)) mp_message("%s", sentence);
}

static void say_attached(void *context, unsigned probes, uint64_t took_ns)
{
    const struct attaching *attaching = context;
    const struct mp_invocation *invocation = attaching->invocation;
    char took[MP_UNIT_TEXT];
    if (mp_given(invocation, MP_OPT_QUIET)) return;
    if (!probes && !attaching->options->is_child)
        mp_message("process %u has neither PyTorch nor CUDA: waiting for children of it that do; Ctrl-C detaches",
                   (unsigned)attaching->options->pid);
    else
        mp_message("attached to process %u with %u probes in %s; %s", (unsigned)attaching->options->pid, probes,
                   mp_format_duration(took, took_ns),
                   invocation->value[MP_OPT_FOR] ? "detaches by itself" : "Ctrl-C detaches");
}

static int attach(struct attaching *attaching, bool is_child)
{
    const struct mp_invocation *invocation = attaching->invocation;
    struct mp_collector_result result = {0};
    struct mp_error error;
    int status = MP_EXIT_DONE;
    if (mp_attach_run(attaching->options, &result, &error)) {
        status = is_child && error.status != MP_IO ? MP_EXIT_COULD_NOT : mp_message_error(&error);
    } else if (result.recordings.count) {
        const struct mp_collector_options shown = {.output = attaching->options->output,
                                                   .record = attaching->options->record};
        bool whole = mp_snapshot_report(&result, &shown, mp_given(invocation, MP_OPT_QUIET),
                                        mp_given(invocation, MP_OPT_VERBOSE));
        if (!whole && mp_given(invocation, MP_OPT_STRICT)) status = MP_EXIT_INCOMPLETE;
    } else if (!is_child && !attaching->children.count) {
        mp_message("nothing was allocated while memprof was attached; no file was written");
    }
    mp_collector_result_free(&result);
    return status;
}

/* Waits for the memprofs of the children, unless memprof was detached from a running program: its children then run,
 * too. */
static int end_children(struct attaching *attaching)
{
    struct pollfd program = {.fd = (int)syscall(SYS_pidfd_open, attaching->options->pid, 0), .events = POLLIN};
    bool detached = program.fd >= 0 && !poll(&program, 1, 0);
    int status = MP_EXIT_DONE, how;
    if (program.fd >= 0) close(program.fd);
    for (size_t i = 0; i < attaching->children.count; i++) {
        if (detached) kill(attaching->children.at[i], SIGINT);
        if (waitpid(attaching->children.at[i], &how, 0) > 0 && WIFEXITED(how) && WEXITSTATUS(how) == MP_EXIT_INCOMPLETE)
            status = MP_EXIT_INCOMPLETE;
    }
    mp_vec_free(&attaching->children);
    return status;
}

static bool has_ended(pid_t memprof)
{
    siginfo_t fact = {.si_pid = 0};
    return !waitid(P_PID, (id_t)memprof, &fact, WEXITED | WNOHANG | WNOWAIT) && fact.si_pid;
}

static size_t count_running(const struct attaching *attaching)
{
    size_t running = 0;
    for (size_t i = 0; i < attaching->children.count; i++)
        running += !has_ended(attaching->children.at[i]);
    return running;
}

/* Starts another memprof for a child of the program. It does not inherit the probes of this memprof. */
static bool attach_child(void *context, uint32_t pid)
{
    enum { AT_A_TIME = 32 }; /* each takes some 10 MiB of the kernel's memory */
    struct attaching *attaching = context;
    if (count_running(attaching) >= AT_A_TIME) {
        if (!attaching->told)
            say(attaching, "32 children are recorded at a time: others are not, and the file says so");
        attaching->told = true;
        return false;
    }
    struct mp_attach_options *options = attaching->options;
    fflush(NULL);
    pid_t memprof = fork();
    if (memprof > 0) mp_vec_add(&attaching->children, memprof);
    if (memprof) return memprof > 0;
    prctl(PR_SET_PDEATHSIG, SIGINT);
    syscall(SYS_close_range, 3, ~0u, 0);
    size_t length = strlen(options->output);
    int name = length > 3 && !strcmp(options->output + length - 3, ".mp") ? (int)length - 3 : (int)length;
    options->output = mp_text_make("%.*s.%u.mp", name, options->output, (unsigned)pid);
    options->pid = pid;
    options->chosen = options->is_child = true;
    options->for_ns = 0;
    attaching->children.count = 0;
    int status = attach(attaching, true), others = end_children(attaching);
    _exit(status ? status : others);
}

static int run_attach(const struct mp_invocation *invocation)
{
    struct mp_attach_options options = {.force = mp_given(invocation, MP_OPT_FORCE),
                                        .symbols = !mp_given(invocation, MP_OPT_NO_SYMBOLS),
                                        .keep_command = !mp_given(invocation, MP_OPT_NO_COMMAND),
                                        .say = say,
                                        .child = mp_given(invocation, MP_OPT_CHILDREN) ? attach_child : NULL,
                                        .attached = say_attached};
    struct attaching attaching = {.invocation = invocation, .options = &options};
    options.context = &attaching;
    int status = read_pid(invocation->operands[0], &options.pid);
    if (!status) status = read_options(invocation, &options);
    if (status) return status;
    char *output = find_output(invocation, options.pid);
    if (!output) return MP_EXIT_COULD_NOT;
    options.output = output;
    options.chosen = !mp_given(invocation, MP_OPT_OUTPUT);
    status = attach(&attaching, false);
    int others = end_children(&attaching);
    free(output);
    return status ? status : others;
}

const struct mp_command mp_command_attach = {
    .name = "attach",
    .summary = "record a program that already runs, from now on",
    .usage = "PID",
    .about =
        "Records allocations of PyTorch and of CUDA's driver in a running program, and writes a snapshot file that "
        "every "
        "command reads. The program is neither stopped nor changed: probes of the kernel watch it, and are gone when "
        "memprof ends, however it ends.\n\nBlocks from before are not in the file: growth is exact since then, totals "
        "are "
        "since then, too. Steps, regions, modules' names and holders need a program that was started by memprof "
        "snapshot.\n\nNeeds root, and Linux 5.17 or later on x86-64.",
    .example = "memprof attach 4711 --for 60s -o now.mp",
    .meanings = {{MP_OPT_OUTPUT, "the file (attach.PID.mp here)"},
                 {MP_OPT_STRICT, "exit with 4 if the recording is incomplete"}},
    .options = {MP_OPT_OUTPUT, MP_OPT_FORCE, MP_OPT_FOR, MP_OPT_STACKS, MP_OPT_FREE_STACKS, MP_OPT_UNWIND,
                MP_OPT_CHILDREN, MP_OPT_CHILDREN, MP_OPT_DEPTH, MP_OPT_MAX_EVENTS, MP_OPT_MAX_OVERHEAD,
                MP_OPT_NO_SYMBOLS, MP_OPT_NO_COMMAND, MP_OPT_QUIET, MP_OPT_VERBOSE, MP_OPT_STRICT},
    .operands_min = 1,
    .operands_max = 1,
    .run = run_attach,
};
