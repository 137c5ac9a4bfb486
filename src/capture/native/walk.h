/*
 * The return addresses of a thread's native stack, by rules out of .eh_frame: some 2 ns a frame. Code without such a
 * rule (written by hand, made at run time) is passed where its frame pointer leads on; else the stack ends there, and
 * the walk says so. On other machines than x86-64 libunwind walks (walk_libunwind.c), which takes locks, makes system
 * calls of its own, and may allocate; here none of that happens.
 *
 * Each thread remembers the rule of each return address, and which caller it had last: where that is so again, the
 * processor need not wait for one frame's memory before it goes on to the next. Frames lie in the order in which they
 * were first seen, so that those of one stack share cache lines. Never allocates; one thread's memory.
 *
 * A rule may be wrong (hand-written assembly), and must not make the program fault: nothing is read but what is there.
 * That is the thread's own stack, up to its outer end, which the kernel was asked about once; of any other stack (a
 * coroutine's, a signal handler's) the kernel is asked about each page in each walk, since it may have been unmapped
 * and another one, smaller, have taken its place.
 */
#ifndef MP_CAPTURE_NATIVE_WALK_H
#define MP_CAPTURE_NATIVE_WALK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MP_KNOWN_FRAMES (1 << 14) /* when all are taken, all are forgotten */

struct mp_known_frame {
    uintptr_t address;
    int32_t base;      /* the rule's base_offset, a multiple of 8; in the three lowest bits from where */
    int16_t bp_offset; /* the rule's */
    uint16_t caller;   /* its caller at the last walk: in words from the first frame, 0 at first */
};

/* Zero-initialised is empty. In mapped memory, of which only those pages are touched that hold frames. */
struct mp_known_frames {
    /* The first one is none: what lies beyond the outermost, and has as its caller where the last walk began. */
    _Alignas(4096) struct mp_known_frame frames[MP_KNOWN_FRAMES];
    uint16_t index[2 * MP_KNOWN_FRAMES];  /* by hash of the address; 0: none */
    uint32_t count;                       /* of frames, less the first */
    uint64_t generation;                  /* of the program's code, from 1 */
    uintptr_t own_from, own_to;           /* of the thread's own stack, what is there for as long as the thread is */
    uintptr_t readable_from, readable_to; /* of the stack that is walked, what is there now */
    uint32_t short_walks; /* that could not learn the thread's own stack, as they ended before its end */
};

/* For the constructor. */
void mp_native_walk_start(void);
/* Code was unloaded: `generation` is another one from now on. */
void mp_native_walk_forget(void);

/* Whether both places lie on the thread's own stack, the second one further out; false where that is not known. */
bool mp_native_same_stack(const struct mp_known_frames *known, uintptr_t inner, uintptr_t outer);

enum mp_walk_end {
    MP_WALK_WHOLE,  /* up to the outermost frame, or to the one to stop at */
    MP_WALK_PASSED, /* up to the outermost frame, whatever it was to stop at */
    MP_WALK_FULL,   /* there is no more room */
    MP_WALK_LOST,   /* the last frame's caller is not known */
};

struct mp_walked {
    int count;
    enum mp_walk_end end;
    uint64_t hash; /* of the addresses and of `end` */
};

/* Walks from the caller of the function whose frame `frame` is (__builtin_frame_address(0) of a function that stays on
 * the stack) up to the frame that `end` lies in, which is left out (UINTPTR_MAX: all), and writes at most `room` return
 * addresses, innermost first. `generation` changes whenever code may have been unloaded. */
struct mp_walked mp_native_walk(struct mp_known_frames *known, uint64_t generation, const void *frame, uintptr_t end,
                                void **addresses, int room);

/* The same with where frames lie: each owns what lies from `low` up to `high`. Slower. Returns how many. */
struct mp_native_frame {
    uintptr_t address, low, high;
};
int mp_native_walk_frames(struct mp_known_frames *known, uint64_t generation, const void *frame,
                          struct mp_native_frame *frames, int room);

/* The range of the function, or of a part of it that lies apart, that `address` is in. False: not known. */
bool mp_native_function(uintptr_t address, uintptr_t *start, uintptr_t *end);

#endif
