/*
 * Internals of the stand-in driver. Every function of the driver API is an ENTRY; the functions declared here compute
 * its answer, under one lock. The code is written to be exact, not fast.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "softgpu/driver_calls.h"
#include "softgpu/softgpu.h"
#include "softgpu/tool.h"

#define EXPORTED __attribute__((visibility("default")))

#define SOFT_GRANULE       ((uint64_t)2 << 20) /* physical memory and pools are multiples of it */
#define SOFT_HOST          (-1)
#define SOFT_BLOCK_THREADS 1024 /* most threads of a block */

extern pthread_mutex_t soft_lock;

static inline uint64_t soft_round(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

struct CUctx_st {
    uint32_t uid;
    int device;
    bool alive, primary;
};

enum { SOFT_MEMORY_ALLOCATION = 1, SOFT_MEMORY_RELEASE = 2 };

/* CUpti_ActivityMemoryKind */
enum {
    SOFT_MEMORY_PINNED = 2,
    SOFT_MEMORY_DEVICE = 3,
    SOFT_MEMORY_ARRAY = 4,
    SOFT_MEMORY_MANAGED = 5,
    SOFT_MEMORY_STATIC = 6,
    SOFT_MEMORY_MANAGED_STATIC = 7
};
