#include "analysis/leaks/suppress.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "model/stack.h"

static enum mp_status add_line(const char *line, size_t length, unsigned number, const char *path,
                               struct mp_suppressions *suppressions, struct mp_error *error)
{
    static const char kind[] = "leak:";
    size_t skip = strlen(kind);
    while (length && strchr(" \t\r", line[length - 1]))
        length--;
    for (; length && strchr(" \t", *line); line++)
        length--;
    if (!length || *line == '#') return MP_OK;
    if (length <= skip || memcmp(line, kind, skip))
        return mp_fail(error, MP_INVALID, "%s: line %u: a suppression has the form leak:PATTERN, not \"%.*s\"", path,
                       number, length > 60 ? 60 : (int)length, line);
    struct mp_suppression suppression = {.pattern = mp_text_copy_part(line + skip, length - skip)};
    mp_vec_add(&suppressions->at, suppression);
    return MP_OK;
}

enum mp_status mp_suppressions_parse(const char *text, const char *path, struct mp_suppressions *suppressions,
                                     struct mp_error *error)
{
    for (unsigned number = 1; *text; number++) {
        size_t length = strcspn(text, "\n");
        enum mp_status status = add_line(text, length, number, path, suppressions, error);
        if (status != MP_OK) return status;
        text += length + (text[length] == '\n');
    }
    return MP_OK;
}

/* The first match of the text before a `*` is as good as any later one. The search goes back to the last `*`
 * alone. */
static bool matches(const char *pattern, const char *name)
{
    if (!name) return false;
    bool fixed = *pattern == '^';
    const char *again = fixed ? NULL : pattern, *from = name;
    for (pattern += fixed; *pattern;) {
        bool at_end = *pattern == '$' && !pattern[1];
        if (*pattern == '*') {
            again = ++pattern;
            from = name;
        } else if (at_end ? !*name : *name && *pattern == *name) {
            pattern++;
            name += !at_end;
        } else {
            if (!again || !*from) return false;
            pattern = again;
            name = ++from;
        }
    }
    return true;
}

struct mp_suppression *mp_suppressions_find(const struct mp_suppressions *suppressions, const struct mp_model *model,
                                            uint32_t stack)
{
    struct mp_stack_lines lines = {0};
    struct mp_suppression *found = NULL;
    if (!suppressions) return NULL;
    mp_stack_resolve(model, stack, &lines);
    for (size_t i = 0; i < suppressions->at.count && !found; i++) {
        struct mp_suppression *suppression = &suppressions->at.at[i];
        for (size_t k = 0; k < lines.count && !found; k++) {
            const struct mp_stack_line *line = &lines.at[k];
            if (matches(suppression->pattern, line->function) || matches(suppression->pattern, line->file) ||
                matches(suppression->pattern, line->module))
                found = suppression;
        }
    }
    mp_stack_lines_free(&lines);
    return found;
}

void mp_suppressions_free(struct mp_suppressions *suppressions)
{
    for (size_t i = 0; i < suppressions->at.count; i++)
        free(suppressions->at.at[i].pattern);
    mp_vec_free(&suppressions->at);
}
