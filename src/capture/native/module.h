/* Finds the loaded file that contains an address of code. Never allocates; may be called in hooks: from glibc 2.35 on
 * it takes no lock, before that the one of dl_iterate_phdr(), under which the loader runs nothing of the program's. */
#ifndef MP_CAPTURE_NATIVE_MODULE_H
#define MP_CAPTURE_NATIVE_MODULE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/file_id.h"

struct mp_module_facts {
    uint64_t start, end, bias;
    uintptr_t dynamic;                    /* its dynamic section; 0: not known */
    const char *path;                     /* the loader's own text: valid while the module stays loaded */
    struct mp_file_id file;               /* build-id only, read from the mapped notes */
    const unsigned char *eh_frame_header; /* NULL: it has none */
};

/* For the constructor: finds the loader's own look-up (glibc 2.35 on, takes no lock) and the program's path. */
void mp_module_start(void);
/* False: the address lies in no loaded file (code made at run time). */
bool mp_module_of(uintptr_t address, struct mp_module_facts *facts);
/* Whether it lies in one, and nothing of that is read: for an address that may be none of the thread's code, in a
 * library that another thread unloads. */
bool mp_module_has(uintptr_t address);

#endif
