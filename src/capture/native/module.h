/* Finds the loaded file whose code contains an address. Never allocates; may be called in hooks. From glibc 2.35 on it
 * takes no lock. With older versions it takes the lock of dl_iterate_phdr(); the loader runs none of the program's code
 * under that lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file_id.h"

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
