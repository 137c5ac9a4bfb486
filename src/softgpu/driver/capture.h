/* Captures on streams, and events. Under soft_lock. */
#pragma once

#include "softgpu/cuda_types.h"

/* Adds a node of that type for an operation on the stream, if the stream is capturing. */
void soft_capture(CUstream stream, int type);
