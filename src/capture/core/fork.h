/*
 * fork() in a program with threads. The unwinder has locks of its own. If a child were made while another thread holds
 * such a lock, the child's first event would wait for it for ever, with all signals blocked. A fork therefore waits
 * until no hook runs, and new hooks wait for the fork to end. Both waits are bounded, and mostly zero.
 *
 * Not covered: the end of a thread takes a lock of libunwind's for some instructions, outside any hook.
 */
#pragma once

#include <stdbool.h>

#include "capture/core/session.h"
#include "capture/core/thread.h"

#define MP_FORK_WAIT_NS (200 * MP_NS_PER_MS) /* twice the time that a hook may wait for its ring */

/* Called by the constructor. */
bool mp_fork_start(void);

/* Called by a hook that has opened its ring. While a fork is under way, closes the ring and waits. */
void mp_fork_wait(struct mp_thread *thread);
static inline void mp_fork_pass(struct mp_thread *thread)
{
    if (__builtin_expect(atomic_load_explicit(&mp_session.page->forking, memory_order_relaxed), 0))
        mp_fork_wait(thread);
}

/* Sets the thread's recursion guard. A signal handler of the thread may still fork: mp_session_after_fork() looks at
 * the guard. False, without setting the guard, in two cases. A hook of this thread is under way, or a handler has
 * forked since the caller looked the thread up, so that this process has no spool. */
static inline bool mp_fork_guard(struct mp_thread *thread)
{
    uintptr_t frame = (uintptr_t)__builtin_frame_address(0);
    while (__builtin_expect(!mp_thread_claim(thread, frame), 0))
        if (!mp_thread_was_left(thread, frame)) return false;
    thread->hook++;
    atomic_signal_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&mp_session.page->generation, memory_order_relaxed) == thread->generation) return true;
    thread->inside = 0;
    return false;
}
