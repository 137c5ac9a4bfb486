/* Verifies a layout: by the shape of memory without Python's help, then against Python's own API. Never allocates
 * itself. */
#pragma once

#include "capture/python/layout.h"
#include "capture/python/runtime.h"
#include "capture/python/walk.h"

enum mp_python_verdict {
    MP_PYTHON_RIGHT,
    MP_PYTHON_WRONG,
    MP_PYTHON_NOT_NOW, /* there is nothing to compare with now */
};

/* Checks whether the calling thread's state and frames agree with the layout: the thread's id, the types of code, names
 * and line tables, bounded values. Asks the kernel about each address before it reads there. RIGHT needs a frame. */
enum mp_python_verdict mp_python_check_shape(const struct mp_python_layout *layout,
                                             const struct mp_python_runtime *runtime, const char *thread);

/* Looks up the API functions for mp_python_check_api(). Call it first, on one thread, in a hook. */
void mp_python_check_api_start(const struct mp_loaded *library);

/* Compares the stack of the last walk, and the descriptions of its frames, with Python's own API. Call it only if the
 * thread is attached, at a moment at which its API may be used. It makes frame objects, so Python's allocator runs, but
 * Python's cyclic collector does not. */
enum mp_python_verdict mp_python_check_api(const struct mp_python_layout *layout, const char *thread,
                                           const struct mp_python_stack *stack);
