#include "capture/python/interpreter_range.h"

#include <stddef.h>

struct mp_interpreter_ranges mp_interpreter_ranges;

static bool add_range(uintptr_t start, uintptr_t end)
{
    uint32_t count = atomic_load(&mp_interpreter_ranges.count);
    if (start >= end || count == MP_INTERPRETER_RANGES_MAX) return false;
    if (mp_interpreter_range_contains(&mp_interpreter_ranges, start + 1)) return false;
    mp_interpreter_ranges.range[count].start = start;
    mp_interpreter_ranges.range[count].end = end;
    atomic_store(&mp_interpreter_ranges.count, count + 1);
    return true;
}

/* 3.9 and 3.10 leave no marker on the C stack: there the exported function stands for the loop. */
static bool learn_from_symbol(const struct mp_libunwind *unwind)
{
    unw_proc_info_t info;
    uintptr_t loop = mp_python_interpreter_loop();
    if (!loop || unwind->get_proc_info_by_ip(*unwind->local_addr_space, loop, &info, NULL) != 0) return false;
    return add_range(info.start_ip, info.end_ip);
}

static bool returns_into_loop(const struct mp_libunwind *unwind, unw_cursor_t *frame)
{
    unw_word_t address;
    return unwind->get_reg(frame, UNW_REG_IP, &address) == 0 &&
           mp_interpreter_range_contains(&mp_interpreter_ranges, address);
}

/* Walks the C stack. A native frame owns what lies from its own stack pointer up to its caller's; one that owns a
 * marker is a call of the loop. */
static bool learn_from_markers(const struct mp_libunwind *unwind, const struct mp_python_stack *python)
{
    enum { DEEPEST = 4 * MP_PYTHON_FRAMES_MAX };
    unw_context_t context;
    unw_cursor_t cursor, frame;
    unw_word_t low, high;
    bool learned = false, inner = false, outer = false;
    if (MP_UNW_GETCONTEXT(unwind, &context) != 0 || unwind->init_local(&cursor, &context) != 0) return false;
    if (unwind->get_reg(&cursor, UNW_REG_SP, &low) != 0) return false;
    uint32_t group = 0;
    for (int depth = 0; depth < DEEPEST; depth++, low = high) {
        frame = cursor;
        if (unwind->step(&cursor) <= 0 || unwind->get_reg(&cursor, UNW_REG_SP, &high) != 0) break;
        bool is_call = false;
        for (; group < python->group_count && python->markers[group] < high; group++)
            is_call = is_call || python->markers[group] >= low;
        unw_proc_info_t info;
        if (is_call && unwind->get_proc_info(&frame, &info) == 0) learned |= add_range(info.start_ip, info.end_ip);
        if (is_call || !returns_into_loop(unwind, &frame)) continue;
        inner = inner || group < python->group_count;
        outer = outer || group == python->group_count;
    }
    if (outer && !inner) learned |= !atomic_exchange(&mp_interpreter_ranges.outer_calls, true);
    return learned;
}

/* The first few misses, then those whose number is a power of two: some 40 slow walks at most in the longest run. */
static bool worth_a_walk(void)
{
    enum { FIRST = 8 };
    static _Atomic uint64_t misses;
    uint64_t number = atomic_fetch_add_explicit(&misses, 1, memory_order_relaxed) + 1;
    return number <= FIRST || (number & (number - 1)) == 0;
}

bool mp_interpreter_range_learn(const struct mp_libunwind *unwind, const struct mp_python_stack *python)
{
    static atomic_flag learning = ATOMIC_FLAG_INIT;
    if (python->group_count == 0 || !worth_a_walk() || atomic_flag_test_and_set(&learning)) return false;
    bool marked = python->markers[0] != 0;
    bool learned = marked ? learn_from_markers(unwind, python) : learn_from_symbol(unwind);
    atomic_flag_clear(&learning);
    return learned;
}
