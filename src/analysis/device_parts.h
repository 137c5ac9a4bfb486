/* What the parts of device_use call of each other. Not for others. */
#ifndef MP_ANALYSIS_DEVICE_PARTS_H
#define MP_ANALYSIS_DEVICE_PARTS_H

#include "analysis/device_use.h"

/* What of a device a track says. */
enum mp_device_role {
    MP_DEVICE_ROLE_NONE,
    MP_DEVICE_ROLE_BLOCKS,   /* physical memory, block by block */
    MP_DEVICE_ROLE_POOL,     /* blocks in memory that the reserved total counts */
    MP_DEVICE_ROLE_TORCH,    /* likewise, of a framework's allocator */
    MP_DEVICE_ROLE_CONTEXTS, /* handles: what was made that takes memory of its own */
    MP_DEVICE_ROLE_MODULES,
    MP_DEVICE_ROLE_HANDLES,
};
/* By index of model->tracks, freed by the caller; NULL where memory is short. */
unsigned char *mp_device_roles(const struct mp_model *model, uint32_t device);

static inline bool mp_device_role_made(unsigned role)
{
    return role >= MP_DEVICE_ROLE_CONTEXTS;
}

/* Bytes of one device's tracks, event by event. */
struct mp_device_level {
    uint64_t blocks, pool_blocks, pool_reserved, torch_blocks, torch_reserved;
    bool sampled; /* torch_blocks is an estimate: what is known to be reserved is not exceeded */
};

/* A pool whose reserved total nobody told holds at least its blocks. */
static inline uint64_t mp_device_pools(const struct mp_device_level *level)
{
    return level->pool_reserved > level->pool_blocks ? level->pool_reserved : level->pool_blocks;
}

/* So does an allocator. */
static inline uint64_t mp_device_torch(const struct mp_device_level *level)
{
    bool told = level->torch_reserved > level->torch_blocks || (level->sampled && level->torch_reserved);
    return told ? level->torch_reserved : level->torch_blocks;
}

/* Where the driver's side was recorded in part only, what PyTorch has was handed out all the same. */
static inline uint64_t mp_device_handed_out(const struct mp_device_level *level)
{
    uint64_t driver = level->blocks + mp_device_pools(level), torch = mp_device_torch(level);
    return driver > torch ? driver : torch;
}

/* A part is added to another of its name; one of 0 bytes is none. */
bool mp_device_add_part(struct mp_device_use *use, enum mp_part_kind kind, const char *name, uint64_t bytes);
/* Adds `bytes` that the driver had handed out at use->moment, and that are no segments of PyTorch's allocator, by the
 * library that asked for them. */
bool mp_device_add_libraries(const struct mp_model *model, const unsigned char *roles, uint64_t bytes,
                             struct mp_device_use *use);

/* Fills use->hidden. */
bool mp_device_find_hidden(const struct mp_model *model, const unsigned char *roles, struct mp_device_use *use);

/* Whether a block lives after `moment` events. */
static inline bool mp_device_is_live(const struct mp_model *model, size_t block, uint32_t moment)
{
    uint32_t born = model->blocks.alloc_event[block], died = model->blocks.free_event[block];
    return (born == MP_NONE || born < moment) && (died == MP_NONE || died >= moment);
}

#endif
