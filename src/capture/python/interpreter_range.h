/*
 * The code ranges of Python's interpreter loop: a native frame in one of them is a call of the loop. They are learned
 * from the C frames that contain the groups' markers, never from symbol names. A loop may have several ranges, since
 * compilers place rarely run parts apart. Never allocates; any thread; waits for no lock.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "capture/native/walk.h"
#include "capture/python/python_stack.h"

#define MP_INTERPRETER_RANGES_MAX 16

struct mp_interpreter_ranges {
    _Atomic uint32_t count;   /* only grows */
    _Atomic bool outer_calls; /* true once a stack had loop calls outside all of its groups (greenlets) */
    struct {
        uintptr_t start, end;
    } range[MP_INTERPRETER_RANGES_MAX];
};

/* The ranges of this process. */
extern struct mp_interpreter_ranges mp_interpreter_ranges;

/* True if the call that returns to `address` lies in a range. */
static inline bool mp_interpreter_range_contains(const struct mp_interpreter_ranges *ranges, uintptr_t address)
{
    uint32_t count = atomic_load_explicit(&ranges->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        if (address - 1 - ranges->range[i].start < ranges->range[i].end - ranges->range[i].start) return true;
    return false;
}

/* Walks the C stack once, slowly, and adds what it shows to mp_interpreter_ranges. Call it right after the walk that
 * gave `python`, if a stack's groups do not pair with its native frames. The first few calls walk; later ones mostly
 * return at once. True: it has learned something new, so try again. */
bool mp_interpreter_range_learn(struct mp_known_frames *known, uint64_t generation,
                                const struct mp_python_stack *python);
