/*
 * What the recorder keeps per thread: its ring, its recursion guard and the room in which stacks are walked. The memory
 * is mapped, not allocated; only what a deep stack needs is ever touched.
 */
#ifndef MP_CAPTURE_THREAD_H
#define MP_CAPTURE_THREAD_H

#include <stdbool.h>
#include <stdint.h>

#include "capture/autograd_thread.h"
#include "capture/cuda/visit.h"
#include "capture/nvtx/nvtx_ranges.h"
#include "capture/sampling.h"
#include "capture/stack.h"
#include "wire/spool.h"

struct mp_thread {
    bool inside;          /* the recursion guard: a hook of this thread is running */
    int saved_errno;      /* of the program, while inside */
    bool full;            /* the ring stayed full for as long as may be waited: drop until its tail moves */
    bool waited_for_ring; /* the wait for a ring of this session is spent */
    uint32_t generation;  /* of the session that `ring` belongs to */
    uint32_t ring_index;
    struct mp_ring *ring; /* NULL: none could be had */
    uint64_t last_time_ns;
    uint64_t tail_seen, full_tail;
    struct mp_sampler sampler;
    struct mp_stack_room stack;
    struct mp_autograd_thread autograd;
    struct mp_nvtx_stack nvtx;
    struct mp_cupti_thread cupti;
};

/* This thread's state with a ring of the present session; NULL where the memory cannot be had. Call inside a hook, with
 * the session recording. */
struct mp_thread *mp_thread_self(void);

/* The same, if it was made before, whatever session it is of; else NULL. */
struct mp_thread *mp_thread_present(void);

/* Before the first mp_thread_self(): makes the key whose destructor retires the ring of an ending thread. */
bool mp_thread_start(void);

#endif
