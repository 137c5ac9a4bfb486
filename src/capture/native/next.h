/*
 * The next definition of a name that the recorder defines in PyTorch's place: another preloaded library's, else
 * PyTorch's own. Definitions present at the start are looked up then; those loaded later are found in the loader's list
 * (capture/native/loaded.h), so that no hook takes the loader's lock.
 */
#ifndef MP_CAPTURE_NEXT_H
#define MP_CAPTURE_NEXT_H

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

struct mp_next {
    const char *name, *library; /* `library`: the beginning of its file name */
    _Atomic(void *) known;      /* NULL: not looked up */
};

/* For the constructor. */
void mp_next_start(struct mp_next *nexts, size_t count);

/* `caller`: an address in a library that calls the name, from __builtin_return_address(0). NULL: there is no
 * definition. */
void *mp_next_definition(struct mp_next *next, const void *caller);

/* `function` becomes the next definition; NULL where there is none. Use it in the definition that was called. */
#define MP_NEXT(function, next)                                                                                        \
    do {                                                                                                               \
        void *at_ = mp_next_definition(next, __builtin_return_address(0));                                             \
        memcpy(&(function), &at_, sizeof at_);                                                                         \
    } while (0)

#define MP_PRELOADED(name) __asm__(name) __attribute__((visibility("default")))

#endif
