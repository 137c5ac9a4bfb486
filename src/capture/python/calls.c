#include "capture/python/calls.h"

#include <stdatomic.h>
#include <string.h>

#include "base/hash.h"
#include "capture/python/memory.h"
#include "capture/python/walk.h"

/* Bytecode is read in units of one opcode and one argument. A loop ends with a jump back; it reaches from the jump's
 * target to the jump. */

enum { EXTENDED_ARG = 144, EXTENDED_ARG_QUICK = 34, LAST_OF_9_AND_10 = 121, JUMP_ABSOLUTE = 113 };

struct code_units {
    const unsigned char *bytes;
    uint32_t count;
};

/* How many units of data follow an instruction of 3.11, even a specialised one. */
static uint32_t data_units(unsigned char op)
{
    static const unsigned char
        units[256] = {[3 ... 8] = 1,     [13] = 1,        [14] = 1,         [16] = 1,   [17 ... 25] = 4,
                      [26 ... 29] = 2,   [39 ... 43] = 4, [47] = 5,         [48] = 5,   [55] = 5,
                      [56 ... 59] = 10,  [60] = 1,        [62] = 10,        [63] = 10,  [64 ... 67] = 1,
                      [72] = 1,          [73] = 1,        [76 ... 81] = 1,  [92] = 1,   [95] = 4,
                      [106] = 4,         [107] = 2,       [113] = 1,        [116] = 5,  [121] = 1,
                      [122] = 1,         [127] = 1,       [141] = 1,        [143] = 1,  [153] = 4,
                      [154] = 4,         [158] = 4,       [159] = 4,        [160] = 10, [166] = 1,
                      [168 ... 170] = 1, [171] = 4,       [177 ... 180] = 1};
    return units[op];
}

/* True for JUMP_BACKWARD, its quick form, and POP_JUMP_BACKWARD_IF_*. */
static bool jumps_back(unsigned char op)
{
    return op == 140 || op == 38 || (op >= 173 && op <= 176);
}

static bool is_extended(unsigned minor, unsigned char op)
{
    return op == EXTENDED_ARG || (minor == 11 && op == EXTENDED_ARG_QUICK);
}

/* The target of a jump instruction of 3.9 or 3.10, in units. UINT32_MAX for other instructions. */
static uint32_t absolute_target(unsigned minor, unsigned char op, uint32_t argument)
{
    bool jump = op == LAST_OF_9_AND_10 || (op >= JUMP_ABSOLUTE - 2 && op <= JUMP_ABSOLUTE + 2);
    return !jump ? UINT32_MAX : minor == 9 ? argument / 2 : argument;
}

static bool loops_known(const struct mp_python_layout *layout)
{
    return layout->minor <= 11;
}

static bool find_units(const struct mp_python_layout *layout, const char *code, struct code_units *units)
{
    if (!loops_known(layout)) return false;
    bool inline_code = layout->code_bytecode != 0;
    const char *holder = inline_code ? code : mp_load_pointer(code, layout->code_bytes);
    int64_t size = mp_load_i64(holder, layout->object_size);
    units->bytes = (const unsigned char *)(inline_code ? code + layout->code_bytecode : holder + layout->bytes_data);
    units->count = (uint32_t)(inline_code ? size : size / 2);
    return size > 0 && size < INT32_MAX;
}

/* True if the code can get from `position` back to `before` within one call, because both lie in one loop. True if the
 * code's loops are not known. */
static bool python_loops(const struct mp_python_layout *layout, const char *code, uint32_t before, uint32_t position)
{
    struct code_units units;
    if (!find_units(layout, code, &units)) return true;
    uint32_t argument = 0;
    before /= 2;
    position /= 2;
    for (uint32_t i = 0; i < units.count;) {
        unsigned char op = units.bytes[(size_t)i * 2];
        argument = argument << 8 | units.bytes[(size_t)i * 2 + 1];
        uint32_t at = i, target = UINT32_MAX;
        i += 1 + (layout->minor == 11 ? data_units(op) : 0);
        if (is_extended(layout->minor, op)) continue;
        if (layout->minor < 11)
            target = absolute_target(layout->minor, op, argument);
        else if (jumps_back(op) && argument <= at + 1)
            target = at + 1 - argument;
        argument = 0;
        if (target <= before && target <= position && before <= at && position <= at) return true;
    }
    return false;
}

#define CODES      64 /* functions that --step-at's text may mean */
#define DEPTH_MAX  4096
#define LOCALS_MAX 64 /* local variables of a frame that are compared */

enum { OPTIMIZED = 1 /* flag of a code object: its variables are fast locals */ };

static struct {
    const void *_Atomic code;
    _Atomic uint64_t identity;
    _Atomic uint32_t name;
} codes[CODES];
static _Atomic uint32_t code_count, next_code; /* entries in use; index of the next new one, modulo CODES */

void mp_python_calls_add(const void *code, uint64_t identity, uint32_t name)
{
    uint32_t count = atomic_load(&code_count);
    for (uint32_t i = 0; i < count; i++)
        if (atomic_load(&codes[i].code) == code) {
            atomic_store(&codes[i].identity, identity);
            atomic_store(&codes[i].name, name);
            return;
        }
    uint32_t at = atomic_fetch_add(&next_code, 1) % CODES; /* replaces the oldest entry if all are in use */
    atomic_store(&codes[at].identity, identity);
    atomic_store(&codes[at].name, name);
    atomic_store(&codes[at].code, code);
    if (count < CODES) atomic_store_explicit(&code_count, count + 1, memory_order_release);
}

bool mp_python_calls_any(void)
{
    return atomic_load_explicit(&code_count, memory_order_acquire);
}

/* The name of the function if it is the one that the user named; 0: another function. */
static uint32_t name_of(const struct mp_python_layout *layout, const char *code)
{
    uint32_t count = atomic_load_explicit(&code_count, memory_order_acquire);
    for (uint32_t i = 0; i < count; i++)
        if (atomic_load_explicit(&codes[i].code, memory_order_relaxed) == code)
            return atomic_load(&codes[i].identity) == mp_python_code_identity(layout, code)
                       ? atomic_load(&codes[i].name)
                       : 0;
    return 0;
}

static uint32_t position_of(const struct mp_python_layout *layout, const char *frame, const char *code)
{
    if (layout->chain == MP_PYTHON_CHAIN_OBJECTS)
        return mp_load_u32(frame, layout->frame_position) * (layout->minor == 9 ? 1 : 2);
    return (uint32_t)(mp_load_pointer(frame, layout->frame_position) - (code + layout->code_bytecode));
}

static bool suspends(const struct mp_python_layout *layout, const char *frame)
{
    if (layout->chain == MP_PYTHON_CHAIN_OBJECTS) return mp_load_pointer(frame, layout->frame_generator) != NULL;
    return frame[layout->frame_owner] == 1;
}

static bool has_locals(const struct mp_python_layout *layout, const char *code)
{
    return mp_load_u32(code, layout->code_flags) & OPTIMIZED;
}

/* Hash of a caller's state, which changes only while the caller runs. */
static uint64_t state_of(const struct mp_python_layout *layout, const char *frame, const char *code)
{
    uint64_t hash = mp_hash_step((uintptr_t)frame, (uintptr_t)code);
    hash = mp_hash_step(hash, (uintptr_t)mp_load_pointer(frame, layout->frame_position));
    uint32_t locals = has_locals(layout, code) ? mp_load_u32(code, layout->code_locals) : 0;
    for (uint32_t i = 0; i < locals && i < LOCALS_MAX; i++)
        hash = mp_hash_step(hash, (uintptr_t)mp_load_pointer(frame, layout->frame_locals + i * sizeof(void *)));
    return hash;
}

/* The outermost call of the function on a stack, at this moment. */
struct look {
    struct mp_python_call now;
    const char *code;
    uint32_t name;
};

static const char *next_frame(const struct mp_python_layout *layout, const char *frame)
{
    do
        frame = mp_load_pointer(frame, layout->frame_previous);
    while (frame && mp_python_frame_is_shim(layout, frame));
    return frame;
}

static const char *first_frame(const struct mp_python_layout *layout, const char *thread)
{
    const char *frame = mp_python_newest_frame(layout, thread);
    return frame && mp_python_frame_is_shim(layout, frame) ? next_frame(layout, frame) : frame;
}

static struct look look_at(const struct mp_python_layout *layout, const char *thread)
{
    struct look look = {.code = NULL};
    uint64_t path = 0;
    bool outside = false; /* the walk has reached callers that may run while the call is suspended */
    const char *frame = first_frame(layout, thread);
    for (uint32_t i = 0; frame && i < DEPTH_MAX; frame = next_frame(layout, frame), i++) {
        const char *code = mp_python_frame_code(layout, frame);
        uint32_t position = position_of(layout, frame, code);
        path = mp_hash_step(path, (uintptr_t)code + position);
        uint32_t name = name_of(layout, code);
        if (name) {
            look.name = name;
            look.code = code;
            look.now = (struct mp_python_call){
                .frame = frame, .first = path, .position = position, .suspends = suspends(layout, frame)};
            outside = false;
        } else if (look.code) {
            outside |= look.now.suspends && !suspends(layout, frame);
            if (!outside) look.now.outer = mp_hash_step(look.now.outer, state_of(layout, frame, code));
        }
        look.now.bottom = frame;
    }
    look.now.last = look.now.first;
    return look;
}

/* True if a loop of the call's frame, or of an inner frame, leads back to that frame's position. */
static bool loops_inside(const struct mp_python_layout *layout, const char *thread, const struct look *look)
{
    for (const char *frame = first_frame(layout, thread); frame; frame = next_frame(layout, frame)) {
        const char *code = mp_python_frame_code(layout, frame);
        uint32_t position = position_of(layout, frame, code);
        if (python_loops(layout, code, position, position)) return true;
        if (frame == look->now.frame) return false;
    }
    return true;
}

/* True if a loop of one of the callers leads back to the call. *of_module: that caller is a module. */
static bool loops_outside(const struct mp_python_layout *layout, const struct look *look, bool *of_module)
{
    const char *frame = next_frame(layout, look->now.frame);
    for (; frame; frame = next_frame(layout, frame)) {
        const char *code = mp_python_frame_code(layout, frame);
        uint32_t position = position_of(layout, frame, code);
        *of_module = !has_locals(layout, code);
        if (python_loops(layout, code, position, position)) return true;
    }
    return false;
}

/* Judges a call that stands where it first allocated. `at_once`: it has not allocated anywhere else since. */
static enum mp_python_calls_answer judge_again(const struct mp_python_layout *layout, const char *thread,
                                               const struct look *look, bool at_once)
{
    bool of_module = false, inside = loops_inside(layout, thread, look),
         around = loops_outside(layout, look, &of_module);
    uint32_t position = look->now.position;
    if (around && !inside && (!at_once || of_module)) return MP_PYTHON_CALL_BEGINS;
    if (look->now.suspends) return MP_PYTHON_CALL_MAY_BEGIN;
    bool own = loops_known(layout) && python_loops(layout, look->code, position, position);
    return own || at_once ? MP_PYTHON_CALL_GOES_ON : MP_PYTHON_CALL_MAY_BEGIN;
}

static enum mp_python_calls_answer judge(const struct mp_python_layout *layout, const char *thread,
                                         const struct look *look, const struct mp_python_call *before)
{
    const struct mp_python_call *now = &look->now;
    if (now->outer != before->outer) return MP_PYTHON_CALL_BEGINS;
    if (now->position < before->position) {
        if (!loops_known(layout)) return MP_PYTHON_CALL_MAY_BEGIN;
        if (!python_loops(layout, look->code, now->position, before->position)) return MP_PYTHON_CALL_BEGINS;
    }
    if (now->first != before->first) return MP_PYTHON_CALL_GOES_ON;
    return judge_again(layout, thread, look, now->first == before->last);
}

/* Called when the stack with that outermost frame has no call of the function. Forgets the stack's calls, except
 * suspended ones. */
static void forget(struct mp_python_calls *calls, const void *bottom)
{
    for (size_t i = 0; i < MP_PYTHON_CALLS_KNOWN; i++)
        if (calls->at[i].bottom == bottom && !calls->at[i].suspends) calls->at[i].frame = NULL;
}

/* Finds the known call of a frame. NULL: there is none. */
static struct mp_python_call *find_call(struct mp_python_calls *calls, const void *frame)
{
    for (size_t i = 0; i < MP_PYTHON_CALLS_KNOWN; i++)
        if (calls->at[i].frame == frame) return &calls->at[i];
    return NULL;
}

/* Returns an entry for a new call: a free one, else the one that was seen least recently. */
static struct mp_python_call *find_place(struct mp_python_calls *calls)
{
    struct mp_python_call *oldest = &calls->at[0];
    for (size_t i = 0; i < MP_PYTHON_CALLS_KNOWN; i++) {
        if (!calls->at[i].frame) return &calls->at[i];
        if (calls->looks - calls->at[i].used > calls->looks - oldest->used) oldest = &calls->at[i];
    }
    return oldest;
}

enum mp_python_calls_answer mp_python_calls_look(const struct mp_python_layout *layout, const char *thread,
                                                 struct mp_python_calls *calls, uint32_t *name)
{
    struct look look = look_at(layout, thread);
    if (!look.code) {
        if (look.now.bottom) forget(calls, look.now.bottom);
        return MP_PYTHON_CALL_GOES_ON;
    }
    struct mp_python_call *known = find_call(calls, look.now.frame);
    enum mp_python_calls_answer answer = known ? judge(layout, thread, &look, known) : MP_PYTHON_CALL_BEGINS;
    if (!known) known = find_place(calls);
    if (answer != MP_PYTHON_CALL_BEGINS) look.now.first = known->first;
    look.now.used = ++calls->looks;
    *known = look.now;
    *name = look.name;
    return answer;
}
