/*
 * Locks of the recorder, which is a guest in the program. A thread may vanish while it holds a lock, by a jump out of a
 * handler or a cancellation. A handler may ask for a lock that its own thread holds. A lock therefore knows its owner,
 * and every wait ends. A thread that does not get the lock goes on: it records less, and counts that.
 *
 * A lock is taken from its owner in three cases: the owner itself asks for it again, the owner has ended, or others
 * have waited in vain for some seconds. So a change of guarded data may stop after any instruction. Even then, the data
 * must be safe to read and to change. A thread that has held a lock for long calls mp_lock_is_own() before it
 * publishes.
 *
 * Zero-initialised is free. Never allocates; any thread, in hooks and in signal handlers.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

typedef struct {
    _Atomic uint32_t owner;   /* 0: free; else a thread's id, with a bit (WAITED in lock.c) if a thread sleeps */
    _Atomic uint32_t in_vain; /* the owner for which another thread waited in vain; 0: none */
    _Atomic uint32_t tries;   /* attempts since then, which do not wait */
    _Atomic uint64_t since;
} mp_lock;

#define MP_LOCK_WAIT_NS (80 * MP_NS_PER_MS) /* the longest wait of a hook */

/* The calling thread's id. Asks the kernel only once. */
uint32_t mp_own_tid(void);
/* Called in a forked child: its thread has another id than in the parent. */
void mp_own_tid_forget(void);

bool mp_lock_take(mp_lock *lock);
/* Waits at most wait_ns; 0: does not wait. */
bool mp_lock_take_within(mp_lock *lock, uint64_t wait_ns);
/* May also be called if another thread has taken the lock away. */
void mp_lock_release(mp_lock *lock);
bool mp_lock_is_own(const mp_lock *lock);
