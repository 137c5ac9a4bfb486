/*
 * Calls of PyTorch's CUDA allocator that allocate nothing, as the PyTorch shim marks them in a recording
 * (python/libmemprof_torch/pools.py): emptied caches, private pools, limits, settings. The driver may see nothing of
 * them, and under other settings they may release memory that they did not release when they were recorded.
 */
#ifndef MP_ANALYSIS_TORCH_MARKS_H
#define MP_ANALYSIS_TORCH_MARKS_H

#include <stdbool.h>
#include <stdint.h>

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
    double fraction;      /* of MP_TORCH_CALL_LIMIT */
    const char *settings; /* of MP_TORCH_CALL_SETTINGS and _BEGAN: the end of the mark's name */
};

/* Whether a mark of that name is such a call, for a device ("cuda:0"). */
bool mp_torch_mark_read(const char *name, const char *device, struct mp_torch_mark *mark);

#endif
