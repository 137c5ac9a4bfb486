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

#endif
