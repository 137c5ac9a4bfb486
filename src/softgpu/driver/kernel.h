/* Kernels that run. Under soft_lock. */
#pragma once

#include "softgpu/cuda_types.h"

/* ---- the contents of device memory (values.c) ---- */
/* Called when any kernel ran on the stream, of the program or of a library: it is a node of a captured graph, and
 * device memory may no longer have what the program copied there (kernel.c). */
void soft_kernel_ran(CUstream stream);
