/*
 * Runs every command that reads a recording on recordings that were cut at every byte, and on some with a flipped bit.
 * Each command answers correctly and says that something is missing (status 4), or refuses with a message (status 1).
 * None crashes, hangs, takes unbounded memory, or leaves half a file. None answers less than for the whole recording
 * without saying so.
 *
 *     check_damage [RECORDING...]      these recordings in place of the small one made here
 *
 * The commands run in this program, thousands of times. tools/test --long: every byte and 10 000 flips; else some.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <yajl/yajl_parse.h>

#include "cli/command.h"
#include "cli/invocation.h"
#include "faults/small.h"
#include "model/load.h"
#include "model/model.h"

#define DEADLINE_S   60
#define MEMORY       ((rlim_t)2 << 30)
#define FLIPS        10000
#define SHORT_CUTS   97 /* distance of the cuts in bytes */
#define SHORT_FLIPS  120
#define CASES_A_FORK 200
#define FILE_NAME    "run.mp"
#define OTHER_NAME   "other.mp"

enum form { TEXT, JSON, BYTES, JSON_FILE, RECORDING };

/* Commands to run: %f is the damaged recording, %s a complete one of another run, %o the output. */
static const struct row {
    const char *line;
    enum form form;
} rows[] = {
    {"report %f", TEXT},
    {"report --json %f", JSON},
    {"report --format html %f", TEXT},
    {"report --format markdown %f", TEXT},
    {"peak %f", TEXT},
    {"peak --json %f", JSON},
    {"peak --json --group metadata %f", JSON},
    {"peak --json --group function --track cuda:0/driver %f", JSON},
    {"peak --json --from step:3 --to step:7 %f", JSON},
    {"leaks %f", TEXT},
    {"leaks --json %f", JSON},
    {"holders %f", TEXT},
    {"holders --json %f", JSON},
    {"steps %f", TEXT},
    {"steps --json %f", JSON},
    {"frag %f", TEXT},
    {"frag --json %f", JSON},
    {"advise %f", TEXT},
    {"advise --json --capacity 1MiB %f", JSON},
    {"size --json --capacity 80GiB 4=%f 8=%s", JSON},
    {"compare %f %s", TEXT},
    {"compare --json %s %f", JSON},
    {"compare --json %f %s %s", JSON},
    {"compare --json --group category --sort growth %s %f", JSON},
    {"compare --json --of allocated --group module --filter role!=buffer %f %s", JSON},
    {"compare --format html %s %f %s", TEXT},
    {"merge %f -o %o", BYTES},
    {"info %f", TEXT},
    {"info --json --sizes %f", JSON},
    {"trace_plot %f -o %o", BYTES},
    {"segment_plot %f -o %o", BYTES},
    {"chrome_trace %f -o %o.json", JSON_FILE},
    {"flamegraph %f -o %o --format html", BYTES},
    {"flamegraph %f -o %o --format folded", BYTES},
    {"flamegraph %f -o %o --format speedscope", JSON_FILE},
    {"flamegraph %f -o %o --format pprof", BYTES},
    {"flamegraph %f %s -o %o --format folded", BYTES},
    {"export %f -o %o.pickle --format pytorch", BYTES},
    {"export %f -o %o.json --format pytorch", JSON_FILE},
    {"export %f -o %o --format sqlite", BYTES},
    {"export %f -o %o --format csv", BYTES},
    {"export %f -o %o --format jsonl", BYTES},
    {"anonymize %f -o %o", RECORDING},
    {"recover %f -o %o", RECORDING},
};
#define ROWS (sizeof rows / sizeof *rows)

/* Commands that read no recording. */
static const char *const others[] = {"snapshot", "attach",  "top", "plan",       "import",
                                     "doctor",   "measure", "mcp", "completion", "help"};

struct result {
    int status;
    char *said, *reported; /* stdout, stderr */
    size_t said_size, told_size;
    char *file; /* NULL: none was written */
    size_t file_size;
};

static struct result whole[ROWS];
static char folder[] = "/tmp/memprof-damage-XXXXXX";
static char output[128];
static int said_fd, told_fd, real_stderr;

/* The place that a worker has reached. The parent reads it after the worker's death. */
static struct place {
    size_t which, row;
    unsigned failures;
    char what[64];
} * place;

static char *read_fd(int fd, size_t *size)
{
    struct stat facts;
    if (fstat(fd, &facts)) return NULL;
    *size = (size_t)facts.st_size;
    char *bytes = malloc(*size + 1);
    if (!bytes || pread(fd, bytes, *size, 0) != (ssize_t)*size) exit(2);
    bytes[*size] = '\0';
    return bytes;
}

static char *read_output(size_t *size)
{
    int fd = open(output, O_RDONLY | O_CLOEXEC);
    char *bytes = fd < 0 ? NULL : read_fd(fd, size);
    if (fd >= 0) close(fd);
    return bytes;
}

static void put_file(const char *name, const void *bytes, size_t size)
{
    int fd = open(name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size) exit(2);
    close(fd);
}

/* The words of a row with the names filled in, in one allocation. */
static char *make_words(const struct row *row, char **argv, int *argc)
{
    char *line = malloc(512), *to = line;
    if (!line) exit(2);
    for (const char *at = row->line; *at; at++) {
        const char *put = *at != '%' ? NULL : *++at == 'f' ? FILE_NAME : *at == 's' ? OTHER_NAME : "out";
        if (put)
            to = stpcpy(to, put);
        else
            *to++ = *at;
    }
    *to = '\0';
    char *rest = line;
    *argc = 0;
    for (char *word; (word = strsep(&rest, " "));) {
        if (!strncmp(word, "out", 3)) snprintf(output, sizeof output, "%s", word);
        argv[(*argc)++] = word;
    }
    argv[*argc] = NULL;
    return line;
}

static struct result run(const struct row *row)
{
    char *argv[16], *words;
    int argc;
    struct result result = {.status = -1};
    *output = '\0';
    words = make_words(row, argv, &argc);
    const struct mp_command *command = mp_command_find(argv[0]);
    if (!command) exit(2);
    if (ftruncate(said_fd, 0) || ftruncate(told_fd, 0)) exit(2);
    lseek(said_fd, 0, SEEK_SET);
    lseek(told_fd, 0, SEEK_SET);
    if (*output) unlink(output);
    struct mp_invocation invocation;
    alarm(DEADLINE_S);
    result.status = mp_options_parse(command, argc, argv, &invocation);
    if (!result.status) result.status = command->run(&invocation);
    alarm(0);
    mp_invocation_free(&invocation);
    fflush(stdout);
    fflush(stderr);
    result.said = read_fd(said_fd, &result.said_size);
    result.reported = read_fd(told_fd, &result.told_size);
    result.file = *output ? read_output(&result.file_size) : NULL;
    free(words);
    return result;
}

static void free_result(struct result *result)
{
    free(result->said);
    free(result->reported);
    free(result->file);
}

static bool is_json(const char *text, size_t size)
{
    yajl_handle parser = yajl_alloc(NULL, NULL, NULL);
    bool right = yajl_parse(parser, (const unsigned char *)text, size) == yajl_status_ok &&
                 yajl_complete_parse(parser) == yajl_status_ok;
    yajl_free(parser);
    return right && size;
}

/* True if every line is memprof's own, and none has control characters. */
static bool is_told_well(const char *text)
{
    static const char mark[] = "memprof: ";
    if (!*text) return false;
    for (const char *line = text; *line;) {
        size_t length = strcspn(line, "\n");
        if (strncmp(line, mark, strlen(mark)) || length < strlen(mark) + 5 || line[length] != '\n') return false;
        for (size_t i = 0; i < length; i++)
            if ((unsigned char)line[i] < ' ' || line[i] == 0x7f) return false;
        line += length + 1;
    }
    return true;
}

/* The fault of a recording that a command made of a damaged one: it must report losses, too. */
static const char *fault_of_recording(void)
{
    struct mp_model *model;
    struct mp_error error;
    if (mp_model_load(output, &model, &error)) return "what it wrote cannot be read";
    bool incomplete = mp_model_incomplete(model);
    mp_model_free(model);
    return incomplete ? NULL : "what it wrote says that nothing is missing";
}

static const char *fault_of_partial(enum form form, const struct result *result)
{
    if (!is_told_well(result->reported)) return "it does not say what is missing";
    switch (form) {
    case JSON:
        if (!is_json(result->said, result->said_size)) return "what it printed is no JSON";
        return strstr(result->said, "\"complete\": false") ? NULL : "its JSON is called complete";
    case TEXT:
        return strstr(result->said, "INCOMPLETE") ? NULL : "its text is not called incomplete";
    case JSON_FILE:
        return result->file && is_json(result->file, result->file_size) ? NULL : "the file is no JSON";
    case RECORDING:
        return result->file ? fault_of_recording() : "it wrote no file";
    default:
        return result->file ? NULL : "it wrote no file"; /* may be empty if nothing is left */
    }
}

static bool is_same(const struct result *a, const struct result *b)
{
    return a->said_size == b->said_size && !memcmp(a->said, b->said, a->said_size) && !a->file == !b->file &&
           (!a->file || (a->file_size == b->file_size && !memcmp(a->file, b->file, a->file_size)));
}

static const char *fault_of(size_t row, const struct result *result)
{
    switch (result->status) {
    case MP_EXIT_DONE:
        return is_same(result, &whole[row]) ? NULL : "it says something else without a word of what is missing";
    case MP_EXIT_COULD_NOT:
        if (result->said_size) return "it could not, and has printed something";
        if (result->file) return "it could not, and has left a file";
        return is_told_well(result->reported) ? NULL : "it could not, and does not say why";
    case MP_EXIT_INCOMPLETE:
        return fault_of_partial(rows[row].form, result);
    default:
        return "its exit status is none of 0, 1 and 4";
    }
}

static void report(const char *fault, const struct result *result)
{
    dprintf(real_stderr, "%s: memprof %s: %s (status %d)\n    stdout: %.300s\n    stderr: %.300s\n", place->what,
            rows[place->row].line, fault, result ? result->status : -1, result ? result->said : "",
            result ? result->reported : "");
    place->failures++;
}

static void run_case(const unsigned char *bytes, size_t size)
{
    put_file(FILE_NAME, bytes, size);
    for (; place->row < ROWS; place->row++) {
        struct result result = run(&rows[place->row]);
        const char *fault = fault_of(place->row, &result);
        if (fault) report(fault, &result);
        free_result(&result);
    }
    place->row = 0;
}

static uint64_t dice(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Makes the damage of case `which`: the first `cuts` cases are cuts, the others flips. */
static void damage(unsigned char *bytes, size_t size, size_t which, size_t cuts, size_t every)
{
    if (which < cuts) {
        size_t at = which * every;
        snprintf(place->what, sizeof place->what, "cut at byte %zu of %zu", at, size);
        run_case(bytes, at);
        return;
    }
    uint64_t state = 88172645463325252u + which * UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < 4; i++)
        dice(&state);
    size_t bit = dice(&state) % (size * 8);
    snprintf(place->what, sizeof place->what, "bit %zu of byte %zu flipped", bit % 8, bit / 8);
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
    run_case(bytes, size);
    bytes[bit / 8] ^= (unsigned char)(1u << bit % 8);
}

static void work(unsigned char *bytes, size_t size, size_t end, size_t cuts, size_t every)
{
#ifndef __SANITIZE_ADDRESS__
    setrlimit(RLIMIT_AS, &(struct rlimit){MEMORY, MEMORY});
#endif
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    for (; place->which < end; place->which++)
        damage(bytes, size, place->which, cuts, every);
    _exit(0);
}

/* Workers do the cases in portions. If a worker dies, the case is reported, and another worker continues after it. */
static void run_all(unsigned char *bytes, size_t size, size_t cuts, size_t every, size_t flips)
{
    *place = (struct place){0};
    while (place->which < cuts + flips) {
        size_t end = place->which + CASES_A_FORK;
        if (end > cuts + flips) end = cuts + flips;
        pid_t worker = fork();
        if (!worker) work(bytes, size, end, cuts, every);
        int how;
        while (waitpid(worker, &how, 0) < 0 && errno == EINTR)
            continue;
        if (!how) continue;
        char fault[64];
        snprintf(fault, sizeof fault, WIFSIGNALED(how) ? "it was ended by signal %d" : "it ended with %d",
                 WIFSIGNALED(how) ? WTERMSIG(how) : WEXITSTATUS(how));
        report(fault, NULL);
        if (++place->row < ROWS) continue;
        place->row = 0;
        place->which++;
    }
}

/* Gets the commands' answers for the whole recording, with which damaged ones are compared. */
static bool check_whole(void)
{
    snprintf(place->what, sizeof place->what, "the whole recording");
    for (place->row = 0; place->row < ROWS; place->row++) {
        whole[place->row] = run(&rows[place->row]);
        struct result again = run(&rows[place->row]);
        const struct result *first = &whole[place->row];
        bool right =
            first->status == MP_EXIT_DONE && (rows[place->row].form != JSON || is_json(first->said, first->said_size));
        if (!right) report("it is not right on the whole recording", first);
        if (right && !is_same(first, &again)) report("it says something else each time", first);
        free_result(&again);
    }
    return place->failures;
}

static unsigned char *read_named(const char *path, unsigned batch, enum small_form form, size_t *size)
{
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : memfd_create("small", MFD_CLOEXEC);
    if (fd < 0) exit(2);
    if (!path) small_recording(dup(fd), batch, form);
    unsigned char *bytes = (unsigned char *)read_fd(fd, size);
    close(fd);
    return bytes;
}

static unsigned check_recording(const char *path, enum small_form form)
{
    static const char *const names[SMALL_FORMS] = {"a small recording", "the same without readings", "the same folded"};
    size_t size, other_size;
    unsigned char *bytes = read_named(path, 4, form, &size), *other = read_named(path, 8, form, &other_size);

    bool all = getenv("MEMPROF_TEST_LONG");
    size_t every = all ? 1 : SHORT_CUTS, cuts = (size + every - 1) / every, flips = all ? FLIPS : SHORT_FLIPS;
    *place = (struct place){0};
    put_file(FILE_NAME, bytes, size);
    put_file(OTHER_NAME, other, other_size);
    if (check_whole()) return place->failures;
    run_all(bytes, size, cuts, every, flips);
    dprintf(real_stderr, "%s, %zu bytes: %zu cuts and %zu flips, %zu command lines each: %u faults\n",
            path ? path : names[form], size, cuts, flips, ROWS, place->failures);
    for (size_t i = 0; i < ROWS; i++)
        free_result(&whole[i]);
    free(bytes);
    free(other);
    return place->failures;
}

static unsigned check_every_command_is_here(void)
{
    unsigned missing = 0;
    for (size_t i = 0; mp_commands[i]; i++) {
        const char *name = mp_commands[i]->name;
        size_t length = strlen(name);
        bool known = mp_commands[i]->hidden;
        for (size_t row = 0; row < ROWS; row++)
            known |= !strncmp(rows[row].line, name, length) && rows[row].line[length] == ' ';
        for (size_t other = 0; other < sizeof others / sizeof *others; other++)
            known |= !strcmp(others[other], name);
        if (!known) dprintf(real_stderr, "memprof %s is not tried on damaged recordings\n", name);
        missing += !known;
    }
    return missing;
}

/* The command of a row that configure left out; NULL: none. */
static const char *command_left_out(void)
{
    for (const struct mp_command_left_out *one = mp_commands_left_out; one->name; one++)
        for (size_t row = 0, length = strlen(one->name); row < ROWS; row++)
            if (!strncmp(rows[row].line, one->name, length) && rows[row].line[length] == ' ') return one->name;
    return NULL;
}

static void remove_folder(void)
{
    static const char *const names[] = {FILE_NAME, OTHER_NAME, "out", "out.json", "out.pickle"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(names[i]);
    if (!chdir("/")) rmdir(folder);
}

int main(int argc, char **argv)
{
    unsigned failures = 0;
    char *paths[16];
    int count = argc > 1 ? argc - 1 : 1;
    if (count > 16) return 2;
    if (command_left_out()) {
        fprintf(stderr, "built without %s\n", command_left_out());
        return 77;
    }
    for (int i = 0; i < count; i++)
        paths[i] = argc > 1 ? realpath(argv[i + 1], NULL) : NULL;
    place = mmap(NULL, sizeof *place, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    said_fd = memfd_create("stdout", MFD_CLOEXEC);
    told_fd = memfd_create("stderr", MFD_CLOEXEC);
    real_stderr = dup(STDERR_FILENO);
    if (place == MAP_FAILED || real_stderr < 0 || !mkdtemp(folder) || chdir(folder)) return 2;
    unsetenv("MEMPROF_CONF");
    failures += check_every_command_is_here();
    dup2(said_fd, STDOUT_FILENO);
    dup2(told_fd, STDERR_FILENO);
    for (int i = 0; i < count; i++) {
        for (enum small_form form = 0; form < (paths[i] ? 1 : SMALL_FORMS); form++)
            failures += check_recording(paths[i], form);
        free(paths[i]);
    }
    remove_folder();
    return failures != 0;
}
