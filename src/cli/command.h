/*
 * A command of memprof: it has its own file, one struct mp_command named mp_command_NAME, and its name in the
 * Makefile.inc of its folder: in COMMANDS of src/cli, or in PART_COMMANDS of a part. src/cli/commands.awk makes the two
 * tables below of these names.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "cli/messages.h"
#include "cli/options.h"

struct mp_invocation;

struct mp_command {
    const char *name;
    const char *summary; /* one line, no capital, no full stop */
    const char *usage;   /* the text after the options: "FILE" */
    const char *about;   /* a paragraph or two for --help and the manual; may be NULL */
    const char *example; /* a whole command line */
    const char *writes;  /* examples of FILE, for commands that need -o FILE; NULL: -o is not needed */
    /* Meanings of options that differ from the table of options; ends with MP_OPT_NONE. */
    struct mp_option_meaning {
        enum mp_option option;
        const char *help;
    } meanings[5];
    enum mp_option options[MP_OPTIONS]; /* ends with MP_OPT_NONE; --help and --config always work */
    size_t operands_min, operands_max;
    bool stops_at_operand; /* the first operand or "--" ends its options: the rest belongs to another command */
    bool hidden;           /* not in the list of commands */
    int (*run)(const struct mp_invocation *invocation); /* returns an exit status */
};

extern const struct mp_command *const mp_commands[]; /* in order of --help, NULL-terminated */

/* Another way to run a command, of a part. */
struct mp_command_way {
    const char *command;
    size_t operands_max; /* with the way; 0: as without it */
    bool (*takes)(const struct mp_invocation *invocation);
    int (*run)(const struct mp_invocation *invocation);
};
/* Of each part that has some, an array that ends with `command` NULL; NULL-terminated. */
extern const struct mp_command_way *const mp_command_ways[];

/* Runs a command, in the first way that takes the invocation, or else in its own. Returns an exit status. */
int mp_command_run(const struct mp_command *command, const struct mp_invocation *invocation);
size_t mp_command_operands_max(const struct mp_command *command);

/* The commands of the parts that configure left out; `name` NULL ends it. */
struct mp_command_left_out {
    const char *name, *part;
};
extern const struct mp_command_left_out mp_commands_left_out[];

const struct mp_command *mp_command_find(const char *name);
/* The heading that begins with this command in the list of commands; NULL: the previous command's heading applies,
 * too. */
const char *mp_command_heading(const struct mp_command *command);
const char *mp_command_option_help(const struct mp_command *command, enum mp_option option);
bool mp_command_takes(const struct mp_command *command, enum mp_option option);
/* Reports that there is no such command, and why or which one is nearest. Returns MP_EXIT_COULD_NOT if its part was
 * left out, else MP_EXIT_USAGE. */
int mp_command_unknown(const char *name);
