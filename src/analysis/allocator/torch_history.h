/*
 * Requests to a caching allocator, in order, and the state in which it began: out of a model, ready for replays.
 * Where the file has the allocator's own trace (snapshots of PyTorch), it is complete: streams, pools, segments. Other
 * recordings have only blocks, and PyTorch's history of them (analysis/sites/placement.h).
 */
#ifndef MP_ANALYSIS_TORCH_HISTORY_H
#define MP_ANALYSIS_TORCH_HISTORY_H

#include <stdbool.h>
#include <stdint.h>

#include "analysis/allocator/torch_allocator.h"
#include "analysis/sites/placement.h"
#include "base/map.h"
#include "model/model.h"

/*
 * Calls of PyTorch's CUDA allocator that allocate nothing: emptied caches, private pools, limits, settings. The PyTorch
 * shim marks them in a recording (python/libmemprof_torch/pools.py). The driver may see nothing of them, and under
 * other settings they may release memory that they did not release when they were recorded.
 */

enum mp_torch_call {
    MP_TORCH_CALL_EMPTY,         /* torch.cuda.empty_cache(): of every device */
    MP_TORCH_CALL_POOL_MADE,     /* a MemPool was made, and holds its pool */
    MP_TORCH_CALL_POOL_BEGINS,   /* from here on requests may come from the pool, */
    MP_TORCH_CALL_POOL_ENDS,     /* to here */
    MP_TORCH_CALL_POOL_RELEASED, /* one user of the pool less */
    MP_TORCH_CALL_POOL_DELETED,  /* a MemPool goes: one user less, and its cached memory */
    MP_TORCH_CALL_CAPTURE,       /* a graph's capture begins; its end names the pool: */
    MP_TORCH_CALL_CAPTURED,
    MP_TORCH_CALL_CAPTURE_FAILS, /* or never */
    MP_TORCH_CALL_LIMIT,         /* set_per_process_memory_fraction() */
    MP_TORCH_CALL_SETTINGS,      /* the allocator's settings are set anew */
    MP_TORCH_CALL_BEGAN,         /* the settings before the first such change; nothing to be done */
    MP_TORCH_CALLS
};

struct mp_torch_mark {
    enum mp_torch_call call;
    uint64_t pool;        /* as in struct mp_segment */
    bool use_on_oom, no_split; /* of MP_TORCH_CALL_POOL_MADE */
    double fraction;      /* of MP_TORCH_CALL_LIMIT */
    const char *settings; /* of MP_TORCH_CALL_SETTINGS and _BEGAN: the end of the mark's name */
};

/* True if a mark of that name is such a call, for a device ("cuda:0"). */
bool mp_torch_mark_read(const char *name, const char *device, struct mp_torch_mark *mark);

struct mp_torch_step {
    uint64_t address; /* out of memory: the device's free bytes, or MP_BYTES_UNKNOWN */
    uint64_t bytes;   /* requested; of segments: theirs */
    uint64_t stream;
    uint32_t pool;  /* index in pools */
    uint32_t block; /* of the model: alloc, free */
    uint32_t event; /* of the model: alloc, free completed, out of memory; else MP_NONE */
    uint8_t action; /* enum mp_torch_action, or MP_TORCH_CALL + enum mp_torch_call, which is about `pool` or the limit
                     * or the change numbered `bytes`, or the pool's ways in `bytes` */
    bool put_back;  /* alloc: of a private pool that nobody uses then. PyTorch puts it back to what it was
                     * (torch.compile's  graph trees): hands out every block of its segments, and takes those back that
                     * were free. */
    bool was_free;  /* alloc: such a block that is taken back at once */
};
#define MP_TORCH_CALL MP_TORCH_ACTIONS

/* A block that was live when the steps began. */
struct mp_torch_base {
    uint64_t address, requested;
    uint64_t bytes; /* that it took; 0: it lies in none of the segments */
    uint64_t stream;
    uint32_t pool, block;
    bool pending; /* freed before the first step, and still used by a stream at the end */
};

/* Number of allocations whose requested size is known. */
struct mp_torch_asked {
    uint64_t all;
    uint64_t known;   /* by PyTorch itself */
    uint64_t as_site; /* by requests of the same site, whose blocks are as large */
};

struct mp_torch_history {
    uint16_t track;
    bool traced;                       /* by the allocator itself; else steps are blocks alone, on one stream */
    struct mp_torch_settings settings; /* those that it began with, as far as the file says */
    MP_VEC(struct mp_torch_step) steps;
    MP_VEC(struct mp_torch_base) base;        /* by address */
    MP_VEC(struct mp_torch_segment) segments; /* at the beginning, by address; blocks are unused */
    MP_VEC(struct mp_torch_segment) mapped;   /* of expandable segments among those: the runs of mapped pages */
    MP_VEC(uint64_t) pools;                   /* PyTorch's numbers of them; the first is 0, the default pool */
    struct mp_map pool_index;                 /* from their numbers */
    struct mp_torch_asked asked;              /* of the steps that allocate */
    uint32_t made_up;                         /* blocks of steps that the model has not, numbered after its own */
    MP_VEC(double) limits;                    /* that the program set, shares of the device's memory */
    MP_VEC(const char *) changes;             /* of the settings, their texts: the model's */
    MP_VEC(uint32_t)
    emptied; /* the steps before which the program emptied the cache: found by a replay of the record, else by
              * unexplained memory that went back to the driver */
};

/* The history starts empty; the caller frees it. `untraced`: steps are wanted (48 bytes each)
 * even where they are blocks alone. */
void mp_torch_history_make(const struct mp_model *model, uint16_t track, bool untraced,
                           struct mp_torch_history *history);
void mp_torch_history_free(struct mp_torch_history *history);

/* The first step that has not happened when so many events have. */
uint32_t mp_torch_step_of(const struct mp_torch_history *history, uint32_t event);
/* The index of a pool, by PyTorch's number of it. */
uint32_t mp_torch_pool_index(const struct mp_torch_history *history, uint64_t pool);

/*
 * A private pool of PyTorch gets memory only while the program uses it, for a capture or by request. If the pool hands
 * out a block at another time, PyTorch is putting the pool back to its former state.
 */

/* A pool served requests between two events of the model. */
struct mp_torch_use {
    uint32_t pool; /* index in the history's */
    uint32_t begin, end;
};
struct mp_torch_uses {
    struct mp_torch_use *at;
    size_t count, room;
};

/* Corrects the pools of a history's steps, and marks those that put a pool back. `driver`: the track of the segments,
 * MP_TRACK_NONE; `known`: from PyTorch's history. Pools without a known use are left alone. Sorts the uses, and joins
 * those that overlap. */
void mp_torch_follow_uses(const struct mp_model *model, uint16_t driver, struct mp_torch_uses *uses,
                          const struct mp_placements *known, struct mp_torch_history *history);

#endif
