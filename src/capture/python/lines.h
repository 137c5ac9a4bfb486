/* The line tables of code objects: from an instruction to its line. Pure; never allocates; reads within the table. */
#ifndef MP_CAPTURE_PYTHON_LINES_H
#define MP_CAPTURE_PYTHON_LINES_H

#include <stddef.h>
#include <stdint.h>

/* The line of the instruction at a byte offset (MP_PYTHON_INSTRUCTION_UNKNOWN: see mp_python_frame) in the table of
 * Python 3.`minor`; 0 where it has none. */
uint32_t mp_python_line(unsigned minor, const unsigned char *table, size_t size, uint32_t first_line,
                        uint32_t instruction);

#endif
