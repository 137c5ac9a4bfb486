/*
 * NVTX: a program's own ranges and marks become regions and marks of the recording. Every library that was built with
 * NVTX's headers contains its own copy of NVTX. At its first use, on any thread, each copy calls
 * InitializeInjectionNvtx2() in the library that NVTX_INJECTION64_PATH names. All copies get the same functions.
 *
 * The collector decides by a range's name whether the range begins a step.
 */
#include "capture/nvtx/nvtx.h"

#include <string.h>

#include "capture/core/recorder.h"
#include "capture/nvtx/nvtx_names.h"
#include "capture/nvtx/nvtx_ranges.h"

struct message {
    unsigned domain;
    int32_t type;
    const void *text;
};

static struct message message_of(const void *domain, const struct nvtx_attributes *attributes)
{
    struct message message = {.domain = mp_nvtx_domain_number(domain)};
    if (!attributes || attributes->bytes < sizeof *attributes) return message;
    message.type = attributes->message_type;
    message.text = attributes->message;
    return message;
}

/* Enters a hook. *name: the spool's number of the message's name. NULL: nothing is recorded. */
static struct mp_thread *enter(const struct message *message, uint32_t *name)
{
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return NULL;
    char text[NVTX_NAME_ROOM];
    mp_session_source(MP_SOURCE_NVTX);
    mp_nvtx_name(text, message->domain, message->type, message->text);
    *name = mp_record_name(text);
    return thread;
}

static size_t thread_place;
const struct mp_front mp_nvtx_front = {.thread_bytes = sizeof(struct mp_nvtx_stack), .thread_place = &thread_place};

static struct mp_nvtx_stack *stack_of(struct mp_thread *thread)
{
    return mp_thread_part(thread, thread_place);
}

static uint32_t generation_now(void)
{
    return atomic_load_explicit(&mp_session.page->generation, memory_order_relaxed);
}

/* ---- ranges that a thread pushes and pops ---- */

static int push(struct message message)
{
    uint32_t name;
    struct mp_thread *thread = enter(&message, &name);
    if (!thread) {
        thread = mp_thread_present();
        if (!thread) return NVTX_NO_TRACKING;
        mp_nvtx_stack_push(stack_of(thread), message.domain, NVTX_UNRECORDED);
        return (int)stack_of(thread)->depth[message.domain] - 1;
    }
    struct mp_nvtx_stack *stack = stack_of(thread);
    mp_nvtx_stack_renew(stack, generation_now());
    if (mp_nvtx_stack_push(stack, message.domain, name)) mp_record_region(thread, MP_EVENT_REGION_BEGIN, name, 0);
    mp_hook_leave(thread);
    return (int)stack->depth[message.domain] - 1;
}

static int pop(unsigned domain)
{
    struct mp_thread *thread = mp_hook_enter();
    bool records = thread;
    if (!thread) thread = mp_thread_present();
    if (!thread) return NVTX_NO_TRACKING;
    struct mp_nvtx_stack *stack = stack_of(thread);
    uint32_t index;
    if (records) mp_nvtx_stack_renew(stack, generation_now());
    int level = (int)stack->depth[domain] - 1;
    uint32_t name = mp_nvtx_stack_pop(stack, domain, &index);
    if (!records) return level;
    if (name != NVTX_UNRECORDED) {
        /* The end of a region also closes the regions inside it. If ranges of several domains overlap, the regions of
         * other domains then begin again. */
        mp_record_region(thread, MP_EVENT_REGION_END, name, 0);
        for (; index < stack->count; index++)
            if (stack->open[index].name != NVTX_UNRECORDED)
                mp_record_region(thread, MP_EVENT_REGION_BEGIN, stack->open[index].name, 0);
    }
    mp_hook_leave(thread);
    return level;
}

static int pop_default(void)
{
    return pop(0);
}

static int domain_pop(const void *domain)
{
    return pop(mp_nvtx_domain_number(domain));
}

/* ---- ranges that may end on another thread ---- */

static uint64_t start(struct message message)
{
    uint32_t name, lane;
    struct mp_thread *thread = enter(&message, &name);
    if (!thread) return 0;
    uint64_t id = mp_nvtx_lane_open(name, generation_now(), &lane);
    if (lane)
        mp_record_region(thread, MP_EVENT_REGION_BEGIN, name, lane);
    else
        mp_session_note("more NVTX ranges of nvtxRangeStart were open at once than can be recorded (255)");
    mp_hook_leave(thread);
    return id;
}

static void end(uint64_t id)
{
    uint32_t name, lane;
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    if (mp_nvtx_lane_ending(id, generation_now(), &lane, &name)) {
        mp_record_region(thread, MP_EVENT_REGION_END, name, lane);
        mp_nvtx_lane_close(lane);
    }
    mp_hook_leave(thread);
}

static void domain_end(const void *domain, uint64_t id)
{
    (void)domain;
    end(id);
}

/* ---- marks ---- */

static void mark(struct message message)
{
    uint32_t name;
    struct mp_thread *thread = enter(&message, &name);
    if (!thread) return;
    mp_record_region(thread, MP_EVENT_MARK, name, 0);
    mp_hook_leave(thread);
}

/* Defines the forms of one NVTX call, by the type of its message. */
#define FORMS(result, pass_on, call)                                                                                   \
    static result call##_ex(const struct nvtx_attributes *attributes)                                                  \
    {                                                                                                                  \
        pass_on call(message_of(NULL, attributes));                                                                    \
    }                                                                                                                  \
    static result call##_ascii(const char *text)                                                                       \
    {                                                                                                                  \
        pass_on call((struct message){.type = NVTX_MESSAGE_ASCII, .text = text});                                      \
    }                                                                                                                  \
    static result call##_wide(const wchar_t *text)                                                                     \
    {                                                                                                                  \
        pass_on call((struct message){.type = NVTX_MESSAGE_UNICODE, .text = text});                                    \
    }                                                                                                                  \
    static result domain_##call(const void *domain, const struct nvtx_attributes *attributes)                          \
    {                                                                                                                  \
        pass_on call(message_of(domain, attributes));                                                                  \
    }
FORMS(int, return, push)
FORMS(uint64_t, return, start)
FORMS(void, , mark)
#undef FORMS

/* ---- domains and strings ---- */

static const void *register_ascii(const void *domain, const char *text)
{
    (void)domain;
    return mp_nvtx_register(text);
}

static const void *register_wide(const void *domain, const wchar_t *text)
{
    (void)domain;
    return mp_nvtx_register_wide(text);
}

/* ---- the injection ---- */

#define FUNCTION(f) ((nvtx_function *)(void *)(f))
static const struct slot {
    unsigned number;
    nvtx_function *function;
} core[] = {{NVTX_MARK_EX, FUNCTION(mark_ex)},
            {NVTX_MARK_A, FUNCTION(mark_ascii)},
            {NVTX_MARK_W, FUNCTION(mark_wide)},
            {NVTX_RANGE_START_EX, FUNCTION(start_ex)},
            {NVTX_RANGE_START_A, FUNCTION(start_ascii)},
            {NVTX_RANGE_START_W, FUNCTION(start_wide)},
            {NVTX_RANGE_END, FUNCTION(end)},
            {NVTX_RANGE_PUSH_EX, FUNCTION(push_ex)},
            {NVTX_RANGE_PUSH_A, FUNCTION(push_ascii)},
            {NVTX_RANGE_PUSH_W, FUNCTION(push_wide)},
            {NVTX_RANGE_POP, FUNCTION(pop_default)}},
  core2[] = {{NVTX_DOMAIN_MARK_EX, FUNCTION(domain_mark)},
             {NVTX_DOMAIN_RANGE_START_EX, FUNCTION(domain_start)},
             {NVTX_DOMAIN_RANGE_END, FUNCTION(domain_end)},
             {NVTX_DOMAIN_RANGE_PUSH_EX, FUNCTION(domain_push)},
             {NVTX_DOMAIN_RANGE_POP, FUNCTION(domain_pop)},
             {NVTX_DOMAIN_REGISTER_STRING_A, FUNCTION(register_ascii)},
             {NVTX_DOMAIN_REGISTER_STRING_W, FUNCTION(register_wide)},
             {NVTX_DOMAIN_CREATE_A, FUNCTION(mp_nvtx_domain)},
             {NVTX_DOMAIN_CREATE_W, FUNCTION(mp_nvtx_domain_wide)}};

static void fill(const struct nvtx_callbacks *callbacks, uint32_t module, const struct slot *from, size_t count)
{
    nvtx_function ***functions;
    unsigned room;
    if (!callbacks->module_functions(module, &functions, &room)) return;
    for (size_t i = 0; i < count; i++)
        if (from[i].number < room && functions[from[i].number]) *functions[from[i].number] = from[i].function;
}

__attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx_get_table *get_table);
int InitializeInjectionNvtx2(nvtx_get_table *get_table)
{
    const struct nvtx_callbacks *callbacks = mp_session.page && get_table ? get_table(NVTX_TABLE_CALLBACKS) : NULL;
    if (!callbacks || callbacks->bytes < sizeof *callbacks) return 0;
    fill(callbacks, NVTX_MODULE_CORE, core, sizeof core / sizeof *core);
    fill(callbacks, NVTX_MODULE_CORE2, core2, sizeof core2 / sizeof *core2);
    return 1;
}
