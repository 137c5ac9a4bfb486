/* The values that memory of the stand-in GPU has. Under soft_lock. */
#pragma once

#include <stdint.h>

#include "softgpu/cuda_types.h"

/* Called when kernels ran: they may have changed any device memory. */
void soft_values_changed(void);

/* Copies between addresses of the device and of the host. A value that the host reads from a device is known or made
 * up.
 */
CUresult soft_copy(uint64_t to, uint64_t from, uint64_t bytes);

/* Sets `count` elements of `width` bytes. */
CUresult soft_set(uint64_t to, unsigned value, unsigned width, uint64_t count);
