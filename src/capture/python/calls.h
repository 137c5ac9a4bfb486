/*
 * Calls of the function that the user named (--step-at). Nothing notifies the recorder of a call. So at each allocation
 * it compares the interpreter's memory with the allocation before. Only the outermost call on a thread's stack counts.
 * The call is new if
 *
 *     its frame has another address, or the thread ran without it in between
 *     one of its callers stands at another instruction, or has other values in its local variables: callers do not run
 *         while the function runs
 *     it stands at an earlier instruction than before, and no loop of the function leads back there
 *     it stands where it first allocated, a loop of a caller leads back to it, and no loop in it or further in does. If
 *         it has not allocated elsewhere since, the caller must be a module, whose variables are no locals
 *
 * Loops are known for Python 3.9 to 3.11; from 3.12 on Python itself reports calls (python/libmemprof_calls.py). Never
 * allocates, takes no lock.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capture/python/layout.h"

#define MP_PYTHON_CALLS_KNOWN 8 /* calls that a thread remembers: each coroutine and green thread has one */

struct mp_python_call {
    const void *frame, *bottom; /* the call's own frame; the outermost frame of its stack */
    uint64_t outer;             /* hash of the state of its callers */
    uint64_t first, last;       /* hash of the frames from the call inwards, at its first allocation and its last */
    uint32_t position;
    uint32_t used; /* number of the look that last saw the call */
    bool suspends; /* the function is a generator or coroutine */
};

/* A thread's calls; all zero at first. */
struct mp_python_calls {
    struct mp_python_call at[MP_PYTHON_CALLS_KNOWN];
    uint32_t looks;
};

/* Says if a new call begins. MAY_BEGIN: a call stands where the last one first allocated, and nothing shows whether it
 * is the same call. */
enum mp_python_calls_answer { MP_PYTHON_CALL_GOES_ON, MP_PYTHON_CALL_BEGINS, MP_PYTHON_CALL_MAY_BEGIN };

/* Adds a code object of the function. `identity`: as mp_python_code_identity() returns it (walk.h). `name`: number of
 * the string "FILE:FUNCTION" in the spool. */
void mp_python_calls_add(const void *code, uint64_t identity, uint32_t name);
/* True if a code object was added. */
bool mp_python_calls_any(void);
/* Call it at an event of the thread whose PyThreadState is `thread`. *name: the called function's, if a call begins. */
enum mp_python_calls_answer mp_python_calls_look(const struct mp_python_layout *layout, const char *thread,
                                                 struct mp_python_calls *calls, uint32_t *name);
