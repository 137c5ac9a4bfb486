/* The rows of driver_calls.h as data. Never allocates; used in libmemprof.so and in libmemprof-hooks.so. */
#ifndef MP_CAPTURE_CUDA_CALLS_H
#define MP_CAPTURE_CUDA_CALLS_H

#include <stdbool.h>

#include "capture/cuda/driver_calls.h"

struct mp_cuda_call {
    const char *symbol, *name; /* what libcuda exports; what cuGetProcAddress is asked for */
    int version;
    bool per_thread;
    unsigned cbid;
    enum mp_cuda_action action;
};
extern const struct mp_cuda_call mp_cuda_calls[MP_CUDA_CALL_COUNT];

/* Code has variables, which only CUPTI's records report. */
static inline bool mp_cuda_loads_code(enum mp_cuda_action action)
{
    return action == MP_CUDA_MODULE_LOAD || action == MP_CUDA_LIBRARY_LOAD;
}

/* Perhaps the current one. */
static inline bool mp_cuda_ends_context(enum mp_cuda_action action)
{
    return action == MP_CUDA_CONTEXT_DESTROY || action == MP_CUDA_PRIMARY_RELEASE || action == MP_CUDA_PRIMARY_RESET;
}

#endif
