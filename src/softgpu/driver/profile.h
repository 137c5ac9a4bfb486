/* The figures of a device that a profile gives: names, occupancy, attributes, the sizes of shares. Under soft_lock. */
#pragma once

#include <stdint.h>

#include "softgpu/driver/code.h"
#include "softgpu/driver/driver.h"

/* Numbers of the profile; 0: not modelled. Most are bytes that the driver and the libraries take. The first is a
 * switch, the second a number of threads that have local memory. The last is the granularity of memory that multicast
 * objects share; 0: the device has none. */
enum soft_profile_share {
    SOFT_PROFILE_KERNELS,
    SOFT_PROFILE_LOCAL_THREADS,
    SOFT_PROFILE_GRAPH_NODE,
    SOFT_PROFILE_CUBLAS,
    SOFT_PROFILE_NCCL,
    SOFT_PROFILE_MULTICAST
};

void soft_read_profile(void);
const char *soft_profile_name(void);

/* How many blocks of so many threads run at once on a multiprocessor; each has that kernel's needs, and `shared` bytes
 * of dynamic shared memory. */
int soft_occupancy(const struct soft_code *code, int threads, uint64_t shared);
int soft_attribute(int attribute, int physical);
int soft_capability(void); /* 90 means 9.0 */
uint64_t soft_profile_share(enum soft_profile_share which);
