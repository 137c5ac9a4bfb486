/* The name of the program that a command line runs. Pure. */
#pragma once

#include <stddef.h>

#define MP_PROGRAM_NAME 64

/* Writes the script or module that an interpreter runs ("train.py"), else the program's own name; "" without arguments.
 * `arguments` are NUL-terminated texts one after the other, up to an empty one or `room` bytes. The name is UTF-8
 * without control characters. */
void mp_program_name(const char *arguments, size_t room, char to[MP_PROGRAM_NAME]);
