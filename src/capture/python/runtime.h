/* The interpreter of this process, as the dynamic loader shows it. */
#ifndef MP_CAPTURE_PYTHON_RUNTIME_H
#define MP_CAPTURE_PYTHON_RUNTIME_H

#include "capture/native/loaded.h"
#include "capture/python/layout.h"

struct mp_python_runtime {
    struct mp_loaded library; /* or the program itself: whose names the rest are */
    unsigned major, minor;
    const struct mp_python_layout *layout; /* NULL where the version is unknown or contradicts what we know of it */
    int (*is_initialized)(void);
    const char *(*own_thread)(void);      /* the calling thread's state, whether or not it holds the GIL; NULL: none */
    const char *(*attached_thread)(void); /* equals own_thread() exactly where the calling thread may run Python code */
    int (*add_pending_call)(int (*call)(void *), void *argument); /* NULL: not exported */
    const void *code_type, *string_type, *bytes_type;
    const void *interpreter_loop; /* NULL: not exported */
};

/* False: there is no CPython among what is loaded. In hooks. */
bool mp_python_runtime_find(struct mp_python_runtime *runtime);
/* Keeps the interpreter's library from being unloaded. Takes the loader's lock, so not in a hook, but before the first
 * library is unloaded. */
void mp_python_runtime_keep(const struct mp_python_runtime *runtime);

#endif
