/*
 * Locks of the recorder, which is a guest. A thread may vanish while it holds one, by a jump out of a handler or a
 * cancellation, and a handler may reach the lock again. A lock therefore knows its owner, and every wait ends. A thread
 * without the lock goes on: it records less, and counts that.
 *
 * A lock is taken from an owner that still has it although the owner itself asks for it again, has ended, or has let
 * others wait in vain for some seconds. Guarded data must be safe to read and to change after any instruction of an
 * interrupted change. A thread that has held a lock for long calls mp_lock_is_own() before it publishes.
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
    _Atomic uint32_t in_vain; /* the owner for which a thread waited in vain; 0: none */
    _Atomic uint32_t tries;   /* attempts of others since then, which no longer wait */
    _Atomic uint64_t since;
} mp_lock;

#define MP_LOCK_WAIT_NS (80 * MP_NS_PER_MS) /* of hooks */

/* The calling thread's id, read from the kernel once. */
uint32_t mp_own_tid(void);
/* For a forked child, whose one thread has another id. */
void mp_own_tid_forget(void);

bool mp_lock_take(mp_lock *lock);
/* Waits at most that long; 0: not at all. */
bool mp_lock_take_within(mp_lock *lock, uint64_t wait_ns);
/* Also where the lock was taken away meanwhile. */
void mp_lock_release(mp_lock *lock);
bool mp_lock_is_own(const mp_lock *lock);

#endif
