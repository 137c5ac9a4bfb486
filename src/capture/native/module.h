/* Finds the loaded file that contains an address of code. Never allocates; may be called in hooks: from glibc 2.35 on
 * it takes no lock, before that the one of dl_iterate_phdr(), under which the loader runs nothing of the program's. */
#ifndef MP_CAPTURE_NATIVE_MODULE_H
#define MP_CAPTURE_NATIVE_MODULE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/file_id.h"

struct mp_module_facts {
    uint64_t start, end, bias;
    uintptr_t dynamic;      /* its dynamic section; 0: not known */
    uintptr_t path;         /* the loader's own text, for mp_module_path() */
    struct mp_file_id file; /* build-id only, read from the mapped notes */
};

/* For the constructor: finds the loader's own look-up (glibc 2.35 on, takes no lock) and the program's path. */
void mp_module_start(void);
/* False: the address lies in no loaded file (code made at run time). The address may be a guess, in a library that
 * another thread unloads, so its memory is read through the kernel. */
bool mp_module_of(uintptr_t address, struct mp_module_facts *facts);
/* Copies the path, cut to `room` bytes with the 0 at its end. */
void mp_module_path(const struct mp_module_facts *facts, char *to, size_t room);
/* Where the file that contains an address lies. */
struct mp_module_place {
    uint64_t start, end;
    uintptr_t eh_frame_header; /* 0: it has none */
};
/* Reads nothing of the file. False: the address lies in none. */
bool mp_module_place(uintptr_t address, struct mp_module_place *place);

#endif
