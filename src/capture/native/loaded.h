/*
 * The libraries that are loaded, read from the dynamic loader's list as a debugger does. The loader's lock is not
 * taken: the loader runs constructors under it, and these may wait for the calling thread. The loader's dlsym() is not
 * used either, because a failed look-up leaves a text for dlerror().
 *
 * A library may be unloaded meanwhile. So we read memory of other libraries only through the kernel, which returns an
 * error for an address that is not mapped. This takes some 4 system calls per library. Never allocates; any thread, in
 * hooks.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file_id.h"
#include "capture/core/read_memory.h"

/* A library, or the program itself. */
struct mp_loaded {
    uintptr_t bias, dynamic; /* load bias; address of the dynamic section; 0: none */
};

/* The last entry of the loader's list. The loader appends new libraries there. Zeroed at first. */
struct mp_loaded_end {
    _Atomic uintptr_t map, dynamic;
};

/* True if libraries may have been loaded since the last call with this `end`; always true for the first call. If no
 * library was loaded, it takes some 2 system calls. */
bool mp_loaded_more(struct mp_loaded_end *end);
/* Finds a library that defines the symbol. Skips our own and other copies of the recorder. `name`: the begin of the
 * library's file name, or NULL. */
bool mp_loaded_with(const char *symbol, const char *name, struct mp_loaded *found);
/* Does the same for any file name, but only among the libraries behind our own in the loader's list, as with
 * RTLD_NEXT. */
bool mp_loaded_next(const char *symbol, struct mp_loaded *found);
/* Finds the library whose code contains the address. */
bool mp_loaded_at(const void *address, struct mp_loaded *found);
/* The address of the library's definition of `symbol`; NULL: it has none. */
void *mp_loaded_symbol(const struct mp_loaded *loaded, const char *symbol);

/* Finds the loaded file whose code contains an address. Never allocates; may be called in hooks. From glibc 2.35 on it
 * takes no lock. With older versions it takes the lock of dl_iterate_phdr(); the loader runs none of the program's code
 * under that lock. */

struct mp_module_facts {
    uint64_t start, end, bias;
    uintptr_t dynamic;      /* its dynamic section; 0: not known */
    uintptr_t path;         /* address of the loader's own text, for mp_module_path() */
    struct mp_file_id file; /* only the build-id, read from the mapped notes */
};

/* For the constructor: finds glibc's _dl_find_object() (2.35 on, takes no lock) and the program's path. */
void mp_module_start(void);
/* False: no loaded file contains the address (code made at run time). The address may be a guess, in a library that
 * another thread unloads. So the library's memory is read through the kernel. */
bool mp_module_of(uintptr_t address, struct mp_module_facts *facts);
/* Copies the path, cut to `room` bytes with its NUL. */
void mp_module_path(const struct mp_module_facts *facts, char *to, size_t room);
/* Where a loaded file lies in memory. */
struct mp_module_place {
    uint64_t start, end;
    uintptr_t eh_frame_header; /* 0: it has none */
};
/* Finds the loaded file that contains an address, without reading the file. False: no file contains it. */
bool mp_module_place(uintptr_t address, struct mp_module_place *place);
