/*
 * Reads the calling thread's own Python stack from the interpreter's memory, with or without the GIL, inside any hook.
 * Calls nothing that needs the GIL. CPython 3.9 to 3.15. Not for signal handlers.
 *
 * Never allocates, never takes a lock, never touches another thread's frames. Three checks come first. If one finds a
 * difference, Python frames are turned off for good, with a note. From 3.13 on, the version's layout is compared with
 * the one that the interpreter publishes. On the first stack, the kernel is asked whether every address is mapped.
 * Once, when this thread holds the GIL, the whole stack is compared with Python's own API: code, instruction, line and
 * names.
 *
 * Limits:
 * * A sub-interpreter of 3.11 and before shows the outer interpreter's frames.
 * * Up to 3.11, a code object may be made at the address of a freed one with the same name, file and first line. It
 *   then shows the lines of the freed one.
 * * A frame that has not begun to run its function is left out, as in Python's API.
 * * A libpython opened with RTLD_LOCAL is not found.
 * * A thread in the middle of a walk when the interpreter begins to shut down may read frames while they are freed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capture/core/front.h"
#include "capture/python/calls.h"
#include "capture/python/walk.h"

extern const struct mp_front mp_python_front;

/* Keeps a found interpreter from being unloaded. Takes the loader's lock, so call it only when the program itself
 * enters the loader, and before it unloads anything. */
void mp_python_keep_loaded(void);

/* Fills *stack. True without frames and groups: the thread runs no Python. False: the thread's Python frames are
 * unknown (no interpreter, Python frames off, or the interpreter has not started or is shutting down); *stack is then
 * empty. `may_call_python`: the caller holds no lock that Python's API might wait for, so the API may be used now.
 * Otherwise only accessors that take no lock are called. */
bool mp_python_walk(struct mp_python_stack *stack, bool may_call_python);

/* Finds the calling thread's innermost frame, for `end` of later walks; *frame NULL: it has none. False: unknown. */
bool mp_python_newest(const void **frame);

/* Fills in names and line of a frame. Call it only right after the walk that gave the frame, on the same thread, while
 * its code is alive. Long texts are cut at the end of a character. False: a text is not readable, and is left empty. */
bool mp_python_describe(const struct mp_python_frame *frame, struct mp_python_description *out);

/* Names a code object that runs when a network's module is called; at most MP_PYTHON_MODULE_CODES. The caller holds the
 * GIL and keeps the object alive. False: there is no room, `code` is no code object, or its first local is no plain
 * variable. (A variable that an inner function uses lies in a cell, which is not followed.) */
bool mp_python_module_code(const void *code);

/* Makes the interpreter's main thread run call(context), with the GIL, between two of its instructions. False: the call
 * cannot be requested now. The function never takes the GIL. From 3.13 on, a thread that holds the GIL and must wait
 * for a lock gives up the GIL and takes it again. So it calls a function of Python that might wait only with
 * `may_call_python`. */
bool mp_python_call_soon(int (*call)(void *), void *context, bool may_call_python);

/* Says if a call of the function that the user named begins (calls.h). Call it right after mp_python_walk(). */
enum mp_python_calls_answer mp_python_call(struct mp_python_calls *calls, uint32_t *name);

/* The address of the interpreter loop's exported function; 0: unknown. Other parts of the loop may be placed apart. */
uintptr_t mp_python_interpreter_loop(void);

/* Why Python frames are off: a sentence that stays valid. NULL while they are on. */
const char *mp_python_note(void);
