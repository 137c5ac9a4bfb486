#include "base/step_rule.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/pattern.h"
#include "base/setting.h"
#include "base/step_function.h"
#include "base/words.h"

enum mp_status mp_step_rule_open(struct mp_step_rule *rule, const char *pattern, struct mp_error *error)
{
    *rule = (struct mp_step_rule){.range = MP_STEP_NAMED};
    struct mp_error why;
    if (!pattern || !*pattern) return MP_OK;
    if (!mp_pattern_compile(pattern, &rule->pattern, &why)) {
        rule->has_pattern = true;
        rule->range = MP_STEP_OF_RANGE;
        return MP_OK;
    }
    return mp_fail(error, MP_INVALID, "\"%s\" is no regular expression: %s", pattern, why.text);
}

void mp_step_rule_open_configured(struct mp_step_rule *rule, const char *configuration)
{
    char pattern[256];
    struct mp_error ignored;
    mp_setting(pattern, sizeof pattern, configuration, "step_range");
    (void)mp_step_rule_open(rule, pattern, &ignored);
    mp_setting(rule->function, sizeof rule->function, configuration, "step_at");
}

static void put_stem(char *to, size_t room, const char *name)
{
    size_t length = 0;
    for (; *name && length + 1 < room; name++)
        if (!isdigit((unsigned char)*name)) to[length++] = *name;
    to[length] = '\0';
}

static bool may_match(const struct mp_step_rule *rule, const char *name)
{
    if (rule->has_pattern) return !regexec(&rule->pattern, name, 0, NULL, 0);
    return !strncmp(name, MP_PROFILER_STEP, strlen(MP_PROFILER_STEP)) || !strncmp(name, "step", 4);
}

bool mp_step_rule_matches(struct mp_step_rule *rule, const char *name)
{
    if (!may_match(rule, name)) return false;
    if (rule->has_pattern) return true;
    char stem[sizeof rule->stem];
    put_stem(stem, sizeof stem, name);
    if (!*rule->stem) memcpy(rule->stem, stem, sizeof stem);
    return !strcmp(stem, rule->stem);
}

/* Remembers the answer for each name: programs have few names and many regions. */
static bool is_step_region(struct mp_step_rule *rule, uint32_t number, const char *name)
{
    enum { UNKNOWN, NO, YES };
    if (!mp_vec_extend(&rule->regions, (size_t)number + 1)) return mp_step_rule_matches(rule, name);
    unsigned char *answer = &rule->regions.at[number];
    if (*answer == UNKNOWN) *answer = mp_step_rule_matches(rule, name) ? YES : NO;
    return *answer == YES;
}

static enum mp_step_kind kind_of_call(struct mp_step_rule *rule, uint32_t number, const char *name)
{
    bool library = mp_is_library_file(name);
    uint32_t *counts = library ? &rule->library : &rule->users;
    if (!*counts) *counts = number;
    if (*counts != number) return MP_STEP_NONE;
    return library ? MP_STEP_OF_LIBRARY_FUNCTION : MP_STEP_OF_FUNCTION;
}

static void count_call(struct mp_step_rule *rule, uint32_t number)
{
    size_t i = 0;
    while (i < MP_STEP_FUNCTIONS && rule->functions[i].calls && rule->functions[i].number != number)
        i++;
    if (i == MP_STEP_FUNCTIONS) return;
    rule->functions[i].number = number;
    rule->functions[i].calls++;
}

enum mp_step_kind mp_step_rule_kind(struct mp_step_rule *rule, unsigned type, uint32_t number, const char *name)
{
    if (type == MP_EVENT_REGION_BEGIN) return is_step_region(rule, number, name) ? rule->range : MP_STEP_NONE;
    if (type != MP_EVENT_STEP) return MP_STEP_NONE;
    if (*rule->function && mp_step_function_means(rule->function, name))
        return rule->no_function ? MP_STEP_NONE : kind_of_call(rule, number, name);
    return strcmp(name, MP_TORCH_STEP) ? MP_STEP_MARKED : MP_STEP_OF_OPTIMIZER;
}

bool mp_step_rule_take(struct mp_step_rule *rule, unsigned type, uint32_t number, const char *name)
{
    enum mp_step_kind kind = mp_step_rule_kind(rule, type, number, name);
    if (*rule->function && type == MP_EVENT_STEP && mp_step_function_means(rule->function, name))
        count_call(rule, number);
    if (kind < rule->weakest) return false;
    rule->begun[kind]++;
    if (kind > rule->kind) rule->kind = kind;
    return kind && kind == rule->kind;
}

uint64_t mp_step_rule_steps(const struct mp_step_rule *rule)
{
    if (!rule->kind) return rule->before;
    return rule->before + rule->begun[rule->kind] + (rule->kind == MP_STEP_OF_OPTIMIZER && !rule->before);
}

void mp_step_rule_only_asked(struct mp_step_rule *rule)
{
    if (*rule->function)
        rule->weakest = MP_STEP_OF_LIBRARY_FUNCTION;
    else if (rule->range == MP_STEP_OF_RANGE)
        rule->weakest = MP_STEP_OF_RANGE;
}

void mp_step_rule_close(struct mp_step_rule *rule)
{
    if (rule->has_pattern) regfree(&rule->pattern);
    rule->has_pattern = false;
    mp_vec_free(&rule->regions);
}
