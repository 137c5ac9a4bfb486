#include "cli/invocation.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/command.h"
#include "cli/gone.h"
#include "cli/text_file.h"

/* ---- settings ------------------------------------------------------------------------------------------------- */

static const char variable[] = "MEMPROF_CONF";

/* The origin of a setting, for messages. */
struct source {
    const char *name;
    unsigned line; /* 0: none */
};

static int bad_setting(const struct source *source, const char *fault, const char *name)
{
    if (source->line)
        mp_message("%s, line %u: %s \"%s\"", source->name, source->line, fault, name);
    else
        mp_message("%s: %s \"%s\"", source->name, fault, name);
    return MP_EXIT_USAGE;
}

static int unknown_setting(const struct source *source, const char *name)
{
    const char *names[MP_OPTIONS] = {0};
    size_t count = 0;
    for (int i = MP_OPT_CONFIG + 1; i < MP_OPTIONS; i++)
        names[count++] = mp_option_rows[i].name;
    const char *nearest = mp_nearest(name, names);
    int status = bad_setting(source, "there is no setting", name);
    if (mp_gone_option(NULL, name, strlen(name))) return status;
    if (nearest) mp_message("did you mean \"%s\"?", nearest);
    return status;
}

/* Applies a setting. Settings are shared by all commands, so a setting that this command cannot use is skipped. */
static int take_setting(struct mp_invocation *invocation, const struct source *source, const char *name,
                        const char *value)
{
    static const char *const yes[] = {"yes", "true", "on", "1", ""}, *const no[] = {"no", "false", "off", "0"};
    enum mp_option option = mp_option_named(name, strlen(name));
    if (option == MP_OPT_NONE || option == MP_OPT_HELP || option == MP_OPT_CONFIG) return unknown_setting(source, name);
    if (!mp_command_takes(invocation->command, option) || invocation->value[option]) return MP_EXIT_DONE;
    invocation->setting_line[option] = source->line ? source->line : MP_SETTING_VARIABLE;
    if (mp_option_rows[option].argument) {
        invocation->value[option] = value;
        return MP_EXIT_DONE;
    }
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (!strcmp(value, no[i])) return MP_EXIT_DONE;
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) {
        if (strcmp(value, yes[i])) continue;
        invocation->value[option] = "";
        return MP_EXIT_DONE;
    }
    return bad_setting(source, "give yes or no for", name);
}

static char *trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = '\0';
    return text;
}

static int take_pair(struct mp_invocation *invocation, const struct source *source, char *pair)
{
    char *equals = strchr(pair, '=');
    if (!equals) return bad_setting(source, "write \"option = value\", not", pair);
    *equals = '\0';
    return take_setting(invocation, source, trim(pair), trim(equals + 1));
}

static int take_lines(struct mp_invocation *invocation, const char *path, char *text)
{
    struct source source = {path, 0};
    for (char *line; (line = strsep(&text, "\n"));) {
        source.line++;
        line = trim(line);
        if (!*line || *line == '#') continue;
        int status = take_pair(invocation, &source, line);
        if (status) return status;
    }
    return MP_EXIT_DONE;
}

/* A part without '=' continues the value before it: "capture=torch,cpu,limit=5". */
static int take_list(struct mp_invocation *invocation, char *text)
{
    static const struct source source = {variable, 0};
    while (*text) {
        char *end = text + strcspn(text, ",");
        while (*end && !memchr(end + 1, '=', strcspn(end + 1, ",")))
            end += 1 + strcspn(end + 1, ",");
        bool last = !*end;
        *end = '\0';
        int status = take_pair(invocation, &source, text);
        if (status || last) return status;
        text = end + 1;
    }
    return MP_EXIT_DONE;
}

/* Fills in the values missing from `invocation`. */
static int take_settings(struct mp_invocation *invocation)
{
    const char *path = invocation->value[MP_OPT_CONFIG], *list = getenv(variable);
    struct mp_buffer texts = {0};
    struct mp_error error;
    if (path && mp_text_file_read(path, &texts, &error)) {
        mp_buffer_free(&texts);
        return mp_message_error(&error);
    }
    if (!path) mp_buffer_append(&texts, "", 1);
    size_t length = texts.size;
    mp_buffer_append_text(&texts, list ? list : "");
    invocation->settings = mp_buffer_take(&texts);
    int status = take_lines(invocation, path, invocation->settings);
    return status ? status : take_list(invocation, invocation->settings + length);
}

void mp_settings_name_origins(const struct mp_invocation *invocation)
{
    for (int i = MP_OPT_CONFIG + 1; i < MP_OPTIONS; i++) {
        unsigned line = invocation->value[i] ? invocation->setting_line[i] : 0;
        if (line == MP_SETTING_VARIABLE)
            mp_message("%s = %s comes from %s", mp_option_rows[i].name, invocation->value[i], variable);
        else if (line)
            mp_message("%s = %s comes from %s, line %u", mp_option_rows[i].name, invocation->value[i],
                       invocation->value[MP_OPT_CONFIG], line);
    }
}

/* ---- the command line ------------------------------------------------------------------------------------------ */

static int see_help(const struct mp_command *command)
{
    return mp_refuse("memprof %s --help lists its options", command->name);
}

static int unknown_option(const struct mp_command *command, const char *text)
{
    const char *names[MP_OPTIONS] = {0};
    size_t count = 0;
    char name[64];
    if (!strncmp(text, "--", 2) && mp_gone_option(command->name, text + 2, strcspn(text + 2, "=")))
        return MP_EXIT_USAGE;
    for (int i = MP_OPT_HELP; i < MP_OPTIONS; i++)
        if (mp_command_takes(command, i)) names[count++] = mp_option_rows[i].name;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(text + strspn(text, "-"), "="), text + strspn(text, "-"));
    const char *nearest = strncmp(text, "--", 2) ? NULL : mp_nearest(name, names);
    if (nearest) return mp_refuse("%s has no option %s; did you mean --%s?", command->name, text, nearest);
    mp_message("%s has no option %s", command->name, text);
    return see_help(command);
}

struct parser {
    struct option longs[MP_OPTIONS];
    char shorts[2 * MP_OPTIONS + 3];
};

/* Makes getopt_long's tables. An option's value is 256 + id, and so differs from all letters. */
static void make_parser(const struct mp_command *command, struct parser *parser)
{
    size_t longs = 0;
    char *shorts = parser->shorts;
    if (command->stops_at_operand) *shorts++ = '+';
    *shorts++ = ':';
    for (int i = MP_OPT_HELP; i < MP_OPTIONS; i++) {
        const struct mp_option_row *row = &mp_option_rows[i];
        if (!mp_command_takes(command, i)) continue;
        parser->longs[longs++] = (struct option){row->name,
                                                 !row->argument          ? no_argument
                                                 : *row->argument == '[' ? optional_argument
                                                                         : required_argument,
                                                 NULL, 256 + i};
        if (!row->letter) continue;
        *shorts++ = row->letter;
        if (row->argument) *shorts++ = ':';
    }
    *shorts = '\0';
    parser->longs[longs] = (struct option){0};
}

static enum mp_option option_of(const struct mp_command *command, int code)
{
    if (code >= 256) return code - 256;
    for (int i = MP_OPT_HELP; i < MP_OPTIONS; i++)
        if (mp_option_rows[i].letter == code && mp_command_takes(command, i)) return i;
    return MP_OPT_NONE;
}

/* The value of an option that may have none is the next argument if that begins as such a value does. */
static const char *optional_value(const struct mp_option_row *row, const char *next)
{
    const char *begin = row->argument && *row->argument == '[' ? row->argument + 1 : NULL;
    return begin && next && !strncmp(next, begin, strcspn(begin, ":") + 1) ? next : NULL;
}

static int parse_arguments(const struct mp_command *command, int argc, char **argv, struct mp_invocation *invocation)
{
    struct parser parser;
    make_parser(command, &parser);
    opterr = 0;
    optind = 0;
    for (;;) {
        int before = optind ? optind : 1;
        int code = getopt_long(argc, argv, parser.shorts, parser.longs, NULL);
        if (code == -1) break;
        if (code == ':') {
            enum mp_option option = option_of(command, optopt);
            return mp_refuse("--%s needs %s: %s", mp_option_rows[option].name, mp_option_rows[option].argument,
                             mp_command_option_help(command, option));
        }
        if (code == '?') {
            char letter[3] = {'-', (char)optopt};
            const char *text = argv[before];
            if (optopt >= 256) return mp_refuse("--%s takes no value", mp_option_rows[optopt - 256].name);
            return unknown_option(command, optopt ? letter : strncmp(text, "--", 2) ? argv[optind - 1] : text);
        }
        enum mp_option option = option_of(command, code);
        const char *next = optarg ? NULL : optional_value(&mp_option_rows[option], argv[optind]);
        optind += next != NULL;
        invocation->value[option] = optarg ? optarg : next ? next : "";
    }
    invocation->operands = argv + optind;
    invocation->operand_count = (size_t)(argc - optind);
    return MP_EXIT_DONE;
}

/* True if a command for one file got two files: the user may want to compare them. */
static bool reads_one_file(const struct mp_invocation *invocation)
{
    return mp_command_operands_max(invocation->command) == 1 && mp_command_takes(invocation->command, MP_OPT_JSON) &&
           access(invocation->operands[1], R_OK) == 0;
}

static int check_operands(const struct mp_invocation *invocation)
{
    const struct mp_command *command = invocation->command;
    size_t most = mp_command_operands_max(command);
    if (invocation->operand_count < command->operands_min)
        mp_message("%s needs %s: memprof %s [options] %s", command->name, command->usage, command->name,
                   command->usage);
    else if (invocation->operand_count > most && reads_one_file(invocation))
        mp_message("%s reads one recording; memprof compare %s %s shows how two differ", command->name,
                   invocation->operands[0], invocation->operands[1]);
    else if (invocation->operand_count > most)
        mp_message("%s takes no operand \"%s\"", command->name, invocation->operands[most]);
    else
        return MP_EXIT_DONE;
    return see_help(command);
}

int mp_options_parse(const struct mp_command *command, int argc, char **argv, struct mp_invocation *invocation)
{
    *invocation = (struct mp_invocation){.command = command};
    int status = parse_arguments(command, argc, argv, invocation);
    if (status || mp_given(invocation, MP_OPT_HELP)) return status;
    status = check_operands(invocation);
    if (!status) status = take_settings(invocation);
    if (status || !command->writes || mp_given(invocation, MP_OPT_OUTPUT)) return status;
    return mp_refuse("%s needs -o FILE: %s", command->name, command->writes);
}

void mp_invocation_free(struct mp_invocation *invocation)
{
    free(invocation->settings);
}

/* ---- values --------------------------------------------------------------------------------------------------- */

int mp_option_number(const struct mp_invocation *invocation, enum mp_option option, uint64_t least, uint64_t most,
                     uint32_t *to)
{
    const char *text = invocation->value[option];
    char *end;
    if (!text) return MP_EXIT_DONE;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    *to = (uint32_t)value;
    if (*text >= '0' && *text <= '9' && !*end && !errno && value >= least && value <= most) return MP_EXIT_DONE;
    return mp_refuse("--%s %s: give a number from %llu to %llu", mp_option_rows[option].name, text,
                     (unsigned long long)least, (unsigned long long)most);
}

int mp_option_unwind(const struct mp_invocation *invocation, bool *libunwind)
{
    const char *how = invocation->value[MP_OPT_UNWIND];
    *libunwind = how && !strcmp(how, "libunwind");
    if (!how || *libunwind || !strcmp(how, "own")) return MP_EXIT_DONE;
    return mp_refuse("--unwind %s: give own or libunwind", how);
}
