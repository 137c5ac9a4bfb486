/* The GPUs that `memprof plan` knows, from the stand-ins' file `devices`, or from a file of the user. */
#pragma once

#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"

struct mp_plan_device {
    char key[64]; /* "h100-80gb"; if only bytes were given, the user's text */
    char name[128], also[128], source[512];
    uint64_t total, context;           /* bytes of the device, and the part of them that its context takes */
    uint64_t graph_node, cublas, nccl; /* bytes that the driver takes for a graph's kernel, cuBLAS, a communicator */
    uint64_t cudnn;                    /* workspace of a convolution; 0: unknown */
    uint64_t multicast;                /* granularity of memory that multicast objects share; 0: the device has none */
    uint64_t cc, sms, l2, local_threads; /* local_threads: threads of a multiprocessor that have local memory; 0: all */
};

/* Finds the device `wanted`: a name, a file, or a number of bytes (an H100 of that size). `folder` is that of the
 * stand-ins. The error about an unknown name has the nearest names. */
enum mp_status mp_plan_device_find(const char *folder, const char *wanted, struct mp_plan_device *device,
                                   struct mp_error *error);
/* True if no such device was read: its total is reckoned. */
bool mp_plan_device_is_estimate(const struct mp_plan_device *device);
/* Appends $SOFTGPU_PROFILE's text of the device, which ends with a NUL. */
void mp_plan_device_profile(const struct mp_plan_device *device, struct mp_buffer *text);
/* Prints all devices of the list: names, totals, and where these come from. */
enum mp_status mp_plan_devices_print(const char *folder, struct mp_error *error);
