/* The GPUs that `memprof plan` knows, from the stand-ins' file `devices`, or from a file of the user. */
#pragma once

#include <stdint.h>

#include "base/error.h"

struct mp_plan_device {
    char key[64]; /* "h100-80gb"; if only bytes were given, the user's text */
    char name[128], source[256];
    uint64_t total, context;           /* bytes of the device, and the part of them that its context and kernels take */
    uint64_t graph_node, cublas, nccl; /* bytes that the driver takes for a graph's kernel, cuBLAS, a communicator */
    uint64_t multicast;                /* granularity of memory that multicast objects share; 0: the device has none */
    unsigned cc, sms, l2, local_threads; /* local_threads: threads of a multiprocessor that have local memory; 0: all */
};

/* Finds the device `wanted`: a name, a file, or a number of bytes (an H100 of that size). `folder` is that of the
 * stand-ins. The error about an unknown name lists the known ones. */
enum mp_status mp_plan_device_find(const char *folder, const char *wanted, struct mp_plan_device *device,
                                   struct mp_error *error);
