/* How the other stand-ins find functions of the stand-in driver that are no part of CUDA (softgpu.h). Needs -ldl. */
#ifndef SOFTGPU_DRIVER_FUNCTION_H
#define SOFTGPU_DRIVER_FUNCTION_H

#include <dlfcn.h>
#include <string.h>

/* Sets the pointer to the function `name`; to NULL where the process has no such driver. */
#define SOFT_DRIVER_FUNCTION(pointer, name)                                                                            \
    do {                                                                                                               \
        void *driver_ = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL),                                                \
             *found_ = driver_ ? dlsym(driver_, name) : NULL;                                                          \
        memcpy(&(pointer), &found_, sizeof found_);                                                                    \
    } while (0)

#endif
