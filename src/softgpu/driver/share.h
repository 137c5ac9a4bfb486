/* Memory that the driver takes for itself. Under soft_lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softgpu/driver/driver.h"

enum soft_share {
    SOFT_SHARE_KERNELS,
    SOFT_SHARE_LOCAL,
    SOFT_SHARE_GRAPHS,
    SOFT_SHARE_CUBLAS,
    SOFT_SHARE_NCCL,
    SOFT_SHARES
};

bool soft_share_take(int device, enum soft_share share, uint64_t bytes);
void soft_share_give(int device, enum soft_share share, uint64_t bytes);

/* Called when the device's primary context has ended, and the driver's share with it. */
void soft_share_end(int device);

/* Loads a kernel unless it is loaded. False: there is no memory. */
bool soft_share_launch(const void *function);

/* Take what a library takes of the current device: cuBLAS at its first kernel there, NCCL for each communicator. False:
 * there is no memory. */
bool soft_share_cublas(void);
bool soft_share_nccl(void);
