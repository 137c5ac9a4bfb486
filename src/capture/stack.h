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

#include "capture/native/walk.h"
#include "capture/python/merge.h"

#define MP_WALK_MAX   4096 /* native frames walked at most */
#define MP_MERGED_MAX (MP_WALK_MAX + MP_PYTHON_FRAMES_MAX)

/* What the thread's recent paths were, before the cache that all threads share: it lies near. */
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

struct mp_thread;

/* For the constructor. */
bool mp_stack_start(void);
/* The inner frames of the module that `address` is in are left out of stacks, as the recorder's own are. For a few
 * modules; before their first. */
void mp_stack_leave_out(uintptr_t address);
/* A new session: no path is known. */
void mp_stack_reset(void);
/* Code was unloaded: addresses may mean something else from now on. */
void mp_stack_code_unloaded(void);

/* The id of the calling thread's path, and the string id of the path of the network's module that it runs in; 0 where
 * stacks are off, the tables are full, there is none. */
struct mp_captured {
    uint32_t stack, module;
};
struct mp_captured mp_stack_capture(struct mp_thread *thread, bool may_call_python);

#endif
