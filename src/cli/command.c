#include <string.h>

#include "cli/command.h"
#include "cli/gone.h"

const struct mp_command *mp_command_find(const char *name)
{
    for (size_t i = 0; mp_commands[i]; i++)
        if (!strcmp(mp_commands[i]->name, name)) return mp_commands[i];
    return NULL;
}

const char *mp_command_heading(const struct mp_command *command)
{
    static const char *const headings[][2] = {{"snapshot", "Record a program"},
                                              {"report", "Ask a recording"},
                                              {"trace_plot", "Draw it, pass it on, put it together"},
                                              {"doctor", "This machine, other tools"}};
    for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
        if (!strcmp(headings[i][0], command->name)) return headings[i][1];
    return NULL;
}

const char *mp_command_option_help(const struct mp_command *command, enum mp_option option)
{
    for (const struct mp_option_meaning *meaning = command->meanings; meaning->option != MP_OPT_NONE; meaning++)
        if (meaning->option == option) return meaning->help;
    return mp_option_rows[option].help;
}

bool mp_command_takes(const struct mp_command *command, enum mp_option option)
{
    if (option == MP_OPT_HELP || option == MP_OPT_CONFIG) return true;
    for (size_t i = 0; command->options[i] != MP_OPT_NONE; i++)
        if (command->options[i] == option) return true;
    return false;
}

int mp_command_run(const struct mp_command *command, const struct mp_invocation *invocation)
{
    for (size_t i = 0; mp_command_ways[i]; i++)
        for (const struct mp_command_way *way = mp_command_ways[i]; way->command; way++)
            if (!strcmp(way->command, command->name) && way->takes(invocation)) return way->run(invocation);
    return command->run(invocation);
}

size_t mp_command_operands_max(const struct mp_command *command)
{
    size_t most = command->operands_max;
    for (size_t i = 0; mp_command_ways[i]; i++)
        for (const struct mp_command_way *way = mp_command_ways[i]; way->command; way++)
            if (!strcmp(way->command, command->name) && way->operands_max > most) most = way->operands_max;
    return most;
}

/* The command for a name that other tools use; NULL: none. */
static const char *by_other_name(const char *name)
{
    static const char *const names[][2] = {
        {"record", "snapshot"},  {"run", "snapshot"}, {"plot", "trace_plot"}, {"view", "trace_plot"},
        {"html", "trace_plot"},  {"diff", "compare"}, {"summary", "report"},  {"print", "report"},
        {"flame", "flamegraph"}, {"stats", "info"},   {"convert", "import"},
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i][0])) return names[i][1];
    return NULL;
}

int mp_command_unknown(const char *name)
{
    if (mp_gone_command(name)) return MP_EXIT_USAGE;
    for (const struct mp_command_left_out *one = mp_commands_left_out; one->name; one++)
        if (!strcmp(one->name, name))
            return mp_give_up("this build has no %s: configure it with --enable-%s", name, one->part);
    const char *names[64] = {0};
    for (size_t i = 0; mp_commands[i]; i++)
        names[i] = mp_commands[i]->name;
    const char *other = by_other_name(name), *nearest = other ? other : mp_nearest(name, names);
    if (nearest)
        mp_message("there is no command \"%s\"; did you mean \"%s\"?", name, nearest);
    else
        mp_message("there is no command \"%s\"; memprof --help lists them", name);
    return MP_EXIT_USAGE;
}
