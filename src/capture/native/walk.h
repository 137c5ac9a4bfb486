/*
 * The return addresses of a thread's native stack, by rules out of .eh_frame: some 2 ns a frame. Some code has no rule
 * (it is written by hand, or generated at run time). The walk passes it if its frame pointer leads on; else the stack
 * ends there, and the walk reports it. With --unwind libunwind, and on other machines than x86-64, libunwind walks
 * (walk_libunwind.h). It takes locks, makes system calls and may allocate; our walk does none of these.
 *
 * Each thread remembers the rule of each return address, and the last caller of that frame. If the caller is the same
 * again, the processor goes on to the next frame without waiting for this frame's memory. Frames are stored in the
 * order in which they were first seen, so those of one stack share cache lines. The walk never allocates; each thread
 * has its own memory for it.
 *
 * A rule may be wrong (hand-written assembly), and must not make the program fault: only mapped memory is read. The
 * thread's own stack, up to its outer end, is checked with the kernel once. Each page of any other stack (a
 * coroutine's, a signal handler's) is checked in each walk, since that stack may have been unmapped and replaced by a
 * smaller one.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "capture/native/walk_libunwind.h"

#define MP_KNOWN_FRAMES (1 << 14) /* most frames; when all are in use, all are forgotten */

struct mp_known_frame {
    uintptr_t address;
    int32_t base;      /* the rule's base_offset, a multiple of 8; its kind in the three lowest bits */
    int16_t bp_offset; /* the rule's bp_offset */
    uint16_t caller;   /* the frame's caller at the last walk: offset from the first frame, in words; 0 at first */
};

/* The frames that a thread remembers. Zero-initialised is empty. Mapped, so that only used pages are touched. */
struct mp_known_frames {
    /* frames[0] is no frame: it marks the end beyond the outermost frame. Its `caller` is the frame at which the last
     * walk began. */
    _Alignas(4096) struct mp_known_frame frames[MP_KNOWN_FRAMES];
    uint16_t index[2 * MP_KNOWN_FRAMES];  /* by hash of the address: index into `frames`; 0: none */
    uint32_t count;                       /* frames in use, without frames[0] */
    uint64_t generation;                  /* generation of the program's code when the frames were stored, plus 1 */
    uintptr_t own_from, own_to;           /* the thread's own stack, mapped for as long as the thread lives */
    uintptr_t readable_from, readable_to; /* part of the stack in the present walk that is known to be mapped */
    uint32_t short_walks;                 /* walks that stopped at `end` before they could learn the own stack */
};

/* Called by the constructor. */
void mp_native_walk_start(void);
/* Code was unloaded, so `generation` changes now. */
void mp_native_walk_forget(void);

/* True if both addresses lie on the thread's own stack, `outer` further out. Also false if the bounds of the stack are
 * unknown. */
bool mp_native_same_stack(const struct mp_known_frames *known, uintptr_t inner, uintptr_t outer);

/* Writes at most `room` return addresses, innermost first. `frame` is the __builtin_frame_address(0) of a function that
 * stays on the stack: the walk begins at that function's caller. It ends before the frame that contains the address
 * `end` (UINTPTR_MAX: at the outermost). `generation` changes whenever code may have been unloaded. */
struct mp_walked mp_native_walk(struct mp_known_frames *known, uint64_t generation, const void *frame, uintptr_t end,
                                void **addresses, int room);

/* Does the same, more slowly, and gives each frame's place on the stack: [low, high). Returns the number of frames. */
int mp_native_walk_frames(struct mp_known_frames *known, uint64_t generation, const void *frame,
                          struct mp_native_frame *frames, int room);

/* Finds the function that contains `address`, or the part of it that the compiler placed apart. False: unknown. */
bool mp_native_function(uintptr_t address, uintptr_t *start, uintptr_t *end);
