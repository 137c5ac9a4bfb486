/* Private pools: beginAllocateToPool(), endAllocateToPool(), releasePool() of CUDACachingAllocator.cpp. */
#include "analysis/allocator/torch_parts.h"

void mp_torch_not_freeable(struct mp_torch_allocator *a, uint32_t pool)
{
    size_t kept = 0;
    for (size_t i = 0; i < a->freeable.count; i++)
        if (a->freeable.at[i] != pool) a->freeable.at[kept++] = a->freeable.at[i];
    a->freeable.count = kept;
    a->pools.at[pool].freeable = false;
}

void mp_torch_pool_hold(struct mp_torch_allocator *a, uint32_t pool)
{
    mp_torch_pool_need(a, pool);
    a->pools.at[pool].users++;
    mp_torch_not_freeable(a, pool);
}

void mp_torch_pool_set(struct mp_torch_allocator *a, uint32_t pool, unsigned ways)
{
    mp_torch_pool_need(a, pool);
    a->pools.at[pool].use_on_oom = ways & MP_TORCH_USE_ON_OOM;
    a->pools.at[pool].no_split = ways & MP_TORCH_NO_SPLIT;
    if (ways & MP_TORCH_USE_ON_OOM && a->pools_on_oom <= pool) a->pools_on_oom = pool + 1;
}

void mp_torch_pool_begin(struct mp_torch_allocator *a, uint32_t pool, uint64_t stream)
{
    const struct context context = {pool, stream};
    mp_vec_add(&a->contexts, context);
    mp_torch_pool_hold(a, pool);
}

void mp_torch_pool_end(struct mp_torch_allocator *a, uint32_t pool)
{
    for (size_t i = a->contexts.count; i--;)
        if (a->contexts.at[i].pool == pool) {
            a->contexts.count--;
            for (; i < a->contexts.count; i++)
                a->contexts.at[i] = a->contexts.at[i + 1];
            return;
        }
}

void mp_torch_pool_release(struct mp_torch_allocator *a, uint32_t pool)
{
    if (pool >= a->pools.count || !a->pools.at[pool].users || --a->pools.at[pool].users) return;
    a->pools.at[pool].freeable = true;
    mp_vec_add(&a->freeable, pool);
}
