/*
 * Functions of NVIDIA's libraries that are not imitated. They exist so that libraries that link them can be loaded. A
 * STUB returns its library's soft_stub_result() and names itself once, by a mark in the recording, with the stack, or
 * by a message if nothing is recorded. A QUIET_STUB is for a function that only computes, so doing nothing is right. A
 * LAUNCHING_STUB computes with a kernel, which soft_launched() counts. A MAKING_STUB stores a new handle through its
 * first argument.
 */
#pragma once

#include <stdio.h>
#include <stdlib.h>

#include <memprof.h>

/* `mark`: also another fact for the plan. */
static inline void soft_not_imitated(const char *mark, const char *message)
{
    if (memprof_api_())
        memprof_mark(mark);
    else
        fputs(message, stderr);
}

#define STUB(library, name)                                                                                            \
    __attribute__((weak, visibility("default"))) int name(void);                                                       \
    int name(void)                                                                                                     \
    {                                                                                                                  \
        static int reported;                                                                                           \
        if (!__atomic_exchange_n(&reported, 1, __ATOMIC_RELAXED))                                                      \
            soft_not_imitated("plan: not imitated " library "'s " #name "()",                                          \
                              "memprof: the stand-in of " library " does not imitate " #name "()\n");                  \
        return soft_stub_result();                                                                                     \
    }
#define MAKING_STUB(library, name)                                                                                     \
    __attribute__((weak, visibility("default"))) int name(void **to);                                                  \
    int name(void **to)                                                                                                \
    {                                                                                                                  \
        *to = calloc(1, 16);                                                                                           \
        return *to ? 0 : soft_stub_result();                                                                           \
    }
#define LAUNCHING_STUB(library, name)                                                                                  \
    __attribute__((weak, visibility("default"))) int name(void *handle);                                               \
    int name(void *handle)                                                                                             \
    {                                                                                                                  \
        return soft_launched(handle);                                                                                  \
    }
#define QUIET_STUB(library, name)                                                                                      \
    __attribute__((weak, visibility("default"))) int name(void);                                                       \
    int name(void)                                                                                                     \
    {                                                                                                                  \
        return 0;                                                                                                      \
    }
