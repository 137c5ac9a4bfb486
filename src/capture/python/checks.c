#include "capture/python/checks.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/kernel.h"
#include "base/utf8.h"
#include "capture/python/memory.h"
#include "capture/python/walk.h"

enum { FRAMES_LOOKED_AT = 256 };

/* True if a word is mapped. The kernel reads the signal set before it refuses the invalid `how`; EFAULT means not
 * mapped. */
static bool readable_word(uintptr_t address)
{
    int saved = errno;
    long result = mp_syscall(SYS_rt_sigprocmask, -1, address, NULL, sizeof(uint64_t));
    bool readable = result == 0 || errno != EFAULT;
    errno = saved;
    return readable;
}

static bool readable(const void *base, size_t size)
{
    uintptr_t first = (uintptr_t)base, last = first + size - sizeof(uint64_t);
    if (first < 4096 || first % sizeof(void *) != 0 || last < first) return false;
    return readable_word(first) && readable_word(last);
}

static bool has_type(const struct mp_python_layout *layout, const char *object, const void *type)
{
    return readable(object, layout->object_type + sizeof(void *)) &&
           mp_load_pointer(object, layout->object_type) == type;
}

static size_t largest(const uint16_t *offsets, size_t count)
{
    size_t most = 0;
    for (size_t i = 0; i < count; i++)
        if (offsets[i] > most) most = offsets[i];
    return most + sizeof(uint64_t);
}

static size_t thread_extent(const struct mp_python_layout *layout)
{
    return largest((uint16_t[]){layout->thread_top, layout->thread_id}, 2);
}

static size_t frame_extent(const struct mp_python_layout *layout)
{
    return largest((uint16_t[]){layout->frame_previous, layout->frame_code, layout->frame_position, layout->frame_owner,
                                layout->frame_is_entry},
                   5);
}

static size_t code_extent(const struct mp_python_layout *layout)
{
    return largest((uint16_t[]){layout->code_file, layout->code_name, layout->code_qualname, layout->code_first_line,
                                layout->code_lines, layout->code_first_traceable, layout->code_version,
                                layout->code_bytecode_copies},
                   8);
}

/* Does not check the type: a file name may be of a subclass of str. */
static bool file_fits(const struct mp_python_layout *layout, const char *file)
{
    enum { LENGTH_MOST = 1 << 16 };
    if (!readable(file, largest((uint16_t[]){layout->string_state, layout->string_length}, 2))) return false;
    int64_t length = mp_load_i64(file, layout->string_length);
    uintptr_t end = (uintptr_t)file + layout->string_ascii + (uintptr_t)length;
    return length >= 0 && length < LENGTH_MOST && readable_word(end & ~(uintptr_t)7);
}

static bool lines_fit(const struct mp_python_layout *layout, const struct mp_python_runtime *runtime, const char *lines)
{
    enum { BYTES_MOST = 1 << 22 }; /* no program is loaded below this address, so a lower value is no type's address */
    if (!has_type(layout, lines, runtime->bytes_type) || !readable(lines, layout->object_size + sizeof(int64_t)))
        return false;
    int64_t size = mp_load_i64(lines, layout->object_size);
    return size >= 0 && size < BYTES_MOST;
}

static bool code_fits(const struct mp_python_layout *layout, const struct mp_python_runtime *runtime, const char *code)
{
    enum { LINES_MOST = 1 << 30 };
    if (!has_type(layout, code, runtime->code_type) || !readable(code, code_extent(layout))) return false;
    if (mp_load_u32(code, layout->code_first_line) > LINES_MOST) return false;
    if (layout->code_qualname && !has_type(layout, mp_load_pointer(code, layout->code_qualname), runtime->string_type))
        return false;
    return has_type(layout, mp_load_pointer(code, layout->code_name), runtime->string_type) &&
           lines_fit(layout, runtime, mp_load_pointer(code, layout->code_lines)) &&
           file_fits(layout, mp_load_pointer(code, layout->code_file));
}

static bool frame_fits(const struct mp_python_layout *layout, const struct mp_python_runtime *runtime,
                       const char *frame)
{
    enum { OWNERS = 5 };
    if (layout->frame_owner && (unsigned char)frame[layout->frame_owner] >= OWNERS) return false;
    if (layout->frame_is_entry && (unsigned char)frame[layout->frame_is_entry] > 1) return false;
    return mp_python_frame_is_shim(layout, frame) || code_fits(layout, runtime, mp_python_frame_code(layout, frame));
}

/* True if the frame may be a stack's outermost: it begins a C call of the interpreter loop. */
static bool may_be_outermost(const struct mp_python_layout *layout, const char *frame)
{
    if (layout->chain == MP_PYTHON_CHAIN_SHIMS) return mp_python_frame_is_shim(layout, frame);
    return layout->chain != MP_PYTHON_CHAIN_ENTRIES || frame[layout->frame_is_entry];
}

static bool top_fits(const struct mp_python_layout *layout, const char *thread)
{
    if (!layout->thread_top_record) return true;
    const char *record = mp_load_pointer(thread, layout->thread_top);
    return readable(record, largest((uint16_t[]){layout->record_frame, layout->record_previous}, 2));
}

enum mp_python_verdict mp_python_check_shape(const struct mp_python_layout *layout,
                                             const struct mp_python_runtime *runtime, const char *thread)
{
    if (!readable(thread, thread_extent(layout))) return MP_PYTHON_WRONG;
    if ((pthread_t)mp_load_pointer(thread, layout->thread_id) != pthread_self()) return MP_PYTHON_WRONG;
    if (!top_fits(layout, thread)) return MP_PYTHON_WRONG;
    const char *frame = mp_python_newest_frame(layout, thread);
    enum mp_python_verdict verdict = MP_PYTHON_NOT_NOW;
    for (size_t i = 0; frame && i < FRAMES_LOOKED_AT; i++) {
        if (!readable(frame, frame_extent(layout)) || !frame_fits(layout, runtime, frame)) return MP_PYTHON_WRONG;
        verdict = MP_PYTHON_RIGHT;
        const char *previous = mp_load_pointer(frame, layout->frame_previous);
        if (!previous && !may_be_outermost(layout, frame)) return MP_PYTHON_WRONG;
        frame = previous;
    }
    return verdict;
}

/* Python's API functions, looked up by name. Python's objects are opaque pointers. */
struct api {
    void *(*thread_frame)(const void *thread);
    void *(*frame_back)(void *frame);
    void *(*frame_code)(void *frame);
    int (*frame_line)(void *frame);
    int (*frame_last)(void *frame);
    void *(*attribute)(void *object, const char *name);
    intptr_t (*string_length)(void *string);
    uint32_t *(*string_copy)(void *string, uint32_t *to, intptr_t room, int terminate);
    void (*release)(void *object);
    void *(*error)(void);
    void (*clear_error)(void);
    int (*collector_off)(void);
    int (*collector_on)(void);
    void *none;
};

#define REQUIRED true
#define OPTIONAL false

static struct api known_api; /* written before the first check, then constant */
static bool api_is_known;

static bool find_api(const struct mp_loaded *library, struct api *api)
{
    const struct {
        const char *name;
        void *slot;
        bool required;
    } symbols[] = {
        {"PyThreadState_GetFrame", &api->thread_frame, REQUIRED},
        {"PyFrame_GetBack", &api->frame_back, REQUIRED},
        {"PyFrame_GetCode", &api->frame_code, REQUIRED},
        {"PyFrame_GetLineNumber", &api->frame_line, REQUIRED},
        {"PyFrame_GetLasti", &api->frame_last, OPTIONAL}, /* 3.11 */
        {"PyObject_GetAttrString", &api->attribute, REQUIRED},
        {"PyUnicode_GetLength", &api->string_length, REQUIRED},
        {"PyUnicode_AsUCS4", &api->string_copy, REQUIRED},
        {"Py_DecRef", &api->release, REQUIRED},
        {"PyErr_Occurred", &api->error, REQUIRED},
        {"PyErr_Clear", &api->clear_error, REQUIRED},
        {"PyGC_Disable", &api->collector_off, OPTIONAL}, /* 3.10 */
        {"PyGC_Enable", &api->collector_on, OPTIONAL},
        {"_Py_NoneStruct", &api->none, REQUIRED},
    };
    memset(api, 0, sizeof *api);
    for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
        void *found = mp_loaded_symbol(library, symbols[i].name);
        if (!found && symbols[i].required) return false;
        memcpy(symbols[i].slot, &found, sizeof found);
    }
    return true;
}

/* Compares an attribute of type str with our text. If our text fills `room` bytes, it was cut. */
static enum mp_python_verdict compare_text(const struct api *api, void *object, const char *name, const char *ours,
                                           size_t ours_length, size_t room)
{
    enum { LONGEST = 512 };
    uint32_t characters[LONGEST];
    void *string = api->attribute(object, name);
    if (!string) return MP_PYTHON_NOT_NOW;
    intptr_t length = api->string_length(string);
    bool copied = length >= 0 && length <= LONGEST && api->string_copy(string, characters, LONGEST, 0);
    api->release(string);
    if (!copied) return MP_PYTHON_NOT_NOW;
    size_t used = 0;
    for (intptr_t i = 0; i < length; i++) {
        char bytes[MP_UTF8_MAX];
        size_t width = mp_utf8_encode(bytes, characters[i]);
        if (used + width >= room) break;
        if (used + width > ours_length || memcmp(ours + used, bytes, width) != 0) return MP_PYTHON_WRONG;
        used += width;
    }
    return used == ours_length ? MP_PYTHON_RIGHT : MP_PYTHON_WRONG;
}

/* True if a trace function is set. A frame then reports the line being traced, which proves nothing. */
static bool is_traced(const struct api *api, void *frame)
{
    void *trace = api->attribute(frame, "f_trace");
    bool traced = !trace || trace != api->none;
    if (trace) api->release(trace);
    return traced;
}

static bool frame_is_right(const struct mp_python_layout *layout, const struct api *api, void *frame,
                           const struct mp_python_frame *ours)
{
    struct mp_python_description text;
    void *code = api->frame_code(frame);
    bool right = code == ours->code && mp_python_describe_code(layout, ours->code, ours->instruction, &text);
    if (right && api->frame_last) {
        int last = api->frame_last(frame);
        right = (last < 0 ? MP_PYTHON_INSTRUCTION_UNKNOWN : (uint32_t)last) == ours->instruction;
    }
    if (right && !is_traced(api, frame)) {
        int line = api->frame_line(frame);
        right = text.line == (line < 0 ? 0 : (uint32_t)line);
    }
    right = right && compare_text(api, code, layout->code_qualname ? "co_qualname" : "co_name", text.function,
                                  text.function_length, sizeof text.function) != MP_PYTHON_WRONG;
    right = right &&
            compare_text(api, code, "co_filename", text.file, text.file_length, sizeof text.file) != MP_PYTHON_WRONG;
    if (code) api->release(code);
    return right;
}

static enum mp_python_verdict compare_stacks(const struct mp_python_layout *layout, const struct api *api,
                                             const char *thread, const struct mp_python_stack *stack)
{
    void *frame = api->thread_frame(thread);
    bool right = true;
    for (uint32_t i = 0; right && i < stack->frame_count; i++) {
        right = frame && frame_is_right(layout, api, frame, &stack->frames[i]);
        void *back = frame && !api->error() ? api->frame_back(frame) : NULL;
        if (frame) api->release(frame);
        frame = back;
    }
    bool more = frame != NULL;
    if (frame) api->release(frame);
    if (api->error()) { /* for instance out of memory */
        api->clear_error();
        return MP_PYTHON_NOT_NOW;
    }
    return right && (!more || stack->cut) ? MP_PYTHON_RIGHT : MP_PYTHON_WRONG;
}

void mp_python_check_api_start(const struct mp_loaded *library)
{
    api_is_known = find_api(library, &known_api);
}

enum mp_python_verdict mp_python_check_api(const struct mp_python_layout *layout, const char *thread,
                                           const struct mp_python_stack *stack)
{
    /* Only Python 3.11 may run the cyclic collector when this code makes an object, so we turn it off there. Older
     * versions make no object here; versions from 3.12 on wait for a safe point. */
    enum { COLLECTS_ON_ALLOCATION = 11 };
    struct api api = known_api;
    if (!api_is_known) return MP_PYTHON_NOT_NOW;
    if (api.error()) return MP_PYTHON_NOT_NOW;
    bool hold_collector = layout->minor == COLLECTS_ON_ALLOCATION && api.collector_off && api.collector_off();
    enum mp_python_verdict verdict = compare_stacks(layout, &api, thread, stack);
    if (hold_collector) api.collector_on();
    return verdict;
}
