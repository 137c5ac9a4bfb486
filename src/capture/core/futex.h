/* Futex waits for the recorder. Never allocates; may be called in the program. All of them change errno: hooks save and
 * restore it. */
#pragma once

#include <limits.h>
#include <linux/futex.h>
#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>

#include "base/kernel.h"

static inline long mp_futex_wait_(_Atomic uint32_t *word, int how, uint32_t expected, uint64_t timeout_ns)
{
    struct timespec timeout = {.tv_sec = (time_t)(timeout_ns / 1000000000), .tv_nsec = (long)(timeout_ns % 1000000000)};
    return mp_syscall(SYS_futex, word, how, expected, &timeout, NULL, 0);
}

/* Sleeps while *word == expected, at most timeout_ns. Works across processes: the word may lie in the spool. */
static inline void mp_futex_wait(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    mp_futex_wait_(word, FUTEX_WAIT, expected, timeout_ns);
}

static inline void mp_futex_wait_private(_Atomic uint32_t *word, uint32_t expected, uint64_t timeout_ns)
{
    mp_futex_wait_(word, FUTEX_WAIT_PRIVATE, expected, timeout_ns);
}

/* Returns the system call's result: below 0 if it was refused. */
static inline long mp_futex_wake(_Atomic uint32_t *word)
{
    return mp_syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static inline void mp_futex_wake_private(_Atomic uint32_t *word, int count)
{
    mp_syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}
