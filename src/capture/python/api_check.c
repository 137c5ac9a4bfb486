#include "capture/python/checks.h"

#include <string.h>

#include "capture/python/memory.h"
#include "capture/python/walk.h"

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
