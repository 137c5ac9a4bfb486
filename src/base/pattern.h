/*
 * Extended regular expressions from users and recordings. The C library copies repeated parts, so twenty bytes ("a" and
 * nineteen "+") may take gigabytes and minutes to compile; a back reference may take as long to match. Both are
 * refused. Pure; any thread.
 */
#pragma once

#include <regex.h>

#include "base/error.h"

/* Compiles without substrings (REG_NOSUB); free with regfree(). MP_INVALID: *error has the reason, without the text of
 * the expression. */
enum mp_status mp_pattern_compile(const char *text, regex_t *pattern, struct mp_error *error);
