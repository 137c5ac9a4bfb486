/* Streams, and captures on them. Under soft_lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softgpu/cuda_types.h"

bool soft_is_stream(CUstream stream);

/* The graph into which the stream captures; NULL: the stream does not capture. */
CUgraph soft_capturing(CUstream stream);
uint32_t soft_stream_id(CUstream stream);

/* Adds a node of that type for an operation on the stream, if the stream is capturing (stream.c). */
void soft_capture(CUstream stream, int type);
