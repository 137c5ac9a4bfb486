/*
 * Which regions are steps, by their names: those that a regular expression of the user's matches, else PyTorch's
 * "ProfilerStep#N" and what begins with "step". Of the latter only names that differ from the first one's in nothing
 * but digits count, so that "step_optimizer" inside "step 3" is no step.
 */
#ifndef MP_BASE_STEP_RULE_H
#define MP_BASE_STEP_RULE_H

#include <regex.h>
#include <stdbool.h>

#include "base/error.h"

struct mp_step_rule {
    bool has_pattern;
    regex_t pattern;
    char stem[128]; /* the first step's name without digits; "" until one was seen */
};

/* An extended regular expression; "" or NULL: the rule above. Fails for what is none, and says why. */
enum mp_status mp_step_rule_open(struct mp_step_rule *rule, const char *pattern, struct mp_error *error);
/* By the setting that a recording carries (a recording's configuration, wire/config.h), which was looked at before. */
void mp_step_rule_open_configured(struct mp_step_rule *rule, const char *configuration);
/* A text that a recording's configuration has about steps: step_range, step_at; "" where it has none. */
void mp_step_setting(char *to, size_t room, const char *configuration, const char *key);
bool mp_step_rule_matches(struct mp_step_rule *rule, const char *name);
void mp_step_rule_close(struct mp_step_rule *rule);

#endif
