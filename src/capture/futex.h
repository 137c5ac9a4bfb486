/* Futex waits and a lock for the recorder. Never allocates; may be called in the program. errno is left alone by none
 * of these: hooks save it at their border. */
#ifndef MP_CAPTURE_FUTEX_H
#define MP_CAPTURE_FUTEX_H

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while *word == expected, at most timeout_ns. Works across processes: the word may lie in the spool. */
static inline void mp_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000), .tv_nsec = (long)(timeout_ns % 1000000000)};
    syscall(SYS_futex, word, FUTEX_WAIT, expected, &timeout, NULL, 0);
}

static inline void mp_futex_wake(_Atomic uint32_t *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* 0: free, 1: held, 2: held and somebody sleeps (Ulrich Drepper, "Futexes Are Tricky", mutex 2). */
typedef _Atomic uint32_t mp_lock;

static inline void mp_lock_take(mp_lock *lock)
{
    uint32_t seen = 0;
    if (atomic_compare_exchange_strong(lock, &seen, 1)) return;
    if (seen != 2) seen = atomic_exchange(lock, 2);
    while (seen) {
        syscall(SYS_futex, lock, FUTEX_WAIT_PRIVATE, 2, NULL, NULL, 0);
        seen = atomic_exchange(lock, 2);
    }
}

static inline void mp_lock_release(mp_lock *lock)
{
    if (atomic_exchange(lock, 0) == 2) syscall(SYS_futex, lock, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

#endif
