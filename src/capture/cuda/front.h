/*
 * The wrappers of libmemprof-hooks.so, which programs always call. They record the driver's calls if CUPTI does not
 * (mp_cuda_front). While CUPTI records, they only watch, so that no call is lost if CUPTI is released in the middle.
 */
#pragma once

#include "capture/cuda/booking.h"

/* One call through a wrapper. */
struct mp_hook_call {
    enum mp_cuda_call_id id;
    const void *arguments;
    uint32_t enters_before, exits_before;
    bool watched; /* CUPTI records this call; the wrapper only watches */
    struct mp_cuda_visit visit;
};

/* The interface that libmemprof-hooks.so gets from memprof_cuda_v1(). If the two libraries are of different builds, the
 * hooks do nothing. */
#define MP_CUDA_HOOKS_VERSION 1
struct mp_cuda_hooks {
    uint32_t size, version, call_bytes, calls;
    /* Called before the driver runs the call. False: nothing is recorded, and after() must not be called. */
    bool (*before)(struct mp_hook_call *call);
    /* Called when the call has returned. Keeps errno. */
    void (*after)(struct mp_hook_call *call, int result, const struct mp_cuda_facts *facts);
    /* Sets a device's UUID, in the driver's form. */
    void (*device)(int ordinal, const struct mp_cu_uuid *uuid);
};
/* Called by the hooks' library. From then on stacks leave that library's frames out. */
const struct mp_cuda_hooks *memprof_cuda_v1(void);

extern const struct mp_front mp_cuda_front_end;
