/*
 * Captures a thread's call path, native and Python frames in one, and returns its id in the spool.
 *
 * The path is first walked as bare addresses and hashed. For a known hash, a cache returns the id without any lock.
 * Only for a new path are modules found, Python names copied, and frames and nodes entered into the spool's tables.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capture/core/front.h"
#include "capture/native/walk.h"
#include "capture/python/merge.h"

#define MP_WALK_MAX   4096 /* most native frames of a walk */
#define MP_MERGED_MAX (MP_WALK_MAX + MP_PYTHON_FRAMES_MAX)

/* The thread's recent paths. They are checked before the cache that all threads share, because this memory is close to
 * the thread. */
#define MP_RECENT_STACKS 4096
struct mp_recent_stack {
    uint64_t hash; /* includes the session's generation; 0: none */
    uint32_t id;
};

/* A thread's memory for one walk. It is mapped, so that only the pages that a deep stack needs are touched. */
struct mp_stack_room {
    void *native[MP_WALK_MAX];
    struct mp_python_frame python[MP_PYTHON_FRAMES_MAX];
    uintptr_t markers[MP_PYTHON_FRAMES_MAX];
    struct mp_merged_frame merged[MP_MERGED_MAX];
    struct mp_known_frames known;
    struct mp_recent_stack recent[MP_RECENT_STACKS];
};

/* A node of an autograd graph that a thread runs. Blocks allocated while it runs get the path that made the node in
 * forward, instead of the path that ran the node. */
enum mp_backward_root {
    MP_BACKWARD_UNKNOWN, /* the path that made it is unknown: stacks stay as they are */
    MP_BACKWARD_THREAD,  /* unknown, too, and on a thread of autograd's own, whose outer frames show nothing */
    MP_BACKWARD_OF,
};
struct mp_backward {
    enum mp_backward_root root;
    uint32_t generation;         /* generation of the session whose ids `creation` holds */
    struct mp_captured creation; /* of MP_BACKWARD_OF; else zero */
    uintptr_t frame; /* an address in the C frame of the call that runs the node: stacks leave out this frame and outer
                      * ones */
    const void *python_frame; /* the thread's innermost Python frame when the node began: stacks leave out this frame
                               * and outer ones */
    const void *task;         /* the backward pass */
};

/* A node may start another backward pass, which runs nodes of its own. At 60 such levels, PyTorch itself continues on
 * another thread. */
#define MP_BACKWARD_LEVELS 64

/* A thread's data for capturing stacks. */
struct mp_stack_thread {
    struct mp_stack_room room;
    struct mp_python_calls calls;
    uint32_t level;                                 /* number of nodes that run now, each inside another */
    struct mp_backward running[MP_BACKWARD_LEVELS]; /* the outermost ones */
};
struct mp_stack_thread *mp_stack_thread(struct mp_thread *thread);

extern const struct mp_front mp_stack_front;
bool mp_stack_same(struct mp_thread *thread, uintptr_t inner, uintptr_t outer);

/* Makes stacks leave out the inner frames of the module that contains `address`, like the recorder's own. For at most 4
 * modules, each before its first event. */
void mp_stack_leave_out(uintptr_t address);
/* From now on Python itself reports calls of the function of --step-at, so the recorder need not look for them. */
void mp_stack_calls_are_reported(void);
/* Code was unloaded: an address may belong to other code from now on. */
void mp_stack_code_unloaded(void);

/* Captures the calling thread's stack; id 0 if stacks are off, the tables are full, or there is none. */
struct mp_captured mp_stack_capture(struct mp_thread *thread, bool may_call_python);
/* The module alone, without a walk of native frames. */
uint32_t mp_stack_module(struct mp_thread *thread);
/* Captures the path that makes an autograd node: only the Python frames, if there are any. Python's API may be used. */
struct mp_captured mp_stack_creation(struct mp_thread *thread);
/* Does the same for a path that this thread has captured before. Touches only the thread's own memory, so it needs the
 * thread's guard, but no ring. False: the path is new. */
bool mp_stack_creation_again(struct mp_thread *thread, struct mp_captured *creation);
