/* Walks frames and reads texts by a given layout. python_stack.c calls these functions once it trusts a layout. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/python/layout.h"
#include "capture/python/lines.h"

#define MP_PYTHON_FRAMES_MAX 4096 /* enough room for Python's default limits */

struct mp_python_frame {
    const void *code;     /* the code object: alive while the frame is on the stack */
    uint64_t identity;    /* differs for any other code object, even for a later one at the same address */
    uint32_t instruction; /* byte offset of the current instruction, as f_lasti; _UNKNOWN also before the first */
    uint32_t group;       /* number of the C call of the interpreter loop that runs the frame: 0 is the innermost */
};

struct mp_python_stack {
    /* The caller's room for frames, innermost first, and for one marker of each group. A marker is an address inside
     * the C frame of that call of the loop; 0 in versions without markers (3.9, 3.10). */
    struct mp_python_frame *frames;
    uintptr_t *markers;
    uint32_t room;   /* entries of both arrays */
    const void *end; /* the frame before which to stop (mp_python_newest()); NULL: walk all */
    /* Filled by a walk. A group may have no frames. */
    uint32_t frame_count, group_count;
    bool cut;      /* frames further out had no room */
    uint64_t hash; /* of identities, instructions and group borders; 0 without frames and groups */
    /* The network's module that runs: the first local of the innermost frame whose code mp_python_module_code() named.
     * Only compare this address: its object may be destroyed at any time. NULL: there is no such frame. */
    const void *module;
};

struct mp_python_description {
    char function[512]; /* co_qualname, before 3.11 co_name; UTF-8, lone surrogates encoded like any character */
    char file[1024];
    uint16_t function_length, file_length; /* in bytes, less the NUL at the end */
    uint32_t line;                         /* 0: unknown */
};

#define MP_PYTHON_MODULE_CODES 4

/* Walks the frames of `thread`, the calling thread's PyThreadState. `attached`: the thread may run Python code now. In
 * a free-threaded 3.14, the walk then reads this thread's copy of the bytecode without a system call for each frame. */
void mp_python_walk_thread(const struct mp_python_layout *layout, const char *thread, bool attached,
                           struct mp_python_stack *stack);

/* Adds a code object that a module's call runs, for the walks from now on. False: there is no room for more. */
bool mp_python_seek_module_code(const void *code);

/* The frame's code object: its pointer without tag bits. */
const char *mp_python_frame_code(const struct mp_python_layout *layout, const char *frame);

/* A number that differs for any two code objects, even for a later one at the same address. */
uint64_t mp_python_code_identity(const struct mp_python_layout *layout, const char *code);

/* The thread's newest frame; NULL if it has none. */
const char *mp_python_newest_frame(const struct mp_python_layout *layout, const char *thread);

/* True if the frame belongs to no function: it has no code, and marks a C call of the interpreter loop. */
bool mp_python_frame_is_shim(const struct mp_python_layout *layout, const char *frame);

bool mp_python_describe_code(const struct mp_python_layout *layout, const char *code, uint32_t instruction,
                             struct mp_python_description *out);
