/*
 * Finds the next definition of a name that the recorder defines in PyTorch's place: another preloaded library's, else
 * PyTorch's own. The constructor looks up the definitions that are loaded by then. Definitions that are loaded later
 * are found in the loader's list (capture/native/loaded.h), so that no hook takes the loader's lock.
 */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

struct mp_next {
    const char *name, *library; /* `library`: the begin of its file name */
    _Atomic(void *) known;      /* the definition; NULL: not found yet */
};

/* For the constructor. */
void mp_next_start(struct mp_next *nexts, size_t count);

/* Returns the next definition; NULL if there is none. `caller`: an address in a library that calls the name, from
 * __builtin_return_address(0). */
void *mp_next_definition(struct mp_next *next, const void *caller);

/* Sets `function` to the next definition, or to NULL. Use it in the recorder's own definition of the name. */
#define MP_NEXT(function, next)                                                                                        \
    do {                                                                                                               \
        void *at_ = mp_next_definition(next, __builtin_return_address(0));                                             \
        memcpy(&(function), &at_, sizeof at_);                                                                         \
    } while (0)

#define MP_PRELOADED(name) __asm__(name) __attribute__((visibility("default")))
