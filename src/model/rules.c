#include "model/rules.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/pattern.h"

/* Returns the text after a bracket expression that begins at `at`. */
static const char *skip_bracket(const char *at)
{
    at++;
    if (*at == '^') at++;
    if (*at == ']') at++;
    while (*at && *at != ']') {
        const char *end = at[0] == '[' && at[1] && strchr(".:=", at[1]) ? strchr(at + 2, at[1]) : NULL;
        at = end ? end + 1 : at + 1;
    }
    return *at ? at + 1 : at;
}

static bool is_made_optional(const char *next)
{
    next += strspn(next, "+");
    return *next && strchr("*?{", *next);
}

/* Writes the longest text that every match certainly contains: outside of alternatives, groups, and characters that a
 * following sign makes optional. `literal` has room for the whole expression. */
static void find_literal(const char *regex, char *literal, char *run)
{
    size_t best = 0, length = 0;
    int depth = 0;
    *literal = '\0';
    for (const char *at = regex;;) {
        bool escaped = at[0] == '\\' && ispunct((unsigned char)at[1]) && !strchr("<>`'", at[1]);
        char character = escaped ? at[1] : at[0];
        bool plain = escaped || (character && !strchr(".^$*+?()[]{}|\\", character));
        if (character == '|' && !escaped && depth <= 0) {
            *literal = '\0';
            return;
        }
        if (plain && !depth && !is_made_optional(at + 1 + escaped)) {
            run[length++] = character;
            at += 1 + escaped;
            continue;
        }
        if (length > best) {
            best = length;
            memcpy(literal, run, length);
            literal[length] = '\0';
        }
        length = 0;
        if (!*at) return;
        if (!escaped) depth += (*at == '(') - (*at == ')');
        if (!escaped && *at == '[')
            at = skip_bracket(at);
        else if (!escaped && *at == '{')
            at += strcspn(at, "}");
        else
            at += 1 + (*at == '\\' && at[1]);
    }
}

enum mp_status mp_rules_add(struct mp_rules *rules, const char *name, const char *regex, struct mp_error *error)
{
    if (rules->rules.count == MP_RULES_MAX)
        return mp_fail(error, MP_INVALID, "there are more than %d rules", MP_RULES_MAX);
    struct mp_rule rule = {.name = mp_intern_add_text(&rules->names, name)};
    struct mp_error why;
    if (mp_pattern_compile(regex, &rule.regex, &why))
        return mp_fail(error, MP_INVALID, "\"%s\" is not a regular expression: %s", regex, why.text);
    char *run = mp_alloc(strlen(regex) + 1);
    rule.literal = mp_alloc(strlen(regex) + 1);
    find_literal(regex, rule.literal, run);
    free(run);
    mp_vec_add(&rules->rules, rule);
    return MP_OK;
}

static char *trim(char *text)
{
    text += strspn(text, " \t\r");
    for (size_t length = strlen(text); length && strchr(" \t\r", text[length - 1]); length--)
        text[length - 1] = '\0';
    return text;
}

static enum mp_status read_line(struct mp_rules *rules, char *line, struct mp_error *error)
{
    char *equals = strchr(line, '=');
    line = trim(line);
    if (!*line || *line == '#') return MP_OK;
    if (!equals) return mp_fail(error, MP_INVALID, "\"%s\" has no =; write NAME = REGEX", line);
    *equals = '\0';
    char *name = trim(line), *regex = trim(equals + 1);
    if (!*name || !*regex) return mp_fail(error, MP_INVALID, "a rule is NAME = REGEX, and both are needed");
    return mp_rules_add(rules, name, regex, error);
}

enum mp_status mp_rules_parse(struct mp_rules *rules, const char *path, const char *text, struct mp_error *error)
{
    struct mp_error reason;
    for (unsigned number = 1; *text; number++) {
        size_t length = strcspn(text, "\n");
        char *line = mp_text_copy_part(text, length);
        enum mp_status status = read_line(rules, line, &reason);
        free(line);
        if (status) return mp_fail(error, status, "%s, line %u: %s", path, number, reason.text);
        text += length + (text[length] == '\n');
    }
    return MP_OK;
}

void mp_rules_free(struct mp_rules *rules)
{
    for (size_t i = 0; i < rules->rules.count; i++) {
        regfree(&rules->rules.at[i].regex);
        free(rules->rules.at[i].literal);
    }
    mp_vec_free(&rules->rules);
    mp_intern_free(&rules->names);
}

bool mp_rule_fits(const struct mp_rule *rule, const char *text)
{
    return (!*rule->literal || strstr(text, rule->literal)) && !regexec(&rule->regex, text, 0, NULL, 0);
}

uint32_t mp_rules_find(const struct mp_rules *rules, const char *text)
{
    for (uint32_t i = 0; i < rules->rules.count; i++)
        if (mp_rule_fits(&rules->rules.at[i], text)) return i;
    return MP_NONE;
}

void mp_rules_line_text(const struct mp_model *model, const struct mp_model_line *line, uint32_t library,
                        struct mp_buffer *text)
{
    mp_buffer_clear(text);
    mp_buffer_append_text(text, line->function ? mp_model_text(model, line->function) : "?");
    if (line->file)
        mp_buffer_printf(text, " %s:%u", mp_model_text(model, line->file), line->line);
    else if (library)
        mp_buffer_printf(text, " %s", mp_model_text(model, model->modules.at[library].path));
}

uint32_t mp_rules_find_frame(const struct mp_rules *rules, const struct mp_model *model, uint32_t frame,
                             struct mp_buffer *scratch)
{
    const struct mp_model_frame *from = &model->frames.at[frame];
    uint32_t library = from->raw.language == MP_NATIVE ? from->raw.module : 0;
    static const struct mp_model_line unknown;
    uint32_t best = MP_NONE;
    for (uint32_t i = 0; i < from->line_count || !i; i++) {
        const struct mp_model_line *line = from->line_count ? &model->lines.at[from->first_line + i] : &unknown;
        mp_rules_line_text(model, line, library, scratch);
        uint32_t rule = mp_rules_find(rules, mp_buffer_text(scratch));
        if (rule < best) best = rule;
    }
    return best;
}
