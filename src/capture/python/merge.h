/*
 * Makes one stack of two: native return addresses, with each call of Python's interpreter loop replaced by the Python
 * frames that it runs. Pure; never allocates; any thread.
 *
 * An example, innermost first. The program's module calls train() by way of C code, train() calls step(), and step()
 * allocates a tensor. Python runs step() and train() in one call of its loop, the module in another:
 *
 *     native    malloc   at::empty   LOOP            call_c   LOOP       main
 *     Python                         step, train              <module>          two groups
 *     merged    malloc   at::empty   step, train     call_c   <module>   main
 *
 * If the outer group is missing, as when only 1 group was read, the outer LOOP stays native.
 */
#ifndef MP_CAPTURE_PYTHON_MERGE_H
#define MP_CAPTURE_PYTHON_MERGE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "capture/native/walk.h"
#include "capture/python/python_stack.h"

/*
 * The native frames that are calls of Python's interpreter loop: code ranges, learned from the places of the groups'
 * markers on the C stack, never from symbol names. A loop may have several ranges (rarely run parts lie elsewhere).
 * Never allocates; any thread; waits for no lock.
 */

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

/* True if the call that returns to `address` is in a range. */
static inline bool mp_interpreter_range_contains(const struct mp_interpreter_ranges *ranges, uintptr_t address)
{
    uint32_t count = atomic_load_explicit(&ranges->count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        if (address - 1 - ranges->range[i].start < ranges->range[i].end - ranges->range[i].start) return true;
    return false;
}

/* Adds the results of one slow walk of the C stack to mp_interpreter_ranges. Call it right after the walk that gave
 * `python`, if a stack's groups do not pair with its native frames. Most calls of a series return at once: the first
 * few walk, then ever fewer. True: something new was learned, try again. */
bool mp_interpreter_range_learn(struct mp_known_frames *known, uint64_t generation,
                                const struct mp_python_stack *python);

struct mp_native_stack {
    void *const *addresses; /* return addresses, innermost first */
    uint32_t count;
    bool cut;   /* there are frames further out */
    bool lost;  /* likewise, and nothing leads to them */
    bool whole; /* up to the thread's outermost, whatever they were to stop at */
};

#define MP_MERGED_NATIVE UINT32_MAX

struct mp_merged_frame {
    uintptr_t address; /* of a native frame; 0 for a Python one */
    uint32_t python;   /* index into the Python stack's frames; MP_MERGED_NATIVE for a native one */
};

/* How two stacks pair: from the innermost on. */
struct mp_pairing {
    uint64_t hash;   /* of mp_merge()'s result: equal merged stacks have equal hashes */
    uint32_t paired; /* replaced calls of the loop */
    bool unequal;    /* calls and groups differ in number, without an explanation */
};

/* `python` NULL: the Python frames are unknown; then nothing is replaced, and that does not count as unequal. */
struct mp_pairing mp_merge_pair(const struct mp_interpreter_ranges *ranges, const struct mp_native_stack *native,
                                const struct mp_python_stack *python);

/* Writes at most `room` merged frames, innermost first, and returns their number. If that is `room`, there may be more.
 * With more calls than groups the outermost calls stay native: a greenlet's Python stack ends at its own base, its C
 * stack goes on into the code that started it. With fewer, the groups left over come outermost. */
uint32_t mp_merge(const struct mp_interpreter_ranges *ranges, const struct mp_native_stack *native,
                  const struct mp_python_stack *python, const struct mp_pairing *pairing, struct mp_merged_frame *to,
                  uint32_t room);

#endif
