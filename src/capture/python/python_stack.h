/*
 * The calling thread's own Python stack, read from the interpreter's memory: with or without the GIL, from inside any
 * hook, without calling anything that needs it. CPython 3.9 to 3.15. Not for signal handlers.
 *
 * Never allocates, never takes a lock, never touches another thread's frames. Three checks come first, and any
 * difference turns Python frames off for good, with a note. From 3.13 on, the version's layout is compared with the one
 * that the interpreter publishes. On the first stack, every address is tested for being mapped. Once, at an event where
 * this thread holds the GIL, the whole stack is compared with Python's own API: code, instruction, line and names.
 *
 * Limits. A sub-interpreter of 3.11 and before shows the outer interpreter's frames. Up to 3.11, a code object made
 * where another of the same name, file and first line was freed may pass for that one: then its lines are the other's.
 * A frame that has not begun to run its function is left out, as Python's API does. A libpython opened with RTLD_LOCAL
 * is not found. A thread that is in the middle of a walk at the very moment at which the interpreter begins to shut
 * down may still read its frames while they are freed.
 */
#ifndef MP_CAPTURE_PYTHON_STACK_H
#define MP_CAPTURE_PYTHON_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/core/front.h"
#include "capture/python/calls.h"

#define MP_PYTHON_FRAMES_MAX          4096 /* a room that holds what Python's default limits allow, and more */
#define MP_PYTHON_INSTRUCTION_UNKNOWN UINT32_MAX

struct mp_python_frame {
    const void *code;     /* the code object: alive while the frame is on the stack */
    uint64_t identity;    /* tells this code object from every other, also from a later one at the same address */
    uint32_t instruction; /* byte offset of the current instruction, as f_lasti; _UNKNOWN also before the first */
    uint32_t group;       /* which C call of the interpreter loop runs it: 0 is the innermost */
};

struct mp_python_stack {
    /* The caller's room for frames, innermost first, and for a marker of each group. A marker is an address inside that
     * call's own C frame; 0 for versions without one (3.9, 3.10). */
    struct mp_python_frame *frames;
    uintptr_t *markers;
    uint32_t room;   /* of both */
    const void *end; /* the frame at which to stop, which is left out (mp_python_newest()); NULL: all are wanted */
    /* Filled by a walk. A group may be without frames. */
    uint32_t frame_count, group_count;
    bool cut;      /* there are frames further out, for which there was no room */
    uint64_t hash; /* of identities, instructions and group borders: 0 without frames and groups */
    /* Where one of the frames runs a code object that mp_python_module_code() named: the first local of the innermost
     * of them. An address to be compared, not more: its object may be on its way out. NULL: there is none. */
    const void *module;
};

extern const struct mp_front mp_python_front;

/* Keeps an interpreter that was found from being unloaded. Takes the loader's lock: for moments at which the program
 * does, and before each at which it unloads something. */
void mp_python_keep_loaded(void);

/* Fills *stack. False: what Python frames this thread has is not known (no interpreter, Python frames off, or it has
 * not started or is shutting down); *stack is then empty. True with no frames and no groups: there are none.
 * `may_call_python`: this is a moment at which Python's API may be used, that is, the caller holds no lock that
 * anything in there might wait for. Without it nothing is called but accessors that take no lock. */
bool mp_python_walk(struct mp_python_stack *stack, bool may_call_python);

/* The calling thread's innermost frame, for `end` of later walks; *frame NULL: it has none. False: not known. */
bool mp_python_newest(const void **frame);

struct mp_python_description {
    char function[512]; /* co_qualname, before 3.11 co_name; UTF-8, lone surrogates encoded like any character */
    char file[1024];
    uint16_t function_length, file_length; /* in bytes, less the NUL at the end */
    uint32_t line;                         /* 0: unknown */
};

/* Names and line of a frame. Only right after the walk that gave it, on the same thread, where its code is alive. Texts
 * too long are cut at the end of a character. False: a text is not readable, and is empty. */
bool mp_python_describe(const struct mp_python_frame *frame, struct mp_python_description *out);

/* Names a code object that a call of a network's module runs; there may be MP_PYTHON_MODULE_CODES. The caller holds the
 * GIL and keeps it alive. False: there is no room, it is none, or its first local is no plain variable: one that an
 * inner function uses lies in a cell, which is not followed. */
#define MP_PYTHON_MODULE_CODES 4
bool mp_python_module_code(const void *code);

/* Has call(context) run by the interpreter's main thread, with the GIL, when it next comes by. False: not now. Never
 * takes the GIL: where that might happen (3.13 on: a thread that has it and must wait for a lock gives it up
 * meanwhile), only with `may_call_python`. */
bool mp_python_call_soon(int (*call)(void *), void *context, bool may_call_python);

/* True if a call of the function that the user named begins (calls.h). Right after mp_python_walk(). */
enum mp_python_calls_answer mp_python_call(struct mp_python_calls *calls);

/* The address of the interpreter loop's exported function; 0: not known. Parts of the loop may lie elsewhere. */
uintptr_t mp_python_interpreter_loop(void);

/* Why Python frames are off: a sentence that stays valid; NULL while nothing is wrong. */
const char *mp_python_note(void);

#endif
