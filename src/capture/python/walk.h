/* Walks frames and reads texts by a given layout. python_stack.c calls these functions once it trusts a layout. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "capture/python/layout.h"
#include "capture/python/python_stack.h"

/* Walks the frames of `thread`, the calling thread's PyThreadState. `attached`: the thread may run Python code now. In
 * a free-threaded 3.14, the walk then reads this thread's copy of the bytecode without a system call for each frame. */
void mp_python_walk_thread(const struct mp_python_layout *layout, const char *thread, bool attached,
                           struct mp_python_stack *stack);

/* Adds a code object that a module's call runs, for the walks from now on. False: there is no room for more. */
bool mp_python_seek_module_code(const void *code);

/* The frame's code object: its pointer without tag bits. */
const char *mp_python_frame_code(const struct mp_python_layout *layout, const char *frame);

/* A number that differs for any two code objects, even for a later one at the same address. */
uint64_t mp_python_code_identity(const struct mp_python_layout *layout, const char *code);

/* The thread's newest frame; NULL if it has none. */
const char *mp_python_newest_frame(const struct mp_python_layout *layout, const char *thread);

/* True if the frame belongs to no function: it has no code, and marks a C call of the interpreter loop. */
bool mp_python_frame_is_shim(const struct mp_python_layout *layout, const char *frame);

bool mp_python_describe_code(const struct mp_python_layout *layout, const char *code, uint32_t instruction,
                             struct mp_python_description *out);

/* Finds lines in the line tables of code objects. Pure; never allocates; reads within the table. */

/* The line of the instruction at a byte offset (MP_PYTHON_INSTRUCTION_UNKNOWN: see mp_python_frame), by the line table
 * of Python 3.`minor`. 0: it has no line. */
uint32_t mp_python_line(unsigned minor, const unsigned char *table, size_t size, uint32_t first_line,
                        uint32_t instruction);
