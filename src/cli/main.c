#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/memory.h"
#include "base/units.h"
#include "cli/command.h"
#include "cli/help.h"
#include "cli/invocation.h"
#include "cli/messages.h"
#include "cli/output_file.h"
#include "cli/size_probing.h"

/* If the caller closed a standard descriptor, a file that we open would get its number, and messages would be written
 * into the file. So an unusable descriptor takes this number first: writes to it fail, and are noticed. */
static void guard_standard_files(void)
{
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) < 0) return;
}

/* Ends the program on lack of memory (base/memory.h), in code from the model up. Removes unfinished output. */
static void end_without_memory(size_t bytes)
{
    char needed[MP_UNIT_TEXT];
    mp_output_take_back();
    mp_probing_take_back();
    if (bytes)
        fprintf(stderr, "memprof: not enough memory: %s more were needed; ", mp_format_bytes(needed, bytes));
    else
        fprintf(stderr, "memprof: not enough memory; ");
    fprintf(stderr, "ask for a part of the recording (--from, --to), or end other programs\n");
    _exit(MP_EXIT_COULD_NOT);
}

static int run_command(const struct mp_command *command, int argc, char **argv)
{
    struct mp_invocation invocation;
    int status = mp_options_parse(command, argc, argv, &invocation);
    if (!status) {
        status =
            mp_given(&invocation, MP_OPT_HELP) ? mp_help_of_command(command) : mp_command_run(command, &invocation);
        if (status == MP_EXIT_USAGE) mp_settings_name_origins(&invocation);
    }
    mp_invocation_free(&invocation);
    return status;
}

/* `memprof FILE` is `memprof report FILE`. No command has a dot or a slash. So a word with one counts as a file, and a
 * mistyped file is reported as missing. */
static bool names_file(const char *name)
{
    return strpbrk(name, "./") || !access(name, F_OK);
}

int main(int argc, char **argv)
{
    guard_standard_files();
    mp_memory_on_lack(end_without_memory);
    if (argc < 2 || !strcmp(argv[1], "--help") || !strcmp(argv[1], "-h")) return mp_help_of_all();
    if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V")) return mp_help_version();
    if (argv[1][0] == '-')
        return mp_refuse("a command comes before options: memprof COMMAND %s; memprof --help lists the commands",
                         argv[1]);
    const struct mp_command *command = mp_command_find(argv[1]);
    if (command) return run_command(command, argc - 1, argv + 1);
    return names_file(argv[1]) ? run_command(mp_command_find("report"), argc, argv) : mp_command_unknown(argv[1]);
}
