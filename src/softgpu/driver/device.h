/* The machine: its devices, their addresses and free memory. Under soft_lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softgpu/cuda_types.h"
#include "softgpu/softgpu.h"

bool soft_has_device(CUdevice device);

/* Takes `bytes` of a device's physical memory. False: the device is full, or the test makes the call fail. The ledger
 * then gets a refusal of `asked` bytes. */
bool soft_take(enum soft_class class, int device, uint64_t bytes, uint64_t asked);
void soft_give(int device, uint64_t bytes);

/* Return addresses of the devices' range. The second function's addresses are below 4 GiB, for the calls of CUDA 2. */
uint64_t soft_new_address(uint64_t bytes);
uint64_t soft_new_low_address(uint64_t bytes);
void soft_free_address(uint64_t address, uint64_t bytes);
bool soft_is_device_address(uint64_t address);
