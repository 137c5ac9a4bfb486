#include "base/pattern.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define COST_MAX  10000
#define DEPTH_MAX 100

/* The cost of compiling an expression, in characters. The C library writes a repetition out, several times over if the
 * repeated part can be empty. The arrays have an entry for each open group, outermost first. Measured with glibc 2.36:
 * a cost of 10 000 takes at most 50 MB and 0.1 s, while "e" and eight times "+?" take seconds. */
struct measure {
    uint64_t before[DEPTH_MAX + 1]; /* all pieces of the group but the last */
    uint64_t last[DEPTH_MAX + 1];   /* the last piece, which a following "*" or "{2}" would repeat */
    unsigned depth;
};

/* Returns the character after the bracket expression that begins at `at`. */
static const char *after_bracket(const char *at)
{
    at++;
    if (*at == '^') at++;
    if (*at == ']') at++;
    for (; *at && *at != ']'; at++) {
        if (*at != '[' || !at[1] || !strchr(":.=", at[1])) continue;
        const char end[] = {at[1], ']', '\0'};
        const char *closed = strstr(at + 2, end);
        if (closed) at = closed + 1;
    }
    return *at ? at + 1 : at;
}

static void add_piece(struct measure *measure)
{
    measure->before[measure->depth] += measure->last[measure->depth];
    measure->last[measure->depth] = 1;
}

static void repeat(struct measure *measure, uint64_t times)
{
    uint64_t *last = &measure->last[measure->depth];
    if (!*last) *last = 1; /* an empty group */
    *last = times > COST_MAX || *last * times > COST_MAX ? COST_MAX + 1 : *last * times;
}

/* The most copies that a repetition at `at` makes, as "{2,5}"; 0 for a literal brace. *end: its last character. */
static uint64_t times_of(const char *at, const char **end)
{
    size_t digits = strspn(at + 1, "0123456789");
    const char *comma = at + 1 + digits;
    *end = at;
    if (!digits && *comma != ',') return 0;
    const char *close = comma + strspn(comma, ",0123456789");
    if (*close == '}') *end = close; /* otherwise the expression is not valid */
    uint64_t low = strtoul(at + 1, NULL, 10), high = *comma == ',' ? strtoul(comma + 1, NULL, 10) : 0;
    high = high > low ? high : low + 1;
    return high < COST_MAX ? high : COST_MAX;
}

static bool close_group(struct measure *measure)
{
    if (!measure->depth) { /* no group is open: a literal character */
        add_piece(measure);
        return true;
    }
    uint64_t inside = measure->before[measure->depth] + measure->last[measure->depth];
    measure->depth--;
    add_piece(measure);
    measure->last[measure->depth] = inside;
    return inside <= COST_MAX;
}

/* Returns NULL if the expression may be compiled, otherwise the reason against it. */
static const char *measure_pattern(const char *text)
{
    static const char too_long[] = "it repeats too much", refers[] = "it refers back";
    struct measure measure = {.depth = 0};
    const char *end;
    uint64_t times;
    for (const char *at = text; *at; at++) {
        if (*at == '+') {
            repeat(&measure, 4);
        } else if (*at == '*' || *at == '?') {
            repeat(&measure, 2);
        } else if (*at == '{' && (times = times_of(at, &end))) {
            repeat(&measure, 2 * times);
            at = end;
        } else if (*at == '(') {
            if (measure.depth == DEPTH_MAX) return "its groups are too deep";
            measure.depth++;
            measure.before[measure.depth] = measure.last[measure.depth] = 0;
        } else if (*at == ')') {
            if (!close_group(&measure)) return too_long;
        } else if (*at == '[') {
            add_piece(&measure);
            at = after_bracket(at) - 1;
        } else if (*at == '\\' && at[1]) {
            if (isdigit((unsigned char)*++at)) return refers;
            add_piece(&measure);
        } else {
            add_piece(&measure);
        }
        if (measure.before[measure.depth] + measure.last[measure.depth] > COST_MAX) return too_long;
    }
    return NULL;
}

enum mp_status mp_pattern_compile(const char *text, regex_t *pattern, struct mp_error *error)
{
    char why[128];
    const char *refused = measure_pattern(text);
    if (refused) return mp_fail(error, MP_INVALID, "%s", refused);
    int code = regcomp(pattern, text, REG_EXTENDED | REG_NOSUB);
    if (!code) return MP_OK;
    regerror(code, pattern, why, sizeof why);
    return mp_fail(error, MP_INVALID, "%s", why);
}
