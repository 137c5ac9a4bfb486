#include "cli/gone.h"

#include <string.h>

#include "cli/messages.h"

/* tests/unit/cli/check_commands.py reads these rows, and tries each. */
static const struct gone {
    const char *command; /* "": every command */
    const char *option;  /* without dashes; "": the command itself was removed */
    const char *instead; /* follows "... any more: " */
} rows[] = {
    {"advise", "ranks", "run the sharded program under `memprof plan`, which needs no GPU"},
    {"advise", "link", "record the program with save_on_cpu too, and `memprof compare` the two recordings"},
    {"", "page", "memprof trace_plot FILE -o trace.html writes the page of a recording"},
    {"plan", "torch", "install that version; the planned command runs the PyTorch of its Python"},
    {"help", "completion", "memprof completion prints it"},
    {"peak", "quick", "peak needs no cache: it reads ten million events in half a second"},
    {"snapshot", "delay",
     "the program says when to begin (--paused, and libmemprof.start()), or --schedule wait=N,active=M counts steps"},
    {"snapshot", "duration",
     "the program says when to end (libmemprof.stop()), or --schedule wait=N,active=M,repeat=1 counts steps"},
    {"trace_plot", "pages", "memprof trace_plot FILE -o trace.html writes the page of each recording"},
    {"top", "json",
     "memprof leaks --pid PID --json lists the blocks that a program holds now; --metrics gives the bytes of each "
     "track"},
    {"symbolize", "", "a recording has the names of its frames when it is written"},
};

static const struct gone *find(const char *command, const char *option, size_t length)
{
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const struct gone *row = &rows[i];
        if (strlen(row->option) != length || strncmp(row->option, option, length)) continue;
        if (!command || !*row->command || !strcmp(row->command, command)) return row;
    }
    return NULL;
}

bool mp_gone_command(const char *name)
{
    const struct gone *row = find(name, "", 0);
    if (row) mp_message("there is no command \"%s\" any more: %s", name, row->instead);
    return row;
}

bool mp_gone_option(const char *command, const char *name, size_t length)
{
    const struct gone *row = find(command, name, length);
    if (row && command) mp_message("%s has no option --%s any more: %s", command, row->option, row->instead);
    if (row && !command) mp_message("there is no option --%s any more: %s", row->option, row->instead);
    return row;
}
