/*
 * Merges two stacks into one: native return addresses, with each call of Python's interpreter loop replaced by the
 * Python frames that it runs. Pure; never allocates; any thread.
 *
 * An example, innermost first. The program's module calls train() by way of C code, train() calls step(), and step()
 * allocates a tensor. Python runs step() and train() in one call of its loop, the module in another:
 *
 *     native    malloc   at::empty   LOOP            call_c   LOOP       main
 *     Python                         step, train              <module>          two groups
 *     merged    malloc   at::empty   step, train     call_c   <module>   main
 *
 * If only the inner group was read, the outer LOOP stays native.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "capture/python/interpreter_range.h"
#include "capture/python/python_stack.h"

struct mp_native_stack {
    void *const *addresses; /* return addresses, innermost first */
    uint32_t count;
    bool cut;   /* there are frames further out */
    bool lost;  /* there are frames further out, which could not be found */
    bool whole; /* the walk went up to the thread's outermost frame, past its intended end */
};

#define MP_MERGED_NATIVE UINT32_MAX

struct mp_merged_frame {
    uintptr_t address; /* of a native frame; 0 for a Python one */
    uint32_t python;   /* index into the Python stack's frames; MP_MERGED_NATIVE for a native frame */
};

/* How many calls of the loop pair with groups, from the innermost on. */
struct mp_pairing {
    uint64_t hash;   /* of mp_merge()'s result: equal merged stacks have equal hashes */
    uint32_t paired; /* loop calls that are replaced */
    bool unequal;    /* loop calls and groups differ in number, for no known reason */
};

/* `python` NULL: the Python frames are unknown. Nothing is then replaced, and the result is not `unequal`. */
struct mp_pairing mp_merge_pair(const struct mp_interpreter_ranges *ranges, const struct mp_native_stack *native,
                                const struct mp_python_stack *python);

/* Writes at most `room` merged frames, innermost first, and returns their number. If that equals `room`, there may be
 * more. If there are more loop calls than groups, the outermost calls stay native. For instance, a greenlet's Python
 * stack ends at its own base, and its C stack goes on into the code that started it. If there are fewer loop calls than
 * groups, the remaining groups come outermost. */
uint32_t mp_merge(const struct mp_interpreter_ranges *ranges, const struct mp_native_stack *native,
                  const struct mp_python_stack *python, const struct mp_pairing *pairing, struct mp_merged_frame *to,
                  uint32_t room);
