#include "capture/python/interpreter_range.h"

#include "capture/core/lock.h"

struct mp_interpreter_ranges mp_interpreter_ranges;

/* The C stack as the last walk found it, innermost first; guarded by `learning`. */
enum { DEEPEST = 1024 };
static struct mp_native_frame c_stack[DEEPEST];
static mp_lock learning; /* a thread that does not get this lock learns nothing */

static bool is_call(const struct mp_native_frame *frame)
{
    return mp_interpreter_range_contains(&mp_interpreter_ranges, frame->address);
}

/* Adds the code range of the function that contains an address. */
static bool add_range(uintptr_t address)
{
    uintptr_t start, end;
    uint32_t count = atomic_load(&mp_interpreter_ranges.count);
    if (count == MP_INTERPRETER_RANGES_MAX) return false;
    if (!mp_native_function(address, &start, &end)) return false;
    if (start >= end || mp_interpreter_range_contains(&mp_interpreter_ranges, start + 1)) return false;
    mp_interpreter_ranges.range[count].start = start;
    mp_interpreter_ranges.range[count].end = end;
    atomic_store(&mp_interpreter_ranges.count, count + 1);
    return true;
}

/* Adds the functions of all C frames that contain a marker: they are calls of the loop. */
static bool learn_from_markers(const struct mp_python_stack *python, uint32_t count)
{
    bool learned = false, inner = false, outer = false;
    uint32_t group = 0;
    for (const struct mp_native_frame *frame = c_stack; frame < c_stack + count; frame++) {
        bool marked = false;
        for (; group < python->group_count && python->markers[group] < frame->high; group++)
            marked = marked || python->markers[group] >= frame->low;
        if (marked)
            learned |= add_range(frame->address - 1);
        else if (is_call(frame))
            *(group < python->group_count ? &inner : &outer) = true;
    }
    if (outer && !inner) learned |= !atomic_exchange(&mp_interpreter_ranges.outer_calls, true);
    return learned;
}

static uintptr_t function_start(uintptr_t address)
{
    uintptr_t start, end;
    return mp_native_function(address, &start, &end) ? start : address;
}

/* True if a frame outside of all known ranges may be a call of the loop, in a part that the compiler placed apart. Its
 * C frame then has the same size as a known call's frame, and the same caller. */
static bool looks_like_call(const struct mp_native_frame *frame, uint32_t count)
{
    enum { COMPARISONS = 8 };
    if (is_call(frame)) return false;
    uintptr_t caller = 0;
    int left = COMPARISONS;
    for (const struct mp_native_frame *known = c_stack; known + 1 < c_stack + count && left > 0; known++) {
        if (!is_call(known) || known->high - known->low != frame->high - frame->low) continue;
        left--;
        if (!caller) caller = function_start(frame[1].address - 1);
        if (caller == function_start(known[1].address - 1)) return true;
    }
    return false;
}

/* 3.9 and 3.10 leave no marker on the C stack. The exported function identifies the loop. looks_like_call() finds
 * frames in the loop's other parts. They count only if there are as many of them as groups without a native frame. */
static bool learn_from_symbol(const struct mp_python_stack *python, uint32_t count)
{
    uintptr_t loop = mp_python_interpreter_loop();
    if (!loop) return false;
    if (add_range(loop)) return true;
    uint32_t calls = 0, alike = 0;
    for (uint32_t i = 0; i + 1 < count; i++) {
        calls += is_call(&c_stack[i]);
        alike += looks_like_call(&c_stack[i], count);
    }
    if (calls + alike != python->group_count) return false;
    for (uint32_t i = 0; i + 1 < count; i++)
        if (looks_like_call(&c_stack[i], count)) add_range(c_stack[i].address - 1);
    return alike > 0;
}

/* True for the first few misses, and then if their number is a power of two. So even the longest run makes at most some
 * 40 walks. */
static bool worth_a_walk(void)
{
    enum { FIRST = 8 };
    static _Atomic uint64_t misses;
    uint64_t number = atomic_fetch_add_explicit(&misses, 1, memory_order_relaxed) + 1;
    return number <= FIRST || (number & (number - 1)) == 0;
}

bool mp_interpreter_range_learn(struct mp_known_frames *known, uint64_t generation,
                                const struct mp_python_stack *python)
{
    if (python->group_count == 0 || !worth_a_walk() || !mp_lock_take_within(&learning, 0)) return false;
    int count = mp_native_walk_frames(known, generation, __builtin_frame_address(0), c_stack, DEEPEST);
    bool marked = python->markers[0] != 0;
    bool learned = marked ? learn_from_markers(python, (uint32_t)count) : learn_from_symbol(python, (uint32_t)count);
    mp_lock_release(&learning);
    return learned;
}
