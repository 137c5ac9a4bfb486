/*
 * Lines that moved between two recordings of a program: a comment at the top of a file moves every line below. Lines
 * are matched function by function (by file and name), in order. Among lines of only one recording, those with the same
 * or mostly the same calls are matched first. Pure.
 */
#pragma once

#include "base/intern.h"
#include "base/vec.h"
#include "model/model.h"
#include "model/stack.h"

/* A function with moved lines, and the first of these. */
struct mp_moved_function {
    uint32_t function, file; /* in names */
    uint32_t before, after;
};

struct mp_moved {
    struct mp_intern names;
    struct mp_intern places; /* function, file and line of the earlier recording */
    MP_VEC(uint32_t) lines;  /* after, by place - 1 */
    MP_VEC(struct mp_moved_function) functions;
};

void mp_moved_find(const struct mp_model *before, const struct mp_model *after, struct mp_moved *moved);
/* The later recording's line for an earlier line; the line itself if it did not move. */
uint32_t mp_moved_line(const struct mp_moved *moved, const struct mp_stack_line *line);
void mp_moved_free(struct mp_moved *moved);
