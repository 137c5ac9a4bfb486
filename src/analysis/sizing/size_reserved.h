/*
 * Memory that PyTorch's caching allocator would hold for a plan at any point: the plan's sequence replayed through the
 * model of the allocator. For tracks of that allocator. Pure.
 */
#ifndef MP_ANALYSIS_SIZE_RESERVED_H
#define MP_ANALYSIS_SIZE_RESERVED_H

#include "analysis/allocator/torch_settings.h"
#include "analysis/sizing/size_plan.h"

/*
 * The allocations and frees of a plan in order, shortened: of a long run of equal steps, each freeing what an earlier
 * one made, only the first few are kept. Later operations free the blocks of the last step kept instead of those of the
 * last step left out. Pure.
 */

struct mp_size_operation {
    uint32_t block; /* of the plan's model */
    bool frees;
};

struct mp_size_sequence {
    struct mp_size_operation *at;
    size_t count, room;
};

void mp_size_sequence_make(const struct mp_size_plan *plan, struct mp_size_sequence *sequence);
void mp_size_sequence_free(struct mp_size_sequence *sequence);

enum mp_size_bound { MP_SIZE_LOW, MP_SIZE_LIKELY, MP_SIZE_HIGH };

/*
 * What is assumed of scratch memory that no probe has had (size_scratch.h): none; or of each operation that makes what
 * grows, and of those that only reduce, by what it has made, or by the largest of all blocks; or no more than is cut
 * from a segment of 20 MiB, since the allocator asks the driver for more where it is asked for less than 10 MiB; or of
 * some operations alone, since the segment of one may be of no use to the others: in some turns of chance.
 */
enum mp_size_scratch {
    MP_SIZE_NO_SCRATCH,
    MP_SIZE_SCRATCH_BY_EACH,
    MP_SIZE_SCRATCH_BY_LARGEST,
    MP_SIZE_SCRATCH_CUT,
    MP_SIZE_SCRATCH_OF_SOME, /* the first turn */
    MP_SIZE_SCRATCH_END = MP_SIZE_SCRATCH_OF_SOME + 8
};

/* The most scratch memory of an operation on the largest of the plan's blocks that grow, at that point. */
uint64_t mp_size_scratch_most(const struct mp_size_plan *plan, struct mp_size_point at);

/* A block in the allocator. */
struct mp_size_placed {
    uint32_t id, next; /* next: of the same block of the model, index + 1; 0: none */
};

struct mp_size_pool {
    const struct mp_size_plan *plan;
    struct mp_size_sequence sequence;
    MP_VEC(uint32_t) base;             /* blocks of the base, by address */
    uint64_t *streams;                 /* per block of the model: where it was asked for, 0 where that is not known */
    struct mp_torch_settings recorded; /* those that the recording tells */
    uint64_t *sizes;                   /* per value of the plan: those of one replay */
    uint32_t largest;                  /* the value with the largest of the sizes that grow; MP_NONE: none grows */
    double *copies, *owed;             /* per value: blocks in place of one, and the part of one that is left over */
    uint32_t *ids;                     /* per block of the model: index of its first one in placed + 1; 0: none */
    MP_VEC(struct mp_size_placed) placed;
    uint32_t vacant; /* index in placed + 1; 0: none */
};

/* Whether the plan's track is one of that allocator. */
bool mp_size_reserves(const struct mp_size_plan *plan);

void mp_size_pool_make(const struct mp_size_plan *plan, struct mp_size_pool *pool);
/* The most bytes that the allocator holds and the most that it has handed out (in blocks, which are larger than the
 * requests), with every size at the bound. */
struct mp_size_held {
    uint64_t reserved, allocated;
};
/* The number of blocks that a replay at that point hands out: larger batches may reach places more often. A replay with
 * more than mp_size_work_most() is not made. */
uint64_t mp_size_pool_work(const struct mp_size_pool *pool, struct mp_size_point at);
uint64_t mp_size_work_most(const struct mp_size_pool *pool);

void mp_size_reserved_at(struct mp_size_pool *pool, struct mp_size_point at, enum mp_size_bound bound,
                         enum mp_size_scratch scratch, const struct mp_torch_settings *settings,
                         struct mp_size_held *held);
void mp_size_pool_free(struct mp_size_pool *pool);

#endif
