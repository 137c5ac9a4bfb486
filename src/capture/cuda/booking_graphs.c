/* Graphs and their memory. The memory of each graph, and of each capture, has a number of its own. A graph's handle is
 * no key: a new graph may get it while executables of the earlier graph still hold memory. */
#include "capture/cuda/booking_parts.h"

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
    mp_cuda_begin_entry(event, &memory);
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
    mp_cuda_begin_entry(event, &entry);
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

void mp_exit_graph_instantiate(struct mp_cuda_event *event)
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

void mp_enter_graph_destroy(struct mp_cuda_event *event)
{
    end_holder(event, MP_LIVE_GRAPH);
}

void mp_enter_exec_destroy(struct mp_cuda_event *event)
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

void mp_cuda_add_alloc_node(struct mp_cuda_event *event, uint64_t number, uint64_t address, uint64_t bytes, int device)
{
    struct mp_live node = new_node(number, address, ALLOCATES);
    struct mp_live known = {.value = address, .class = MP_LIVE_NODE_ADDRESS};
    node.bytes = bytes;
    node.device = (int16_t)(device < 0 ? 0 : device);
    node.book = MP_BOOK_NODES;
    node.kind = MP_KIND_GRAPH;
    mp_cuda_begin_entry(event, &known);
    mp_cuda_begin_entry(event, &node);
}

static void add_free_node(struct mp_cuda_event *event, uint64_t number, uint64_t address)
{
    struct mp_live node = new_node(number, address, FREES);
    mp_cuda_begin_entry(event, &node);
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
        mp_cuda_refused(event, MP_BOOK_NODES, device, node->bytesize);
    else
        mp_cuda_add_alloc_node(event, number_for_node(event, graph), node->dptr, node->bytesize, device);
}

void mp_exit_graph_alloc_node(struct mp_cuda_event *event)
{
    const struct mp_params_cuGraphAddMemAllocNode *a = event->arguments;
    if (a->nodeParams) alloc_node_added(event, a->hGraph, a->nodeParams);
}

void mp_exit_graph_free_node(struct mp_cuda_event *event)
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

void mp_exit_graph_node(struct mp_cuda_event *event)
{
    const struct mp_params_cuGraphAddNode *a = event->arguments;
    add_node(event, a->hGraph, a->nodeParams);
}

void mp_exit_graph_node_v2(struct mp_cuda_event *event)
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
void mp_exit_graph_launch(struct mp_cuda_event *event)
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
        mp_cuda_begin_entry(event, &block);
    }
}

/* The program itself asked how much memory its graphs hold: books the answer. */
void mp_exit_graph_attribute(struct mp_cuda_event *event)
{
    const struct mp_params_cuDeviceGetGraphMemAttribute *a = event->arguments;
    if (mp_cuda_succeeded(event) && a->attr == MP_CU_GRAPH_MEM_RESERVED_CURRENT && a->value)
        mp_book_graphs_hold(event->thread, a->device, *(const uint64_t *)a->value);
}

/* ---- captures ---------------------------------------------------------------------------------------------------- */

void mp_exit_capture_begin(struct mp_cuda_event *event)
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
    mp_cuda_begin_entry(event, &capture);
    atomic_store(&last_capture, number);
}

/* The graph takes over the capture's memory. */
void mp_exit_capture_end(struct mp_cuda_event *event)
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

uint64_t mp_cuda_capture_of(const struct mp_cuda_event *event, mp_cu_handle stream)
{
    struct mp_live capture;
    int facts = event->facts ? event->facts->capturing : MP_NOT_KNOWN;
    if (facts == 0) return 0;
    if (mp_live_find(MP_LIVE_CAPTURE, (uint64_t)(uintptr_t)stream, &capture)) return capture.other;
    /* Another stream joined a capture. We do not know which one; most often it is the one that began last. */
    return facts == 1 ? atomic_load(&last_capture) : 0;
}

/* While its stream captures, a free adds a node instead of freeing. */
void mp_enter_free_async(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemFreeAsync *a = event->arguments;
    if (!mp_cuda_capture_of(event, a->hStream)) mp_cuda_end_value(event, MP_LIVE_MEMORY, a->dptr);
}

void mp_exit_free_async(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemFreeAsync *a = event->arguments;
    struct mp_live known;
    uint64_t captured = mp_cuda_capture_of(event, a->hStream);
    if (!captured && event->visit->unknown && mp_live_find(MP_LIVE_NODE_ADDRESS, a->dptr, &known))
        captured = atomic_load(&last_capture);
    if (!captured || !mp_cuda_succeeded(event)) return;
    event->visit->unknown = false;
    add_free_node(event, captured, a->dptr);
}
