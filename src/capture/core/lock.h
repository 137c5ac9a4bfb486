/*
 * Locks of the recorder, which is a guest: a thread may vanish while it holds one (a handler jumps out of it, it is
 * cancelled), and a handler may come to it again. So a lock knows its owner, no wait is without an end, and whoever
 * does not get it goes on without: he records less, and counts that.
 *
 * A lock is taken from an owner that has it still although it is here, or is no more, or has let others wait in vain
 * for some seconds. What a lock guards must therefore be safe to read and to change after any instruction of a change
 * that was left in the middle; and who has held it for long asks mp_lock_is_own() before he publishes.
 *
 * Zero-initialised is free. Never allocates; any thread, in hooks and in signal handlers.
 */
#ifndef MP_CAPTURE_LOCK_H
#define MP_CAPTURE_LOCK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

typedef struct {
    _Atomic uint32_t owner;   /* 0: free; else a thread's id, with MP_LOCK_WAITED where somebody sleeps */
    _Atomic uint32_t in_vain; /* the owner for which somebody waited in vain; 0: none */
    _Atomic uint32_t tries;   /* of others since then, which do not wait any more */
    _Atomic uint64_t since;
} mp_lock;

#define MP_LOCK_WAIT_NS (80 * MP_NS_PER_MS) /* of hooks */

/* The calling thread's id, asked of the kernel once. */
uint32_t mp_own_tid(void);
/* In a forked child, whose one thread has another. */
void mp_own_tid_forget(void);

bool mp_lock_take(mp_lock *lock);
/* Waits for so long at most; 0: not at all. */
bool mp_lock_take_within(mp_lock *lock, uint64_t wait_ns);
/* Also where it was taken away meanwhile. */
void mp_lock_release(mp_lock *lock);
bool mp_lock_is_own(const mp_lock *lock);

#endif
