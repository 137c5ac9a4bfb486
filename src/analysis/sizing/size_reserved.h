/*
 * Memory that PyTorch's caching allocator would hold for a plan at any batch: the plan's sequence replayed through the
 * model of the allocator. For tracks of that allocator. Pure.
 */
#ifndef MP_ANALYSIS_SIZE_RESERVED_H
#define MP_ANALYSIS_SIZE_RESERVED_H

#include "analysis/allocator/torch_settings.h"
#include "analysis/sizing/size_plan.h"

enum mp_size_bound { MP_SIZE_LOW, MP_SIZE_LIKELY, MP_SIZE_HIGH };

struct mp_size_pool {
    const struct mp_size_plan *plan;
    MP_VEC(uint32_t) base;             /* blocks of the base, by address */
    uint64_t *streams;                 /* per block of the model: where it was asked for, 0 where that is not known */
    struct mp_torch_settings recorded; /* the recorded settings */
    uint64_t *sizes;                   /* of one replay, per value of the plan */
    uint32_t *ids;                     /* of one replay, per block of the model */
};

/* True if the plan's track is one of that allocator. */
bool mp_size_reserves(const struct mp_size_plan *plan);

/* The plan must stay. */
void mp_size_pool_make(const struct mp_size_plan *plan, struct mp_size_pool *pool);
void mp_size_pool_free(struct mp_size_pool *pool);

/* The most bytes that the allocator holds and the most that it has handed out (in blocks, which are larger than the
 * requests), with every size at the bound. */
struct mp_size_held {
    uint64_t reserved, allocated;
};
struct mp_size_held mp_size_reserved_at(struct mp_size_pool *pool, double batch, enum mp_size_bound bound,
                                        const struct mp_torch_settings *settings);

/* Bytes of segments for scratch memory that operations may take at a larger batch and took in no probe. */
uint64_t mp_size_scratch_room(const struct mp_size_plan *plan, double batch);

#endif
