/* The figures of a device that a profile gives: names, occupancy, attributes, the sizes of shares. Under soft_lock. */
#pragma once

#include <stdint.h>

#include "softgpu/driver/code.h"
#include "softgpu/driver/driver.h"

/* ---- the devices' properties (profile.c) ---- */
void soft_read_profile(void);
const char *soft_profile_name(void);

/* How many blocks of so many threads run at once on a multiprocessor; each has that kernel's needs, and `shared` bytes
 * of dynamic shared memory. */
int soft_occupancy(const struct soft_code *code, int threads, uint64_t shared);
int soft_attribute(int attribute, int physical);
int soft_capability(void); /* 90 means 9.0 */
uint64_t soft_profile_share(enum soft_profile_share which);
