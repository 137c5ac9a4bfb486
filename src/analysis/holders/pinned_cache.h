/*
 * PyTorch's cache of pinned memory at the end of a recording. It rounds requests up to a power of two, and keeps freed
 * blocks, so its blocks outlive their tensors. Pure.
 */
#pragma once

#include "model/model.h"

struct mp_pinned_cache {
    uint64_t bytes, blocks; /* live at the end; 0: no such cache */
    uint64_t rounded; /* bytes of blocks of more than 1 MiB that are powers of two: up to half was not asked for */
    uint64_t unused;  /* bytes of blocks without a tensor at the last look; MP_BYTES_UNKNOWN */
};

void mp_pinned_cache_find(const struct mp_model *model, struct mp_pinned_cache *cache);
