#include "base/step_rule.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/pattern.h"

enum mp_status mp_step_rule_open(struct mp_step_rule *rule, const char *pattern, struct mp_error *error)
{
    *rule = (struct mp_step_rule){.has_pattern = pattern && *pattern};
    struct mp_error why;
    if (!rule->has_pattern || !mp_pattern_compile(pattern, &rule->pattern, &why)) return MP_OK;
    rule->has_pattern = false;
    return mp_fail(error, MP_INVALID, "\"%s\" is no regular expression: %s", pattern, why.text);
}

static int hex_digit(char c)
{
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

/* The text up to ';', with %XX undone. */
static void decode(char *to, size_t room, const char *from)
{
    size_t length = 0;
    while (*from && *from != ';' && length + 1 < room) {
        bool encoded = *from == '%' && hex_digit(from[1]) >= 0 && hex_digit(from[2]) >= 0;
        to[length++] = encoded ? (char)(hex_digit(from[1]) << 4 | hex_digit(from[2])) : *from;
        from += encoded ? 3 : 1;
    }
    to[length] = '\0';
}

void mp_step_setting(char *to, size_t room, const char *configuration, const char *key)
{
    size_t length = strlen(key);
    *to = '\0';
    for (const char *at = configuration; at && *at; at = strchr(at, ';')) {
        at += *at == ';';
        if (!strncmp(at, key, length) && at[length] == '=') decode(to, room, at + length + 1);
    }
}

void mp_step_rule_open_configured(struct mp_step_rule *rule, const char *configuration)
{
    char pattern[256];
    struct mp_error ignored;
    mp_step_setting(pattern, sizeof pattern, configuration, "step_range");
    (void)mp_step_rule_open(rule, pattern, &ignored);
}

static void put_stem(char *to, size_t room, const char *name)
{
    size_t length = 0;
    for (; *name && length + 1 < room; name++)
        if (!isdigit((unsigned char)*name)) to[length++] = *name;
    to[length] = '\0';
}

bool mp_step_rule_matches(struct mp_step_rule *rule, const char *name)
{
    static const char *const beginnings[] = {"ProfilerStep#", "step"};
    if (rule->has_pattern) return !regexec(&rule->pattern, name, 0, NULL, 0);
    bool begins = false;
    for (size_t i = 0; i < sizeof beginnings / sizeof *beginnings; i++)
        begins |= !strncmp(name, beginnings[i], strlen(beginnings[i]));
    if (!begins) return false;
    char stem[sizeof rule->stem];
    put_stem(stem, sizeof stem, name);
    if (!*rule->stem) memcpy(rule->stem, stem, sizeof stem);
    return !strcmp(stem, rule->stem);
}

void mp_step_rule_close(struct mp_step_rule *rule)
{
    if (rule->has_pattern) regfree(&rule->pattern);
    rule->has_pattern = false;
}
