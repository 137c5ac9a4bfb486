#include "capture/cuda/booking.h"

#include <stdio.h>

#include "capture/core/session.h"
#include "capture/cuda/booking_parts.h"

/* ---- entries ----------------------------------------------------------------------------------------------------- */

void mp_cuda_end(struct mp_cuda_event *event, const struct mp_live *taken)
{
    struct mp_cuda_visit *visit = event->visit;
    mp_book_end(event->thread, taken);
    if (visit->taken_count < MP_CUDA_VISIT_TAKEN) visit->taken[visit->taken_count++] = *taken;
}

void mp_cuda_end_value(struct mp_cuda_event *event, enum mp_live_class class, uint64_t value)
{
    struct mp_live taken;
    if (!value) return;
    if (mp_live_take(class, value, &taken))
        mp_cuda_end(event, &taken);
    else
        event->visit->unknown = true;
}

void mp_cuda_take_back(struct mp_cuda_event *event)
{
    struct mp_cuda_visit *visit = event->visit;
    while (visit->taken_count)
        mp_book_begin(event->thread, &visit->taken[--visit->taken_count]);
}

bool mp_cuda_refused(struct mp_cuda_event *event, enum mp_book book, int device, uint64_t bytes)
{
    if (event->result != MP_CU_OUT_OF_MEMORY) return false;
    mp_book_refused(event->thread, book, device, bytes);
    return true;
}

void mp_cuda_begin_entry(struct mp_cuda_event *event, struct mp_live *entry)
{
    if (!entry->value) return;
    if (!entry->refs) entry->refs = 1;
    if (entry->class == MP_LIVE_MEMORY && event->visit) event->visit->began = entry->book;
    mp_book_begin(event->thread, entry);
}

void mp_cuda_begin(struct mp_cuda_event *event, enum mp_live_class class, uint64_t value, uint64_t bytes,
                   enum mp_book book, enum mp_kind kind)
{
    struct mp_live entry = mp_cuda_entry(class, value, event->facts->device, book, kind);
    entry.bytes = bytes;
    entry.context = event->facts->context;
    mp_cuda_begin_entry(event, &entry);
}

/* ---- linear and host memory -------------------------------------------------------------------------------------- */

static void begin_or_refuse(struct mp_cuda_event *event, enum mp_live_class class, const void *address_at,
                            uint64_t bytes, enum mp_book book, enum mp_kind kind)
{
    if (mp_cuda_succeeded(event))
        mp_cuda_begin(event, class, *(const uint64_t *)address_at, bytes, book, kind);
    else
        mp_cuda_refused(event, book, event->facts->device, bytes);
}

static void exit_alloc_pitch(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemAllocPitch_v2 *a = event->arguments;
    uint64_t pitch = mp_cuda_succeeded(event) && a->pPitch ? *a->pPitch : a->WidthInBytes;
    begin_or_refuse(event, MP_LIVE_MEMORY, a->dptr, pitch * a->Height, MP_BOOK_DEVICE, MP_KIND_DEVICE);
}

static void exit_host_register(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemHostRegister_v2 *a = event->arguments;
    begin_or_refuse(event, MP_LIVE_REGISTERED, &a->p, a->bytesize, MP_BOOK_REGISTERED, MP_KIND_PINNED);
}

/* ---- the table of actions ---------------------------------------------------------------------------------------- */

/* A call that makes an object. Its first argument points to the object. The object ends with its context, unless
 * `stays` is set. `sized`: the second argument is the object's size, and a refusal is recorded. */
struct begins {
    enum mp_live_class class;
    enum mp_book book;
    enum mp_kind kind;
    bool sized, stays;
};

static void begin_as(struct mp_cuda_event *event, const struct begins *row)
{
    const struct mp_params_cuMemAlloc_v2 *a = event->arguments; /* all these calls begin with the same two arguments */
    uint64_t bytes = row->sized ? a->bytesize : 0;
    if (!mp_cuda_succeeded(event)) {
        if (row->sized) mp_cuda_refused(event, row->book, event->facts->device, bytes);
        return;
    }
    struct mp_live entry = mp_cuda_entry(row->class, *a->dptr, event->facts->device, row->book, row->kind);
    entry.bytes = bytes;
    if (!row->stays) entry.context = event->facts->context;
    mp_cuda_begin_entry(event, &entry);
}

/* Most calls are alike: the first argument is the address or handle that begins or ends. `unknown`: the book for the
 * end of a block whose begin memprof did not see. */
static const struct action {
    struct begins begins;
    mp_cuda_ending *enter;
    mp_cuda_ended *exit;
    enum mp_live_class ends;
    enum mp_book unknown;
    bool asks; /* a query: its failure has no effect */
} actions[MP_CUDA_ACTIONS] = {
    [MP_CUDA_ALLOC] = {.begins = {MP_LIVE_MEMORY, MP_BOOK_DEVICE, MP_KIND_DEVICE, .sized = true}},
    [MP_CUDA_ALLOC_PITCH] = {.exit = exit_alloc_pitch},
    [MP_CUDA_ALLOC_MANAGED] = {.begins = {MP_LIVE_MEMORY, MP_BOOK_MANAGED, MP_KIND_MANAGED, .sized = true}},
    [MP_CUDA_FREE] = {.ends = MP_LIVE_MEMORY, .unknown = MP_BOOK_DEVICE},
    [MP_CUDA_HOST_ALLOC] = {.begins = {MP_LIVE_MEMORY, MP_BOOK_PINNED, MP_KIND_PINNED, .sized = true}},
    [MP_CUDA_HOST_FREE] = {.ends = MP_LIVE_MEMORY, .unknown = MP_BOOK_PINNED},
    [MP_CUDA_HOST_REGISTER] = {.exit = exit_host_register},
    [MP_CUDA_HOST_UNREGISTER] = {.ends = MP_LIVE_REGISTERED, .unknown = MP_BOOK_REGISTERED},
    [MP_CUDA_ALLOC_ASYNC] = {.exit = mp_exit_alloc_async},
    [MP_CUDA_ALLOC_FROM_POOL] = {.exit = mp_exit_alloc_from_pool},
    [MP_CUDA_FREE_ASYNC] = {.enter = mp_enter_free_async, .exit = mp_exit_free_async, .unknown = MP_BOOK_POOL},
    [MP_CUDA_POOL_CREATE] = {.exit = mp_exit_pool_create},
    [MP_CUDA_POOL_DESTROY] = {.ends = MP_LIVE_POOL, .unknown = MP_BOOK_POOLS},
    [MP_CUDA_POOL_IMPORT] = {.exit = mp_exit_pool_import},
    [MP_CUDA_POOL_IMPORT_POINTER] = {.exit = mp_exit_pool_import_pointer},
    [MP_CUDA_POOL_OF_DEVICE] = {.exit = mp_exit_pool_of_device, .asks = true},
    [MP_CUDA_POOL_OF_LOCATION] = {.exit = mp_exit_pool_of_location, .asks = true},
    [MP_CUDA_ADDRESS_RESERVE] = {.exit = mp_exit_address_reserve},
    [MP_CUDA_ADDRESS_FREE] = {.ends = MP_LIVE_RESERVATION, .unknown = MP_BOOK_ADDRESSES},
    [MP_CUDA_VMM_CREATE] = {.exit = mp_exit_vmm_create},
    [MP_CUDA_VMM_RELEASE] = {.enter = mp_enter_vmm_release, .exit = mp_exit_vmm_release, .unknown = MP_BOOK_DEVICE},
    [MP_CUDA_VMM_MAP] = {.exit = mp_exit_vmm_map},
    [MP_CUDA_VMM_UNMAP] = {.enter = mp_enter_vmm_unmap, .exit = mp_exit_vmm_unmap, .unknown = MP_BOOK_MAPPED},
    [MP_CUDA_VMM_IMPORT] = {.exit = mp_exit_vmm_import},
    [MP_CUDA_VMM_RETAIN] = {.exit = mp_exit_vmm_retain, .asks = true},
    [MP_CUDA_MULTICAST_CREATE] = {.begins = {MP_LIVE_MULTICAST, MP_BOOK_MULTICAST, MP_KIND_HANDLE, .stays = true}},
    [MP_CUDA_MULTICAST_BIND] = {.exit = mp_exit_multicast_bind},
    [MP_CUDA_MULTICAST_UNBIND] = {.enter = mp_enter_multicast_unbind, .exit = mp_exit_multicast_unbind},
    [MP_CUDA_ARRAY_CREATE] = {.exit = mp_exit_array_create},
    [MP_CUDA_ARRAY3D_CREATE] = {.exit = mp_exit_array3d_create},
    [MP_CUDA_ARRAY_DESTROY] = {.ends = MP_LIVE_ARRAY, .unknown = MP_BOOK_DEVICE},
    [MP_CUDA_MIPMAP_CREATE] = {.exit = mp_exit_mipmap_create},
    [MP_CUDA_MIPMAP_DESTROY] = {.ends = MP_LIVE_MIPMAP, .unknown = MP_BOOK_DEVICE},
    [MP_CUDA_IPC_OPEN] = {.exit = mp_exit_ipc_open},
    [MP_CUDA_IPC_CLOSE] = {.enter = mp_enter_ipc_close, .exit = mp_exit_ipc_close, .unknown = MP_BOOK_IMPORTED},
    [MP_CUDA_EXTERNAL_IMPORT] = {.exit = mp_exit_external_import},
    [MP_CUDA_EXTERNAL_BUFFER] = {.exit = mp_exit_external_buffer},
    [MP_CUDA_EXTERNAL_MIPMAP] = {.exit = mp_exit_external_mipmap},
    [MP_CUDA_EXTERNAL_DESTROY] = {.ends = MP_LIVE_EXTERNAL, .unknown = MP_BOOK_IMPORTED},
    [MP_CUDA_CAPTURE_BEGIN] = {.exit = mp_exit_capture_begin},
    [MP_CUDA_CAPTURE_END] = {.exit = mp_exit_capture_end},
    [MP_CUDA_GRAPH_CREATE] = {.begins = {MP_LIVE_GRAPH, MP_BOOK_GRAPHS, MP_KIND_HANDLE, .stays = true}},
    [MP_CUDA_GRAPH_CLONE] = {.begins = {MP_LIVE_GRAPH, MP_BOOK_GRAPHS, MP_KIND_HANDLE, .stays = true}},
    [MP_CUDA_GRAPH_DESTROY] = {.enter = mp_enter_graph_destroy, .unknown = MP_BOOK_GRAPHS},
    [MP_CUDA_GRAPH_ALLOC_NODE] = {.exit = mp_exit_graph_alloc_node},
    [MP_CUDA_GRAPH_FREE_NODE] = {.exit = mp_exit_graph_free_node},
    [MP_CUDA_GRAPH_NODE] = {.exit = mp_exit_graph_node},
    [MP_CUDA_GRAPH_NODE_V2] = {.exit = mp_exit_graph_node_v2},
    [MP_CUDA_GRAPH_INSTANTIATE] = {.exit = mp_exit_graph_instantiate},
    [MP_CUDA_GRAPH_EXEC_DESTROY] = {.enter = mp_enter_exec_destroy, .unknown = MP_BOOK_EXECUTABLES},
    [MP_CUDA_GRAPH_LAUNCH] = {.exit = mp_exit_graph_launch},
    [MP_CUDA_GRAPH_ATTRIBUTE] = {.exit = mp_exit_graph_attribute, .asks = true},
    [MP_CUDA_CONTEXT_CREATE] = {.exit = mp_exit_context_create},
    [MP_CUDA_CONTEXT_CREATE_V3] = {.exit = mp_exit_context_create_v3},
    [MP_CUDA_CONTEXT_CREATE_V4] = {.exit = mp_exit_context_create_v4},
    [MP_CUDA_CONTEXT_DESTROY] = {.exit = mp_exit_context_destroy},
    [MP_CUDA_PRIMARY_RETAIN] = {.exit = mp_exit_primary_retain},
    [MP_CUDA_PRIMARY_RELEASE] = {.exit = mp_exit_primary_release},
    [MP_CUDA_PRIMARY_RESET] = {.exit = mp_exit_primary_reset},
    [MP_CUDA_MODULE_LOAD] = {.begins = {MP_LIVE_MODULE, MP_BOOK_MODULES, MP_KIND_HANDLE}, .exit = mp_exit_code_load},
    [MP_CUDA_MODULE_UNLOAD] = {.ends = MP_LIVE_MODULE, .unknown = MP_BOOK_MODULES},
    [MP_CUDA_LIBRARY_LOAD] = {.begins = {MP_LIVE_LIBRARY, MP_BOOK_LIBRARIES, MP_KIND_HANDLE, .stays = true},
                              .exit = mp_exit_code_load},
    [MP_CUDA_LIBRARY_UNLOAD] = {.ends = MP_LIVE_LIBRARY, .unknown = MP_BOOK_LIBRARIES},
    [MP_CUDA_STREAM_CREATE] = {.begins = {MP_LIVE_STREAM, MP_BOOK_STREAMS, MP_KIND_HANDLE}},
    [MP_CUDA_STREAM_DESTROY] = {.ends = MP_LIVE_STREAM, .unknown = MP_BOOK_STREAMS},
    [MP_CUDA_EVENT_CREATE] = {.begins = {MP_LIVE_EVENT, MP_BOOK_EVENTS, MP_KIND_HANDLE}},
    [MP_CUDA_EVENT_DESTROY] = {.ends = MP_LIVE_EVENT, .unknown = MP_BOOK_EVENTS},
    [MP_CUDA_DEVICE_UUID] = {.exit = mp_exit_device_uuid, .asks = true},
};

static uint64_t first_argument(const struct mp_cuda_event *event)
{
    return *(const uint64_t *)event->arguments;
}

/* True if a failure is unusual. Lack of memory has an event of its own. All calls fail before cuInit(), in a forked
 * child, and after the driver's end. */
static bool is_worth_a_mark(int result)
{
    return result != MP_CU_SUCCESS && result != MP_CU_OUT_OF_MEMORY && result != MP_CU_NOT_INITIALIZED &&
           result != MP_CU_DEINITIALIZED;
}

/* Marks a failed call, with its stack and the driver's error. */
static void mark_failure(struct mp_cuda_event *event)
{
    char text[96];
    snprintf(text, sizeof text, "%s failed with CUDA error %d", mp_cuda_calls[event->id].symbol, event->result);
    mp_record_plain(event->thread, MP_EVENT_MARK, text);
}

void mp_cuda_enter(enum mp_cuda_call_id id, const void *arguments, struct mp_cuda_visit *visit)
{
    const struct action *action = &actions[mp_cuda_calls[id].action];
    if (!action->enter && !action->ends) return;
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    struct mp_cuda_event event = {.thread = thread, .id = id, .arguments = arguments, .visit = visit};
    visit->entered = true;
    if (action->enter)
        action->enter(&event);
    else
        mp_cuda_end_value(&event, action->ends, first_argument(&event));
    mp_hook_leave(thread);
}

static _Atomic bool hooks_ask;

bool mp_cuda_hooks_ask(void)
{
    return atomic_load_explicit(&hooks_ask, memory_order_relaxed);
}

static void book_facts(struct mp_cuda_event *event)
{
    const struct mp_cuda_facts *facts = event->facts;
    if (facts->pool && facts->device >= 0) {
        atomic_store_explicit(&hooks_ask, true, memory_order_relaxed);
        mp_cuda_pool_holds(event, facts->pool, facts->pool_bytes);
    }
    if (facts->graph_bytes != MP_BYTES_UNKNOWN) mp_book_graphs_hold(event->thread, facts->device, facts->graph_bytes);
}

void mp_cuda_book_facts(struct mp_thread *thread, const struct mp_cuda_facts *facts)
{
    struct mp_cuda_event event = {.thread = thread, .facts = facts};
    book_facts(&event);
}

void mp_cuda_exit(enum mp_cuda_call_id id, const void *arguments, int result, struct mp_cuda_visit *visit,
                  const struct mp_cuda_facts *facts)
{
    const struct action *action = &actions[mp_cuda_calls[id].action];
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return;
    struct mp_cuda_event event = {
        .thread = thread, .id = id, .arguments = arguments, .result = result, .visit = visit, .facts = facts};
    if (facts->context && result == MP_CU_SUCCESS && !mp_cuda_ends_context(mp_cuda_calls[id].action))
        mp_cuda_context_seen(thread, facts->context, facts->device, true);
    book_facts(&event);
    if (action->begins.class) begin_as(&event, &action->begins);
    if (action->exit) action->exit(&event);
    if (result == MP_CU_SUCCESS && visit->unknown && action->unknown)
        mp_book_end_unknown(thread, action->unknown, facts->device, first_argument(&event));
    if (result != MP_CU_SUCCESS) mp_cuda_take_back(&event);
    if (!action->asks && is_worth_a_mark(result)) mark_failure(&event);
    mp_hook_leave(thread);
}
