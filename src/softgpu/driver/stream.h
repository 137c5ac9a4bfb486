/* Streams. Under soft_lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "softgpu/cuda_types.h"

struct soft_nodes {
    CUgraphNode *nodes; /* owned */
    size_t count;
};

struct CUstream_st {
    uint32_t id;
    int priority;
    CUgraph capturing;
    unsigned long long capture; /* its number */
    struct soft_nodes last;     /* nodes on which the stream's next operation depends */
};

bool soft_is_stream(CUstream stream);

/* The graph into which the stream captures; NULL: the stream does not capture. */
CUgraph soft_capturing(CUstream stream);
uint32_t soft_stream_id(CUstream stream);
