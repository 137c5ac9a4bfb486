/*
 * Extended regular expressions, as users and recordings give them. The C library copies what is repeated, so that
 * twenty bytes ("a" and nineteen "+") may take gigabytes and minutes to compile; and what refers back may take as long
 * to match. Both are refused. Pure; any thread.
 */
#ifndef MP_BASE_PATTERN_H
#define MP_BASE_PATTERN_H

#include <regex.h>

#include "base/error.h"

/* Without substrings (REG_NOSUB); to be freed with regfree(). MP_INVALID: *error is why, without the text itself. */
enum mp_status mp_pattern_compile(const char *text, regex_t *pattern, struct mp_error *error);

#endif
