/* Kernels that programs register with the stand-in runtime. */
#pragma once

#include <stdbool.h>

#include "softgpu/runtime/runtime.h"

void softrt_register_kernel(const void *function, const char *name, const void *wrapper);

/* Finds a registered kernel. False: no code registered it; `kernel` then has no name. Any thread. `derive`, unless it
 * is NULL, fills in the facts that follow from the name; it is called once for each kernel, under a lock. */
bool softrt_find_kernel(const void *function, void (*derive)(struct softrt_kernel *kernel),
                        struct softrt_kernel *kernel);

/* Lets the driver ask for the code of kernels. Called once. */
void softrt_offer_images(void);
