/*
 * A stack that overflows, with an event at every call, and a handler on another stack that jumps out. Include it after
 * hostile.h and after definitions of `back`, the place to jump to, and `stop`.
 */
#pragma once

#include <alloca.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>

#include "faults/hostile.h"

static volatile long overflows;

static void recover(int unused)
{
    (void)unused;
    overflows++;
    siglongjmp(back, 1);
}

NOINLINE static int deep(int n, int pad)
{
    volatile char b[64];
    volatile char *extra = alloca((size_t)(pad & 1023));
    b[0] = (char)n;
    extra[0] = 1;
    event();
    if (stop) return 0;
    return deep(n + 1, pad + 13) + b[0] + extra[0];
}

/* The calling thread's stack. */
static void handle_overflow(void)
{
    static char alternate[65536];
    stack_t own = {.ss_sp = alternate, .ss_size = sizeof alternate};
    sigaltstack(&own, NULL);
    handle(SIGSEGV, recover, SA_ONSTACK);
}
