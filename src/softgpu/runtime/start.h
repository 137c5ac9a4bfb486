/* The start of the stand-in runtime, and its link to the driver. */
#pragma once

#include <stdbool.h>

#include "softgpu/runtime/types.h"

/* Makes sure that the driver was found and cuInit() succeeded. */
cudaError_t softrt_initialized(void);

/* Makes sure that the thread's device is current and its primary context exists. */
cudaError_t softrt_ready(void);
bool softrt_has_device(int device);

/* The driver's function of that name for a version, from cuGetProcAddress(); NULL: there is none. */
void *softrt_find(const char *name, int version);

/* Sets the next result of cudaGetLastError(); returns `error`. */
cudaError_t softrt_keep(cudaError_t error);
