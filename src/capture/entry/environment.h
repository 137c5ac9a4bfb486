/*
 * The variables by which a program finds its session. A parent may start a program with an environment of its own; the
 * recorder in the parent then puts them back. The variables thus reach every program that the recorder reaches.
 *
 * mp_environment_keep() is for the constructor. The other functions allocate nothing, call only the kernel and may run
 * in handlers and after vfork(), on any thread.
 */
#pragma once

#include <stddef.h>

/* Copies this program's variables, which the program may overwrite. A Python also gets back the folder of memprof's
 * modules, if PYTHONPATH was set anew. */
void mp_environment_keep(void);

/* The bytes that mp_environment_fill() needs for an environment with the missing variables. 0: `environment` is to be
 * passed as it is. */
size_t mp_environment_room(char *const *environment);
/* Makes that environment in `room`, aligned for a pointer. Its entries are those of `environment` where nothing
 * changed, so that they must live as long. */
char **mp_environment_fill(char *const *environment, void *room);
/* Puts what is missing into this program's own environment, for functions of the C library that start a shell with
 * it. */
void mp_environment_complete(void);
