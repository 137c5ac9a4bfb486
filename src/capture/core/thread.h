/*
 * The recorder's data of a thread: its ring and its recursion guard. Behind them lies the memory of the parts
 * (capture/core/front.h). It is mapped, not allocated; only what a deep stack needs is ever touched.
 */
#ifndef MP_CAPTURE_THREAD_H
#define MP_CAPTURE_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/core/front.h"
#include "capture/core/sampling.h"
#include "wire/spool.h"

struct mp_thread {
    uintptr_t inside; /* the recursion guard: a hook of this thread is running, whose frames lie near here; or 0 */
    uint32_t hook;    /* counts hooks: what one wrote before another came in between counts no more */
    uint32_t refused; /* calls while hook `refused_in` ran, the first at `refused_ns` */
    uint32_t refused_in;
    uint64_t refused_ns;
    int saved_errno;      /* of the program, while inside */
    bool full;            /* the ring stayed full for as long as may be waited: drop until its tail moves */
    bool no_memory;       /* `ring` is NULL since it could not be mapped */
    bool waited_for_ring; /* the wait for a ring of this session is spent */
    uint32_t generation;  /* of the session that `ring` belongs to */
    uint32_t ring_index;
    struct mp_ring *ring;      /* NULL: none could be had */
    struct mp_record *records; /* of it */
    uint64_t last_time_ns;
    uint64_t tail_seen, full_tail;
    bool call_begins; /* of the function of --step-at: the next alloc says so */
    struct mp_sampler sampler;
    /* Then the parts' (capture/core/front.h). */
};

/* This thread's state with a ring of the present session; NULL where the memory cannot be had, or a hook is under way.
 * Call inside a hook, with the session recording. */
struct mp_thread *mp_thread_self(void);

/* Puts up the recursion guard; false: it is up. In one instruction: a handler, or a coroutine that a handler switches
 * to, may come in before and after, and not in the middle. No other thread does, so nothing is locked. */
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

/* In a forked child whose thread's room is not there. */
void mp_thread_forget(void);

/* Called when a thread already inside a hook enters another at `frame`. True if it left the first by a jump: out of a
 * signal handler, by an exception, or to another stack. Its locks are then free. Otherwise the call is counted as not
 * recorded. */
bool mp_thread_was_left(struct mp_thread *thread, uintptr_t frame);
/* The same of a thread that forks at `frame`, which is no event and counts as nothing: a child must not think that it
 * goes on in a hook that was left. */
void mp_thread_forks(struct mp_thread *thread, uintptr_t frame);

/* The same, if it was made before, whatever session it is of; else NULL. */
struct mp_thread *mp_thread_present(void);

/* Before the first mp_thread_self(): makes the key whose destructor retires the ring of an ending thread. */
bool mp_thread_start(void);

#endif
