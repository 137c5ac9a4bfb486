/* Memory that the driver takes for itself. Under soft_lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softgpu/driver/driver.h"

const char *soft_share_name(enum soft_share share);
uint64_t soft_share_reserved(int device, enum soft_share share);
bool soft_share_take(int device, enum soft_share share, uint64_t bytes);
void soft_share_give(int device, enum soft_share share, uint64_t bytes);

/* Called when the device's primary context has ended, and the driver's share with it. */
void soft_share_end(int device);

/* Loads a kernel unless it is loaded. False: there is no memory. */
bool soft_share_launch(const void *function);
