/* The machine: its devices, their addresses and free memory. Under soft_lock. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "softgpu/cuda_types.h"
#include "softgpu/driver/driver.h"
#include "softgpu/state.h"

struct soft_device {
    int physical; /* ordinal without CUDA_VISIBLE_DEVICES */
    uint64_t total, used;
    CUcontext primary;
    unsigned retained;
    CUmemoryPool default_pool, current_pool;
    uint64_t graph_used, graph_used_high, graph_reserved, graph_reserved_high;
};

extern struct soft_device soft_devices[SOFT_DEVICES];
extern int soft_device_count;

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
