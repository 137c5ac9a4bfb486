#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/step_rule.h"
#include "base/units.h"
#include "base/words.h"
#include "cli/command.h"
#include "cli/record/snapshot_closing.h"
#include "cli/record/snapshot_messages.h"
#include "cli/record/snapshot_record.h"
#include "cli/running.h"
#include "collect/session/launch.h"
#include "collect/session/membership.h"
#include "collect/session/naming.h"
#include "format/new_file.h"

/* ---- options -------------------------------------------------------------------------------------------------- */

/* Calls `take` for each word of a comma-separated list, until it refuses one. */
static bool each_word(const char *list, bool (*take)(const char *word, struct mp_record_config *config),
                      struct mp_record_config *config)
{
    char words[256];
    if (snprintf(words, sizeof words, "%s", list) >= (int)sizeof words) return false;
    char *rest = words;
    for (char *word; (word = strsep(&rest, ","));)
        if (!take(word, config)) return false;
    return true;
}

static bool take_stacks(const char *word, struct mp_record_config *config)
{
    if (!strcmp(word, "native"))
        config->native_stacks = true;
    else if (!strcmp(word, "python"))
        config->python_stacks = true;
    else
        return !strcmp(word, "none");
    return true;
}

static bool take_capture(const char *word, struct mp_record_config *config)
{
    if (!strcmp(word, "torch"))
        config->torch = true;
    else if (!strcmp(word, "cpu"))
        config->torch = config->cpu_tensors = config->cpu_throughout = true;
    else if (!strcmp(word, "cupti"))
        config->cupti = true;
    else if (!strcmp(word, "hooks"))
        config->hooks = true;
    else if (!strcmp(word, "auto"))
        config->torch = config->cpu_tensors = config->cupti = config->hooks = true;
    else
        return false;
    return true;
}

static bool parse_stacks(const char *text, struct mp_record_config *config)
{
    config->native_stacks = config->python_stacks = false;
    return each_word(text, take_stacks, config);
}

static bool parse_capture(const char *text, struct mp_record_config *config)
{
    config->torch = config->cpu_tensors = config->cpu_throughout = config->cupti = config->hooks = false;
    return each_word(text, take_capture, config);
}

static bool parse_sample(const char *text, struct mp_record_config *config)
{
    uint64_t bytes;
    if (!mp_parse_bytes(text, &bytes) || !bytes || bytes > UINT32_MAX) return false;
    config->sample_bytes = (uint32_t)bytes;
    return true;
}

static bool parse_on_full(const char *text, struct mp_record_config *config)
{
    config->wait_when_full = !strcmp(text, "wait");
    return config->wait_when_full || !strcmp(text, "drop");
}

#define FILE_FROM_BYTES (UINT64_C(1) << 20) /* a child process of the command with fewer bytes is not worth a file */

/* Parses --follow: *from_bytes is the least peak for which a child process gets a file. */
static bool parse_follow(const char *text, struct mp_record_config *config, uint64_t *from_bytes)
{
    config->follow = strcmp(text, "no") != 0;
    *from_bytes = FILE_FROM_BYTES;
    if (!strcmp(text, "all")) *from_bytes = 0;
    return !strcmp(text, "yes") || !strcmp(text, "no") || !strcmp(text, "all") ||
           (*text >= '0' && *text <= '9' && mp_parse_bytes(text, from_bytes));
}

/* True if the pattern of a file's name has `letter` after a %. */
static bool has_sign(const char *pattern, char letter)
{
    const char *sign = pattern ? strchr(pattern, '%') : NULL;
    while (sign && sign[1] && sign[1] != letter)
        sign = strchr(sign + 2, '%');
    return sign && sign[1] == letter;
}

static int read_follow(const struct mp_invocation *invocation, struct mp_collector_options *options)
{
    const char *value = invocation->value[MP_OPT_FOLLOW];
    options->file_from_bytes = has_sign(invocation->value[MP_OPT_OUTPUT], 'p') ? 0 : FILE_FROM_BYTES;
    if (!value || parse_follow(value, &options->record, &options->file_from_bytes)) return MP_EXIT_DONE;
    return mp_refuse("--follow %s: give yes, no, all or an amount of memory, such as 64MiB", value);
}

/* Checks the range before the run. Otherwise hours of recording could end without steps. */
static bool parse_step_range(const char *text, struct mp_record_config *config)
{
    struct mp_step_rule rule;
    struct mp_error ignored;
    if (!*text ||
        snprintf(config->step_range, sizeof config->step_range, "%s", text) >= (int)sizeof config->step_range ||
        mp_step_rule_open(&rule, text, &ignored))
        return false;
    mp_step_rule_close(&rule);
    return true;
}

static bool parse_operators(const char *text, struct mp_record_config *config)
{
    config->operators = true;
    if (!*text) return true;
    int one = 0, end = 0;
    int read =
        sscanf(text, "step:%" SCNu32 "%n..%" SCNu32 "%n", &config->operators_from, &one, &config->operators_to, &end);
    if (read == 1 && !text[one]) config->operators_to = config->operators_from, end = one;
    return end && !text[end] && !strchr(text, '-') && config->operators_from &&
           config->operators_from <= config->operators_to;
}

static bool parse_step_at(const char *text, struct mp_record_config *config)
{
    return *text && snprintf(config->step_at, sizeof config->step_at, "%s", text) < (int)sizeof config->step_at;
}

/* Reads --unwind. The recorder opens libunwind in the program; if it cannot, it walks by its own rules. */
static int read_unwind(const struct mp_invocation *invocation, struct mp_record_config *config)
{
    int status = mp_option_unwind(invocation, &config->libunwind);
#ifdef MP_HAVE_LIBUNWIND
    if (status || !config->libunwind || dlopen(MP_LIBUNWIND_SONAME, RTLD_NOW | RTLD_LOCAL)) return status;
    mp_message("--unwind libunwind: " MP_LIBUNWIND_SONAME " cannot be opened; install libunwind8");
#else
    if (status || !config->libunwind) return status;
    mp_message("--unwind libunwind: this memprof was built without it; install libunwind-dev and build memprof anew");
#endif
    return MP_EXIT_COULD_NOT;
}

static int read_options(const struct mp_invocation *invocation, bool plans, struct mp_record_config *config)
{
    static const struct {
        enum mp_option option;
        bool (*parse)(const char *, struct mp_record_config *);
        const char *wanted;
    } parsers[] = {
        {MP_OPT_STACKS, parse_stacks, "native,python, native, python or none"},
        {MP_OPT_CAPTURE, parse_capture, "auto, or a list of cupti, hooks, torch, cpu"},
        {MP_OPT_SAMPLE, parse_sample, "an amount of memory below 4 GiB, such as 512KiB"},
        {MP_OPT_ON_FULL, parse_on_full, "wait or drop"},
        {MP_OPT_STEP_RANGE, parse_step_range, "an extended regular expression of at most 255 bytes"},
        {MP_OPT_OPERATORS, parse_operators, "nothing, or steps such as step:3..4"},
        {MP_OPT_STEP_AT, parse_step_at, "a function's name of at most 127 bytes"},
    };
    mp_record_config_defaults(config);
    config->free_stacks = mp_given(invocation, MP_OPT_FREE_STACKS);
    config->holders = mp_given(invocation, MP_OPT_HOLDERS);
    config->holders_share = !mp_given(invocation, MP_OPT_BUDGET);
    config->host_bytes = mp_given(invocation, MP_OPT_HOST) ? MP_HOST_MEAN : 0;
    config->paused = mp_given(invocation, MP_OPT_PAUSED);
    config->force = mp_given(invocation, MP_OPT_FORCE);
    config->shim = !mp_given(invocation, MP_OPT_NO_SHIM);
    config->torch_history = !mp_given(invocation, MP_OPT_NO_TORCH_HISTORY);
    config->untried_history = mp_given(invocation, MP_OPT_TORCH_HISTORY);
    for (size_t i = 0; i < sizeof parsers / sizeof *parsers; i++) {
        const char *value = invocation->value[parsers[i].option];
        if (!value || parsers[i].parse(value, config)) continue;
        return mp_refuse("--%s %s: give %s", mp_option_rows[parsers[i].option].name, value, parsers[i].wanted);
    }
    int status = mp_option_number(invocation, MP_OPT_DEPTH, 8, MP_DEPTH_MAX, &config->depth);
    if (!status) status = mp_option_number(invocation, MP_OPT_MAX_EVENTS, 1, UINT32_MAX, &config->max_events);
    if (!status) status = mp_running_budget(invocation, &config->holders_ms);
    if (!status) status = read_unwind(invocation, config);
    if (status) return status;
    if (mp_given(invocation, MP_OPT_BUDGET) && !config->holders && !plans)
        return mp_refuse("--budget is what a look for holders may take, and needs --holders here");
    if (!*config->step_at || (config->python_stacks && !*config->step_range)) return MP_EXIT_DONE;
    return mp_refuse(*config->step_range ? "--step-at and --step-range: steps are either of the two"
                                         : "--step-at needs Python stacks, which --stacks leaves out");
}

static int read_schedule(const struct mp_invocation *invocation, struct mp_schedule *schedule)
{
    const char *cycles = invocation->value[MP_OPT_SCHEDULE];
    struct mp_error error;
    if (!cycles || !mp_schedule_parse(cycles, schedule, &error)) return MP_EXIT_DONE;
    return mp_refuse("--schedule %s: %s", cycles, error.text);
}

static int check_name(const struct mp_invocation *invocation)
{
    if (!has_sign(invocation->value[MP_OPT_OUTPUT], 'c')) return MP_EXIT_DONE;
    return mp_refuse("-o: names have no %%c any more: one file has all cycles of --schedule");
}

/* Reads when to take snapshots of the running program. */
static int read_snapshots(const struct mp_invocation *invocation, struct mp_collector_options *options)
{
    const char *at_oom = invocation->value[MP_OPT_ON_OOM], *name = invocation->value[MP_OPT_AT_SIGNAL];
    options->snapshot_at_oom = !at_oom || !strcmp(at_oom, "snapshot");
    if (!options->snapshot_at_oom && strcmp(at_oom, "none"))
        return mp_refuse("--on-oom %s: give snapshot or none", at_oom);
    if (!name) return MP_EXIT_DONE;
    const char *bare = strncmp(name, "SIG", 3) ? name : name + 3;
    static const int free_ones[] = {SIGUSR1, SIGUSR2, SIGALRM, SIGPROF, SIGURG, SIGIO, SIGPWR};
    for (size_t i = 0; i < sizeof free_ones / sizeof *free_ones; i++)
        if (!strcmp(mp_signal_name((unsigned)free_ones[i]), bare)) options->snapshot_signal = free_ones[i];
    if (options->snapshot_signal) return MP_EXIT_DONE;
    return mp_refuse("--at-signal %s: give USR1, USR2, or another signal that memprof does not use", name);
}

#define IN_FOLDER "%n.mp" /* name of each process's file in a folder, made from the process's part in its job */

/* ---- the output ----------------------------------------------------------------------------------------------- */

/* The name with each % doubled, freed by the caller; NULL: no memory. */
static char *escaped(const char *name)
{
    char *result = mp_alloc(2 * strlen(name) + 1), *to = result;
    for (; *name; name++) {
        if (*name == '%') *to++ = '%';
        *to++ = *name;
    }
    *to = '\0';
    return result;
}

/* True if the name ends with a slash or is an existing folder's. */
static bool names_folder(const char *given)
{
    struct stat facts;
    return given[strlen(given) - 1] == '/' || (!stat(given, &facts) && S_ISDIR(facts.st_mode));
}

/* The naming pattern as an absolute path, freed by the caller; NULL after a message. */
static char *output_pattern(const struct mp_invocation *invocation, const struct mp_snapshot_way *way, bool *in_folder)
{
    const char *given = invocation->value[MP_OPT_OUTPUT];
    char folder[PATH_MAX];
    if (given && (!*given || !strcmp(given, "-"))) {
        mp_message("-o needs the name of a file: a recording cannot go to stdout");
        return NULL;
    }
    *in_folder = given && names_folder(given);
    const char *end = !*in_folder ? "" : given[strlen(given) - 1] == '/' ? IN_FOLDER : "/" IN_FOLDER;
    if (given && *given == '/') return mp_text_make("%s%s", given, end);
    if (!getcwd(folder, sizeof folder)) {
        mp_message("cannot tell the current folder: %s", strerror(errno));
        return NULL;
    }
    if (!folder[1]) folder[0] = '\0'; /* for the root folder, the part that follows begins with a slash */
    if (given) return mp_text_make("%s/%s%s", folder, given, end);
    char *command = way ? mp_text_copy(way->name) : escaped(basename(invocation->operands[0]));
    char *pattern = mp_text_make("%s/%s.%%p.mp", folder, command);
    free(command);
    return pattern;
}

struct reporting {
    const struct mp_snapshot_way *way;
    struct mp_collector_result *result;
    const struct mp_collector_options *options;
    bool quiet, verbose, whole;
};

static void report(void *context)
{
    struct reporting *t = context;
    t->whole = t->way ? t->way->report(t->way->context, t->result, t->quiet)
                      : mp_snapshot_report(t->result, t->options, t->quiet, t->verbose);
}

/* True if another run has left recordings in the folder. False for a rank of a job, because the ranks share a
 * folder. */
static bool has_recordings(const char *folder)
{
    struct mp_member self;
    mp_membership_read((uint32_t)getpid(), &self);
    DIR *names = mp_member_knows(&self, MP_MEMBER_RANK) ? NULL : opendir(folder);
    bool found = false;
    for (const struct dirent *entry; !found && names && (entry = readdir(names));) {
        size_t length = strlen(entry->d_name);
        found = length > 3 && !strcmp(entry->d_name + length - 3, ".mp");
    }
    if (names) closedir(names);
    return found;
}

/* Makes the folder if it does not exist. */
static int check_folder(const struct mp_invocation *invocation, const char *folder)
{
    if (mkdir(folder, 0777) && errno != EEXIST)
        return mp_give_up("cannot make the folder %s: %s; the command was not started", folder, strerror(errno));
    if (mp_given(invocation, MP_OPT_FORCE) || !has_recordings(folder)) return MP_EXIT_DONE;
    return mp_give_up(
        "%s already has recordings, which would be mixed with those of this run; choose another folder or add "
        "--force. The command was not started",
        folder);
}

/* Makes a file in the pattern's folder, and removes it again: nothing else shows that the folder takes files. */
static int try_output(const char *pattern)
{
    const struct mp_new_file_rule rule = {.way = MP_NEW_FILE_FORCE, .at_once = true, .nameless = true};
    struct mp_new_file file = {0};
    struct mp_error error;
    enum mp_status status = mp_new_file_open(pattern, &rule, &file, &error);
    if (!status) close(file.fd);
    mp_new_file_close(&file);
    return status ? mp_give_up("%s; the command was not started", error.text) : MP_EXIT_DONE;
}

/* Checks for errors that are known before the command starts. */
static int check_output(const struct mp_invocation *invocation, const char *pattern, bool in_folder)
{
    char *copy = mp_text_copy(pattern);
    const char *folder = dirname(copy);
    int status = in_folder ? check_folder(invocation, folder) : MP_EXIT_DONE;
    struct stat facts;
    bool there = !strchr(strrchr(pattern, '/'), '%') && !lstat(pattern, &facts);
    if (status) {
        /* said */
    } else if (stat(folder, &facts) || !S_ISDIR(facts.st_mode)) {
        mp_message("there is no folder %s to write to; the command was not started", folder);
        status = MP_EXIT_COULD_NOT;
    } else if (there && !mp_given(invocation, MP_OPT_FORCE)) {
        mp_message("%s is already there; choose another name or add --force. The command was not started", pattern);
        status = MP_EXIT_COULD_NOT;
    } else if (there && !stat(pattern, &facts) && !S_ISREG(facts.st_mode)) {
        mp_message("%s is no file, so it cannot hold a recording; the command was not started", pattern);
        status = MP_EXIT_COULD_NOT;
    } else {
        status = try_output(pattern);
    }
    free(copy);
    return status;
}

/* ---- the command ----------------------------------------------------------------------------------------------- */

int mp_snapshot_record(const struct mp_invocation *invocation, const struct mp_snapshot_way *way)
{
    bool quiet = mp_given(invocation, MP_OPT_QUIET);
    struct mp_collector_options options = {.command = invocation->operands,
                                           .force = mp_given(invocation, MP_OPT_FORCE),
                                           .symbols = !mp_given(invocation, MP_OPT_NO_SYMBOLS),
                                           .keep_command = !mp_given(invocation, MP_OPT_NO_COMMAND),
                                           .wait = mp_given(invocation, MP_OPT_WAIT),
                                           .metrics = invocation->value[MP_OPT_METRICS],
                                           .snapshot_calls = {&quiet, mp_snapshot_say_oom, mp_snapshot_say}};
    int status = read_options(invocation, way != NULL, &options.record);
    if (!status) status = read_follow(invocation, &options);
    if (!status) status = check_name(invocation);
    if (!status) status = read_snapshots(invocation, &options);
    if (!status) status = read_schedule(invocation, &options.schedule);
    if (status) return status;
    if (way) {
        way->prepare(way->context, &options.record);
        options.file_from_bytes = 0;
    }
    char *pattern = output_pattern(invocation, way, &options.in_folder);
    char *folder = pattern ? mp_text_make("%.*s", (int)(strrchr(pattern, '/') + 1 - pattern), pattern) : NULL;
    status = pattern ? check_output(invocation, pattern, options.in_folder) : MP_EXIT_COULD_NOT;
    if (!status) {
        struct mp_collector_result result = {0};
        struct mp_error error;
        options.output = pattern;
        options.folder = folder;
        mp_memory_on_lack(NULL); /* lack of memory must not end the collector while it records a program */
        if (mp_launch_stack(&error) || mp_collector_run(&options, &result, &error)) {
            int message_status = mp_message_error(&error);
            status = result.exit_status ? result.exit_status : message_status;
        } else {
            struct reporting reporting = {way, &result, &options, quiet, mp_given(invocation, MP_OPT_VERBOSE), true};
            if (!mp_memory_try(report, &reporting)) mp_message("not enough memory to say what was recorded");
            bool whole = reporting.whole;
            status = result.exit_status;
            if (!status && !whole && mp_given(invocation, MP_OPT_STRICT)) status = MP_EXIT_INCOMPLETE;
        }
        mp_collector_result_free(&result);
    }
    free(pattern);
    free(folder);
    mp_schedule_free(&options.schedule);
    return status;
}

static int run_snapshot(const struct mp_invocation *invocation)
{
    if (mp_given(invocation, MP_OPT_PRINT_ENV)) return mp_running_print_env(invocation);
    bool of_running = mp_given(invocation, MP_OPT_PID);
    if (of_running == (invocation->operand_count > 0))
        return mp_refuse(
            "snapshot needs -- COMMAND, or --pid PID of a program that is being recorded: memprof snapshot "
            "[options] -- COMMAND [ARGUMENT...]");
    return of_running ? mp_running_snapshot(invocation) : mp_snapshot_record(invocation, NULL);
}

const struct mp_command mp_command_snapshot = {
    .name = "snapshot",
    .summary = "run a command and record where its memory goes",
    .usage = "-- COMMAND [ARGUMENT...] | --pid PID",
    .about =
        "Runs the command unchanged, records every allocation with its stack, and writes one snapshot file for each "
        "process that allocates. Exits with the command's own status.\n\nIn the file's name %p is the process, %r the "
        "rank (torchrun, Slurm, Open MPI, PMI), %n the process's name (rank3, loader-worker-4711), %h the host and %t "
        "the time. Without %p, %r or %n the first process with events gets the name as given, others get their number "
        "before the extension. A folder (-o run/) is made, and each process has a file of its name (%n) in it.\n\nA "
        "child process leaves no file if it used no device, held less than 1 MiB at its peak, and is known to have "
        "ended well. The last lines and a note in its parent's file count these. --follow all keeps them, as does %p "
        "in the name; --follow 64MiB keeps processes from 64 MiB on. A process that outlives the command is recorded "
        "for one more second, with --wait to its own end.\n\nWith --pid: snapshot a program that another memprof "
        "records, without stopping it.\n\nThe file of --metrics is for node_exporter's textfile collector, or for any "
        "web server that Prometheus may scrape.",
    .example = "memprof snapshot -o run.mp -- python3 train.py --batch-size 32",
    .meanings = {{MP_OPT_OUTPUT,
                  "the file, or the folder of a file for each process, as run/ (here, as COMMAND.PID.mp)"},
                 {MP_OPT_PID, "a running program that another memprof records, instead of COMMAND"}},
    .options = {MP_OPT_OUTPUT,     MP_OPT_FORCE,     MP_OPT_STACKS,    MP_OPT_FREE_STACKS,      MP_OPT_DEPTH,
                MP_OPT_CAPTURE,    MP_OPT_PAUSED,    MP_OPT_SCHEDULE,  MP_OPT_MAX_EVENTS,       MP_OPT_SAMPLE,
                MP_OPT_ON_OOM,     MP_OPT_PID,       MP_OPT_AT_SIGNAL, MP_OPT_ON_FULL,          MP_OPT_FOLLOW,
                MP_OPT_STEP_RANGE, MP_OPT_STEP_AT,   MP_OPT_NO_SHIM,   MP_OPT_NO_TORCH_HISTORY, MP_OPT_NO_SYMBOLS,
                MP_OPT_NO_COMMAND, MP_OPT_QUIET,     MP_OPT_VERBOSE,   MP_OPT_STRICT,           MP_OPT_METRICS,
                MP_OPT_HOLDERS,    MP_OPT_OPERATORS, MP_OPT_BUDGET,    MP_OPT_TORCH_HISTORY,    MP_OPT_WAIT,
                MP_OPT_HOST,       MP_OPT_UNWIND,    MP_OPT_PRINT_ENV},
    .operands_max = SIZE_MAX,
    .stops_at_operand = true,
    .run = run_snapshot,
};
