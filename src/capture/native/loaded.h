/*
 * What the dynamic loader has mapped, read from its list as a debugger does it: without its lock, under which it runs
 * constructors that may wait for the thread that asks, and without its memory, in which a failed look-up leaves text.
 *
 * A library may be unloaded meanwhile. So nothing of another's is read but through the kernel, which answers for an
 * address that is not there. Some 4 system calls a library. Never allocates; any thread, in hooks.
 */
#ifndef MP_CAPTURE_NATIVE_LOADED_H
#define MP_CAPTURE_NATIVE_LOADED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Copies; false: not all of it is there. */
bool mp_read_memory(void *to, uintptr_t from, size_t bytes);

/* A library, or the program, by where it lies. */
struct mp_loaded {
    uintptr_t bias, dynamic; /* 0: none */
};

/* Our own, and other copies of the recorder, are passed over. `name`: that the file's name begins with it, or NULL. */
bool mp_loaded_with(const char *symbol, const char *name, struct mp_loaded *found);
/* The one that the address of code lies in. */
bool mp_loaded_at(const void *address, struct mp_loaded *found);
/* What it defines under that name; NULL. */
void *mp_loaded_symbol(const struct mp_loaded *loaded, const char *symbol);

#endif
