/* Arrays. Under soft_lock. */
#pragma once

#include <stdint.h>

#include "softgpu/cuda_types.h"
#include "softgpu/driver/ledger.h"

uint64_t soft_array_bytes(const CUDA_ARRAY3D_DESCRIPTOR *descriptor, unsigned levels);
void soft_free_array(struct soft_block *block);
