/*
 * Calls of a network's modules, by the Python frames of stacks. Pure.
 */
#pragma once

#include "base/buffer.h"
#include "model/model.h"

/* The calls of modules on a stack, the innermost first: 'S' for a Sequential, which calls the modules in it, else
 * 'm'. */
void mp_module_chain(const struct mp_model *model, uint32_t stack, struct mp_buffer *chain);
/* The line that the N-th module call of a stack was running, counted from the innermost call: its frame's number + 1;
 * 0: none. */
uint64_t mp_module_line(const struct mp_model *model, uint32_t stack, size_t calls);
/* The stack of the code that called the outermost module; the stack itself if there is no module. */
uint32_t mp_module_caller(const struct mp_model *model, uint32_t stack);
/* True if two stacks have the same lines of Python; the interpreter's own frames between them may differ. */
bool mp_same_lines(const struct mp_model *model, uint32_t a, uint32_t b);
