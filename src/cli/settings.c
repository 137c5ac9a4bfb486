#include "cli/settings.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"
#include "cli/gone.h"
#include "cli/text_file.h"

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

int mp_settings_take(struct mp_invocation *invocation)
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
    mp_buffer_append(&texts, "", 1);
    invocation->settings = (char *)texts.data;
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
