/*
 * Calls of the function that the user named (--step-at). Nothing notifies the recorder of a call, so it compares the
 * interpreter's memory at each allocation. The outermost call on a thread's stack counts. It is a new call if
 *
 *     its frame lies elsewhere, or the thread ran without it meanwhile
 *     a call further out stands at another instruction, or has other values in its local variables: while a function
 *         runs its callers do not
 *     it stands before where it stood, and no loop of its own leads back there
 *     it stands where it first allocated, no loop leads back there from there on inwards, and one further out does; and
 *         where nothing else was allocated meanwhile, that loop is a module's, whose variables are no locals
 *
 * Loops are known for Python 3.9 to 3.11; from 3.12 on Python itself reports calls (python/start/calls.py). Never
 * allocates, takes no lock.
 */
#ifndef MP_CAPTURE_PYTHON_CALLS_H
#define MP_CAPTURE_PYTHON_CALLS_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/python/layout.h"

#define MP_PYTHON_CALLS_KNOWN 8 /* of a thread: coroutines and green threads have one each */

struct mp_python_call {
    const void *frame, *bottom; /* its own; the outermost of the stack */
    uint64_t outer;             /* the state of its callers */
    uint64_t first, last;       /* the path from it on inwards, where it first allocated, and last */
    uint32_t position;
    uint32_t used; /* when it was looked at last */
    bool suspends; /* a generator or coroutine */
};

/* A thread's calls; all zero at first. */
struct mp_python_calls {
    struct mp_python_call at[MP_PYTHON_CALLS_KNOWN];
    uint32_t looks;
};

/* True if a call begins that was not seen before. It may if the last call stands again at its first allocation, and
 * nothing shows whether it is the same call. */
enum mp_python_calls_answer { MP_PYTHON_CALL_GOES_ON, MP_PYTHON_CALL_BEGINS, MP_PYTHON_CALL_MAY_BEGIN };

/* True if the user's text means a function of that name: "step" is every function of that name, "Trainer.step" that of
 * a class; Python before 3.11 does not say the class. The step of PyTorch's own optimizers is known by their common
 * name. */
bool mp_python_calls_means(const char *asked, const char *function, const char *file);
/* A code object, and its identity (walk.h): it is the function's. */
void mp_python_calls_add(const void *code, uint64_t identity);
/* True if there are any. */
bool mp_python_calls_any(void);
/* At an event of the thread with that state of Python's. */
enum mp_python_calls_answer mp_python_calls_look(const struct mp_python_layout *layout, const char *thread,
                                                 struct mp_python_calls *calls);

/* True if the code runs from `position` back to `before` again, in one call: both lie in one loop. True where loops are
 * not known. */
bool mp_python_loops(const struct mp_python_layout *layout, const char *code, uint32_t before, uint32_t position);

bool mp_python_loops_known(const struct mp_python_layout *layout);

#endif
