/* The walk itself and the reading of texts, on a given layout: what python_stack.h offers once a layout is trusted. */
#ifndef MP_CAPTURE_PYTHON_WALK_H
#define MP_CAPTURE_PYTHON_WALK_H

#include <stddef.h>
#include <stdint.h>

#include "capture/python/layout.h"
#include "capture/python/python_stack.h"

/* Walks the frames of `thread`, the calling thread's PyThreadState. `attached`: it may run Python code now; a
 * free-threaded 3.14 then reads this thread's copy of the bytecode without a system call a frame. */
void mp_python_walk_thread(const struct mp_python_layout *layout, const char *thread, bool attached,
                           struct mp_python_stack *stack);

/* Beginning with the next walk. False: there is no room for more. */
bool mp_python_seek_module_code(const void *code);

/* A frame without its marks: what the pointer in it says, tag bits removed. */
const char *mp_python_frame_code(const struct mp_python_layout *layout, const char *frame);

/* Tells a code object from every other, also from a later one at the same address. */
uint64_t mp_python_code_identity(const struct mp_python_layout *layout, const char *code);

/* The thread's newest frame; NULL where it has none. */
const char *mp_python_newest_frame(const struct mp_python_layout *layout, const char *thread);

/* True if the frame is no function's: it stands for a C call of the interpreter loop and has no code. */
bool mp_python_frame_is_shim(const struct mp_python_layout *layout, const char *frame);

bool mp_python_describe_code(const struct mp_python_layout *layout, const char *code, uint32_t instruction,
                             struct mp_python_description *out);

/* The line tables of code objects: from an instruction to its line. Pure; never allocates; reads within the table. */

/* The line of the instruction at a byte offset (MP_PYTHON_INSTRUCTION_UNKNOWN: see mp_python_frame) in the table of
 * Python 3.`minor`; 0 where it has none. */
uint32_t mp_python_line(unsigned minor, const unsigned char *table, size_t size, uint32_t first_line,
                        uint32_t instruction);

#endif
