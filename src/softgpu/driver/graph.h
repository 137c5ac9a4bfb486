/* Graphs, and memory that their nodes allocate. Under soft_lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "softgpu/cuda_types.h"
#include "softgpu/driver/ledger.h"

/* ---- graphs (graph.c) ---- */
CUresult soft_capture_alloc(CUgraph graph, int device, CUdeviceptr *address, size_t bytes);
CUresult soft_capture_free(CUgraph graph, CUdeviceptr address);

/* Makes a node without memory in the graph. */
CUgraphNode soft_new_step(CUgraph graph, int type, const CUgraphNode *dependencies, size_t count);
CUgraph soft_new_graph(void);
bool soft_is_graph(CUgraph graph);

/* Called when the program itself frees a block that a launch of a graph allocated. */
void soft_free_graph_block(struct soft_block *block);
