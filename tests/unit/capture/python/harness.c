/* The library that the test's interpreters load: the walk and its parts, callable through ctypes, results as text. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "capture/core/fork.h"
#include "capture/native/walk.h"
#include "capture/python/checks.h"
#include "capture/python/merge.h"
#include "capture/python/python_stack.h"
#include "capture/python/walk.h"

#define EXPORT __attribute__((visibility("default")))

/* The recorder's variable that the native walk needs: no session. */
struct mp_session mp_session;

void mp_session_refused(const char *call)
{
    fprintf(stderr, "harness: %s was refused\n", call);
}

static _Thread_local struct mp_python_frame frames[MP_PYTHON_FRAMES_MAX];
static _Thread_local uintptr_t markers[MP_PYTHON_FRAMES_MAX];

static struct mp_python_stack make_stack(uint32_t room)
{
    return (struct mp_python_stack){.frames = frames, .markers = markers, .room = room};
}

static size_t print_frame(char *to, size_t size, const struct mp_python_frame *frame)
{
    struct mp_python_description text;
    bool described = mp_python_describe(frame, &text);
    int used = snprintf(to, size, "%u\t%d\t%u\t%llx\t%s\t%s\n", frame->group, described ? (int)frame->instruction : -2,
                        text.line, (unsigned long long)frame->identity, text.function, text.file);
    return (size_t)used < size ? (size_t)used : size;
}

enum { NATIVE_ROOM = 8 * MP_PYTHON_FRAMES_MAX };

/* The merged stack in one line: "unequal" or "equal", then the index of each Python frame, the name of each function of
 * this library, and "-" for any other native frame. */
static size_t print_merged(char *to, size_t size, const struct mp_python_stack *python)
{
    static _Thread_local void *addresses[NATIVE_ROOM];
    static _Thread_local struct mp_merged_frame merged[NATIVE_ROOM];
    static _Thread_local struct mp_known_frames known;
    struct mp_walked walked =
        mp_native_walk(&known, 0, __builtin_frame_address(0), UINTPTR_MAX, addresses, NATIVE_ROOM);
    struct mp_native_stack native = {
        .addresses = addresses, .count = (uint32_t)walked.count, .cut = walked.end == MP_WALK_FULL};
    struct mp_pairing pairing = mp_merge_pair(&mp_interpreter_ranges, &native, python);
    if (pairing.unequal && mp_interpreter_range_learn(&known, 0, python))
        pairing = mp_merge_pair(&mp_interpreter_ranges, &native, python);
    uint32_t frame_count = mp_merge(&mp_interpreter_ranges, &native, python, &pairing, merged, NATIVE_ROOM);
    size_t used = (size_t)snprintf(to, size, "%s", pairing.unequal ? "unequal" : "equal");
    for (uint32_t i = 0; i < frame_count && used + 100 < size; i++) {
        Dl_info here, there;
        if (merged[i].python != MP_MERGED_NATIVE)
            used += (size_t)snprintf(to + used, size - used, " %u", merged[i].python);
        else if (dladdr((void *)merged[i].address, &there) && dladdr((void *)print_frame, &here) &&
                 here.dli_fbase == there.dli_fbase)
            used += (size_t)snprintf(to + used, size - used, " %s", there.dli_sname ? there.dli_sname : "?");
        else
            used += (size_t)snprintf(to + used, size - used, " -");
    }
    return used + (size_t)snprintf(to + used, size - used, "\n");
}

/* One line about the stack, one for each frame, one for the merged stack; -1: not known. */
EXPORT int harness_walk(char *to, size_t size, uint32_t room, int may_call_python);
EXPORT int harness_walk(char *to, size_t size, uint32_t room, int may_call_python)
{
    struct mp_python_stack stack = make_stack(room);
    if (!mp_python_walk(&stack, may_call_python)) return -1;
    size_t used =
        (size_t)snprintf(to, size, "%llx\t%u\t%d\n", (unsigned long long)stack.hash, stack.group_count, stack.cut);
    for (uint32_t i = 0; i < stack.frame_count; i++)
        used += print_frame(to + used, size - used, &frames[i]);
    print_merged(to + used, size - used, &stack);
    return (int)stack.frame_count;
}

EXPORT int harness_module_code(const void *code);
EXPORT int harness_module_code(const void *code)
{
    return mp_python_module_code(code);
}

/* The address of the innermost module that runs. */
EXPORT uint64_t harness_module(void);
EXPORT uint64_t harness_module(void)
{
    struct mp_python_stack stack = make_stack(MP_PYTHON_FRAMES_MAX);
    return mp_python_walk(&stack, true) ? (uintptr_t)stack.module : 0;
}

EXPORT int harness_call_soon(int (*call)(void *));
EXPORT int harness_call_soon(int (*call)(void *))
{
    return mp_python_call_soon(call, NULL, false);
}

EXPORT const char *harness_note(void);
EXPORT const char *harness_note(void)
{
    return mp_python_note();
}

#define FIELD(name)                                                                                                    \
    {                                                                                                                  \
#        name, offsetof(struct mp_python_layout, name)                                                                 \
    }
static const struct {
    const char *name;
    size_t at;
} fields[] = {
    FIELD(thread_top),     FIELD(record_frame),    FIELD(thread_id),      FIELD(frame_previous), FIELD(frame_code),
    FIELD(frame_position), FIELD(frame_owner),     FIELD(frame_is_entry), FIELD(code_file),      FIELD(code_name),
    FIELD(code_qualname),  FIELD(code_first_line), FIELD(code_lines),     FIELD(code_bytecode),  FIELD(object_type),
    FIELD(object_size),    FIELD(bytes_data),      FIELD(string_length),  FIELD(string_state),   FIELD(string_ascii),
    FIELD(string_compact),
};

/* 1 if the checks accept the layout with `delta` added to the field, 0 if they refuse it, -1: cannot compare now.
 * A NULL field leaves the layout as it is. With the GIL only. */
EXPORT int harness_check(const char *field, int delta);
EXPORT int harness_check(const char *field, int delta)
{
    struct mp_python_runtime runtime;
    if (!mp_python_runtime_find(&runtime) || !runtime.layout) return -1;
    struct mp_python_layout layout = *runtime.layout;
    for (size_t i = 0; field && i < sizeof fields / sizeof *fields; i++) {
        if (strcmp(field, fields[i].name) != 0) continue;
        uint16_t value;
        memcpy(&value, (char *)&layout + fields[i].at, sizeof value);
        if (value == 0 && fields[i].at != offsetof(struct mp_python_layout, frame_code)) return -1;
        value = (uint16_t)(value + delta);
        memcpy((char *)&layout + fields[i].at, &value, sizeof value);
    }
    const char *thread = runtime.own_thread();
    enum mp_python_verdict verdict = mp_python_check_shape(&layout, &runtime, thread);
    if (verdict == MP_PYTHON_RIGHT) {
        struct mp_python_stack stack = make_stack(MP_PYTHON_FRAMES_MAX);
        mp_python_walk_thread(&layout, thread, true, &stack);
        mp_python_check_api_start(&runtime.library);
        verdict = mp_python_check_api(&layout, thread, &stack);
    }
    return verdict == MP_PYTHON_RIGHT ? 1 : verdict == MP_PYTHON_WRONG ? 0 : -1;
}

/* The number of compared offsets among the published ones: each 64-bit word whose change is noticed. -1: the published
 * ones are already refused; 0: none are published. */
EXPORT int harness_count_published(void);
EXPORT int harness_count_published(void)
{
    unsigned char copy[1024];
    struct mp_python_runtime runtime;
    const void *published = dlsym(RTLD_DEFAULT, "_PyRuntime");
    if (!mp_python_runtime_find(&runtime) || !runtime.layout || !published) return -1;
    int noticed = 0;
    for (size_t at = 0; at < sizeof copy; at += 8) {
        memcpy(copy, published, sizeof copy);
        if (!mp_python_layout_agrees(runtime.layout, copy)) return -1;
        static const unsigned char zero[8];
        memset(copy + at, memcmp(copy + at, zero, 8) == 0 ? 0xff : 0, 8);
        noticed += !mp_python_layout_agrees(runtime.layout, copy);
    }
    return noticed;
}

EXPORT uint32_t harness_line(unsigned minor, const unsigned char *table, size_t size, uint32_t first,
                             uint32_t instruction);
EXPORT uint32_t harness_line(unsigned minor, const unsigned char *table, size_t size, uint32_t first,
                             uint32_t instruction)
{
    return mp_python_line(minor, table, size, first, instruction);
}

/* Calls back, so that a frame of this library is between Python's frames. */
EXPORT void harness_call(void (*callback)(void));
EXPORT void harness_call(void (*callback)(void))
{
    callback();
    __asm__ volatile("" ::: "memory"); /* no tail call: this frame is wanted on the stack */
}

/* Runs `callback` on a thread that Python does not know. */
static void *run_foreign(void *argument)
{
    void (*callback)(void);
    memcpy(&callback, &argument, sizeof callback);
    callback();
    return NULL;
}

EXPORT int harness_call_on_foreign_thread(void (*callback)(void));
EXPORT int harness_call_on_foreign_thread(void (*callback)(void))
{
    pthread_t thread;
    void *argument;
    memcpy(&argument, &callback, sizeof argument);
    return pthread_create(&thread, NULL, run_foreign, argument) || pthread_join(thread, NULL);
}

/* The frames and groups that a walk finds on a thread that Python has never seen, as one number; -1 if unknown. */
static void *walk_foreign(void *result)
{
    struct mp_python_stack stack = make_stack(MP_PYTHON_FRAMES_MAX);
    *(int *)result = mp_python_walk(&stack, true) ? (int)(stack.frame_count + stack.group_count) : -1;
    return NULL;
}

EXPORT int harness_walk_on_foreign_thread(void);
EXPORT int harness_walk_on_foreign_thread(void)
{
    pthread_t thread;
    int result = -2;
    if (pthread_create(&thread, NULL, walk_foreign, &result) || pthread_join(thread, NULL)) return -2;
    return result;
}

static _Atomic bool spinning;
static _Atomic uint64_t walks, walks_at_end;

/* Walks for ever: for threads that are still in native code while the interpreter shuts down. */
EXPORT void harness_spin(void);
EXPORT void harness_spin(void)
{
    atomic_store(&spinning, true);
    for (;;) {
        struct mp_python_stack stack = make_stack(MP_PYTHON_FRAMES_MAX);
        struct mp_python_description text;
        if (mp_python_walk(&stack, true) && stack.frame_count)
            mp_python_describe(&frames[stack.frame_count - 1], &text);
        atomic_fetch_add(&walks, 1);
    }
}

/* Code ranges of the interpreter loop known by now. */
EXPORT uint32_t harness_ranges(void);
EXPORT uint32_t harness_ranges(void)
{
    return atomic_load(&mp_interpreter_ranges.count);
}

EXPORT uint64_t harness_walks(void);
EXPORT uint64_t harness_walks(void)
{
    return atomic_load(&walks);
}

/* Runs after Py_Finalize. A walk of this thread must find nothing, and the spinning threads must still be alive. */
__attribute__((destructor)) static void at_exit(void)
{
    if (!atomic_load(&spinning)) return;
    struct mp_python_stack stack = make_stack(MP_PYTHON_FRAMES_MAX);
    bool known = mp_python_walk(&stack, true);
    atomic_store(&walks_at_end, atomic_load(&walks));
    enum { PATIENCE = 600 }; /* most waits of 50 ms: on a busy machine a thread may not run for long */
    for (int i = 0; i < PATIENCE && atomic_load(&walks) == atomic_load(&walks_at_end); i++) {
        struct timespec pause = {.tv_nsec = 50 * 1000 * 1000};
        nanosleep(&pause, NULL);
    }
    if (known || atomic_load(&walks) == atomic_load(&walks_at_end)) {
        fprintf(stderr, "harness: a walk after the end of the interpreter was answered, or the walkers have died\n");
        _exit(99);
    }
    fprintf(stderr, "harness: walkers outlived the interpreter\n");
}
