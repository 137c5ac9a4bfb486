/* What a command line runs, in a word. Pure. */
#ifndef MP_COLLECT_PROGRAM_NAME_H
#define MP_COLLECT_PROGRAM_NAME_H

#include <stddef.h>

#define MP_PROGRAM_NAME 64

/* Of arguments, each with its NUL, with an empty one at the end or `room` bytes: the script or the module of an
 * interpreter ("train.py"), else the program's own name; "" where there are none. UTF-8 without control characters. */
void mp_program_name(const char *arguments, size_t room, char to[MP_PROGRAM_NAME]);

#endif
