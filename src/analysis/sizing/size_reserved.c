#include "analysis/sizing/size_reserved.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/allocator/torch_allocator.h"
#include "analysis/allocator/torch_history.h"
#include "analysis/sizing/size_curve.h"
#include "base/hash.h"
#include "base/memory.h"
#include "model/steps_infer.h"
#include "model/track.h"

#define KEPT     3 /* of a run of equal steps; blocks may outlive their step by fewer */
#define OUTSIDE  UINT32_MAX
#define SLOWER   0.9
#define CUT_MOST (MP_TORCH_OWN_SEGMENT - 512) /* is cut from a segment of twice that */

/* A step of the plan's track. */
struct step {
    uint32_t first, count; /* of its operations */
    uint32_t blocks;       /* index in `made`: the blocks that it makes, in order */
    uint32_t made;         /* their number */
    uint64_t does;         /* hash of its operations */
    bool steady;           /* it frees as many blocks as it makes, all of them from recent steps */
};

struct shortening {
    const struct mp_size_plan *plan;
    struct mp_size_sequence all;
    uint32_t *step_of, *index_of; /* per block: where it was made; OUTSIDE: before the first step */
    uint32_t *instead;            /* per block: itself, or its replacement */
    MP_VEC(struct step) steps;
    MP_VEC(uint32_t) made;
};

static void list_operations(struct shortening *work, const struct mp_steps *steps)
{
    const struct mp_model *model = work->plan->source->model;
    size_t step = 0;
    for (uint32_t event = 0; event < model->events.count; event++) {
        while (step < steps->count && steps->at[step].first <= event) {
            struct step fresh = {.first = (uint32_t)work->all.count, .blocks = (uint32_t)work->made.count};
            mp_vec_add(&work->steps, fresh);
            step++;
        }
        unsigned type = model->events.type[event];
        if (type != MP_EVENT_ALLOC && type != MP_EVENT_FREE) continue;
        struct mp_size_operation operation = {model->events.subject[event], type == MP_EVENT_FREE};
        if (work->plan->value_of[operation.block] == MP_NONE) continue;
        mp_vec_add(&work->all, operation);
        if (!work->steps.count) continue;
        struct step *now = &work->steps.at[work->steps.count - 1];
        now->count++;
        if (operation.frees) continue;
        work->step_of[operation.block] = (uint32_t)work->steps.count - 1;
        work->index_of[operation.block] = now->made++;
        mp_vec_add(&work->made, operation.block);
    }
}

/* Hashes the operations of a step, without the names of its blocks: the value that it makes; the block that it frees,
 * and how many steps ago that was made. */
static void describe(struct shortening *work, uint32_t number)
{
    struct step *step = &work->steps.at[number];
    uint32_t freed = 0;
    step->steady = true;
    step->does = step->count;
    for (uint32_t i = 0; i < step->count; i++) {
        const struct mp_size_operation *operation = &work->all.at[step->first + i];
        if (!operation->frees) {
            step->does = mp_hash_step(step->does, work->plan->value_of[operation->block]);
            continue;
        }
        uint32_t from = work->step_of[operation->block];
        freed++;
        step->steady = step->steady && from != OUTSIDE && number - from < KEPT;
        step->does = mp_hash_step(step->does, UINT64_C(1) << 63 | (uint64_t)(number - from) << 32 |
                                                  work->index_of[operation->block]);
    }
    step->steady = step->steady && freed == step->made;
}

static void copy(struct shortening *work, uint32_t first, uint32_t count, struct mp_size_sequence *sequence)
{
    for (uint32_t i = first; i < first + count; i++) {
        struct mp_size_operation operation = {work->instead[work->all.at[i].block], work->all.at[i].frees};
        mp_vec_add(sequence, operation);
    }
}

/* Leaves out the steps from `first` to `end`: the blocks of the last steps before `end`, which may live on, are
 * replaced by those of as many steps earlier. */
static void leave_out(struct shortening *work, uint32_t first, uint32_t end)
{
    for (uint32_t step = end - KEPT; step < end; step++) {
        const struct step *now = &work->steps.at[step], *earlier = &work->steps.at[step - (end - first)];
        for (uint32_t i = 0; i < now->made; i++)
            work->instead[work->made.at[now->blocks + i]] = work->made.at[earlier->blocks + i];
    }
}

/* The end of a run of equal steps. */
static uint32_t run_end(const struct shortening *work, uint32_t from)
{
    uint32_t end = from + 1;
    while (end < work->steps.count && work->steps.at[end].does == work->steps.at[from].does)
        end++;
    return end;
}

static void shorten(struct shortening *work, struct mp_size_sequence *sequence)
{
    uint32_t resumed = 0; /* the step after the last ones left out */
    uint32_t before = work->steps.count ? work->steps.at[0].first : (uint32_t)work->all.count;
    copy(work, 0, before, sequence);
    for (uint32_t step = 0; step < work->steps.count; step++) {
        const struct step *now = &work->steps.at[step];
        copy(work, now->first, now->count, sequence);
        if (!now->steady || step < resumed + KEPT - 1 || run_end(work, step + 1 - KEPT) <= step) continue;
        resumed = run_end(work, step);
        leave_out(work, step + 1, resumed);
        step = resumed - 1;
    }
}

void mp_size_sequence_make(const struct mp_size_plan *plan, struct mp_size_sequence *sequence)
{
    const struct mp_model *model = plan->source->model;
    struct shortening work = {.plan = plan};
    struct mp_steps steps = {0};
    work.step_of = mp_alloc((model->blocks.count + 1) * sizeof *work.step_of);
    work.index_of = mp_alloc_zeroed(model->blocks.count + 1, sizeof *work.index_of);
    work.instead = mp_alloc((model->blocks.count + 1) * sizeof *work.instead);
    if (!mp_steps_find(model, &steps)) mp_memory_lacks(0);
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        work.step_of[block] = OUTSIDE;
        work.instead[block] = block;
    }
    list_operations(&work, &steps);
    for (uint32_t step = 0; step < work.steps.count; step++)
        describe(&work, step);
    shorten(&work, sequence);
    mp_steps_free(&steps);
    mp_size_sequence_free(&work.all);
    mp_vec_free(&work.steps);
    mp_vec_free(&work.made);
    free(work.step_of);
    free(work.index_of);
    free(work.instead);
}

void mp_size_sequence_free(struct mp_size_sequence *sequence)
{
    mp_vec_free(sequence);
}

bool mp_size_reserves(const struct mp_size_plan *plan)
{
    const struct mp_model *model = plan->source->model;
    return model->tracks.at[plan->source->track].layer == MP_LAYER_TORCH &&
           strcmp(mp_track_device(model, plan->source->track), "cpu") != 0;
}

struct placed {
    uint64_t address;
    uint32_t block;
};

static int by_address(const void *left, const void *right)
{
    const struct placed *a = left, *b = right;
    return a->address < b->address ? -1 : a->address > b->address;
}

static void list_base(struct mp_size_pool *pool)
{
    const struct mp_size_plan *plan = pool->plan;
    const struct mp_model *model = plan->source->model;
    MP_VEC(struct placed) all = {0};
    for (uint32_t block = 0; block < model->blocks.count; block++) {
        if (plan->value_of[block] == MP_NONE || model->blocks.alloc_event[block] != MP_NONE) continue;
        struct placed placed = {model->blocks.address[block], block};
        mp_vec_add(&all, placed);
    }
    if (all.count) qsort(all.at, all.count, sizeof *all.at, by_address);
    for (size_t i = 0; i < all.count; i++)
        mp_vec_add(&pool->base, all.at[i].block);
    mp_vec_free(&all);
}

/* Streams and settings, where the recording has the allocator's own trace. */
static void read_history(struct mp_size_pool *pool)
{
    const struct mp_size_source *source = pool->plan->source;
    struct mp_torch_history history = {0};
    mp_torch_history_make(source->model, source->track, false, &history);
    for (size_t i = 0; i < history.steps.count; i++)
        if (history.steps.at[i].action == MP_TORCH_ALLOC && history.steps.at[i].block != MP_NONE)
            pool->streams[history.steps.at[i].block] = history.steps.at[i].stream;
    for (size_t i = 0; i < history.base.count; i++)
        if (history.base.at[i].block != MP_NONE) pool->streams[history.base.at[i].block] = history.base.at[i].stream;
    pool->recorded = history.settings;
    mp_torch_history_free(&history);
}

void mp_size_pool_make(const struct mp_size_plan *plan, struct mp_size_pool *pool)
{
    *pool = (struct mp_size_pool){.plan = plan};
    pool->sizes = mp_alloc_zeroed(plan->values.count + 1, sizeof *pool->sizes);
    pool->copies = mp_alloc_zeroed(plan->values.count + 1, sizeof *pool->copies);
    pool->owed = mp_alloc_zeroed(plan->values.count + 1, sizeof *pool->owed);
    pool->ids = mp_alloc_zeroed(plan->source->model->blocks.count + 1, sizeof *pool->ids);
    pool->streams = mp_alloc_zeroed(plan->source->model->blocks.count + 1, sizeof *pool->streams);
    list_base(pool);
    read_history(pool);
    mp_size_sequence_make(plan, &pool->sequence);
}

void mp_size_pool_free(struct mp_size_pool *pool)
{
    mp_size_sequence_free(&pool->sequence);
    mp_vec_free(&pool->base);
    mp_vec_free(&pool->placed);
    free(pool->sizes);
    free(pool->copies);
    free(pool->owed);
    free(pool->ids);
    free(pool->streams);
}

/* ---- one replay ------------------------------------------------------------------------------------------------- */

static void set_sizes(struct mp_size_pool *pool, struct mp_size_point at, enum mp_size_bound bound)
{
    const struct mp_size_plan *plan = pool->plan;
    pool->largest = MP_NONE;
    for (uint32_t i = 0; i < plan->values.count; i++) {
        struct mp_size_bounds bytes = mp_size_value_at(plan, i, at);
        double size = bound == MP_SIZE_LOW ? bytes.low : bound == MP_SIZE_HIGH ? bytes.high : bytes.likely;
        double copies = mp_size_copies_at(plan, i, at);
        pool->copies[i] = copies;
        pool->owed[i] = 0.5;
        pool->sizes[i] = copies > 0 && size > 0 ? (uint64_t)ceil(size / copies - 1e-6) : 0;
        bool larger = pool->largest == MP_NONE || pool->sizes[i] > pool->sizes[pool->largest];
        if (plan->values.at[i].grows && larger) pool->largest = i;
    }
}

static void keep(struct mp_size_pool *pool, uint32_t block, uint32_t id)
{
    uint32_t at = pool->vacant;
    if (at) {
        pool->vacant = pool->placed.at[at - 1].next;
    } else {
        struct mp_size_placed fresh = {0};
        mp_vec_add(&pool->placed, fresh);
        at = (uint32_t)pool->placed.count;
    }
    pool->placed.at[at - 1] = (struct mp_size_placed){id, pool->ids[block]};
    pool->ids[block] = at;
}

static uint64_t max_of(uint64_t one, uint64_t other)
{
    return one > other ? one : other;
}

static uint64_t bytes_at(const struct mp_size_plan *plan, uint32_t value, struct mp_size_point at)
{
    return (uint64_t)fmin(fmax(mp_size_value_at(plan, value, at).high, 0), 1e18);
}

/* Only where more is reduced to as much: a value that grows as what it is made of is reduced in each sample by itself.
 */
static bool is_reduced(const struct mp_size_plan *plan, uint32_t value, double bytes, uint32_t from, double from_bytes)
{
    size_t last = plan->points.count - 1;
    const struct mp_size_value *made = &plan->values.at[value], *of = &plan->values.at[from];
    return bytes * of->seen[last] < SLOWER * from_bytes * made->seen[last];
}

uint64_t mp_size_scratch_most(const struct mp_size_plan *plan, struct mp_size_point at)
{
    uint64_t most = 0;
    uint32_t largest = MP_NONE;
    enum mp_size_taking taking = MP_SIZE_TAKES_SUMS;
    for (uint32_t i = 0; i < plan->values.count; i++)
        if (plan->values.at[i].grows && (largest == MP_NONE || bytes_at(plan, i, at) > bytes_at(plan, largest, at)))
            largest = i;
    if (largest == MP_NONE) return 0;
    uint64_t bytes = bytes_at(plan, largest, at);
    for (uint32_t i = 0; i < plan->values.count; i++) {
        unsigned kinds = plan->values.at[i].taking;
        double own = (double)bytes_at(plan, i, at);
        if (kinds & 1u << MP_SIZE_TAKES_KEYS && plan->values.at[i].grows)
            most = max_of(most, mp_size_scratch_on(MP_SIZE_TAKES_KEYS, (uint64_t)own));
        if (kinds & 1u << MP_SIZE_TAKES_RECORDS && is_reduced(plan, i, own, largest, (double)bytes))
            taking = MP_SIZE_TAKES_RECORDS;
    }
    return max_of(most, mp_size_scratch_on(taking, bytes));
}

static uint32_t take(struct mp_torch_allocator *allocator, uint64_t bytes, uint64_t stream)
{
    uint32_t id;
    if (mp_torch_malloc(allocator, bytes, stream, 0, &id) != MP_TORCH_DONE) mp_memory_lacks(0);
    return id;
}

static void give(struct mp_torch_allocator *allocator, uint32_t id)
{
    mp_torch_free(allocator, id);
}

static void pass(struct mp_torch_allocator *allocator, uint64_t bytes, uint64_t stream)
{
    give(allocator, take(allocator, bytes, stream));
}

/* scratch: bytes that the operation after it takes for a moment, and a little beside, from other segments. */
static void allocate(struct mp_size_pool *pool, struct mp_torch_allocator *allocator, uint32_t block, uint64_t scratch)
{
    uint32_t value = pool->plan->value_of[block];
    pool->owed[value] += pool->copies[value];
    for (; pool->owed[value] >= 1; pool->owed[value] -= 1) {
        if (!pool->sizes[value]) continue;
        keep(pool, block, take(allocator, pool->sizes[value], pool->streams[block]));
        if (scratch) pass(allocator, scratch, pool->streams[block]);
        if (scratch > MP_TORCH_SMALL) pass(allocator, MP_TORCH_SMALL, pool->streams[block]);
    }
}

static void release(struct mp_size_pool *pool, struct mp_torch_allocator *allocator, uint32_t block)
{
    for (uint32_t at = pool->ids[block], next; at; at = next) {
        struct mp_size_placed *placed = &pool->placed.at[at - 1];
        next = placed->next;
        give(allocator, placed->id);
        placed->next = pool->vacant;
        pool->vacant = at;
    }
    pool->ids[block] = 0;
}

/* By chance, which is the same whenever it is asked: of every second value, or of every eighth; all of it, or a part.
 */
static uint64_t of_some(uint64_t bytes, uint32_t value, unsigned turn)
{
    uint64_t chance = mp_hash_mix(mp_hash_step(turn + 1, value));
    if (chance % (turn % 2 ? 8 : 2)) return 0;
    return turn % 4 < 2 ? bytes : (uint64_t)((double)bytes * (double)(chance >> 32) / 4294967296.0);
}

static uint64_t scratch_of(const struct mp_size_pool *pool, enum mp_size_scratch scratch, uint32_t block)
{
    const struct mp_size_plan *plan = pool->plan;
    uint32_t value = plan->value_of[block];
    enum mp_size_taking taking = mp_size_plan_taking(plan, block);
    if (scratch == MP_SIZE_NO_SCRATCH || pool->largest == MP_NONE) return 0;
    uint64_t own = pool->sizes[value], largest = pool->sizes[pool->largest];
    bool reduced =
        taking == MP_SIZE_TAKES_RECORDS && is_reduced(plan, value, (double)own, pool->largest, (double)largest);
    if (!plan->values.at[value].grows && !reduced) return 0;
    if (taking == MP_SIZE_TAKES_RECORDS && !reduced) taking = MP_SIZE_TAKES_SUMS;
    bool of_all = scratch == MP_SIZE_SCRATCH_BY_LARGEST || scratch == MP_SIZE_SCRATCH_CUT || reduced;
    uint64_t bytes = mp_size_scratch_on(taking, of_all && taking != MP_SIZE_TAKES_KEYS ? largest : own);
    if (scratch == MP_SIZE_SCRATCH_CUT) return bytes < CUT_MOST ? bytes : CUT_MOST;
    return scratch < MP_SIZE_SCRATCH_OF_SOME ? bytes : of_some(bytes, value, scratch - MP_SIZE_SCRATCH_OF_SOME);
}

static void play(struct mp_size_pool *pool, struct mp_torch_allocator *allocator, enum mp_size_scratch scratch)
{
    for (size_t i = 0; i < pool->base.count; i++)
        allocate(pool, allocator, pool->base.at[i], 0);
    for (size_t i = 0; i < pool->sequence.count; i++) {
        uint32_t block = pool->sequence.at[i].block;
        if (pool->sequence.at[i].frees)
            release(pool, allocator, block);
        else
            allocate(pool, allocator, block, scratch_of(pool, scratch, block));
    }
}

static double copies_of(const struct mp_size_pool *pool, uint32_t block, struct mp_size_point at)
{
    double copies = mp_size_copies_at(pool->plan, pool->plan->value_of[block], at);
    return copies > 0 ? copies : 0;
}

uint64_t mp_size_pool_work(const struct mp_size_pool *pool, struct mp_size_point at)
{
    double work = 0;
    for (size_t i = 0; i < pool->base.count; i++)
        work += copies_of(pool, pool->base.at[i], at);
    for (size_t i = 0; i < pool->sequence.count; i++)
        if (!pool->sequence.at[i].frees) work += copies_of(pool, pool->sequence.at[i].block, at);
    return work < 1e18 ? (uint64_t)work : UINT64_MAX;
}

uint64_t mp_size_work_most(const struct mp_size_pool *pool)
{
    return (UINT64_C(1) << 18) + 16 * (uint64_t)(pool->base.count + pool->sequence.count);
}

void mp_size_reserved_at(struct mp_size_pool *pool, struct mp_size_point at, enum mp_size_bound bound,
                         enum mp_size_scratch scratch, const struct mp_torch_settings *settings,
                         struct mp_size_held *held)
{
    struct mp_torch_allocator *allocator =
        mp_torch_allocator_new(settings, MP_TORCH_UNLIMITED, UINT64_C(1) << 50, NULL);
    set_sizes(pool, at, bound);
    pool->placed.count = pool->vacant = 0;
    for (size_t i = 0; i < pool->base.count; i++)
        pool->ids[pool->base.at[i]] = 0;
    for (size_t i = 0; i < pool->sequence.count; i++)
        pool->ids[pool->sequence.at[i].block] = 0;
    play(pool, allocator, scratch);
    const struct mp_torch_stats *stats = mp_torch_stats(allocator);
    *held = (struct mp_size_held){stats->peak_reserved, stats->peak_allocated};
    mp_torch_allocator_free(allocator);
}
