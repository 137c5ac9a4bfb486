/* Blocks the calling thread's signals, at the rare moments when the program's handlers must not run. This includes the
 * C library's own signals, which cancel threads. Signals raised by the thread's own instructions stay enabled, since
 * the kernel ends a process that blocks them. Never allocates. */
#pragma once

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "base/kernel.h"

#define MP_SIGNAL_BIT_(signal) (UINT64_C(1) << ((signal)-1))

/* False: the system refuses, and all signals stay as they were. */
static inline bool mp_signals_hold(uint64_t *before)
{
    uint64_t all = ~(MP_SIGNAL_BIT_(SIGSEGV) | MP_SIGNAL_BIT_(SIGBUS) | MP_SIGNAL_BIT_(SIGFPE) |
                     MP_SIGNAL_BIT_(SIGILL) | MP_SIGNAL_BIT_(SIGTRAP) | MP_SIGNAL_BIT_(SIGSYS));
    return mp_syscall(SYS_rt_sigprocmask, SIG_BLOCK, &all, before, sizeof all) == 0;
}

static inline void mp_signals_release(uint64_t before)
{
    mp_syscall(SYS_rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
}
