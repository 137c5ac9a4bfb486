/*
 * From a moment in a thread to the id of its call path in the spool: native and Python frames in one path.
 *
 * The path is walked raw and hashed; a hash seen before is answered from a cache without any lock. Only a new path is
 * taken apart: modules found, Python names copied, frames and nodes entered into the spool's tables.
 */
#ifndef MP_CAPTURE_STACK_H
#define MP_CAPTURE_STACK_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/core/front.h"
#include "capture/native/walk.h"
#include "capture/python/merge.h"

#define MP_WALK_MAX   4096 /* native frames walked at most */
#define MP_MERGED_MAX (MP_WALK_MAX + MP_PYTHON_FRAMES_MAX)

/* The thread's recent paths, checked before the cache that all threads share, since they lie near. */
#define MP_RECENT_STACKS 4096
struct mp_recent_stack {
    uint64_t hash; /* also of the session; 0: none */
    uint32_t id;
};

/* A thread's room for one walk. Mapped, so that only what a deep stack needs is ever touched. */
struct mp_stack_room {
    void *native[MP_WALK_MAX];
    struct mp_python_frame python[MP_PYTHON_FRAMES_MAX];
    uintptr_t markers[MP_PYTHON_FRAMES_MAX];
    struct mp_merged_frame merged[MP_MERGED_MAX];
    struct mp_known_frames known;
    struct mp_recent_stack recent[MP_RECENT_STACKS];
};

/* A node of an autograd graph that a thread runs. Blocks allocated meanwhile get the path that made the node in
 * forward, instead of the path that ran it. */
enum mp_backward_root {
    MP_BACKWARD_UNKNOWN, /* who made it is not known: stacks are as they are */
    MP_BACKWARD_THREAD,  /* likewise, on a thread of autograd's own, whose outer frames say nothing */
    MP_BACKWARD_OF,
};
struct mp_backward {
    enum mp_backward_root root;
    uint32_t generation;         /* of the session, whose ids `creation` holds */
    struct mp_captured creation; /* of MP_BACKWARD_OF; else zero */
    uintptr_t frame; /* an address in the C frame of the call that runs it: frames from there on are left out */
    const void *python_frame; /* the thread's innermost when the running began; likewise */
    const void *task;         /* the backward pass */
};

/* A node may start another backward pass, which runs nodes. PyTorch itself continues on another thread at 60. */
#define MP_BACKWARD_LEVELS 64

/* A thread's data for its stacks. */
struct mp_stack_thread {
    struct mp_stack_room room;
    struct mp_python_calls calls;
    uint32_t level;                                 /* how many nodes run now, each inside the one before */
    struct mp_backward running[MP_BACKWARD_LEVELS]; /* the outer ones */
};
struct mp_stack_thread *mp_stack_thread(struct mp_thread *thread);

extern const struct mp_front mp_stack_front;
bool mp_stack_same(struct mp_thread *thread, uintptr_t inner, uintptr_t outer);

/* The inner frames of the module that `address` is in are left out of stacks, as the recorder's own are. For a few
 * modules; before their first. */
void mp_stack_leave_out(uintptr_t address);
/* Python itself reports calls of the function of --step-at, so the recorder does not look for them. */
void mp_stack_calls_are_reported(void);
/* Code was unloaded: addresses may mean something else from now on. */
void mp_stack_code_unloaded(void);

/* The calling thread's stack; 0 if stacks are off, the tables are full, or it has none. */
struct mp_captured mp_stack_capture(struct mp_thread *thread, bool may_call_python);
/* The same for what makes a node: Python frames alone, where it has any. A moment at which Python may be called. */
struct mp_captured mp_stack_creation(struct mp_thread *thread);
/* The same where this thread was at that path before: touches nothing but the thread's own memory, so that it may be
 * called behind the thread's guard alone, without a hook's ring. False: it was not. */
bool mp_stack_creation_again(struct mp_thread *thread, struct mp_captured *creation);

#endif
