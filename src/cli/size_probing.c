#include "cli/size_probing.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/memory.h"
#include "cli/messages.h"

#define LAST_BYTES 2000 /* most bytes of a failed command's output that are read */
#define LAST_LINES 6
#define HOLE       "{batch}"

extern char **environ;

/* ---- signals that end the program ------------------------------------------------------------------------------- */

/* A signal of these is passed on to the current run. Then the folder is removed, and the signal has its usual
 * effect. */
static const int ending[] = {SIGTERM, SIGHUP};
#define ENDING (sizeof ending / sizeof *ending)

static struct sigaction before[ENDING];
static volatile sig_atomic_t asked_to_end; /* the signal; 0: none came */
static volatile pid_t running;             /* 0: none */
static char *folder_made;                  /* NULL: none */

static void ask_to_end(int number)
{
    int saved = errno;
    asked_to_end = number;
    if (running) kill(running, number);
    errno = saved;
}

static void catch_ending(void)
{
    struct sigaction catch = {.sa_handler = ask_to_end};
    for (size_t i = 0; i < ENDING; i++)
        if (!sigaction(ending[i], NULL, &before[i]) && before[i].sa_handler == SIG_DFL)
            sigaction(ending[i], &catch, NULL);
}

static void end_if_asked(void)
{
    for (size_t i = 0; i < ENDING; i++)
        sigaction(ending[i], &before[i], NULL);
    if (asked_to_end) raise(asked_to_end);
}

/* ---- the command ------------------------------------------------------------------------------------------------ */

/* A word of the command with the batch filled in. */
static char *fill_word(const char *word, uint64_t batch)
{
    struct mp_buffer filled = {0};
    for (const char *hole; (hole = strstr(word, HOLE)); word = hole + strlen(HOLE)) {
        mp_buffer_append(&filled, word, (size_t)(hole - word));
        mp_buffer_printf(&filled, "%llu", (unsigned long long)batch);
    }
    mp_buffer_append(&filled, word, strlen(word) + 1);
    return (char *)filled.data;
}

static bool names(const struct mp_invocation *invocation, const char *subject)
{
    for (size_t i = 0; i < invocation->operand_count; i++)
        if (strstr(invocation->operands[i], subject)) return true;
    return false;
}

/* memprof snapshot --quiet [--torch-history] -o PATH -- COMMAND... */
static char **make_command(const struct mp_invocation *invocation, uint64_t batch, const char *path)
{
    const char *const own[] = {"memprof",
                               "snapshot",
                               "--quiet",
                               mp_given(invocation, MP_OPT_TORCH_HISTORY) ? "--torch-history" : NULL,
                               mp_given(invocation, MP_OPT_NO_TORCH_HISTORY) ? "--no-torch-history" : NULL,
                               "-o",
                               path,
                               "--"};
    size_t count = 0;
    char **words = mp_alloc_zeroed(sizeof own / sizeof *own + invocation->operand_count + 1, sizeof *words);
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (own[i]) words[count++] = mp_text_copy(own[i]);
    for (size_t i = 0; i < invocation->operand_count; i++)
        words[count + i] = fill_word(invocation->operands[i], batch);
    return words;
}

/* Starts `words` as a process with its output in `log`. */
static int start_process(char **words, const char *log, pid_t *pid)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t defaults, blocked, mask;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGINT);
    sigaddset(&defaults, SIGQUIT);
    sigemptyset(&blocked);
    for (size_t i = 0; i < ENDING; i++)
        sigaddset(&blocked, ending[i]);
    sigprocmask(SIG_BLOCK, &blocked, &mask); /* a signal that arrives now is passed on to the run, too */
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    posix_spawnattr_setsigdefault(&attributes, &defaults);
    posix_spawnattr_setsigmask(&attributes, &mask);
    int failure = posix_spawn(pid, "/proc/self/exe", &actions, &attributes, words, environ);
    if (!failure) running = *pid;
    sigprocmask(SIG_SETMASK, &mask, NULL);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    return failure;
}

/* Prints the log's last lines. */
void mp_probing_print_tail(const char *log)
{
    char text[LAST_BYTES + 1];
    FILE *file = fopen(log, "re");
    if (!file) return;
    if (fseek(file, -LAST_BYTES, SEEK_END)) rewind(file);
    size_t size = fread(text, 1, LAST_BYTES, file);
    fclose(file);
    while (size && text[size - 1] == '\n')
        size--;
    text[size] = '\0';
    char *from = text + size;
    for (size_t lines = 0; from > text; from--)
        if (from[-1] == '\n' && ++lines == LAST_LINES) break;
    bool no_driver = strstr(text, "NVIDIA driver"); /* PyTorch: "Found no NVIDIA driver on your system" */
    for (char *line; from && *from && (line = strsep(&from, "\n"));)
        mp_message("  | %s", line);
    if (no_driver) mp_message("memprof plan --size batch=N and memprof plan --advise run the command without a GPU");
}

bool mp_probing_is_interrupted(int status)
{
    return asked_to_end || (WIFEXITED(status) && WEXITSTATUS(status) == 128 + SIGINT) ||
           (WIFSIGNALED(status) && WTERMSIG(status) == SIGINT);
}

static int judge(int status, const char *value, const char *path, const char *log)
{
    int code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (!code && !access(path, R_OK)) return MP_EXIT_DONE;
    if (mp_probing_is_interrupted(status)) return mp_give_up("interrupted while it ran with %s", value);
    if (!code)
        mp_message("the run with %s was not recorded:", value);
    else if (code == 127)
        mp_message("the command was not found:");
    else if (code == 128 + SIGKILL)
        mp_message("the run with %s was killed (by the system, where memory ran out?); it printed last:", value);
    else if (code > 128)
        mp_message("the run with %s died of signal %d (%s); it printed last:", value, code - 128,
                   strsignal(code - 128));
    else
        mp_message("the run with %s failed with status %d; it printed last:", value, code);
    mp_probing_print_tail(log);
    return MP_EXIT_COULD_NOT;
}

/* Shows a line on the terminal, which replaces the previous line; NULL removes that line. */
static void show(const struct mp_invocation *invocation, const char *text)
{
    const char *when = invocation->value[MP_OPT_PROGRESS];
    if (!isatty(STDERR_FILENO) || (when && !strcmp(when, "never"))) return;
    fprintf(stderr, "\r\033[K%s%s", text ? "memprof: " : "", text ? text : "");
}

static int wait_for(pid_t pid)
{
    int status;
    while (waitpid(pid, &status, 0) < 0)
        if (errno != EINTR) return -1;
    running = 0;
    return status;
}

int mp_probing_run_words(const struct mp_invocation *invocation, const char *shown, char **words, const char *log)
{
    pid_t pid;
    show(invocation, shown);
    int failure = start_process(words, log, &pid), status = failure ? -1 : wait_for(pid);
    show(invocation, NULL);
    for (size_t i = 0; words[i]; i++)
        free(words[i]);
    free(words);
    if (failure) mp_message("cannot run memprof: %s", strerror(failure));
    return status;
}

static int run_one(const struct mp_invocation *invocation, const char *shown, uint64_t batch, const char *path,
                   const char *log)
{
    char value[24];
    snprintf(value, sizeof value, "%llu", (unsigned long long)batch);
    int status = mp_probing_run_words(invocation, shown, make_command(invocation, batch, path), log);
    return status < 0 ? MP_EXIT_COULD_NOT : judge(status, value, path, log);
}

/* Ignores SIGINT and SIGQUIT: they also reach the run and end it, and this process must live on to remove the
 * folder. */
static void start_ignoring(struct mp_probing *probing)
{
    static const struct sigaction ignore = {.sa_handler = SIG_IGN};
    if (probing->ignores) return;
    probing->ignores = !sigaction(SIGINT, &ignore, &probing->interrupt) && !sigaction(SIGQUIT, &ignore, &probing->quit);
}

static void stop_ignoring(struct mp_probing *probing)
{
    if (probing->ignores && !sigaction(SIGINT, &probing->interrupt, NULL)) sigaction(SIGQUIT, &probing->quit, NULL);
    probing->ignores = false;
}

int mp_probing_begin(struct mp_probing *probing)
{
    const char *parent = getenv("TMPDIR");
    *probing = (struct mp_probing){.caught = true};
    catch_ending();
    start_ignoring(probing);
    probing->folder = mp_text_make("%s/memprof-size-XXXXXX", parent && *parent ? parent : "/tmp");
    if (mkdtemp(probing->folder)) {
        folder_made = probing->folder;
        return MP_EXIT_DONE;
    }
    mp_message("cannot make a folder for the recordings: %s", strerror(errno));
    free(probing->folder);
    probing->folder = NULL;
    return MP_EXIT_COULD_NOT;
}

static int check_command(const struct mp_invocation *invocation)
{
    if (!invocation->operand_count)
        mp_message("--probe needs the command: memprof size --probe 4,8,12 -- python3 train.py --batch-size " HOLE);
    else if (names(invocation, "{length}"))
        mp_message("{length} is gone: write the length into the command, and run size once for each length");
    else if (!names(invocation, HOLE))
        mp_message("the command has no " HOLE ": write it where the batch size belongs");
    else
        return MP_EXIT_DONE;
    return MP_EXIT_USAGE;
}

int mp_probing_run(const struct mp_invocation *invocation, const uint64_t *batches, size_t count,
                   struct mp_probing *probing, char **paths)
{
    bool first = !probing->folder;
    int status = first ? check_command(invocation) : MP_EXIT_DONE;
    if (!status && first) status = mp_probing_begin(probing);
    if (!status) start_ignoring(probing);
    for (size_t i = 0; i < count && !status && !asked_to_end; i++) {
        char text[128];
        unsigned long long batch = batches[i];
        if (first)
            snprintf(text, sizeof text, "run %zu of %zu, with %llu", i + 1, count, batch);
        else
            snprintf(text, sizeof text, "a run with %llu verifies the answer (Ctrl-C: answer without it)", batch);
        paths[i] = mp_text_make("%s/%llu.mp", probing->folder, batch);
        char *log = mp_text_make("%s/%llu.log", probing->folder, batch);
        status = run_one(invocation, text, batches[i], paths[i], log);
        free(log);
    }
    stop_ignoring(probing);
    return asked_to_end && !status ? MP_EXIT_COULD_NOT : status;
}

void mp_probing_take_back(void)
{
    DIR *folder = folder_made ? opendir(folder_made) : NULL;
    for (struct dirent *entry; folder && (entry = readdir(folder));)
        unlinkat(dirfd(folder), entry->d_name, 0);
    if (folder) closedir(folder);
    if (folder_made) rmdir(folder_made);
    folder_made = NULL;
}

void mp_probing_end(struct mp_probing *probing)
{
    mp_probing_take_back();
    free(probing->folder);
    probing->folder = NULL;
    stop_ignoring(probing);
    if (probing->caught) end_if_asked();
}
