/*
 * The native frames that are calls of Python's interpreter loop: code ranges, learned from the places of the groups'
 * markers on the C stack, never from symbol names. A loop may have several ranges (rarely run parts lie elsewhere).
 * Never allocates; any thread; waits for no lock.
 */
#ifndef MP_CAPTURE_PYTHON_INTERPRETER_RANGE_H
#define MP_CAPTURE_PYTHON_INTERPRETER_RANGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "capture/native/walk.h"
#include "capture/python/python_stack.h"

#define MP_INTERPRETER_RANGES_MAX 16

struct mp_interpreter_ranges {
    _Atomic uint32_t count;   /* only grows */
    _Atomic bool outer_calls; /* seen: calls without a group of this stack lie outside all its groups (greenlets) */
    struct {
        uintptr_t start, end;
    } range[MP_INTERPRETER_RANGES_MAX];
};

/* The ranges of this process. */
extern struct mp_interpreter_ranges mp_interpreter_ranges;

/* Whether the call that returns to `address` is in a range. */
static inline bool mp_interpreter_range_contains(const struct mp_interpreter_ranges *ranges, uintptr_t address)
{
    uint32_t count = atomic_load_explicit(&ranges->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        if (address - 1 - ranges->range[i].start < ranges->range[i].end - ranges->range[i].start) return true;
    return false;
}

/* To be called where a stack's groups do not pair with its native frames, right after the walk that gave `python`: adds
 * the results of one slow walk of the C stack to mp_interpreter_ranges. Most calls of a series return at once: the
 * first few walk, then ever fewer. True: something new was learned, try again. */
bool mp_interpreter_range_learn(struct mp_known_frames *known, uint64_t generation,
                                const struct mp_python_stack *python);

#endif
