/* The functions of walk.h, done by libunwind, with the same contracts. libunwind takes locks, makes system calls and
 * may allocate. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum mp_walk_end {
    MP_WALK_WHOLE,  /* up to the outermost frame, or to `end` */
    MP_WALK_PASSED, /* up to the outermost frame, past `end`, which lies on another stack */
    MP_WALK_FULL,   /* `room` is used up */
    MP_WALK_LOST,   /* the last frame's caller cannot be found */
};

struct mp_walked {
    int count;
    enum mp_walk_end end;
    uint64_t hash; /* of the addresses and of `end` */
};

/* A frame and its place on the stack: [low, high). */
struct mp_native_frame {
    uintptr_t address, low, high;
};

/* Called by the constructor. False: libunwind is not installed; the other functions then find nothing. */
bool mp_libunwind_start(void);
void mp_libunwind_forget(void);
struct mp_walked mp_libunwind_walk(uint64_t generation, void **addresses, int room);
int mp_libunwind_walk_frames(struct mp_native_frame *frames, int room);
bool mp_libunwind_function(uintptr_t address, uintptr_t *start, uintptr_t *end);
