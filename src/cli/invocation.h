/*
 * A command with the user's options: from the command line, then from the file of --config, then from the variable
 * MEMPROF_CONF.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/options.h"

struct mp_command;

#define MP_SETTING_VARIABLE UINT_MAX

/* A command with the user's options. Values belong to the invocation or to argv. */
struct mp_invocation {
    const struct mp_command *command;
    const char *value[MP_OPTIONS]; /* NULL: not given; switches: "" */
    char **operands;               /* NULL-terminated, in order */
    size_t operand_count;
    char *settings;                    /* texts of values that came from a file or the environment */
    unsigned setting_line[MP_OPTIONS]; /* line in the file of settings; MP_SETTING_VARIABLE: from the environment; 0:
                                        * the value is no setting */
};

/* Reads --unwind. Returns an exit status, after a message if it is not 0. */
int mp_option_unwind(const struct mp_invocation *invocation, bool *libunwind);
/* Reads an option's number, from `least` to `most`. *to stays unchanged if the option was not given. Returns an exit
 * status, after a message if it is not 0. */
int mp_option_number(const struct mp_invocation *invocation, enum mp_option option, uint64_t least, uint64_t most,
                     uint32_t *to);
/* Parses argv (argv[0] is the command's name; the array is reordered). Options missing in argv are taken from the file
 * of --config, then from MEMPROF_CONF. Returns an exit status; if it is not 0, a message was printed. */
int mp_options_parse(const struct mp_command *command, int argc, char **argv, struct mp_invocation *invocation);
void mp_invocation_free(struct mp_invocation *invocation);

static inline bool mp_given(const struct mp_invocation *invocation, enum mp_option option)
{
    return invocation->value[option];
}

/* Called if a command could not use a value: prints the origin of each value that came from a setting. */
void mp_settings_name_origins(const struct mp_invocation *invocation);
