/*
 * Lines of a program that moved between two recordings of it: a comment at the top of a file moves every line below.
 * Lines are matched function by function (by file and name), in order. Among lines that only one recording has, those
 * with the same calls, or mostly the same, are matched first. Pure.
 */
#ifndef MP_ANALYSIS_MOVED_H
#define MP_ANALYSIS_MOVED_H

#include "analysis/sites/flames.h"

/* A function with moved lines; the first of them. */
struct mp_moved_function {
    uint32_t function, file; /* in names */
    uint32_t before, after;
};

struct mp_moved {
    struct mp_intern names;
    struct mp_intern places; /* function, file and line before */
    MP_VEC(uint32_t) lines;  /* after, by place - 1 */
    MP_VEC(struct mp_moved_function) functions;
};

void mp_moved_find(const struct mp_model *before, const struct mp_model *after, struct mp_moved *moved);
/* The later recording's line for a line of the earlier one; the same where it did not move. */
uint32_t mp_moved_line(const struct mp_moved *moved, const struct mp_stack_line *line);
void mp_moved_free(struct mp_moved *moved);

#endif
