/* Lets the other stand-ins find functions of the stand-in driver that are no part of CUDA (softgpu.h). Needs -ldl. */
#pragma once

#include <dlfcn.h>
#include <string.h>

/* Sets `pointer` to the function `name`, or to NULL if the process has no stand-in driver. */
#define SOFT_DRIVER_FUNCTION(pointer, name)                                                                            \
    do {                                                                                                               \
        void *driver_ = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL),                                                \
             *found_ = driver_ ? dlsym(driver_, name) : NULL;                                                          \
        memcpy(&(pointer), &found_, sizeof found_);                                                                    \
    } while (0)

/* Called by a library's function that computes on `stream`: the driver counts a kernel. Some programs use the library
 * without a driver. */
static inline void soft_library_launch(void *stream)
{
    static int (*launch)(void *stream);
    if (!launch) SOFT_DRIVER_FUNCTION(launch, "softgpu_launch");
    if (launch) (void)launch(stream);
}
