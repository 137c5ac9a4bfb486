/* Finds lines in the line tables of code objects. Pure; never allocates; reads within the table. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define MP_PYTHON_INSTRUCTION_UNKNOWN UINT32_MAX

/* The line of the instruction at a byte offset (MP_PYTHON_INSTRUCTION_UNKNOWN: see mp_python_frame), by the line table
 * of Python 3.`minor`. 0: it has no line. */
uint32_t mp_python_line(unsigned minor, const unsigned char *table, size_t size, uint32_t first_line,
                        uint32_t instruction);
