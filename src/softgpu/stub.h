/* A function of NVIDIA's libraries that is not imitated: it does nothing, and prints its name once. */
#ifndef SOFTGPU_STUB_H
#define SOFTGPU_STUB_H

#include <stdio.h>
#include <stdlib.h>

#define STUB(library, name)                                                                                            \
    __attribute__((weak, visibility("default"))) int name(void);                                                       \
    int name(void)                                                                                                     \
    {                                                                                                                  \
        static int reported;                                                                                           \
        if (!__atomic_exchange_n(&reported, 1, __ATOMIC_RELAXED))                                                      \
            fputs("memprof: the stand-in of " library " has no " #name "(); nothing was done\n", stderr);              \
        return soft_stub_result();                                                                                     \
    }
#define MAKING_STUB(library, name)                                                                                     \
    __attribute__((weak, visibility("default"))) int name(void **to);                                                  \
    int name(void **to)                                                                                                \
    {                                                                                                                  \
        *to = calloc(1, 16);                                                                                           \
        return *to ? 0 : soft_stub_result();                                                                           \
    }
#define QUIET_STUB(library, name)                                                                                      \
    __attribute__((weak, visibility("default"))) int name(void);                                                       \
    int name(void)                                                                                                     \
    {                                                                                                                  \
        return 0;                                                                                                      \
    }

#endif
