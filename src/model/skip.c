#include "model/skip.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/pattern.h"
#include "model/stack.h"

#define SHARED_MAX 16 /* functions in a row */

static void need_room(struct mp_model *model)
{
    while (model->skipped.count < model->strings.count + 1)
        mp_vec_add(&model->skipped, 0);
}

enum mp_status mp_skip_matching(struct mp_model *model, const char *regex, struct mp_error *error)
{
    regex_t pattern;
    struct mp_error why;
    enum mp_status status = mp_pattern_compile(regex, &pattern, &why);
    if (status) return mp_fail(error, status, "--skip-frames: \"%s\" is no regular expression: %s", regex, why.text);
    need_room(model);
    for (size_t i = 0; i < model->lines.count; i++) {
        const uint32_t of_line[] = {model->lines.at[i].function, model->lines.at[i].file};
        for (size_t k = 0; k < 2; k++) /* 2: looked at, and not matched */
            if (of_line[k] && !model->skipped.at[of_line[k]])
                model->skipped.at[of_line[k]] = regexec(&pattern, mp_model_text(model, of_line[k]), 0, NULL, 0) ? 2 : 1;
    }
    for (size_t i = 0; i < model->modules.count; i++) {
        uint32_t path = model->modules.at[i].path;
        if (path && !regexec(&pattern, mp_model_text(model, path), 0, NULL, 0)) model->skipped.at[path] = 1;
    }
    for (size_t i = 0; i < model->skipped.count; i++)
        model->skipped.at[i] = model->skipped.at[i] == 1;
    regfree(&pattern);
    return MP_OK;
}

static bool starts_program(const char *function)
{
    return !strcmp(function, "main") || !strcmp(function, "_start") || !strncmp(function, "__libc_start", 12) ||
           !strcmp(function, "start_thread") || !strncmp(function, "__clone", 7);
}

/* The innermost function that is shown, and whether a further one is left were it passed over. */
static const char *innermost(const struct mp_stack_lines *lines, bool *more)
{
    const char *found = NULL;
    *more = false;
    for (size_t i = 0; i < lines->count; i++) {
        const struct mp_stack_line *line = &lines->at[i];
        if (line->cut || mp_stack_is_allocator(line)) continue;
        if (!line->function) {
            if (!found) return NULL;
            continue;
        }
        if (!found)
            found = line->function;
        else if (strcmp(line->function, found) && !starts_program(line->function))
            *more = true;
    }
    return found;
}

/* The one that is innermost in all stacks; NULL: there is none. `used`: by number of a stack. */
static const char *shared_by_all(const struct mp_model *model, const uint8_t *used)
{
    struct mp_stack_lines lines = {0};
    const char *shared = NULL;
    size_t stacks = 0;
    for (uint32_t stack = 1; stack < model->stacks.count; stack++) {
        bool more;
        if (!used[stack]) continue;
        mp_stack_resolve(model, stack, &lines);
        const char *function = innermost(&lines, &more);
        if (!function || !more || (shared && strcmp(function, shared))) {
            shared = NULL;
            stacks = 0;
            break;
        }
        shared = function;
        stacks++;
    }
    mp_stack_lines_free(&lines);
    return stacks > 1 ? shared : NULL;
}

void mp_skip_shared(struct mp_model *model)
{
    for (size_t i = 0; i < model->frames.count; i++)
        if (model->frames.at[i].raw.language != MP_NATIVE && i) return;
    uint8_t *used = mp_alloc_zeroed(model->stacks.count + 1, 1);
    for (size_t i = 0; i < model->blocks.count; i++)
        if (model->blocks.stack[i] < model->stacks.count) used[model->blocks.stack[i]] = 1;
    for (int i = 0; i < SHARED_MAX; i++) {
        const char *shared = shared_by_all(model, used);
        if (!shared) break;
        need_room(model);
        for (size_t k = 0; k < model->lines.count; k++) {
            uint32_t function = model->lines.at[k].function;
            if (function && !strcmp(mp_model_text(model, function), shared)) model->skipped.at[function] = 1;
        }
    }
    free(used);
}
