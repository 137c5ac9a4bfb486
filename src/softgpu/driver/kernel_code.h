/* The kernels that a program launches, and the code of each. Under soft_lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softgpu/driver/code.h"

/* A function that was passed to a launch: a kernel of a module, or one that a runtime registered. */
struct soft_kernel {
    const void *function;
    struct soft_code code;
    uint32_t loaded;   /* for share.c: the devices on which it is loaded, one bit each */
    bool known, whole; /* `code` is known; as a whole */
};
/* Finds or makes the kernel, and describes its code. It stays until the next call, the code until soft_code_forget().
 * If a library has no code for the device, stderr says so, once for each library. */
struct soft_kernel *soft_kernel_of(const void *function, bool whole);
/* The handle of a module or library that the program loaded: each kernel of it has this code. */
void soft_kernel_is(const void *handle, const struct soft_code *code);
/* Forgets a kernel's handle, since another kernel may get the same one. */
void soft_code_forget(const void *function);
/* Forgets that kernels are loaded on a device. */
void soft_code_unload(int device);
