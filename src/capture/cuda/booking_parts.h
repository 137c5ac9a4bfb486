/* Shared by the files of the booking. */
#pragma once

#include "capture/cuda/booking.h"

/* One call at its enter, or at its exit (then `facts` is set). */
struct mp_cuda_event {
    struct mp_thread *thread;
    enum mp_cuda_call_id id;
    const void *arguments;
    int result;
    struct mp_cuda_visit *visit;
    const struct mp_cuda_facts *facts;
};

/* Called before the driver runs the call: ends the blocks that the call frees. If the call fails, they are restored. */
typedef void mp_cuda_ending(struct mp_cuda_event *event);
/* Called after the call has returned: books its result. */
typedef void mp_cuda_ended(struct mp_cuda_event *event);

/* The call's arguments as the params struct of `symbol`. `symbol` may be any call whose struct has the same first
 * members. */
#define MP_ARGUMENTS(symbol, event) ((const struct mp_params_##symbol *)(event)->arguments)

static inline bool mp_cuda_succeeded(const struct mp_cuda_event *event)
{
    return event->result == MP_CU_SUCCESS;
}

/* Makes an entry that does not end with a context. `device` below 0: unknown, taken as device 0. */
static inline struct mp_live mp_cuda_entry(enum mp_live_class class, uint64_t value, int device, enum mp_book book,
                                           enum mp_kind kind)
{
    return (struct mp_live){
        .value = value, .device = (int16_t)(device < 0 ? 0 : device), .class = class, .book = book, .kind = kind};
}

/* Ends an entry that was removed from the live ones, and remembers it in case the call fails. */
void mp_cuda_end(struct mp_cuda_event *event, const struct mp_live *taken);
/* Removes the entry of `value` and ends it. If there is none, marks the visit `unknown`. */
void mp_cuda_end_value(struct mp_cuda_event *event, enum mp_live_class class, uint64_t value);
/* The call failed: restores the blocks that were ended before it. */
void mp_cuda_take_back(struct mp_cuda_event *event);
/* Adds an entry of the calling thread's context and device. If the call found no memory, records the refusal on `book`
 * instead. */
void mp_cuda_begin(struct mp_cuda_event *event, enum mp_live_class class, uint64_t value, uint64_t bytes,
                   enum mp_book book, enum mp_kind kind);
void mp_cuda_begin_entry(struct mp_cuda_event *event, struct mp_live *entry);
bool mp_cuda_refused(struct mp_cuda_event *event, enum mp_book book, int device, uint64_t bytes);

/* The functions of the table of actions, by file. */
mp_cuda_ended mp_exit_pool_create, mp_exit_pool_of_device, mp_exit_pool_of_location, mp_exit_pool_import,
    mp_exit_pool_import_pointer, mp_exit_alloc_async, mp_exit_alloc_from_pool;
mp_cuda_ending mp_enter_vmm_release, mp_enter_vmm_unmap, mp_enter_multicast_unbind, mp_enter_ipc_close;
mp_cuda_ended mp_exit_address_reserve, mp_exit_vmm_create, mp_exit_vmm_release, mp_exit_vmm_map, mp_exit_vmm_unmap,
    mp_exit_vmm_import, mp_exit_vmm_retain, mp_exit_multicast_bind, mp_exit_multicast_unbind, mp_exit_ipc_open,
    mp_exit_ipc_close, mp_exit_external_import, mp_exit_external_buffer, mp_exit_external_mipmap;
mp_cuda_ended mp_exit_array_create, mp_exit_array3d_create, mp_exit_mipmap_create;
mp_cuda_ending mp_enter_graph_destroy, mp_enter_exec_destroy, mp_enter_free_async;
mp_cuda_ended mp_exit_capture_begin, mp_exit_capture_end, mp_exit_graph_alloc_node, mp_exit_graph_free_node,
    mp_exit_graph_node, mp_exit_graph_node_v2, mp_exit_graph_instantiate, mp_exit_graph_launch, mp_exit_graph_attribute,
    mp_exit_free_async;
mp_cuda_ended mp_exit_context_create, mp_exit_context_create_v3, mp_exit_context_create_v4, mp_exit_context_destroy,
    mp_exit_primary_retain, mp_exit_primary_release, mp_exit_primary_reset, mp_exit_code_load, mp_exit_device_uuid;

/* Records how many bytes a pool holds now. `pool`: its handle. */
void mp_cuda_pool_holds(struct mp_cuda_event *event, uint64_t pool, uint64_t bytes);
/* The number of the graph memory that `stream` captures into; 0: it does not capture. */
uint64_t mp_cuda_capture_of(const struct mp_cuda_event *event, mp_cu_handle stream);
/* Adds an alloc node to the graph memory of that number. */
void mp_cuda_add_alloc_node(struct mp_cuda_event *event, uint64_t number, uint64_t address, uint64_t bytes, int device);
