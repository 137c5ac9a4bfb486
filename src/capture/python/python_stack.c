#include "capture/python/python_stack.h"

#include <stdatomic.h>
#include <string.h>

#include "capture/core/lock.h"
#include "capture/python/checks.h"
#include "capture/python/memory.h"
#include "capture/python/runtime.h"
#include "capture/python/walk.h"

/* How far the interpreter has been found and checked. The state only grows. */
enum state {
    ABSENT,
    FOUND,  /* the version is known; the layout's shape is checked at the first stack */
    SHAPED, /* the shape is right, so walks count; one comparison with Python's API follows */
    READY,
    OFF,
};

static _Atomic int state;
static struct mp_python_runtime runtime; /* written before the state becomes FOUND, then constant */
static char note_text[160];              /* written before note_ready, then constant */
static _Atomic bool note_ready;
static atomic_flag note_taken = ATOMIC_FLAG_INIT;
static mp_lock probing, comparing; /* a thread that does not get such a lock skips the work */

static void append_text(char *text, size_t size, const char *more)
{
    size_t used = strlen(text), length = strnlen(more, size - used - 1);
    memcpy(text + used, more, length);
    text[used + length] = '\0';
}

static void append_number(char *text, size_t size, unsigned number)
{
    char digits[12];
    size_t at = sizeof digits - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
    } while (number /= 10);
    append_text(text, size, digits + at);
}

/* Turns Python frames off. The note is "python3.15 " and the given rest. */
static void turn_off(const struct mp_python_runtime *found, const char *rest)
{
    if (!atomic_flag_test_and_set(&note_taken)) {
        append_text(note_text, sizeof note_text, "python");
        append_number(note_text, sizeof note_text, found->major);
        append_text(note_text, sizeof note_text, ".");
        append_number(note_text, sizeof note_text, found->minor);
        append_text(note_text, sizeof note_text, rest);
        atomic_store(&note_ready, true);
    }
    atomic_store(&state, OFF);
}

const char *mp_python_note(void)
{
    return atomic_load(&note_ready) ? note_text : NULL;
}

/* Looks for an interpreter in the process. */
static void probe(void)
{
    if (atomic_load(&state) != ABSENT || !mp_lock_take_within(&probing, 0)) return;
    struct mp_python_runtime found;
    if (atomic_load(&state) == ABSENT && mp_python_runtime_find(&found)) {
        if (found.layout) {
            runtime = found;
            mp_python_check_api_start(&runtime.library);
            atomic_store(&state, FOUND);
        } else {
            turn_off(&found, " is unknown to this version of memprof: stacks are native only");
        }
    }
    mp_lock_release(&probing);
}

void mp_python_keep_loaded(void)
{
    static _Atomic bool kept;
    int now = atomic_load(&state);
    if (now == ABSENT || now == OFF || atomic_exchange(&kept, true)) return;
    mp_python_runtime_keep(&runtime);
}

static bool start(void)
{
    probe();
    mp_python_keep_loaded();
    return true;
}

const struct mp_front mp_python_front = {.start = start};

/* An interpreter may be loaded late: looks for it at events 1, 2, 4, ... and then at each 65536th. So Python frames are
 * missing in at most half of the events before the first look that finds it. Threads may lose counts, which only delays
 * a look. */
static void probe_now_and_then(void)
{
    enum { SELDOM = 1 << 16 };
    static _Atomic uint32_t events;
    uint32_t count = atomic_load_explicit(&events, memory_order_relaxed) + 1;
    atomic_store_explicit(&events, count, memory_order_relaxed);
    if ((count & (count - 1)) == 0 || count % SELDOM == 0) probe();
}

/* True if the layout's shape fits the calling thread's frames. A few contradictions are allowed, since a thread may be
 * between two states. */
static bool shape_is_right(const char *thread)
{
    enum { FORGIVEN = 8 };
    static _Atomic unsigned contradictions;
    switch (mp_python_check_shape(runtime.layout, &runtime, thread)) {
    case MP_PYTHON_RIGHT: {
        int expected = FOUND;
        atomic_compare_exchange_strong(&state, &expected, SHAPED);
        return expected != OFF;
    }
    case MP_PYTHON_WRONG:
        if (atomic_fetch_add(&contradictions, 1) >= FORGIVEN)
            turn_off(&runtime, " keeps its frames in a way unknown to memprof: stacks are native only");
        return false;
    case MP_PYTHON_NOT_NOW:
        break;
    }
    return false;
}

/* Compares the stack just walked with Python's own API, once in the process. False: Python frames are off now. */
static bool agrees_with_api(const char *thread, const struct mp_python_stack *stack)
{
    enum { ATTEMPTS = 64 };
    static unsigned attempts; /* guarded by `comparing` */
    if (stack->frame_count == 0 || runtime.attached_thread() != thread) return true;
    if (!mp_lock_take_within(&comparing, 0)) return true;
    bool right = true;
    if (atomic_load(&state) == SHAPED) {
        enum mp_python_verdict verdict = mp_python_check_api(runtime.layout, thread, stack);
        right = verdict != MP_PYTHON_WRONG;
        if (!right) turn_off(&runtime, "'s own view of a stack differs from memprof's: stacks are native only");
        int expected = SHAPED;
        if (verdict == MP_PYTHON_RIGHT || ++attempts == ATTEMPTS)
            atomic_compare_exchange_strong(&state, &expected, READY);
    }
    mp_lock_release(&comparing);
    return right;
}

static void empty(struct mp_python_stack *stack)
{
    stack->frame_count = stack->group_count = 0;
    stack->cut = false;
    stack->module = NULL;
    stack->hash = 0;
}

bool mp_python_walk(struct mp_python_stack *stack, bool may_call_python)
{
    empty(stack);
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (__builtin_expect(now != READY, 0)) {
        if (now == ABSENT && may_call_python) {
            probe_now_and_then();
            now = atomic_load(&state);
        }
        if (now == ABSENT || now == OFF) return false;
    }
    if (!runtime.is_initialized()) return false;
    const char *thread = runtime.own_thread();
    if (!thread) return true;
    if (now == FOUND) {
        if (!shape_is_right(thread)) return false;
        now = SHAPED;
    }
    const struct mp_python_layout *layout = runtime.layout;
    bool attached = layout->code_bytecode_copies && runtime.attached_thread() == thread;
    mp_python_walk_thread(layout, thread, attached, stack);
    if (now == SHAPED && may_call_python && !stack->end && !agrees_with_api(thread, stack)) {
        empty(stack);
        return false;
    }
    return true;
}

enum mp_python_calls_answer mp_python_call(struct mp_python_calls *calls, uint32_t *name)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    bool trusted = now == READY || now == SHAPED;
    if (!trusted || !mp_python_calls_any() || !runtime.is_initialized()) return MP_PYTHON_CALL_GOES_ON;
    const char *thread = runtime.own_thread();
    return thread ? mp_python_calls_look(runtime.layout, thread, calls, name) : MP_PYTHON_CALL_GOES_ON;
}

/* co_localspluskinds, a bytes object with one byte for each local, lies right before co_filename in every version that
 * has it. */
static bool first_local_is_plain(const struct mp_python_layout *layout, const char *code)
{
    enum { IN_A_CELL = 0x40 };
    if (layout->chain == MP_PYTHON_CHAIN_OBJECTS) return true; /* a variable in a cell has nothing in its own place */
    const char *kinds = mp_load_pointer(code, layout->code_file - sizeof kinds);
    return mp_load_pointer(kinds, layout->object_type) == runtime.bytes_type &&
           mp_load_i64(kinds, layout->object_size) > 0 && !(kinds[layout->bytes_data] & IN_A_CELL);
}

bool mp_python_module_code(const void *code)
{
    probe();
    int now = atomic_load(&state);
    if (now == ABSENT || now == OFF || mp_load_pointer(code, runtime.layout->object_type) != runtime.code_type)
        return false;
    return first_local_is_plain(runtime.layout, code) && mp_python_seek_module_code(code);
}

bool mp_python_call_soon(int (*call)(void *), void *context, bool may_call_python)
{
    enum { WAITS_WITHOUT_THE_GIL = 13 };
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if ((now != SHAPED && now != READY) || !runtime.add_pending_call || !runtime.is_initialized()) return false;
    bool attached = runtime.attached_thread() && runtime.attached_thread() == runtime.own_thread();
    if (runtime.minor >= WAITS_WITHOUT_THE_GIL && attached && !may_call_python) return false;
    return runtime.add_pending_call(call, context) == 0;
}

bool mp_python_newest(const void **frame)
{
    *frame = NULL;
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if ((now != READY && now != SHAPED) || !runtime.is_initialized()) return false;
    const char *thread = runtime.own_thread();
    if (thread) *frame = mp_python_newest_frame(runtime.layout, thread);
    return true;
}

uintptr_t mp_python_interpreter_loop(void)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    return now == ABSENT || now == OFF ? 0 : (uintptr_t)runtime.interpreter_loop;
}

bool mp_python_describe(const struct mp_python_frame *frame, struct mp_python_description *out)
{
    int now = atomic_load_explicit(&state, memory_order_acquire);
    if (now == SHAPED || now == READY)
        return mp_python_describe_code(runtime.layout, frame->code, frame->instruction, out);
    out->function[0] = out->file[0] = '\0';
    out->function_length = out->file_length = 0;
    out->line = 0;
    return false;
}
