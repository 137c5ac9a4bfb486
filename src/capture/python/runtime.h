/* The Python interpreter of this process, found in the dynamic loader's list. */
#pragma once

#include "capture/native/loaded.h"
#include "capture/python/layout.h"

struct mp_python_runtime {
    struct mp_loaded library; /* the library (or program) that has the interpreter and the symbols below */
    unsigned major, minor;
    const struct mp_python_layout *layout; /* NULL: the version is unknown, or its published offsets differ from ours */
    int (*is_initialized)(void);
    const char *(*own_thread)(void);      /* the calling thread's state, with the GIL or without; NULL: none */
    const char *(*attached_thread)(void); /* equals own_thread() only while the calling thread may run Python code */
    int (*add_pending_call)(int (*call)(void *), void *argument); /* NULL: not exported */
    const void *code_type, *string_type, *bytes_type;
    const void *interpreter_loop; /* NULL: not exported */
};

/* False: no loaded library is CPython. In hooks. */
bool mp_python_runtime_find(struct mp_python_runtime *runtime);
/* Keeps the interpreter's library from being unloaded. Takes the loader's lock: call it outside of hooks, before the
 * first library is unloaded. */
void mp_python_runtime_keep(const struct mp_python_runtime *runtime);
