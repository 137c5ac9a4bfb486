/*
 * Graphs, as far as they concern memory. An allocation node reserves an address when it is added (or captured). A
 * launch gives it memory from the device's graph pool; a free node or the program takes that memory back. Nodes live as
 * long as their graph, or an executable made from it.
 */
#include "softgpu/driver/graph.h"
#include "softgpu/driver/call.h"
#include "softgpu/driver/current.h"
#include "softgpu/driver/device.h"
#include "softgpu/driver/driver.h"
#include "softgpu/driver/ledger.h"
#include "softgpu/driver/profile.h"
#include "softgpu/driver/share.h"
#include "softgpu/driver/stream.h"
#include "softgpu/driver/values.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct node {
    unsigned holders; /* number of holders: the graph and its executables */
    bool frees;
    int device;
    uint64_t address, bytes;
};

struct node_list {
    struct node **nodes;
    size_t count;
};

/* A node without memory, and the nodes on which it depends. */
struct step {
    struct step *next; /* next step of the same graph */
    int type;          /* CU_GRAPH_NODE_TYPE_* */
    size_t count;
    CUgraphNode dependencies[];
};

struct CUgraph_st {
    struct node_list list;
    struct step *steps;
    unsigned kernels; /* kernels launched while it was captured */
};

struct CUgraphExec_st {
    struct node_list list;
    bool frees_on_launch;
    int device;
    uint64_t bytes; /* bytes that the driver keeps for it on the device */
};

static void hold(struct node_list *list, struct node *node)
{
    list->nodes = realloc(list->nodes, (list->count + 1) * sizeof(struct node *));
    if (!list->nodes) abort();
    list->nodes[list->count++] = node;
    node->holders++;
}

static void let_go(struct node_list *list)
{
    for (size_t i = 0; i < list->count; i++) {
        struct node *node = list->nodes[i];
        if (--node->holders) continue;
        struct soft_block *block = node->frees ? NULL : soft_find(SOFT_node, node->address);
        if (block) soft_remove(block);
        free(node);
    }
    free(list->nodes);
}

static struct node *new_node(CUgraph graph, bool frees, int device, uint64_t address, uint64_t bytes)
{
    struct node *node = calloc(1, sizeof *node);
    if (!node) abort();
    *node = (struct node){.frees = frees, .device = device, .address = address, .bytes = bytes};
    hold(&graph->list, node);
    return node;
}

CUgraphNode soft_new_step(CUgraph graph, int type, const CUgraphNode *dependencies, size_t count)
{
    struct step *step = malloc(sizeof *step + count * sizeof *dependencies);
    if (!step) abort();
    *step = (struct step){graph->steps, type, count};
    if (count) memcpy(step->dependencies, dependencies, count * sizeof *dependencies);
    graph->steps = step;
    graph->kernels += type == CU_GRAPH_NODE_TYPE_KERNEL;
    return (CUgraphNode)(void *)step;
}

static CUresult add_empty(CUgraphNode *to, CUgraph graph, const CUgraphNode *dependencies, size_t count)
{
    if (!soft_is_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    *to = soft_new_step(graph, CU_GRAPH_NODE_TYPE_EMPTY, dependencies, count);
    return CUDA_SUCCESS;
}

/* Called for nodes on which the streams of a capture depend. Memory nodes are never among these. */
static CUresult get_dependencies(CUgraphNode node, CUgraphNode *to, size_t *count)
{
    const struct step *step = (const void *)node;
    size_t room = to ? *count : 0;
    *count = to && room < step->count ? room : step->count;
    if (to) memcpy(to, step->dependencies, *count * sizeof *to);
    return CUDA_SUCCESS;
}

static CUresult get_type(CUgraphNode node, int *type)
{
    *type = ((const struct step *)(const void *)node)->type;
    return CUDA_SUCCESS;
}

/* The number of a graph's nodes. No caller asks for the nodes themselves. */
static CUresult get_nodes(CUgraph graph, CUgraphNode *nodes, size_t *count)
{
    if (!soft_is_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    if (nodes) return CUDA_ERROR_NOT_SUPPORTED;
    *count = graph->list.count;
    for (const struct step *step = graph->steps; step; step = step->next)
        ++*count;
    return CUDA_SUCCESS;
}

/* Nodes and edges, without NVIDIA's details. */
static CUresult print_dot(CUgraph graph, const char *path)
{
    if (!soft_is_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    FILE *file = fopen(path, "we");
    if (!file) return CUDA_ERROR_OPERATING_SYSTEM;
    fputs("digraph dot {\n", file);
    for (const struct step *step = graph->steps; step; step = step->next) {
        fprintf(file, "\"%p\" [label=\"%s\"];\n", (const void *)step,
                step->type == CU_GRAPH_NODE_TYPE_KERNEL ? "KERNEL" : "NODE");
        for (size_t i = 0; i < step->count; i++)
            fprintf(file, "\"%p\" -> \"%p\";\n", (void *)step->dependencies[i], (const void *)step);
    }
    fputs("}\n", file);
    return fclose(file) ? CUDA_ERROR_OPERATING_SYSTEM : CUDA_SUCCESS;
}

CUgraph soft_new_graph(void)
{
    CUgraph graph = calloc(1, sizeof *graph);
    if (!graph) abort();
    CUcontext context = soft_current();
    soft_add(SOFT_graph_handle, context ? context->device : 0, (uint64_t)(uintptr_t)graph, 0, NULL);
    return graph;
}

bool soft_is_graph(CUgraph graph)
{
    return soft_find(SOFT_graph_handle, (uint64_t)(uintptr_t)graph) != NULL;
}

static CUresult create(CUgraph *to)
{
    *to = soft_new_graph();
    return CUDA_SUCCESS;
}

static CUresult destroy(CUgraph graph)
{
    if (!soft_is_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    soft_remove(soft_find(SOFT_graph_handle, (uint64_t)(uintptr_t)graph));
    let_go(&graph->list);
    for (struct step *next; graph->steps; graph->steps = next) {
        next = graph->steps->next;
        free(graph->steps);
    }
    free(graph);
    return CUDA_SUCCESS;
}

/* Addresses of nodes are never reused, because a graph's block may outlive its graph. */
CUresult soft_capture_alloc(CUgraph graph, int device, CUdeviceptr *address, size_t bytes)
{
    if (soft_refusing()) {
        soft_refused(SOFT_node, device, bytes);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    *address = soft_new_address(bytes);
    new_node(graph, false, device, *address, bytes);
    soft_add(SOFT_node, device, *address, bytes, NULL);
    return CUDA_SUCCESS;
}

CUresult soft_capture_free(CUgraph graph, CUdeviceptr address)
{
    struct soft_block *block = soft_find(SOFT_node, address);
    if (!block) return CUDA_ERROR_INVALID_VALUE;
    new_node(graph, true, block->device, address, block->bytes);
    return CUDA_SUCCESS;
}

static CUresult add_alloc_node(CUgraphNode *to, CUgraph graph, CUDA_MEM_ALLOC_NODE_PARAMS *params)
{
    if (!soft_is_graph(graph) || !params || !params->bytesize || !soft_has_device(params->poolProps.location.id))
        return CUDA_ERROR_INVALID_VALUE;
    CUresult result = soft_capture_alloc(graph, params->poolProps.location.id, &params->dptr, params->bytesize);
    if (result == CUDA_SUCCESS) *to = (CUgraphNode)(void *)graph->list.nodes[graph->list.count - 1];
    return result;
}

static CUresult add_free_node(CUgraphNode *to, CUgraph graph, CUdeviceptr address)
{
    if (!soft_is_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    CUresult result = soft_capture_free(graph, address);
    if (result == CUDA_SUCCESS) *to = (CUgraphNode)(void *)graph->list.nodes[graph->list.count - 1];
    return result;
}

static CUresult add_node(CUgraphNode *to, CUgraph graph, CUgraphNodeParams *params)
{
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_ALLOC) return add_alloc_node(to, graph, &params->alloc);
    if (params && params->type == CU_GRAPH_NODE_TYPE_MEM_FREE) return add_free_node(to, graph, params->free.dptr);
    return CUDA_ERROR_NOT_SUPPORTED;
}

/* A graph with memory nodes cannot be cloned. */
static CUresult clone_graph(CUgraph *to, CUgraph graph)
{
    if (!soft_is_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    if (graph->list.count) return CUDA_ERROR_NOT_SUPPORTED;
    *to = soft_new_graph();
    return CUDA_SUCCESS;
}

static CUresult instantiate(CUgraphExec *to, CUgraph graph, unsigned long long flags)
{
    if (!to || !soft_is_graph(graph)) return CUDA_ERROR_INVALID_VALUE;
    CUgraphExec executable = calloc(1, sizeof *executable);
    if (!executable) abort();
    executable->frees_on_launch = flags & CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH;
    for (size_t i = 0; i < graph->list.count; i++)
        hold(&executable->list, graph->list.nodes[i]);
    CUcontext context = soft_current();
    executable->device = context ? context->device : 0;
    executable->bytes = graph->kernels * soft_profile_share(SOFT_PROFILE_GRAPH_NODE);
    if (executable->bytes && !soft_share_take(executable->device, SOFT_SHARE_GRAPHS, executable->bytes)) {
        let_go(&executable->list);
        free(executable);
        return CUDA_ERROR_OUT_OF_MEMORY;
    }
    soft_add(SOFT_graph_exec, executable->device, (uint64_t)(uintptr_t)executable, 0, NULL);
    *to = executable;
    return CUDA_SUCCESS;
}

static CUresult destroy_executable(CUgraphExec executable)
{
    struct soft_block *block = soft_find(SOFT_graph_exec, (uint64_t)(uintptr_t)executable);
    if (!block) return CUDA_ERROR_INVALID_VALUE;
    soft_remove(block);
    soft_share_give(executable->device, SOFT_SHARE_GRAPHS, executable->bytes);
    let_go(&executable->list);
    free(executable);
    return CUDA_SUCCESS;
}

static bool use(const struct node *node)
{
    struct soft_device *at = &soft_devices[node->device];
    uint64_t needed = soft_round(at->graph_used + node->bytes, SOFT_GRANULE);
    if (needed > at->graph_reserved) {
        if (!soft_take(SOFT_graph, node->device, needed - at->graph_reserved, node->bytes)) return false;
        at->graph_reserved = needed;
        if (needed > at->graph_reserved_high) at->graph_reserved_high = needed;
        soft_pool_holds(SOFT_graph, node->device, 0, needed);
    }
    at->graph_used += node->bytes;
    if (at->graph_used > at->graph_used_high) at->graph_used_high = at->graph_used;
    soft_add(SOFT_graph, node->device, node->address, node->bytes, NULL);
    return true;
}

void soft_free_graph_block(struct soft_block *block)
{
    soft_devices[block->device].graph_used -= block->bytes;
    soft_remove(block);
}

static CUresult launch(CUgraphExec executable, CUstream stream)
{
    if (!soft_find(SOFT_graph_exec, (uint64_t)(uintptr_t)executable)) return CUDA_ERROR_INVALID_VALUE;
    if (!soft_is_stream(stream)) return CUDA_ERROR_INVALID_HANDLE;
    const struct node_list *list = &executable->list;
    for (size_t i = 0; i < list->count; i++) {
        struct soft_block *live = soft_find(SOFT_graph, list->nodes[i]->address);
        if (!live || list->nodes[i]->frees) continue;
        if (!executable->frees_on_launch) return CUDA_ERROR_INVALID_VALUE; /* not freed since the previous launch */
        soft_free_graph_block(live);
    }
    for (size_t i = 0; i < list->count; i++) {
        struct soft_block *live = soft_find(SOFT_graph, list->nodes[i]->address);
        if (list->nodes[i]->frees && live)
            soft_free_graph_block(live);
        else if (!list->nodes[i]->frees && !use(list->nodes[i]))
            return CUDA_ERROR_OUT_OF_MEMORY;
    }
    soft_values_changed();
    return CUDA_SUCCESS;
}

static CUresult trim(CUdevice device)
{
    if (!soft_has_device(device)) return CUDA_ERROR_INVALID_DEVICE;
    struct soft_device *at = &soft_devices[device];
    uint64_t needed = soft_round(at->graph_used, SOFT_GRANULE);
    if (at->graph_reserved > needed) {
        soft_give(device, at->graph_reserved - needed);
        at->graph_reserved = needed;
        soft_pool_holds(SOFT_graph, device, 0, needed);
    }
    return CUDA_SUCCESS;
}

static CUresult attribute(CUdevice device, int which, void *value)
{
    if (!soft_has_device(device) || which < 0 || which > 3) return CUDA_ERROR_INVALID_VALUE;
    const struct soft_device *at = &soft_devices[device];
    const uint64_t values[] = {at->graph_used, at->graph_used_high, at->graph_reserved, at->graph_reserved_high};
    memcpy(value, &values[which], sizeof values[which]);
    return CUDA_SUCCESS;
}

ENTRY(cuGraphCreate, create(phGraph), (CUgraph *, phGraph), (unsigned, flags))
ENTRY(cuGraphDestroy, destroy(hGraph), (CUgraph, hGraph))
ENTRY(cuGraphAddMemAllocNode, add_alloc_node(phGraphNode, hGraph, nodeParams), (CUgraphNode *, phGraphNode),
      (CUgraph, hGraph), (const CUgraphNode *, dependencies), (size_t, numDependencies),
      (CUDA_MEM_ALLOC_NODE_PARAMS *, nodeParams))
ENTRY(cuGraphAddMemFreeNode, add_free_node(phGraphNode, hGraph, dptr), (CUgraphNode *, phGraphNode), (CUgraph, hGraph),
      (const CUgraphNode *, dependencies), (size_t, numDependencies), (CUdeviceptr, dptr))
ENTRY(cuGraphAddNode, add_node(phGraphNode, hGraph, nodeParams), (CUgraphNode *, phGraphNode), (CUgraph, hGraph),
      (const CUgraphNode *, dependencies), (size_t, numDependencies), (CUgraphNodeParams *, nodeParams))
ENTRY(cuGraphAddNode_v2, add_node(phGraphNode, hGraph, nodeParams), (CUgraphNode *, phGraphNode), (CUgraph, hGraph),
      (const CUgraphNode *, dependencies), (const void *, dependencyData), (size_t, numDependencies),
      (CUgraphNodeParams *, nodeParams))
ENTRY(cuGraphAddEmptyNode, add_empty(phGraphNode, hGraph, dependencies, numDependencies), (CUgraphNode *, phGraphNode),
      (CUgraph, hGraph), (const CUgraphNode *, dependencies), (size_t, numDependencies))
ENTRY(cuGraphNodeGetDependencies, get_dependencies(hNode, dependencies, numDependencies), (CUgraphNode, hNode),
      (CUgraphNode *, dependencies), (size_t *, numDependencies))
ENTRY(cuGraphGetNodes, get_nodes(hGraph, nodes, numNodes), (CUgraph, hGraph), (CUgraphNode *, nodes),
      (size_t *, numNodes))
ENTRY(cuGraphNodeGetType, get_type(hNode, type), (CUgraphNode, hNode), (int *, type))
ENTRY(cuGraphDebugDotPrint, print_dot(hGraph, path), (CUgraph, hGraph), (const char *, path), (unsigned, flags))
ENTRY(cuGraphClone, clone_graph(phGraphClone, originalGraph), (CUgraph *, phGraphClone), (CUgraph, originalGraph))
ENTRY(cuGraphInstantiate, instantiate(phGraphExec, hGraph, 0), (CUgraphExec *, phGraphExec), (CUgraph, hGraph),
      (CUgraphNode *, phErrorNode), (char *, logBuffer), (size_t, bufferSize))
ENTRY(cuGraphInstantiate_v2, instantiate(phGraphExec, hGraph, 0), (CUgraphExec *, phGraphExec), (CUgraph, hGraph),
      (CUgraphNode *, phErrorNode), (char *, logBuffer), (size_t, bufferSize))
ENTRY(cuGraphInstantiateWithFlags, instantiate(phGraphExec, hGraph, flags), (CUgraphExec *, phGraphExec),
      (CUgraph, hGraph), (unsigned long long, flags))
ENTRY_BOTH(cuGraphInstantiateWithParams, instantiate(phGraphExec, hGraph, instantiateParams->flags),
           (CUgraphExec *, phGraphExec), (CUgraph, hGraph), (CUDA_GRAPH_INSTANTIATE_PARAMS *, instantiateParams))
ENTRY_BOTH(cuGraphLaunch, launch(hGraphExec, hStream), (CUgraphExec, hGraphExec), (CUstream, hStream))
ENTRY(cuGraphExecDestroy, destroy_executable(hGraphExec), (CUgraphExec, hGraphExec))
ENTRY(cuDeviceGraphMemTrim, trim(device), (CUdevice, device))
ENTRY(cuDeviceGetGraphMemAttribute, attribute(device, attr, value), (CUdevice, device), (int, attr), (void *, value))
