/*
 * Rules over stacks: they give blocks a category by the frames that allocated them. A rule is a name and a POSIX
 * extended regular expression. The expression is searched for in each frame, which is one line of text: "FUNCTION
 * FILE:LINE" (native frames without a file: "FUNCTION LIBRARY"; "?" for an unknown function). The first rule that fits
 * any frame of a stack counts. Pure.
 */
#pragma once

#include <regex.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/intern.h"
#include "base/vec.h"
#include "model/model.h"

struct mp_rule {
    uint32_t name; /* string id in names */
    regex_t regex;
    char *literal; /* a text that every match contains, "" if unknown: most frames lack it and need no regex */
};

struct mp_rules {
    MP_VEC(struct mp_rule) rules;
    struct mp_intern names;
};

#define MP_RULES_MAX 1000 /* the most rules, and the most names */

/* Adds a rule. Zero-initialised rules are empty. MP_INVALID: *error names the mistake in the expression; the rules are
 * unchanged. */
enum mp_status mp_rules_add(struct mp_rules *rules, const char *name, const char *regex, struct mp_error *error);
/* Adds the rules of a text with lines `name = regex`. Empty lines and lines that begin with '#' are ignored.
 * MP_INVALID: *error names the line, with `path` before it. */
enum mp_status mp_rules_parse(struct mp_rules *rules, const char *path, const char *text, struct mp_error *error);
void mp_rules_free(struct mp_rules *rules);

bool mp_rule_fits(const struct mp_rule *rule, const char *text);
/* Writes the text of a frame's line. `library`: index of a native frame's module; 0: none. */
void mp_rules_line_text(const struct mp_model *model, const struct mp_model_line *line, uint32_t library,
                        struct mp_buffer *text);
/* The index of the first rule that fits the text; MP_NONE if none does. */
uint32_t mp_rules_find(const struct mp_rules *rules, const char *text);
/* The index of the first rule that fits any line of a frame. `scratch`: memory for the lines' texts. */
uint32_t mp_rules_find_frame(const struct mp_rules *rules, const struct mp_model *model, uint32_t frame,
                             struct mp_buffer *scratch);
