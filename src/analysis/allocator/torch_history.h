/*
 * Requests to a caching allocator, in order, and the state in which it began: out of a model, ready for replays.
 * Where the file has the allocator's own trace (snapshots of PyTorch), it is complete: streams, pools, segments. Of
 * other recordings only blocks are known, and what PyTorch's history told of them (analysis/sites/placement.h).
 */
#ifndef MP_ANALYSIS_TORCH_HISTORY_H
#define MP_ANALYSIS_TORCH_HISTORY_H

#include "analysis/allocator/torch_allocator.h"
#include "analysis/allocator/torch_marks.h"
#include "model/model.h"

struct mp_torch_step {
    uint64_t address; /* out of memory: what the device had free, MP_BYTES_UNKNOWN */
    uint64_t bytes;   /* requested; of segments: theirs */
    uint64_t stream;
    uint32_t pool;  /* index in pools */
    uint32_t block; /* of the model: alloc, free */
    uint32_t event; /* of the model: alloc, free completed, out of memory; else MP_NONE */
    uint8_t action; /* enum mp_torch_action, or MP_TORCH_CALL + enum mp_torch_call, which is about `pool` or the limit
                     * or the change numbered `bytes` */
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

/* Of how many allocations it is known what was asked for. */
struct mp_torch_asked {
    uint64_t all;
    uint64_t told;    /* by PyTorch itself */
    uint64_t as_site; /* by what was asked for at the same place, whose blocks are as large */
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
    struct mp_torch_asked asked;              /* of the steps that allocate */
    uint32_t made_up;                         /* blocks of steps that the model has not, numbered after its own */
    MP_VEC(double) limits;                    /* that the program set, shares of the device's memory */
    MP_VEC(const char *) changes;             /* of the settings, their texts: the model's */
    MP_VEC(uint32_t)
    emptied; /* before which steps the program emptied the cache: found by a replay of the record, else by what
              * the driver got back without a mark that says why */
};

/* The history starts empty; the caller frees it. `untraced`: steps are wanted (48 bytes each)
 * even where they are blocks alone. */
void mp_torch_history_make(const struct mp_model *model, uint16_t track, bool untraced,
                           struct mp_torch_history *history);
void mp_torch_history_free(struct mp_torch_history *history);

/* The first step that has not happened when so many events have. */
uint32_t mp_torch_step_of(const struct mp_torch_history *history, uint32_t event);
/* Of PyTorch's number of a pool, its index. */
uint32_t mp_torch_pool_index(const struct mp_torch_history *history, uint64_t pool);

/* The settings that a recording's configuration (key=value,..., as importers of PyTorch's snapshots keep it) tells. */
void mp_torch_settings_recorded(const char *configuration, struct mp_torch_settings *settings);

#endif
