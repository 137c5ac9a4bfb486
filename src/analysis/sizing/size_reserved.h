/*
 * Predicts what PyTorch's caching allocator reserves for a plan at any batch: replays the plan's sequence through the
 * allocator's model. Only for tracks of that allocator. Pure.
 */
#pragma once

#include "analysis/allocator/torch_settings.h"
#include "analysis/sizing/size_plan.h"

enum mp_size_bound { MP_SIZE_LOW, MP_SIZE_LIKELY, MP_SIZE_HIGH };

struct mp_size_pool {
    const struct mp_size_plan *plan;
    MP_VEC(uint32_t) base;             /* the base's blocks, by address */
    uint64_t *streams;                 /* per block of the model: its stream; 0 if unknown */
    struct mp_torch_settings recorded; /* the recorded settings */
    uint64_t *sizes;                   /* in one replay, per value of the plan */
    uint32_t *ids;                     /* in one replay, per block of the model */
};

/* True if the plan's track belongs to PyTorch's caching allocator. */
bool mp_size_reserves(const struct mp_size_plan *plan);

/* The plan must outlive the pool. */
void mp_size_pool_make(const struct mp_size_plan *plan, struct mp_size_pool *pool);
void mp_size_pool_free(struct mp_size_pool *pool);

/* The allocator's highest reserved bytes, and its highest bytes in blocks. Blocks are larger than their requests. Every
 * size is at its bound. */
struct mp_size_held {
    uint64_t reserved, allocated;
};
struct mp_size_held mp_size_reserved_at(struct mp_size_pool *pool, double batch, enum mp_size_bound bound,
                                        const struct mp_torch_settings *settings);

/* Bytes of segments for scratch memory that operations may take at a larger batch, though they took none in a probe. */
uint64_t mp_size_scratch_room(const struct mp_size_plan *plan, double batch);
