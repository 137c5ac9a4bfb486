/* Contexts. Under soft_lock. */
#pragma once

#include "softgpu/cuda_types.h"
#include "softgpu/driver/driver.h"

/* The thread's current context, if it is live; else NULL. */
CUcontext soft_current(void);

/* Removes a block whose context or module ends, and frees its memory as its class requires. */
void soft_destroy(struct soft_block *block);
