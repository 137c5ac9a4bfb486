/*
 * Rules that lead from a frame to its caller's frame. They come from the .eh_frame section of the module with the
 * frame's code, and cover the frames that compilers make. x86-64 only. Never allocates; may be called in hooks; any
 * thread.
 *
 * An example. A function begins with `push %rbp; mov %rsp,%rbp`, and its description says
 *
 *     at first               base = sp + 8                the return address lies at base - 8
 *     behind the push        base = sp + 16               the caller's rbp lies at base - 16
 *     behind the mov         base = rbp + 16
 *
 * For an address in the body the rule is {MP_FRAME_BY_BP, base_offset 16, bp_offset -16}. If rbp is 0x7ffe1000, the
 * base is 0x7ffe1010. The return address is read at 0x7ffe1008, the caller's rbp at 0x7ffe1000, and the caller's sp is
 * the base.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* How to find the frame's base (DWARF's CFA: the stack pointer's value in the caller). The return address lies right
 * below the base. */
enum mp_frame_base {
    MP_FRAME_UNKNOWN, /* there is no rule, or a rule of another form */
    MP_FRAME_BY_SP,   /* stack pointer + base_offset */
    MP_FRAME_BY_BP,   /* frame pointer + base_offset */
    MP_FRAME_AT_BP,   /* in functions that align their stack: the base is stored at frame pointer + base_offset (0 or
                       * below), and the caller's frame pointer at the frame pointer */
    MP_FRAME_OUTERMOST
};

struct mp_frame_rule {
    int32_t base_offset;
    int32_t bp_offset; /* from the base to the caller's saved frame pointer; 0: the caller's is still in its register */
    uint8_t base;      /* enum mp_frame_base */
};

/* The rule at the call that returns to `address`. `is_guess`: the address may lie in a library that another thread
 * unloads. The kernel then reads the library's tables, at some 0.3 us for each 128 bytes. */
struct mp_frame_rule mp_frame_rule_find(uintptr_t address, bool is_guess);

/* Finds the function that contains `address`, or the part of it that the compiler placed apart. The library must stay
 * loaded. False: unknown. */
bool mp_frame_rule_function(uintptr_t address, uintptr_t *start, uintptr_t *end);
