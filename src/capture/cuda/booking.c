#include "capture/cuda/booking.h"

#include <stdio.h>
#include <string.h>

#include "capture/core/session.h"
#include "capture/cuda/array_bytes.h"

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

/* ---- entries ----------------------------------------------------------------------------------------------------- */

/* Ends an entry that was removed from the live ones, and remembers it in case the call fails. */
static void cuda_end(struct mp_cuda_event *event, const struct mp_live *taken)
{
    struct mp_cuda_visit *visit = event->visit;
    mp_book_end(event->thread, taken);
    if (visit->taken_count < MP_CUDA_VISIT_TAKEN) visit->taken[visit->taken_count++] = *taken;
}

/* Removes the entry of `value` and ends it. If there is none, marks the visit `unknown`. */
static void cuda_end_value(struct mp_cuda_event *event, enum mp_live_class class, uint64_t value)
{
    struct mp_live taken;
    if (!value) return;
    if (mp_live_take(class, value, &taken))
        cuda_end(event, &taken);
    else
        event->visit->unknown = true;
}

/* The call failed: restores the blocks that were ended before it. */
static void cuda_take_back(struct mp_cuda_event *event)
{
    struct mp_cuda_visit *visit = event->visit;
    while (visit->taken_count)
        mp_book_begin(event->thread, &visit->taken[--visit->taken_count]);
}

static bool cuda_refused(struct mp_cuda_event *event, enum mp_book book, int device, uint64_t bytes)
{
    if (event->result != MP_CU_OUT_OF_MEMORY) return false;
    mp_book_refused(event->thread, book, device, bytes);
    return true;
}

static void cuda_begin_entry(struct mp_cuda_event *event, struct mp_live *entry)
{
    if (!entry->value) return;
    if (!entry->refs) entry->refs = 1;
    if (entry->class == MP_LIVE_MEMORY && event->visit) event->visit->began = entry->book;
    mp_book_begin(event->thread, entry);
}

/* Adds an entry of the calling thread's context and device. If the call found no memory, records the refusal on `book`
 * instead. */
static void cuda_begin(struct mp_cuda_event *event, enum mp_live_class class, uint64_t value, uint64_t bytes,
                       enum mp_book book, enum mp_kind kind)
{
    struct mp_live entry = mp_cuda_entry(class, value, event->facts->device, book, kind);
    entry.bytes = bytes;
    entry.context = event->facts->context;
    cuda_begin_entry(event, &entry);
}

/* Graphs and their memory. The memory of each graph, and of each capture, has a number of its own. A graph's handle is
 * no key: a new graph may get it while executables of the earlier graph still hold memory. */
static _Atomic uint64_t last_number, last_capture;

enum { ALLOCATES, FREES }; /* `origin` of a node */

#define PLACE_BITS 24

static uint64_t node_at(uint64_t number, uint64_t place)
{
    return number << PLACE_BITS | place;
}

static uint64_t new_number(struct mp_cuda_event *event)
{
    struct mp_live memory = {.value = atomic_fetch_add(&last_number, 1) + 1, .class = MP_LIVE_GRAPH_MEMORY};
    cuda_begin_entry(event, &memory);
    return memory.value;
}

static void hold(uint64_t number)
{
    struct mp_live after;
    if (number) mp_live_count(MP_LIVE_GRAPH_MEMORY, number, 1, 0, &after);
}

static void let_go(struct mp_cuda_event *event, uint64_t number)
{
    struct mp_live memory, node, address;
    if (!number || !mp_live_count(MP_LIVE_GRAPH_MEMORY, number, -1, 0, &memory) || memory.refs) return;
    for (uint64_t place = 0; place < memory.other; place++) {
        if (!mp_live_take(MP_LIVE_NODE, node_at(number, place), &node) || node.origin != ALLOCATES) continue;
        mp_live_take(MP_LIVE_NODE_ADDRESS, node.other, &address);
        mp_book_end(event->thread, &node);
    }
    mp_live_take(MP_LIVE_GRAPH_MEMORY, number, &memory);
}

/* ---- graphs and executables -------------------------------------------------------------------------------------- */

static void begin_holder(struct mp_cuda_event *event, enum mp_live_class class, mp_cu_handle handle, uint64_t number,
                         uint64_t nodes, enum mp_book book)
{
    struct mp_live entry =
        mp_cuda_entry(class, (uint64_t)(uintptr_t)handle, event->facts->device, book, MP_KIND_HANDLE);
    entry.bytes = nodes;
    entry.other = number;
    cuda_begin_entry(event, &entry);
}

static void begin_graph(struct mp_cuda_event *event, mp_cu_handle graph, uint64_t number, enum mp_book book)
{
    begin_holder(event, MP_LIVE_GRAPH, graph, number, 0, book);
}

static uint64_t number_of_graph(mp_cu_handle graph)
{
    struct mp_live found;
    return mp_live_find(MP_LIVE_GRAPH, (uint64_t)(uintptr_t)graph, &found) ? found.other : 0;
}

static void exit_graph_instantiate(struct mp_cuda_event *event)
{
    const struct mp_params_cuGraphInstantiateWithFlags *a = event->arguments;
    if (!mp_cuda_succeeded(event)) return;
    uint64_t number = number_of_graph(a->hGraph);
    struct mp_live memory = {.other = 0};
    if (number) mp_live_count(MP_LIVE_GRAPH_MEMORY, number, 1, 0, &memory);
    begin_holder(event, MP_LIVE_EXEC, *a->phGraphExec, number, memory.other, MP_BOOK_EXECUTABLES);
}

static void end_holder(struct mp_cuda_event *event, enum mp_live_class class)
{
    struct mp_live holder;
    uint64_t handle = (uint64_t)(uintptr_t)MP_ARGUMENTS(cuGraphDestroy, event)->hGraph;
    event->visit->unknown = !mp_live_take(class, handle, &holder);
    if (event->visit->unknown) return;
    mp_book_end(event->thread, &holder);
    let_go(event, holder.other);
}

static void enter_graph_destroy(struct mp_cuda_event *event)
{
    end_holder(event, MP_LIVE_GRAPH);
}

static void enter_exec_destroy(struct mp_cuda_event *event)
{
    end_holder(event, MP_LIVE_EXEC);
}

/* ---- memory nodes ------------------------------------------------------------------------------------------------ */

/* Makes an entry for the next node of the graph memory with that number. */
static struct mp_live new_node(uint64_t number, uint64_t address, unsigned origin)
{
    struct mp_live memory = {.other = 1};
    mp_live_count(MP_LIVE_GRAPH_MEMORY, number, 0, 1, &memory);
    return (struct mp_live){
        .value = node_at(number, memory.other - 1), .other = address, .class = MP_LIVE_NODE, .origin = (uint8_t)origin};
}

/* Adds an alloc node to the graph memory of that number. */
static void cuda_add_alloc_node(struct mp_cuda_event *event, uint64_t number, uint64_t address, uint64_t bytes,
                                int device)
{
    struct mp_live node = new_node(number, address, ALLOCATES);
    struct mp_live known = {.value = address, .class = MP_LIVE_NODE_ADDRESS};
    node.bytes = bytes;
    node.device = (int16_t)(device < 0 ? 0 : device);
    node.book = MP_BOOK_NODES;
    node.kind = MP_KIND_GRAPH;
    cuda_begin_entry(event, &known);
    cuda_begin_entry(event, &node);
}

static void add_free_node(struct mp_cuda_event *event, uint64_t number, uint64_t address)
{
    struct mp_live node = new_node(number, address, FREES);
    cuda_begin_entry(event, &node);
}

/* A graph gets its number with its first memory node. */
static uint64_t number_for_node(struct mp_cuda_event *event, mp_cu_handle graph)
{
    struct mp_live after;
    uint64_t number = number_of_graph(graph);
    if (number) return number;
    number = new_number(event);
    if (!mp_live_count(MP_LIVE_GRAPH, (uint64_t)(uintptr_t)graph, 0, (int)number, &after))
        begin_graph(event, graph, number, MP_BOOK_NONE);
    return number;
}

static void alloc_node_added(struct mp_cuda_event *event, mp_cu_handle graph, const struct mp_cu_alloc_node *node)
{
    bool on_device = node->poolProps.location.type == MP_CU_LOCATION_DEVICE;
    int device = on_device ? node->poolProps.location.id : event->facts->device;
    if (!mp_cuda_succeeded(event))
        cuda_refused(event, MP_BOOK_NODES, device, node->bytesize);
    else
        cuda_add_alloc_node(event, number_for_node(event, graph), node->dptr, node->bytesize, device);
}

static void exit_graph_alloc_node(struct mp_cuda_event *event)
{
    const struct mp_params_cuGraphAddMemAllocNode *a = event->arguments;
    if (a->nodeParams) alloc_node_added(event, a->hGraph, a->nodeParams);
}

static void exit_graph_free_node(struct mp_cuda_event *event)
{
    const struct mp_params_cuGraphAddMemFreeNode *a = event->arguments;
    if (mp_cuda_succeeded(event)) add_free_node(event, number_for_node(event, a->hGraph), a->dptr);
}

static void add_node(struct mp_cuda_event *event, mp_cu_handle graph, const struct mp_cu_node_params *node)
{
    if (!node) return;
    if (node->type == MP_CU_NODE_MEM_ALLOC) alloc_node_added(event, graph, &node->alloc);
    if (node->type == MP_CU_NODE_MEM_FREE && mp_cuda_succeeded(event))
        add_free_node(event, number_for_node(event, graph), node->free.dptr);
}

static void exit_graph_node(struct mp_cuda_event *event)
{
    const struct mp_params_cuGraphAddNode *a = event->arguments;
    add_node(event, a->hGraph, a->nodeParams);
}

static void exit_graph_node_v2(struct mp_cuda_event *event)
{
    const struct mp_params_cuGraphAddNode_v2 *a = event->arguments;
    add_node(event, a->hGraph, a->nodeParams);
}

static void end_memory(struct mp_cuda_event *event, uint64_t address)
{
    struct mp_live taken;
    if (mp_live_take(MP_LIVE_MEMORY, address, &taken)) mp_book_end(event->thread, &taken);
}

/* First books the end of memory that the previous launch left live. It must have been freed, otherwise the driver would
 * have refused the new launch. */
static void exit_graph_launch(struct mp_cuda_event *event)
{
    struct mp_live executable, node;
    uint64_t handle = (uint64_t)(uintptr_t)MP_ARGUMENTS(cuGraphLaunch, event)->hGraph;
    if (!mp_cuda_succeeded(event) || !mp_live_find(MP_LIVE_EXEC, handle, &executable) || !executable.bytes) return;
    for (uint64_t place = 0; place < executable.bytes; place++)
        if (mp_live_find(MP_LIVE_NODE, node_at(executable.other, place), &node) && node.origin == ALLOCATES)
            end_memory(event, node.other);
    for (uint64_t place = 0; place < executable.bytes; place++) {
        if (!mp_live_find(MP_LIVE_NODE, node_at(executable.other, place), &node)) continue;
        if (node.origin == FREES) {
            end_memory(event, node.other);
            continue;
        }
        struct mp_live block = {.value = node.other,
                                .bytes = node.bytes,
                                .stack = node.stack,
                                .module = node.module,
                                .device = node.device,
                                .class = MP_LIVE_MEMORY,
                                .book = MP_BOOK_GRAPH,
                                .kind = MP_KIND_GRAPH};
        cuda_begin_entry(event, &block);
    }
}

/* The program itself asked how much memory its graphs hold: books the answer. */
static void exit_graph_attribute(struct mp_cuda_event *event)
{
    const struct mp_params_cuDeviceGetGraphMemAttribute *a = event->arguments;
    if (mp_cuda_succeeded(event) && a->attr == MP_CU_GRAPH_MEM_RESERVED_CURRENT && a->value)
        mp_book_graphs_hold(event->thread, a->device, *(const uint64_t *)a->value);
}

/* ---- captures ---------------------------------------------------------------------------------------------------- */

static void exit_capture_begin(struct mp_cuda_event *event)
{
    mp_cu_handle stream = MP_ARGUMENTS(cuStreamBeginCapture, event)->hStream;
    bool into_graph =
        event->id == MP_CALL_cuStreamBeginCaptureToGraph || event->id == MP_CALL_cuStreamBeginCaptureToGraph_ptsz;
    if (!mp_cuda_succeeded(event)) return;
    uint64_t number = into_graph ? number_of_graph(MP_ARGUMENTS(cuStreamBeginCaptureToGraph, event)->hGraph) : 0;
    if (number)
        hold(number);
    else
        number = new_number(event);
    struct mp_live capture = {.value = (uint64_t)(uintptr_t)stream, .other = number, .class = MP_LIVE_CAPTURE};
    cuda_begin_entry(event, &capture);
    atomic_store(&last_capture, number);
}

/* The graph takes over the capture's memory. */
static void exit_capture_end(struct mp_cuda_event *event)
{
    const struct mp_params_cuStreamEndCapture *a = event->arguments;
    struct mp_live capture, graph;
    if (!mp_live_take(MP_LIVE_CAPTURE, (uint64_t)(uintptr_t)a->hStream, &capture)) return;
    uint64_t handle = mp_cuda_succeeded(event) && a->phGraph ? (uint64_t)(uintptr_t)*a->phGraph : 0;
    if (handle && !mp_live_find(MP_LIVE_GRAPH, handle, &graph)) {
        begin_graph(event, *a->phGraph, capture.other, MP_BOOK_GRAPHS);
        return;
    }
    if (handle && !graph.other)
        mp_live_count(MP_LIVE_GRAPH, handle, 0, (int)capture.other, &graph);
    else
        let_go(event, capture.other);
}

/* The number of the graph memory that `stream` captures into; 0: it does not capture. */
static uint64_t cuda_capture_of(const struct mp_cuda_event *event, mp_cu_handle stream)
{
    struct mp_live capture;
    int facts = event->facts ? event->facts->capturing : MP_NOT_KNOWN;
    if (facts == 0) return 0;
    if (mp_live_find(MP_LIVE_CAPTURE, (uint64_t)(uintptr_t)stream, &capture)) return capture.other;
    /* Another stream joined a capture. We do not know which one; most often it is the one that began last. */
    return facts == 1 ? atomic_load(&last_capture) : 0;
}

/* While its stream captures, a free adds a node instead of freeing. */
static void enter_free_async(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemFreeAsync *a = event->arguments;
    if (!cuda_capture_of(event, a->hStream)) cuda_end_value(event, MP_LIVE_MEMORY, a->dptr);
}

static void exit_free_async(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemFreeAsync *a = event->arguments;
    struct mp_live known;
    uint64_t captured = cuda_capture_of(event, a->hStream);
    if (!captured && event->visit->unknown && mp_live_find(MP_LIVE_NODE_ADDRESS, a->dptr, &known))
        captured = atomic_load(&last_capture);
    if (!captured || !mp_cuda_succeeded(event)) return;
    event->visit->unknown = false;
    add_free_node(event, captured, a->dptr);
}

/* Stream-ordered pools: their blocks, and the pools themselves. */
static const struct {
    enum mp_book book;
    enum mp_kind kind;
} blocks_of[] = {
    [MP_POOL_OF_DEVICE] = {MP_BOOK_POOL, MP_KIND_POOL},
    [MP_POOL_OF_HOST] = {MP_BOOK_HOST_POOL, MP_KIND_PINNED},
    [MP_POOL_MANAGED] = {MP_BOOK_MANAGED, MP_KIND_MANAGED},
    [MP_POOL_IMPORTED] = {MP_BOOK_IMPORTED, MP_KIND_DEVICE},
};

static void begin_pool(struct mp_cuda_event *event, mp_cu_handle handle, int device, unsigned origin, enum mp_book book)
{
    struct mp_live pool = mp_cuda_entry(MP_LIVE_POOL, (uint64_t)(uintptr_t)handle, device, book, MP_KIND_HANDLE);
    pool.other = mp_book_new_pool(pool.device, origin);
    pool.origin = (uint8_t)origin;
    cuda_begin_entry(event, &pool);
}

static void begin_pool_at(struct mp_cuda_event *event, mp_cu_handle handle, int allocation,
                          struct mp_cu_location location, enum mp_book book)
{
    bool on_device = location.type == MP_CU_LOCATION_DEVICE;
    unsigned origin = allocation == MP_CU_ALLOCATION_MANAGED ? MP_POOL_MANAGED
                      : on_device                            ? MP_POOL_OF_DEVICE
                                                             : MP_POOL_OF_HOST;
    begin_pool(event, handle, on_device ? location.id : 0, origin, book);
}

/* Adds a pool that the driver has from the start. */
static void learn_pool(struct mp_cuda_event *event, mp_cu_handle handle, int allocation, struct mp_cu_location location)
{
    struct mp_live known;
    if (handle && !mp_live_find(MP_LIVE_POOL, (uint64_t)(uintptr_t)handle, &known))
        begin_pool_at(event, handle, allocation, location, MP_BOOK_NONE);
}

static void exit_pool_create(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemPoolCreate *a = event->arguments;
    if (!mp_cuda_succeeded(event) || !a->poolProps) return;
    begin_pool_at(event, *a->pool, a->poolProps->allocType, a->poolProps->location, MP_BOOK_POOLS);
}

static void exit_pool_of_device(struct mp_cuda_event *event)
{
    const struct mp_params_cuDeviceGetMemPool *a = event->arguments;
    struct mp_cu_location location = {.type = MP_CU_LOCATION_DEVICE, .id = a->dev};
    if (mp_cuda_succeeded(event)) learn_pool(event, *a->pool, MP_CU_ALLOCATION_PINNED, location);
}

static void exit_pool_of_location(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemGetMemPool *a = event->arguments;
    if (mp_cuda_succeeded(event) && a->location) learn_pool(event, *a->pool, a->type, *a->location);
}

static void exit_pool_import(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemPoolImportFromShareableHandle *a = event->arguments;
    if (mp_cuda_succeeded(event))
        begin_pool(event, *a->pool_out, event->facts->device, MP_POOL_IMPORTED, MP_BOOK_POOLS);
}

/* Records how many bytes a pool holds now. `pool`: its handle. */
static void cuda_pool_holds(struct mp_cuda_event *event, uint64_t pool, uint64_t bytes)
{
    struct mp_live known;
    struct mp_cu_location location = {.type = MP_CU_LOCATION_DEVICE, .id = event->facts->device};
    learn_pool(event, (mp_cu_handle)(uintptr_t)pool, MP_CU_ALLOCATION_PINNED, location);
    if (mp_live_find(MP_LIVE_POOL, pool, &known))
        mp_book_pool_holds(event->thread, known.other, bytes, mp_session_clock_ns());
}

/* Begins a pool's block. `pool`: an entry with the pool's number and origin. */
static void begin_block(struct mp_cuda_event *event, uint64_t address, uint64_t bytes, const struct mp_live *pool,
                        int device)
{
    struct mp_live block =
        mp_cuda_entry(MP_LIVE_MEMORY, address, device, blocks_of[pool->origin].book, blocks_of[pool->origin].kind);
    block.bytes = bytes;
    block.other = pool->other;
    cuda_begin_entry(event, &block);
}

static void exit_pool_import_pointer(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemPoolImportPointer *a = event->arguments;
    if (!mp_cuda_succeeded(event)) return;
    uint64_t bytes = event->facts->bytes == MP_BYTES_UNKNOWN ? 0 : event->facts->bytes;
    struct mp_live pool = {.origin = MP_POOL_IMPORTED};
    mp_live_find(MP_LIVE_POOL, (uint64_t)(uintptr_t)a->pool, &pool);
    begin_block(event, *a->ptr_out, bytes, &pool, event->facts->device);
}

/* The stream's device, or that of the calling thread's context if the stream is unknown. */
static int device_of_stream(const struct mp_cuda_event *event, mp_cu_handle stream)
{
    struct mp_live found;
    return mp_live_find(MP_LIVE_STREAM, (uint64_t)(uintptr_t)stream, &found) ? found.device : event->facts->device;
}

static void alloc_in_order(struct mp_cuda_event *event, mp_cu_ptr *address, uint64_t bytes, mp_cu_handle stream,
                           const struct mp_live *pool, int device)
{
    uint64_t captured = cuda_capture_of(event, stream);
    if (!mp_cuda_succeeded(event))
        cuda_refused(event, captured ? MP_BOOK_NODES : blocks_of[pool->origin].book, device, bytes);
    else if (captured)
        cuda_add_alloc_node(event, captured, *address, bytes, device);
    else
        begin_block(event, *address, bytes, pool, device);
}

/* The block comes from the device's current pool. The recorder knows this pool only if the program has asked for it. */
static void exit_alloc_async(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemAllocAsync *a = event->arguments;
    struct mp_live pool = {.origin = MP_POOL_OF_DEVICE};
    if (event->facts->pool) mp_live_find(MP_LIVE_POOL, event->facts->pool, &pool);
    alloc_in_order(event, a->dptr, a->bytesize, a->hStream, &pool, device_of_stream(event, a->hStream));
}

static void exit_alloc_from_pool(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemAllocFromPoolAsync *a = event->arguments;
    struct mp_live pool = {.origin = MP_POOL_OF_DEVICE, .device = (int16_t)event->facts->device};
    mp_live_find(MP_LIVE_POOL, (uint64_t)(uintptr_t)a->pool, &pool);
    alloc_in_order(event, a->dptr, a->bytesize, a->hStream, &pool, pool.device);
}

/* Arrays and mipmaps, and memory of other processes and interfaces: IPC and external memory. */
static void begin_array(struct mp_cuda_event *event, enum mp_live_class class, const mp_cu_handle *handle,
                        const struct mp_cu_array3d *array, unsigned levels)
{
    uint64_t bytes = mp_cuda_array_bytes(array, levels);
    if (mp_cuda_succeeded(event))
        cuda_begin(event, class, (uint64_t)(uintptr_t)*handle, bytes, MP_BOOK_DEVICE, MP_KIND_ARRAY);
    else
        cuda_refused(event, MP_BOOK_DEVICE, event->facts->device, bytes);
}

static void exit_array3d_create(struct mp_cuda_event *event)
{
    const struct mp_params_cuArray3DCreate_v2 *a = event->arguments;
    if (a->pAllocateArray) begin_array(event, MP_LIVE_ARRAY, a->pHandle, a->pAllocateArray, 1);
}

static void exit_array_create(struct mp_cuda_event *event)
{
    const struct mp_params_cuArrayCreate_v2 *a = event->arguments;
    if (!a->pAllocateArray) return;
    struct mp_cu_array3d array = {.Width = a->pAllocateArray->Width,
                                  .Height = a->pAllocateArray->Height,
                                  .Format = a->pAllocateArray->Format,
                                  .NumChannels = a->pAllocateArray->NumChannels};
    begin_array(event, MP_LIVE_ARRAY, a->pHandle, &array, 1);
}

static void exit_mipmap_create(struct mp_cuda_event *event)
{
    const struct mp_params_cuMipmappedArrayCreate *a = event->arguments;
    if (a->pMipmappedArrayDesc)
        begin_array(event, MP_LIVE_MIPMAP, a->pHandle, a->pMipmappedArrayDesc, a->numMipmapLevels);
}

/* ---- memory of others -------------------------------------------------------------------------------------------- */

/* The driver returns the same address for each opening of the same memory, and counts the openings. */
static void exit_ipc_open(struct mp_cuda_event *event)
{
    const struct mp_params_cuIpcOpenMemHandle_v2 *a = event->arguments;
    struct mp_live known;
    if (!mp_cuda_succeeded(event)) return;
    uint64_t bytes = event->facts->bytes == MP_BYTES_UNKNOWN ? 0 : event->facts->bytes;
    if (!mp_live_count(MP_LIVE_MEMORY, *a->pdptr, 1, 0, &known))
        cuda_begin(event, MP_LIVE_MEMORY, *a->pdptr, bytes, MP_BOOK_IMPORTED, MP_KIND_DEVICE);
}

static void enter_ipc_close(struct mp_cuda_event *event)
{
    struct mp_live after;
    if (!mp_live_count(MP_LIVE_MEMORY, MP_ARGUMENTS(cuIpcCloseMemHandle, event)->dptr, -1, 0, &after))
        event->visit->unknown = true;
    else if (!after.refs)
        cuda_end(event, &after);
}

static void exit_ipc_close(struct mp_cuda_event *event)
{
    struct mp_live known;
    if (mp_cuda_succeeded(event) || !event->visit->entered) return;
    if (event->visit->taken_count)
        event->visit->taken[0].refs = 1;
    else
        mp_live_count(MP_LIVE_MEMORY, MP_ARGUMENTS(cuIpcCloseMemHandle, event)->dptr, 1, 0, &known);
}

static void exit_external_import(struct mp_cuda_event *event)
{
    const struct mp_params_cuImportExternalMemory *a = event->arguments;
    if (!mp_cuda_succeeded(event) || !a->memHandleDesc) return;
    cuda_begin(event, MP_LIVE_EXTERNAL, (uint64_t)(uintptr_t)*a->extMem_out, a->memHandleDesc->size, MP_BOOK_IMPORTED,
               MP_KIND_DEVICE);
}

/* The mipmap is the same memory under a second handle. Destroying the mipmap ends this entry. */
static void exit_external_mipmap(struct mp_cuda_event *event)
{
    const struct mp_params_cuExternalMemoryGetMappedMipmappedArray *a = event->arguments;
    if (!mp_cuda_succeeded(event) || !a->mipmapDesc) return;
    cuda_begin(event, MP_LIVE_MIPMAP, (uint64_t)(uintptr_t)*a->mipmap,
               mp_cuda_array_bytes(&a->mipmapDesc->arrayDesc, a->mipmapDesc->numLevels), MP_BOOK_MAPPED, MP_KIND_ARRAY);
}

/* The buffer is the same memory under an address. cuMemFree ends this entry. */
static void exit_external_buffer(struct mp_cuda_event *event)
{
    const struct mp_params_cuExternalMemoryGetMappedBuffer *a = event->arguments;
    if (!mp_cuda_succeeded(event) || !a->bufferDesc) return;
    cuda_begin(event, MP_LIVE_MEMORY, *a->devPtr, a->bufferDesc->size, MP_BOOK_MAPPED, MP_KIND_DEVICE);
}

/* Virtual memory: address ranges, physical memory by handle, and mappings. Physical memory exists while the program
 * owns a handle to it, or while a part of it is mapped or bound. */
static void exit_address_reserve(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemAddressReserve *a = event->arguments;
    if (!mp_cuda_succeeded(event)) return;
    cuda_begin(event, MP_LIVE_RESERVATION, *a->ptr, a->size, MP_BOOK_ADDRESSES, MP_KIND_VMM);
}

static void exit_vmm_create(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemCreate *a = event->arguments;
    bool on_device = !a->prop || a->prop->location.type == MP_CU_LOCATION_DEVICE;
    enum mp_book book = on_device ? MP_BOOK_DEVICE : MP_BOOK_PINNED;
    int device = a->prop && on_device ? a->prop->location.id : event->facts->device;
    if (!mp_cuda_succeeded(event)) {
        cuda_refused(event, book, device, a->size);
        return;
    }
    struct mp_live physical = mp_cuda_entry(MP_LIVE_PHYSICAL, *a->handle, device, book, MP_KIND_VMM);
    physical.bytes = a->size;
    cuda_begin_entry(event, &physical);
}

/* Adds to the handles (`refs`) or the uses (`uses`) of physical memory or of a multicast object. The memory or object
 * ends when both counts are 0. */
static bool count_references(struct mp_cuda_event *event, uint64_t handle, int refs, int uses)
{
    struct mp_live after;
    if (!mp_live_count(MP_LIVE_PHYSICAL, handle, refs, uses, &after) &&
        !mp_live_count(MP_LIVE_MULTICAST, handle, refs, uses, &after))
        return false;
    if (!after.refs && !after.other) cuda_end(event, &after);
    return true;
}

static void enter_vmm_release(struct mp_cuda_event *event)
{
    uint64_t handle = MP_ARGUMENTS(cuMemRelease, event)->handle;
    if (!count_references(event, handle, -1, 0)) event->visit->unknown = handle != 0;
}

static void exit_vmm_release(struct mp_cuda_event *event)
{
    if (mp_cuda_succeeded(event) || !event->visit->entered) return;
    if (event->visit->taken_count)
        event->visit->taken[0].refs = 1;
    else
        count_references(event, MP_ARGUMENTS(cuMemRelease, event)->handle, 1, 0);
}

static void exit_vmm_import(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemImportFromShareableHandle *a = event->arguments;
    if (!mp_cuda_succeeded(event) || count_references(event, *a->handle, 1, 0)) return;
    struct mp_live physical =
        mp_cuda_entry(MP_LIVE_PHYSICAL, *a->handle, event->facts->device, MP_BOOK_IMPORTED, MP_KIND_VMM);
    cuda_begin_entry(event, &physical);
    mp_session_note("physical memory that was imported by handle is recorded without its size: the driver tells none");
}

static void exit_vmm_retain(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemRetainAllocationHandle *a = event->arguments;
    if (mp_cuda_succeeded(event)) count_references(event, *a->handle, 1, 0);
}

static void exit_vmm_map(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemMap *a = event->arguments;
    if (!mp_cuda_succeeded(event)) return;
    struct mp_live mapping = mp_cuda_entry(MP_LIVE_MAPPING, a->ptr, event->facts->device, MP_BOOK_MAPPED, MP_KIND_VMM);
    struct mp_live physical = mapping;
    mp_live_find(MP_LIVE_PHYSICAL, a->handle, &physical);
    mapping.bytes = a->size;
    mapping.other = a->handle;
    mapping.device = physical.device;
    count_references(event, a->handle, 0, 1);
    cuda_begin_entry(event, &mapping);
}

/* One call may unmap several adjacent mappings. */
static void enter_vmm_unmap(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemUnmap *a = event->arguments;
    struct mp_live mapping;
    bool known = false;
    for (uint64_t at = a->ptr, end = a->ptr + a->size; at < end && mp_live_take(MP_LIVE_MAPPING, at, &mapping);) {
        known = true;
        at += mapping.bytes ? mapping.bytes : end - at;
        cuda_end(event, &mapping);
        count_references(event, mapping.other, 0, -1);
    }
    event->visit->unknown = !known;
}

static void exit_vmm_unmap(struct mp_cuda_event *event)
{
    if (mp_cuda_succeeded(event) || !event->visit->taken_count) return;
    /* Restores physical memory before the mappings that use it. */
    cuda_take_back(event);
    const struct mp_params_cuMemUnmap *a = event->arguments;
    struct mp_live mapping;
    for (uint64_t at = a->ptr, end = a->ptr + a->size; at < end && mp_live_find(MP_LIVE_MAPPING, at, &mapping);) {
        count_references(event, mapping.other, 0, 1);
        at += mapping.bytes ? mapping.bytes : end - at;
    }
}

/* ---- multicast: an object to which memory of several devices is bound -------------------------------------------- */

static uint64_t binding_of(uint64_t object, uint64_t offset)
{
    return object ^ offset << 20;
}

static void exit_multicast_bind(struct mp_cuda_event *event)
{
    const struct mp_params_cuMulticastBindMem *a = event->arguments;
    if (!mp_cuda_succeeded(event)) return;
    struct mp_live binding = {.value = binding_of(a->mcHandle, a->mcOffset),
                              .other = a->memHandle,
                              .context = a->mcHandle,
                              .class = MP_LIVE_BINDING};
    count_references(event, a->memHandle, 0, 1);
    cuda_begin_entry(event, &binding);
}

static void enter_multicast_unbind(struct mp_cuda_event *event)
{
    const struct mp_params_cuMulticastUnbind *a = event->arguments;
    struct mp_live binding;
    if (!mp_live_take(MP_LIVE_BINDING, binding_of(a->mcHandle, a->mcOffset), &binding)) return;
    cuda_end(event, &binding);
    count_references(event, binding.other, 0, -1);
}

static void exit_multicast_unbind(struct mp_cuda_event *event)
{
    if (mp_cuda_succeeded(event) || !event->visit->taken_count) return;
    uint64_t memory = event->visit->taken[0].other;
    cuda_take_back(event);
    count_references(event, memory, 0, 1);
}

/* Contexts, and the handles that use memory of a device. */
enum { CREATED, PRIMARY }; /* `origin` of a context */

static uint64_t value_of(mp_cu_handle handle)
{
    return (uint64_t)(uintptr_t)handle;
}

/* Asks the collector for the device's totals: they may change when contexts, modules or libraries begin or end. */
static void totals_may_have_moved(void)
{
    atomic_fetch_add_explicit(&mp_session.header->devices_changed, 1, memory_order_relaxed);
    mp_session_ring_doorbell();
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

int mp_cuda_device_of(uint64_t context)
{
    struct mp_live found;
    return context && mp_live_find(MP_LIVE_CONTEXT, context, &found) ? found.device : MP_NOT_KNOWN;
}

void mp_cuda_context_seen(struct mp_thread *thread, uint64_t context, int device, bool primary)
{
    struct mp_live known;
    if (!context || device < 0) return;
    if (mp_live_find(MP_LIVE_CONTEXT, context, &known)) {
        if (primary || known.origin == CREATED) return;
        known.origin = CREATED;
        struct mp_live entry = known;
        mp_live_put(&entry, &known);
        return;
    }
    struct mp_live entry = {.value = context,
                            .device = (int16_t)device,
                            .refs = 1,
                            .class = MP_LIVE_CONTEXT,
                            .book = MP_BOOK_CONTEXTS,
                            .kind = MP_KIND_HANDLE,
                            .origin = primary ? PRIMARY : CREATED};
    mp_book_begin(thread, &entry);
    totals_may_have_moved();
}

static bool is_of_context(const struct mp_live *entry, uint64_t context)
{
    return entry->context == context && entry->class != MP_LIVE_BINDING;
}

void mp_cuda_context_gone(struct mp_thread *thread, uint64_t context)
{
    struct mp_live taken[MP_LIVE_TAKEN];
    if (!context || !mp_live_take(MP_LIVE_CONTEXT, context, &taken[0])) return;
    mp_book_end(thread, &taken[0]);
    for (unsigned count; (count = mp_live_take_some(is_of_context, context, taken));)
        for (unsigned i = 0; i < count; i++)
            mp_book_end(thread, &taken[i]);
    totals_may_have_moved();
}

static void exit_context_create(struct mp_cuda_event *event)
{
    const struct mp_params_cuCtxCreate_v2 *a = event->arguments;
    if (mp_cuda_succeeded(event)) mp_cuda_context_seen(event->thread, value_of(*a->pctx), a->dev, false);
}

static void exit_context_create_v3(struct mp_cuda_event *event)
{
    const struct mp_params_cuCtxCreate_v3 *a = event->arguments;
    if (mp_cuda_succeeded(event)) mp_cuda_context_seen(event->thread, value_of(*a->pctx), a->dev, false);
}

static void exit_context_create_v4(struct mp_cuda_event *event)
{
    const struct mp_params_cuCtxCreate_v4 *a = event->arguments;
    if (mp_cuda_succeeded(event)) mp_cuda_context_seen(event->thread, value_of(*a->pctx), a->dev, false);
}

static void exit_context_destroy(struct mp_cuda_event *event)
{
    const struct mp_params_cuCtxDestroy_v2 *a = event->arguments;
    if (mp_cuda_succeeded(event)) mp_cuda_context_gone(event->thread, value_of(a->ctx));
}

static void exit_primary_retain(struct mp_cuda_event *event)
{
    const struct mp_params_cuDevicePrimaryCtxRetain *a = event->arguments;
    if (mp_cuda_succeeded(event)) mp_cuda_context_seen(event->thread, value_of(*a->pctx), a->dev, true);
}

static bool is_primary_of(const struct mp_live *entry, uint64_t device)
{
    return entry->class == MP_LIVE_CONTEXT && entry->origin == PRIMARY && entry->device == (int64_t)device;
}

static void primary_gone(struct mp_cuda_event *event, int device)
{
    struct mp_live taken[MP_LIVE_TAKEN], before;
    unsigned count = mp_live_take_some(is_primary_of, (uint64_t)device, taken);
    for (unsigned i = 0; i < count; i++) {
        mp_live_put(&taken[i], &before); /* put back for the moment: context_gone() ends it */
        mp_cuda_context_gone(event->thread, taken[i].value);
    }
}

static void exit_primary_release(struct mp_cuda_event *event)
{
    const struct mp_params_cuDevicePrimaryCtxRelease *a = event->arguments;
    if (mp_cuda_succeeded(event) && event->facts->active == 0) primary_gone(event, a->dev);
}

static void exit_primary_reset(struct mp_cuda_event *event)
{
    const struct mp_params_cuDevicePrimaryCtxReset *a = event->arguments;
    if (mp_cuda_succeeded(event)) primary_gone(event, a->dev);
}

static void exit_code_load(struct mp_cuda_event *event)
{
    if (mp_cuda_succeeded(event)) totals_may_have_moved();
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

void mp_cuda_device_is(int ordinal, const struct mp_cu_uuid *uuid, bool final)
{
    if (ordinal < 0 || ordinal >= MP_SPOOL_DEVICES || !uuid) return;
    struct mp_spool_device *device = &mp_session.header->devices[ordinal];
    if (!final && atomic_load(&device->known)) return;
    memcpy(device->uuid, uuid->bytes, sizeof device->uuid);
    atomic_store_explicit(&device->known, 1, memory_order_release);
}

/* For a MIG instance the first form of the call returns the whole GPU's UUID, so the second form's answer is final. */
static void exit_device_uuid(struct mp_cuda_event *event)
{
    const struct mp_params_cuDeviceGetUuid_v2 *a = event->arguments;
    if (mp_cuda_succeeded(event)) mp_cuda_device_is(a->dev, a->uuid, event->id == MP_CALL_cuDeviceGetUuid_v2);
}

/* ---- linear and host memory -------------------------------------------------------------------------------------- */

static void begin_or_refuse(struct mp_cuda_event *event, enum mp_live_class class, const void *address_at,
                            uint64_t bytes, enum mp_book book, enum mp_kind kind)
{
    if (mp_cuda_succeeded(event))
        cuda_begin(event, class, *(const uint64_t *)address_at, bytes, book, kind);
    else
        cuda_refused(event, book, event->facts->device, bytes);
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
        if (row->sized) cuda_refused(event, row->book, event->facts->device, bytes);
        return;
    }
    struct mp_live entry = mp_cuda_entry(row->class, *a->dptr, event->facts->device, row->book, row->kind);
    entry.bytes = bytes;
    if (!row->stays) entry.context = event->facts->context;
    cuda_begin_entry(event, &entry);
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
    [MP_CUDA_ALLOC_ASYNC] = {.exit = exit_alloc_async},
    [MP_CUDA_ALLOC_FROM_POOL] = {.exit = exit_alloc_from_pool},
    [MP_CUDA_FREE_ASYNC] = {.enter = enter_free_async, .exit = exit_free_async, .unknown = MP_BOOK_POOL},
    [MP_CUDA_POOL_CREATE] = {.exit = exit_pool_create},
    [MP_CUDA_POOL_DESTROY] = {.ends = MP_LIVE_POOL, .unknown = MP_BOOK_POOLS},
    [MP_CUDA_POOL_IMPORT] = {.exit = exit_pool_import},
    [MP_CUDA_POOL_IMPORT_POINTER] = {.exit = exit_pool_import_pointer},
    [MP_CUDA_POOL_OF_DEVICE] = {.exit = exit_pool_of_device, .asks = true},
    [MP_CUDA_POOL_OF_LOCATION] = {.exit = exit_pool_of_location, .asks = true},
    [MP_CUDA_ADDRESS_RESERVE] = {.exit = exit_address_reserve},
    [MP_CUDA_ADDRESS_FREE] = {.ends = MP_LIVE_RESERVATION, .unknown = MP_BOOK_ADDRESSES},
    [MP_CUDA_VMM_CREATE] = {.exit = exit_vmm_create},
    [MP_CUDA_VMM_RELEASE] = {.enter = enter_vmm_release, .exit = exit_vmm_release, .unknown = MP_BOOK_DEVICE},
    [MP_CUDA_VMM_MAP] = {.exit = exit_vmm_map},
    [MP_CUDA_VMM_UNMAP] = {.enter = enter_vmm_unmap, .exit = exit_vmm_unmap, .unknown = MP_BOOK_MAPPED},
    [MP_CUDA_VMM_IMPORT] = {.exit = exit_vmm_import},
    [MP_CUDA_VMM_RETAIN] = {.exit = exit_vmm_retain, .asks = true},
    [MP_CUDA_MULTICAST_CREATE] = {.begins = {MP_LIVE_MULTICAST, MP_BOOK_MULTICAST, MP_KIND_HANDLE, .stays = true}},
    [MP_CUDA_MULTICAST_BIND] = {.exit = exit_multicast_bind},
    [MP_CUDA_MULTICAST_UNBIND] = {.enter = enter_multicast_unbind, .exit = exit_multicast_unbind},
    [MP_CUDA_ARRAY_CREATE] = {.exit = exit_array_create},
    [MP_CUDA_ARRAY3D_CREATE] = {.exit = exit_array3d_create},
    [MP_CUDA_ARRAY_DESTROY] = {.ends = MP_LIVE_ARRAY, .unknown = MP_BOOK_DEVICE},
    [MP_CUDA_MIPMAP_CREATE] = {.exit = exit_mipmap_create},
    [MP_CUDA_MIPMAP_DESTROY] = {.ends = MP_LIVE_MIPMAP, .unknown = MP_BOOK_DEVICE},
    [MP_CUDA_IPC_OPEN] = {.exit = exit_ipc_open},
    [MP_CUDA_IPC_CLOSE] = {.enter = enter_ipc_close, .exit = exit_ipc_close, .unknown = MP_BOOK_IMPORTED},
    [MP_CUDA_EXTERNAL_IMPORT] = {.exit = exit_external_import},
    [MP_CUDA_EXTERNAL_BUFFER] = {.exit = exit_external_buffer},
    [MP_CUDA_EXTERNAL_MIPMAP] = {.exit = exit_external_mipmap},
    [MP_CUDA_EXTERNAL_DESTROY] = {.ends = MP_LIVE_EXTERNAL, .unknown = MP_BOOK_IMPORTED},
    [MP_CUDA_CAPTURE_BEGIN] = {.exit = exit_capture_begin},
    [MP_CUDA_CAPTURE_END] = {.exit = exit_capture_end},
    [MP_CUDA_GRAPH_CREATE] = {.begins = {MP_LIVE_GRAPH, MP_BOOK_GRAPHS, MP_KIND_HANDLE, .stays = true}},
    [MP_CUDA_GRAPH_CLONE] = {.begins = {MP_LIVE_GRAPH, MP_BOOK_GRAPHS, MP_KIND_HANDLE, .stays = true}},
    [MP_CUDA_GRAPH_DESTROY] = {.enter = enter_graph_destroy, .unknown = MP_BOOK_GRAPHS},
    [MP_CUDA_GRAPH_ALLOC_NODE] = {.exit = exit_graph_alloc_node},
    [MP_CUDA_GRAPH_FREE_NODE] = {.exit = exit_graph_free_node},
    [MP_CUDA_GRAPH_NODE] = {.exit = exit_graph_node},
    [MP_CUDA_GRAPH_NODE_V2] = {.exit = exit_graph_node_v2},
    [MP_CUDA_GRAPH_INSTANTIATE] = {.exit = exit_graph_instantiate},
    [MP_CUDA_GRAPH_EXEC_DESTROY] = {.enter = enter_exec_destroy, .unknown = MP_BOOK_EXECUTABLES},
    [MP_CUDA_GRAPH_LAUNCH] = {.exit = exit_graph_launch},
    [MP_CUDA_GRAPH_ATTRIBUTE] = {.exit = exit_graph_attribute, .asks = true},
    [MP_CUDA_CONTEXT_CREATE] = {.exit = exit_context_create},
    [MP_CUDA_CONTEXT_CREATE_V3] = {.exit = exit_context_create_v3},
    [MP_CUDA_CONTEXT_CREATE_V4] = {.exit = exit_context_create_v4},
    [MP_CUDA_CONTEXT_DESTROY] = {.exit = exit_context_destroy},
    [MP_CUDA_PRIMARY_RETAIN] = {.exit = exit_primary_retain},
    [MP_CUDA_PRIMARY_RELEASE] = {.exit = exit_primary_release},
    [MP_CUDA_PRIMARY_RESET] = {.exit = exit_primary_reset},
    [MP_CUDA_MODULE_LOAD] = {.begins = {MP_LIVE_MODULE, MP_BOOK_MODULES, MP_KIND_HANDLE}, .exit = exit_code_load},
    [MP_CUDA_MODULE_UNLOAD] = {.ends = MP_LIVE_MODULE, .unknown = MP_BOOK_MODULES},
    [MP_CUDA_LIBRARY_LOAD] = {.begins = {MP_LIVE_LIBRARY, MP_BOOK_LIBRARIES, MP_KIND_HANDLE, .stays = true},
                              .exit = exit_code_load},
    [MP_CUDA_LIBRARY_UNLOAD] = {.ends = MP_LIVE_LIBRARY, .unknown = MP_BOOK_LIBRARIES},
    [MP_CUDA_STREAM_CREATE] = {.begins = {MP_LIVE_STREAM, MP_BOOK_STREAMS, MP_KIND_HANDLE}},
    [MP_CUDA_STREAM_DESTROY] = {.ends = MP_LIVE_STREAM, .unknown = MP_BOOK_STREAMS},
    [MP_CUDA_EVENT_CREATE] = {.begins = {MP_LIVE_EVENT, MP_BOOK_EVENTS, MP_KIND_HANDLE}},
    [MP_CUDA_EVENT_DESTROY] = {.ends = MP_LIVE_EVENT, .unknown = MP_BOOK_EVENTS},
    [MP_CUDA_DEVICE_UUID] = {.exit = exit_device_uuid, .asks = true},
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
        cuda_end_value(&event, action->ends, first_argument(&event));
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
        cuda_pool_holds(event, facts->pool, facts->pool_bytes);
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
    if (result != MP_CU_SUCCESS) cuda_take_back(&event);
    if (!action->asks && is_worth_a_mark(result)) mark_failure(&event);
    mp_hook_leave(thread);
}
