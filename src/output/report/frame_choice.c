#include "output/report/frame_choice.h"

#include <string.h>

#include "model/stack_facts.h"
#include "output/report/sites.h"

static bool is_word(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static size_t word_length(const char *at)
{
    size_t length = 0;
    while (is_word(at[length]))
        length++;
    return length;
}

/* The length of the name after "operator", such as "()", "<<", " new", " bool" or "\"\" _mb". */
static size_t operator_length(const char *after)
{
    if (!strncmp(after, "()", 2)) return 2;
    if (!strncmp(after, "\"\"", 2)) {
        size_t spaces = 2 + strspn(after + 2, " ");
        return spaces + word_length(after + spaces);
    }
    size_t signs = strspn(after, "<>=!+-*/%^&|~[],");
    return signs ? signs : *after == ' ' ? 1 + strcspn(after + 1, "(<:") : 0;
}

/* The length of a text at `at` that the caller must copy unchanged. 0: there is none, and the caller handles the single
 * character. */
static size_t whole_length(const char *at, bool within_word)
{
    static const char nameless[] = "(anonymous namespace)", sign[] = "operator";
    if (!strncmp(at, nameless, strlen(nameless))) return strlen(nameless);
    if (within_word || strncmp(at, sign, strlen(sign)) || is_word(at[strlen(sign)])) return 0;
    return strlen(sign) + operator_length(at + strlen(sign));
}

/* The length of "(*" or "(Class::*" before the name of a function that returns a pointer to a function; else 0. */
static size_t pointer_length(const char *at)
{
    size_t length = *at == '(';
    while (length && (is_word(at[length]) || at[length] == ':'))
        length++;
    return length && (at[length] == '*' || at[length] == '&') ? length + 1 : 0;
}

static bool is_text(const struct mp_buffer *buffer, const char *text)
{
    return buffer->size == strlen(text) && !memcmp(buffer->data, text, buffer->size);
}

void mp_function_name(struct mp_buffer *out, const char *function)
{
    static const char within[] = " const::"; /* after a method's parameters: the name of a function inside the method
                                              * follows */
    struct mp_buffer name = {0};
    int depth = 0;
    char before = 0;
    for (const char *at = function; *at; before = *at++) {
        size_t whole = depth ? 0 : whole_length(at, is_word(before));
        size_t pointer = depth || name.size ? 0 : pointer_length(at);
        if (whole) {
            mp_buffer_append(&name, at, whole);
            at += whole - 1;
        } else if (pointer) {
            at += pointer - 1;
        } else if (strchr("<([", *at)) {
            depth++;
        } else if (strchr(">)]", *at)) {
            depth -= depth > 0;
        } else if (!depth && *at == ' ') {
            if (before == ')' && !strncmp(at, within, strlen(within)))
                at += strlen(within) - strlen("::") - 1;
            else if (before == ')' && name.size && !is_text(&name, "decltype"))
                break; /* the parameters have ended */
            else if (at[1] != '<')
                name.size = 0; /* drops the return type */
        } else if (!depth) {
            mp_buffer_append(&name, at, 1);
        }
    }
    bool found = name.size && *function != '<' && strchr(function, '(');
    if (found)
        mp_buffer_append(out, name.data, name.size);
    else
        mp_buffer_append_text(out, function);
    mp_buffer_free(&name);
}

bool mp_line_is_start(const struct mp_stack_line *line)
{
    return line->language == MP_NATIVE && line->function &&
           (!strcmp(line->function, "_start") || !strncmp(line->function, "__libc_start", strlen("__libc_start")));
}

bool mp_line_is_meaningful(const struct mp_stack_line *line)
{
    if (!line->function || mp_stack_is_allocator(line) || mp_line_is_start(line)) return false;
    struct mp_buffer name = {0}; /* the name is compared without its parameters, which may contain any name */
    mp_function_name(&name, line->function);
    bool plumbing = mp_torch_is_plumbing((const char *)name.data, name.size);
    mp_buffer_free(&name);
    return !plumbing;
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

/* True if a Python line does more than pass on a module's call. */
static bool is_specific(const struct mp_stack_line *line)
{
    return line->function && line->file && mp_torch_file(line->file) != MP_TORCH_FILE_CALLS;
}

/* The outermost call that only this stack has: a meaningful one, else one with a name. */
static const struct mp_stack_line *own_line(const struct mp_stack_lines *lines, const struct mp_stack_lines *others)
{
    const struct mp_stack_line *named = NULL;
    size_t left = lines->count, other = others->count;
    while (left && other && same_line(&lines->at[left - 1], &others->at[other - 1]))
        left--, other--;
    while (left--) {
        const struct mp_stack_line *line = &lines->at[left];
        if (line->language == MP_BACKWARD) continue; /* a border between passes, not a call */
        if (line->language == MP_PYTHON ? is_specific(line) : mp_line_is_meaningful(line)) return line;
        if (!named && line->function) named = line;
    }
    return named;
}

void mp_difference_text(struct mp_buffer *out, const struct mp_model *model, uint32_t stack, uint32_t twin)
{
    struct mp_stack_lines lines = {0}, others = {0};
    mp_stack_resolve(model, stack, &lines);
    mp_stack_resolve(model, twin, &others);
    const struct mp_stack_line *line = own_line(&lines, &others);
    if (line && line->language == MP_PYTHON)
        mp_line_text(out, line);
    else if (line)
        mp_function_name(out, line->function);
    mp_stack_lines_free(&lines);
    mp_stack_lines_free(&others);
}
