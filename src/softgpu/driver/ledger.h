/* The ledger of all memory and handles that the stand-in driver has given out. Under soft_lock. */
#pragma once

#include <stdint.h>

#include "softgpu/cuda_types.h"
#include "softgpu/driver/driver.h"
#include "softgpu/softgpu.h"

struct soft_block {
    struct soft_block *next; /* in the same hash bucket */
    enum soft_class class;
    int device; /* ordinal; -1: host memory */
    uint64_t address, bytes;
    CUcontext context; /* the context with which it ends; NULL: none */
    void *more;        /* data of the class, allocated by malloc(), freed with the block */
};

struct soft_block *soft_add(enum soft_class class, int device, uint64_t address, uint64_t bytes, CUcontext context);
struct soft_block *soft_find(enum soft_class class, uint64_t address);

/* A block at that address, of any class with the same address space as `like`. */
struct soft_block *soft_find_like(enum soft_class like, uint64_t address);
void soft_remove(struct soft_block *block);
void soft_refused(enum soft_class class, int device, uint64_t bytes);
void soft_pool_holds(enum soft_class class, int device, uint64_t address, uint64_t bytes);

/* Calls `visit` for each block; `visit` may remove that block. */
void soft_each(void (*visit)(struct soft_block *block, void *context), void *context);
void soft_open_ledger(void);
