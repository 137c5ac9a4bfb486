/* The bytes of an array, or of a mipmap with that many levels, from its description. Never allocates. */
#pragma once

#include "capture/cuda/driver_abi.h"

uint64_t mp_cuda_array_bytes(const struct mp_cu_array3d *array, unsigned levels);
