/* How a layout is verified: by its shape without Python's help, then against Python's own API. Never allocates
 * itself. */
#ifndef MP_CAPTURE_PYTHON_CHECKS_H
#define MP_CAPTURE_PYTHON_CHECKS_H

#include "capture/python/layout.h"
#include "capture/python/python_stack.h"
#include "capture/python/runtime.h"

enum mp_python_verdict {
    MP_PYTHON_RIGHT,
    MP_PYTHON_WRONG,
    MP_PYTHON_NOT_NOW, /* nothing to compare with at this moment */
};

/* True if the calling thread's state and its frames look as the layout says: the thread's id, the types of code, names
 * and line tables, bounded values. Tests each address for being mapped before reading it. RIGHT needs a frame. */
enum mp_python_verdict mp_python_check_shape(const struct mp_python_layout *layout,
                                             const struct mp_python_runtime *runtime, const char *thread);

/* Looks up the functions that the next one needs; call it first, on one thread. In hooks. */
void mp_python_check_api_start(const struct mp_loaded *library);

/* Holds a stack just walked, and what mp_python_describe_code says of it, against Python's own API. Only where the
 * thread is attached, at a moment at which its API may be used: frame objects are made, so Python's allocator runs; its
 * cyclic collector does not. */
enum mp_python_verdict mp_python_check_api(const struct mp_python_layout *layout, const char *thread,
                                           const struct mp_python_stack *stack);

#endif
