#include "analysis/sizing/size_reserved.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/allocator/torch_allocator.h"
#include "analysis/allocator/torch_history.h"
#include "base/memory.h"
#include "model/track.h"

bool mp_size_reserves(const struct mp_size_plan *plan)
{
    const struct mp_model *model = plan->source->model;
    return model->tracks.at[plan->source->track].layer == MP_LAYER_TORCH &&
           strcmp(mp_track_device(model, plan->source->track), "cpu") != 0;
}

/* Reads base, streams and settings, if the recording has the allocator's own trace. */
static void read_history(struct mp_size_pool *pool)
{
    const struct mp_size_source *source = pool->plan->source;
    size_t blocks = source->model->blocks.count; /* blocks that the history adds have numbers from here on */
    struct mp_torch_history history = {0};
    mp_torch_history_make(source->model, source->track, false, &history);
    for (size_t i = 0; i < history.steps.count; i++)
        if (history.steps.at[i].action == MP_TORCH_ALLOC && history.steps.at[i].block < blocks)
            pool->streams[history.steps.at[i].block] = history.steps.at[i].stream;
    for (size_t i = 0; i < history.base.count; i++) {
        uint32_t block = history.base.at[i].block;
        if (block >= blocks || pool->plan->value_of[block] == MP_NONE) continue;
        pool->streams[block] = history.base.at[i].stream;
        mp_vec_add(&pool->base, block);
    }
    pool->recorded = history.settings;
    mp_torch_history_free(&history);
}

void mp_size_pool_make(const struct mp_size_plan *plan, struct mp_size_pool *pool)
{
    *pool = (struct mp_size_pool){.plan = plan};
    pool->sizes = mp_alloc_zeroed(plan->values.count + 1, sizeof *pool->sizes);
    pool->ids = mp_alloc_zeroed(plan->source->model->blocks.count + 1, sizeof *pool->ids);
    pool->streams = mp_alloc_zeroed(plan->source->model->blocks.count + 1, sizeof *pool->streams);
    read_history(pool);
}

void mp_size_pool_free(struct mp_size_pool *pool)
{
    mp_vec_free(&pool->base);
    free(pool->sizes);
    free(pool->ids);
    free(pool->streams);
}

/* ---- one replay ------------------------------------------------------------------------------------------------- */

static void set_sizes(struct mp_size_pool *pool, double batch, enum mp_size_bound bound)
{
    for (uint32_t i = 0; i < pool->plan->values.count; i++) {
        struct mp_size_bounds bytes = mp_size_value_at(pool->plan, i, batch);
        double size = bound == MP_SIZE_LOW ? bytes.low : bound == MP_SIZE_HIGH ? bytes.high : bytes.likely;
        pool->sizes[i] = size > 0 ? (uint64_t)ceil(size - 1e-6) : 0;
    }
}

static void allocate(struct mp_size_pool *pool, struct mp_torch_allocator *allocator, uint32_t block)
{
    uint64_t bytes = pool->sizes[pool->plan->value_of[block]];
    if (mp_torch_malloc(allocator, bytes, pool->streams[block], 0, &pool->ids[block]) != MP_TORCH_DONE)
        mp_memory_lacks(0);
}

static void play(struct mp_size_pool *pool, struct mp_torch_allocator *allocator)
{
    const struct mp_model *model = pool->plan->source->model;
    for (size_t i = 0; i < pool->base.count; i++)
        allocate(pool, allocator, pool->base.at[i]);
    for (size_t i = 0; i < model->events.count; i++) {
        unsigned type = model->events.type[i];
        if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE) continue;
        uint32_t block = model->events.subject[i];
        if (pool->plan->value_of[block] == MP_NONE) continue;
        if (type == MP_EVENT_ALLOC)
            allocate(pool, allocator, block);
        else
            mp_torch_free(allocator, pool->ids[block]);
    }
}

struct mp_size_held mp_size_reserved_at(struct mp_size_pool *pool, double batch, enum mp_size_bound bound,
                                        const struct mp_torch_settings *settings)
{
    struct mp_torch_allocator *allocator =
        mp_torch_allocator_new(settings, MP_TORCH_UNLIMITED, UINT64_C(1) << 50, NULL);
    set_sizes(pool, batch, bound);
    memset(pool->ids, 0xff, pool->plan->source->model->blocks.count * sizeof *pool->ids); /* MP_TORCH_NO_BLOCK */
    play(pool, allocator);
    const struct mp_torch_stats *stats = mp_torch_stats(allocator);
    struct mp_size_held held = {stats->peak_reserved, stats->peak_allocated};
    mp_torch_allocator_free(allocator);
    return held;
}

/* ---- scratch memory --------------------------------------------------------------------------------------------- */

/* A reduction over many rows is divided among blocks of threads. Each block leaves 128 sums for each output
 * (ATen/native/cuda/Reduce.cuh). From 1024 rows on, there is a block of threads for every 64 rows. Sums of four bytes
 * then take twice as much as an input of float, and four times as much as one of bfloat16, plus a sixteenth. The number
 * of blocks of threads is limited to those that fill the device (16 for each of 160 multiprocessors), or to one for
 * every 1024 rows if that is more. A sum has 16 bytes if it carries an index (argmax()) or a count (std()). */
#define SCRATCH_TIMES 4.25
#define SCRATCH_MOST  (UINT64_C(160) << 20)
#define SCRATCH_PART  4
#define SCRATCH_WIDE  4
#define SMALL_SEGMENT (UINT64_C(2) << 20)
#define LARGE_SEGMENT (UINT64_C(20) << 20) /* segment for blocks below MP_TORCH_OWN_SEGMENT */

uint64_t mp_size_scratch_room(const struct mp_size_plan *plan, double batch)
{
    double largest = 0;
    for (uint32_t i = 0; i < plan->values.count; i++)
        if (plan->values.at[i].grows) largest = fmax(largest, mp_size_value_at(plan, i, batch).high);
    double wide = plan->wide_sums ? SCRATCH_WIDE : 1, times = SCRATCH_TIMES * wide, most = (double)SCRATCH_MOST * wide;
    uint64_t bytes = (uint64_t)fmin(fmax(fmin(times * largest, most), largest * wide / SCRATCH_PART), 1e18);
    if (bytes <= MP_TORCH_SMALL) return SMALL_SEGMENT;
    return bytes < MP_TORCH_OWN_SEGMENT ? LARGE_SEGMENT : (bytes / SMALL_SEGMENT + 1) * SMALL_SEGMENT;
}
