/*
 * Requests to a caching allocator, in order, and the allocator's state before the first one. They are made from a
 * model, for replays. A file with the allocator's own trace (PyTorch's snapshots) gives everything: streams, pools,
 * segments. Other recordings have only blocks, and PyTorch's history of them (analysis/sites/placement.h).
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "analysis/allocator/torch_allocator.h"
#include "analysis/sites/placement.h"
#include "base/map.h"
#include "model/model.h"

/* Calls of PyTorch's CUDA allocator that allocate nothing: emptied caches, private pools, limits, settings. The PyTorch
 * shim marks them in a recording (python/libmemprof_torch/pools.py). The driver may see none of these calls. Under
 * other settings they may release memory that they did not release in the recording. */
enum mp_torch_call {
    MP_TORCH_CALL_EMPTY,         /* torch.cuda.empty_cache(): on every device */
    MP_TORCH_CALL_POOL_MADE,     /* a MemPool was made, and holds its pool */
    MP_TORCH_CALL_POOL_BEGINS,   /* from here on, the pool may serve requests */
    MP_TORCH_CALL_POOL_ENDS,     /* the pool serves no more requests */
    MP_TORCH_CALL_POOL_RELEASED, /* the pool loses one user */
    MP_TORCH_CALL_POOL_DELETED,  /* a MemPool is deleted: the pool loses one user, and its cached memory is freed */
    MP_TORCH_CALL_CAPTURE,       /* a graph's capture begins */
    MP_TORCH_CALL_CAPTURED,      /* the capture ends; this call names its pool */
    MP_TORCH_CALL_CAPTURE_FAILS, /* the capture fails, and no call names its pool */
    MP_TORCH_CALL_LIMIT,         /* set_per_process_memory_fraction() */
    MP_TORCH_CALL_SETTINGS,      /* the program changes the allocator's settings */
    MP_TORCH_CALL_BEGAN,         /* the settings before the first MP_TORCH_CALL_SETTINGS; does nothing */
    MP_TORCH_CALLS
};

struct mp_torch_step {
    uint64_t address; /* at an out-of-memory: the device's free bytes, or MP_BYTES_UNKNOWN */
    uint64_t bytes;   /* requested bytes, or a segment's */
    uint64_t stream;
    uint32_t pool;  /* index in pools */
    uint32_t block; /* alloc, free: the model's block */
    uint32_t event; /* the model's event of an alloc, a completed free or an out-of-memory; else MP_NONE */
    uint8_t action; /* enum mp_torch_action, or MP_TORCH_CALL + enum mp_torch_call. For a call, `pool` is its argument,
                     * and `bytes` the index of its limit or change, or the pool's flags */
    bool put_back;  /* alloc: from a private pool that the program is not using. PyTorch restores the pool's state
                     * (torch.compile's graph trees): it allocates every block of its segments, and frees those that
                     * were free. */
    bool was_free;  /* alloc: a block that such a restoration frees at once */
};
#define MP_TORCH_CALL MP_TORCH_ACTIONS

/* A block that was live when the steps began. */
struct mp_torch_base {
    uint64_t address, requested;
    uint64_t bytes; /* bytes that the block took; 0: the block is in no segment */
    uint64_t stream;
    uint32_t pool, block;
    bool pending; /* freed before the first step, and still used by a stream at the end */
};

/* Number of allocations with a known requested size. */
struct mp_torch_asked {
    uint64_t all;
    uint64_t known;   /* known from PyTorch itself */
    uint64_t as_site; /* known from requests of the same site with the same block size */
};

struct mp_torch_history {
    uint16_t track;
    bool traced;                       /* from the allocator's own trace; otherwise steps are only blocks, on one
                                        * stream */
    struct mp_torch_settings settings; /* the first settings, as far as the file says */
    MP_VEC(struct mp_torch_step) steps;
    MP_VEC(struct mp_torch_base) base;        /* by address */
    MP_VEC(struct mp_torch_segment) segments; /* before the first step, by address; their blocks are not filled in */
    MP_VEC(struct mp_torch_segment) mapped;   /* runs of mapped pages of the expandable segments above */
    MP_VEC(uint64_t) pools;                   /* PyTorch's numbers; the first is 0, the default pool */
    struct mp_map pool_index;                 /* from PyTorch's number to the index in pools */
    struct mp_torch_asked asked;              /* over all steps that allocate */
    uint32_t made_up;                         /* number of blocks in steps that the model lacks; their numbers follow
                                               * the model's */
    MP_VEC(double) limits;                    /* limits that the program set, as shares of the device's memory */
    MP_VEC(const char *) changes;             /* texts of changed settings; owned by the model */
    MP_VEC(uint32_t)
    emptied; /* steps before which the program emptied the cache: from a replay of the recording, else where memory went
              * back to the driver for no other reason */
};

/* The history starts empty; the caller frees it. `untraced`: makes steps (48 bytes each) even if there are only
 * blocks. */
void mp_torch_history_make(const struct mp_model *model, uint16_t track, bool untraced,
                           struct mp_torch_history *history);
void mp_torch_history_free(struct mp_torch_history *history);

/* The first step that has not happened after that many events. */
uint32_t mp_torch_step_of(const struct mp_torch_history *history, uint32_t event);
/* The index of a pool by PyTorch's number. */
uint32_t mp_torch_pool_index(const struct mp_torch_history *history, uint64_t pool);
