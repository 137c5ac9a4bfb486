/*
 * Internals of the stand-in driver. Every function of the driver API is an ENTRY; the functions declared here compute
 * its answer, under one lock. The code is written to be exact, not fast.
 */
#pragma once

#include <pthread.h>
#include <stdbool.h>

#include "softgpu/driver_calls.h"
#include "softgpu/softgpu.h"
#include "softgpu/state.h"
#include "softgpu/tool.h"

#define SOFT_GRANULE       ((uint64_t)2 << 20) /* physical memory and pools are multiples of it */
#define SOFT_HOST          (-1)
#define SOFT_BLOCK_THREADS 1024 /* most threads of a block */

struct soft_code;

/* ---- the ledger (ledger.c) ---- */
struct soft_block {
    struct soft_block *next; /* in the same hash bucket */
    enum soft_class class;
    int device; /* ordinal; -1: host memory */
    uint64_t address, bytes;
    CUcontext context; /* the context with which it ends; NULL: none */
    void *more;        /* data of the class, allocated by malloc(), freed with the block */
};

/* ---- the machine (device.c) ---- */
struct soft_device {
    int physical; /* ordinal without CUDA_VISIBLE_DEVICES */
    uint64_t total, used;
    CUcontext primary;
    unsigned retained;
    CUmemoryPool default_pool, current_pool;
    uint64_t graph_used, graph_used_high, graph_reserved, graph_reserved_high;
};

extern pthread_mutex_t soft_lock;
extern struct soft_device soft_devices[SOFT_DEVICES];
extern int soft_device_count;

static inline uint64_t soft_round(uint64_t bytes, uint64_t to)
{
    return (bytes + to - 1) / to * to;
}

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

/* ---- memory that the driver takes for itself (share.c) ---- */
enum soft_share {
    SOFT_SHARE_KERNELS,
    SOFT_SHARE_LOCAL,
    SOFT_SHARE_GRAPHS,
    SOFT_SHARE_CUBLAS,
    SOFT_SHARE_NCCL,
    SOFT_SHARES
};

/* ---- contexts and streams (context.c, stream.c) ---- */
struct CUctx_st {
    uint32_t uid;
    int device;
    bool alive, primary;
};

struct soft_nodes {
    CUgraphNode *nodes; /* owned */
    size_t count;
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
