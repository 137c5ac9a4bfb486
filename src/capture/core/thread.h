/*
 * The recorder's data of a thread: its ring and its recursion guard. The memory of the parts (capture/core/front.h)
 * lies behind it. All this memory is mapped, not allocated. Large parts are touched only for deep stacks.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capture/core/front.h"
#include "capture/core/sampling.h"
#include "wire/spool.h"

struct mp_thread {
    uintptr_t inside; /* the recursion guard: address of a frame near the running hook; 0: no hook runs */
    uint32_t hook;    /* counts hooks, so that a hook notices if another one ran in between */
    uint32_t refused; /* calls refused while hook number `refused_in` ran; the first came at `refused_ns` */
    uint32_t refused_in;
    uint64_t refused_ns;
    int saved_errno;      /* the program's, while inside a hook */
    bool retired;         /* it may make no system call any more: its events are dropped */
    bool full;            /* a wait for room was in vain: drop records until the ring's tail moves */
    bool no_memory;       /* `ring` is NULL because mapping it failed */
    bool waited_for_ring; /* the thread has already waited once for a ring in this session */
    uint32_t generation;  /* generation of the session that `ring` belongs to */
    uint32_t ring_index;
    struct mp_ring *ring;      /* NULL: the thread got no ring */
    struct mp_record *records; /* the ring's entries */
    uint64_t last_time_ns;
    uint64_t tail_seen, full_tail;
    uint32_t call; /* name of the --step-at function that was called, for a step before the next alloc; 0: none */
    struct mp_sampler sampler;
    /* The parts' memory lies behind it (capture/core/front.h). */
};
_Static_assert(sizeof(struct mp_thread) <= MP_THREAD_OWN, "the parts' memory would begin inside");

/* This thread's state with a ring of the current session. NULL: no memory, or a hook of the thread runs. Call inside a
 * hook, with the session recording. */
struct mp_thread *mp_thread_self(void);

/* Sets the recursion guard. False: the guard was set already. The change is one instruction: a handler, or a coroutine
 * that a handler switches to, runs before or after it, never in the middle. No other thread writes the guard, so the
 * instruction needs no lock prefix. */
static inline bool mp_thread_claim(struct mp_thread *thread, uintptr_t frame)
{
    uintptr_t none = 0;
#if defined(__x86_64__)
    bool claimed;
    __asm__ volatile("cmpxchg %[frame], %[inside]"
                     : "=@ccz"(claimed), "+a"(none), [inside] "+m"(thread->inside)
                     : [frame] "r"(frame)
                     : "memory");
    return claimed;
#else
    return __atomic_compare_exchange_n(&thread->inside, &none, frame, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
#endif
}

/* Called in a forked child that did not inherit its thread's memory. */
void mp_thread_forget(void);

/* Called when a thread already inside a hook enters another at `frame`. True if the thread left the first hook by a
 * jump: out of a signal handler, by an exception, or to another stack. The first hook's locks are then free. Otherwise
 * the call is counted as not recorded. */
bool mp_thread_was_left(struct mp_thread *thread, uintptr_t frame);
/* Does the same for a thread that forks at `frame`, but counts nothing, since a fork is no event. A child must not
 * continue in a hook that its thread had left. */
void mp_thread_forks(struct mp_thread *thread, uintptr_t frame);

/* This thread's state if it exists, even of an earlier session; else NULL. */
struct mp_thread *mp_thread_present(void);

/* Makes the key whose destructor retires the ring of an ending thread. Call it before the first mp_thread_self(). */
bool mp_thread_start(void);
