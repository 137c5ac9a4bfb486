#include "output/report/frame_choice.h"

#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "output/report/sites.h"

int mp_function_short(const char *function)
{
    static const char nameless[] = "(anonymous namespace)";
    size_t length = 0;
    while (function[length] && length < 60) {
        if (!strncmp(function + length, nameless, strlen(nameless)))
            length += strlen(nameless);
        else if (length && strchr("(<", function[length]))
            break;
        else
            length++;
    }
    return (int)length;
}

bool mp_line_is_start(const struct mp_stack_line *line)
{
    return line->language == MP_NATIVE && line->function &&
           (!strcmp(line->function, "_start") || !strncmp(line->function, "__libc_start", strlen("__libc_start")));
}

bool mp_line_is_meaningful(const struct mp_stack_line *line)
{
    static const char *const plumbing[] = {
        "empty",    "alloc", "Alloc",      "resize",  "dispatch", "Dispatch", "wrapper",    "Boxed", "boxed",
        "detail::", "c10::", "at::meta::", "Storage", "Iterator", "autograd", "MaybeOwned", "Py",    "__libc"};
    if (!line->function || mp_stack_is_allocator(line) || mp_line_is_start(line)) return false;
    size_t length = (size_t)mp_function_short(line->function); /* its parameters may name anything */
    for (size_t i = 0; i < sizeof plumbing / sizeof *plumbing; i++)
        if (memmem(line->function, length, plumbing[i], strlen(plumbing[i]))) return false;
    return true;
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && !strcmp(a, b));
}

static bool same_line(const struct mp_stack_line *a, const struct mp_stack_line *b)
{
    return a->address == b->address && a->line == b->line && same_text(a->function, b->function) &&
           same_text(a->file, b->file);
}

/* Whether a Python line does more than pass on a module's call. */
static bool says_what(const struct mp_stack_line *line)
{
    return line->function && line->file && !strstr(line->file, "torch/nn/modules/module.py");
}

/* The first call that only this stack has, counted from outside: a meaningful one, else one with a name. */
static const struct mp_stack_line *own_line(const struct mp_stack_lines *lines, const struct mp_stack_lines *others)
{
    const struct mp_stack_line *named = NULL;
    size_t left = lines->count, other = others->count;
    while (left && other && same_line(&lines->at[left - 1], &others->at[other - 1]))
        left--, other--;
    while (left--) {
        const struct mp_stack_line *line = &lines->at[left];
        if (line->language == MP_PYTHON ? says_what(line) : mp_line_is_meaningful(line)) return line;
        if (!named && line->function) named = line;
    }
    return named;
}

void mp_difference_text(struct mp_buffer *out, const struct mp_model *model, uint32_t stack, uint32_t twin)
{
    struct mp_stack_lines lines = {0}, others = {0};
    if (!mp_stack_resolve(model, stack, &lines) || !mp_stack_resolve(model, twin, &others)) out->failed = true;
    const struct mp_stack_line *line = own_line(&lines, &others);
    if (line && line->language == MP_PYTHON)
        mp_line_text(out, line);
    else if (line)
        mp_buffer_printf(out, "%.*s", mp_function_short(line->function), line->function);
    mp_stack_lines_free(&lines);
    mp_stack_lines_free(&others);
}

/* Fills in the twins; `first`, by number of a text: the first row that has it, + 1. */
static void find_twins(const struct mp_model *model, const struct mp_sites *sites, size_t rows, uint32_t *twins,
                       uint32_t *first)
{
    struct mp_intern texts = {0};
    struct mp_buffer text = {0};
    for (uint32_t i = 0; i < rows; i++) {
        mp_buffer_clear(&text);
        mp_site_text(&text, model, &sites->at[i]);
        uint32_t id = mp_intern_add(&texts, (const char *)text.data, text.size);
        uint32_t before = first[id];
        twins[i] = before ? sites->at[before - 1].stack : MP_NONE;
        if (!before)
            first[id] = i + 1;
        else if (twins[before - 1] == MP_NONE)
            twins[before - 1] = sites->at[i].stack;
    }
    mp_intern_free(&texts);
    mp_buffer_free(&text);
}

uint32_t *mp_site_twins(const struct mp_model *model, const struct mp_sites *sites, size_t rows)
{
    uint32_t *twins = mp_alloc((rows + 1) * sizeof *twins), *first = mp_alloc_zeroed(rows + 2, sizeof *first);
    find_twins(model, sites, rows, twins, first);
    free(first);
    return twins;
}
