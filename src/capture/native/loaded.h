/*
 * The dynamic loader's mappings, read from its list as a debugger does. Its lock is not taken: the loader runs
 * constructors under it, which may wait for the calling thread. Its memory is not used: a failed look-up leaves text
 * there.
 *
 * A library may be unloaded meanwhile. Another library's memory is therefore read only through the kernel, which
 * handles an address that is not mapped. Some 4 system calls per library. Never allocates; any thread, in hooks.
 */
#ifndef MP_CAPTURE_NATIVE_LOADED_H
#define MP_CAPTURE_NATIVE_LOADED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/core/read_memory.h"

/* A library, or the program, by its place in memory. */
struct mp_loaded {
    uintptr_t bias, dynamic; /* 0: none */
};

/* The last of the loader's list, to which it adds what it loads. Zeroed at first. */
struct mp_loaded_end {
    _Atomic uintptr_t map, dynamic;
};

/* True if libraries may have been loaded since the last call with this `end`; true the first time. Some 2 system calls
 * where none was. */
bool mp_loaded_more(struct mp_loaded_end *end);
/* Finds a library that defines the symbol; skips our own and other copies of the recorder. `name`: the beginning of the
 * file's name, or NULL. */
bool mp_loaded_with(const char *symbol, const char *name, struct mp_loaded *found);
/* The same after our own library in the loader's list, as RTLD_NEXT has it, without a name. */
bool mp_loaded_next(const char *symbol, struct mp_loaded *found);
/* The one that contains the address of code. */
bool mp_loaded_at(const void *address, struct mp_loaded *found);
/* Its definition of that name; NULL. */
void *mp_loaded_symbol(const struct mp_loaded *loaded, const char *symbol);

#endif
