/*
 * Suppressions in LeakSanitizer's syntax: lines `leak:PATTERN`; empty lines and lines with `#` are skipped. A pattern
 * may match anywhere in the function, file or module of any frame. `*` stands for any text, a first `^` for the name's
 * begin, a last `$` for its end. One thread at a time, since it counts uses.
 */
#pragma once

#include "base/error.h"
#include "base/vec.h"
#include "model/model.h"

struct mp_suppression {
    char *pattern;
    uint64_t findings, bytes; /* suppressed by it */
};

struct mp_suppressions {
    MP_VEC(struct mp_suppression) at;
};

/* Adds the suppressions in `text`. MP_INVALID names `path` and the wrong line. */
enum mp_status mp_suppressions_parse(const char *text, const char *path, struct mp_suppressions *suppressions,
                                     struct mp_error *error);
/* The first suppression that matches a stack; NULL: none. `suppressions` may be NULL. */
struct mp_suppression *mp_suppressions_find(const struct mp_suppressions *suppressions, const struct mp_model *model,
                                            uint32_t stack);
void mp_suppressions_free(struct mp_suppressions *suppressions);
