#include "analysis/allocator/torch_history.h"

#include <stdlib.h>
#include <string.h>

#include "base/order.h"
#include "base/search.h"
#include "base/vec.h"
#include "model/track.h"

/* A segment of the allocator. */
struct held {
    uint64_t address, bytes;
    uint32_t event; /* event that got it from the driver */
    uint32_t pool;  /* NO_POOL: no block has shown its pool yet */
};
#define NO_POOL UINT32_MAX

struct holder {
    const struct mp_model *model;
    const struct mp_torch_uses *uses; /* in order */
    uint16_t driver;
    uint32_t event;           /* earlier events have been followed */
    MP_VEC(struct held) held; /* by address */
};

static size_t place_of(const struct holder *h, uint64_t address)
{
    return MP_COUNT_BEFORE(h->held.count, i, h->held.at[i].address < address);
}

static void hold(struct holder *h, uint32_t block)
{
    const struct mp_model_blocks *blocks = &h->model->blocks;
    const struct held held = {blocks->address[block], blocks->bytes[block], blocks->alloc_event[block], NO_POOL};
    if (held.bytes == MP_BYTES_UNKNOWN) return;
    size_t place = place_of(h, held.address);
    mp_vec_add(&h->held, held);
    memmove(&h->held.at[place + 1], &h->held.at[place], (h->held.count - 1 - place) * sizeof held);
    h->held.at[place] = held;
}

static void let_go(struct holder *h, uint64_t address)
{
    size_t place = place_of(h, address);
    if (place == h->held.count || h->held.at[place].address != address) return;
    h->held.count--;
    memmove(&h->held.at[place], &h->held.at[place + 1], (h->held.count - place) * sizeof *h->held.at);
}

static void follow_driver(struct holder *h, uint32_t to)
{
    const struct mp_model_events *events = &h->model->events;
    for (; h->event < to && h->driver != MP_TRACK_NONE; h->event++) {
        if (events->track[h->event] != h->driver) continue;
        uint32_t block = events->subject[h->event];
        if (events->type[h->event] == MP_EVENT_ALLOC) hold(h, block);
        if (events->type[h->event] == MP_EVENT_FREE) let_go(h, h->model->blocks.address[block]);
    }
}

/* The segment with the address; NULL if the allocator got it before the recording began. */
static struct held *segment_of(const struct holder *h, uint64_t address)
{
    size_t after = MP_COUNT_BEFORE(h->held.count, i, h->held.at[i].address <= address);
    struct held *found = after ? &h->held.at[after - 1] : NULL;
    return found && address - found->address < found->bytes ? found : NULL;
}

MP_ORDER(by_pool, struct mp_torch_use, MP_RISING(pool) ?: MP_RISING(begin))

static void put_in_order(struct mp_torch_uses *uses)
{
    size_t kept = 0;
    if (uses->count) qsort(uses->at, uses->count, sizeof *uses->at, by_pool);
    for (size_t i = 0; i < uses->count; i++) {
        struct mp_torch_use *last = kept ? &uses->at[kept - 1] : NULL;
        const struct mp_torch_use use = uses->at[i];
        if (last && last->pool == use.pool && use.begin <= last->end)
            last->end = last->end > use.end ? last->end : use.end;
        else
            uses->at[kept++] = use;
    }
    uses->count = kept;
}

/* The number of uses before the pool's first use that begins after the event. */
static size_t uses_before(const struct mp_torch_uses *uses, uint32_t pool, uint32_t event)
{
    return MP_COUNT_BEFORE(uses->count, i,
                           uses->at[i].pool < pool || (uses->at[i].pool == pool && uses->at[i].begin <= event));
}

static bool is_known(const struct mp_torch_uses *uses, uint32_t pool)
{
    size_t end = uses_before(uses, pool, MP_NONE);
    return end && uses->at[end - 1].pool == pool;
}

static bool is_used(const struct mp_torch_uses *uses, uint32_t pool, uint32_t event)
{
    size_t end = uses_before(uses, pool, event);
    return end && uses->at[end - 1].pool == pool && event < uses->at[end - 1].end;
}

/* Before 2.10, PyTorch's history names no pools. Its pools come from the segment that has the block's address when the
 * recorder reads the history. By then the default pool may have returned the segment, and a private pool may have got
 * that memory. Without history, a block belongs to the pool of the segment's first block. */
static void correct_pool(const struct holder *h, bool has_history, struct mp_torch_step *step)
{
    struct held *segment = segment_of(h, step->address);
    if (!segment) return;
    if (!has_history && segment->pool != NO_POOL)
        step->pool = segment->pool;
    else if (step->pool && is_known(h->uses, step->pool) && !is_used(h->uses, step->pool, segment->event))
        step->pool = 0;
    if (segment->pool == NO_POOL) segment->pool = step->pool;
}

/* PyTorch restores a pool segment by segment: it allocates every block in it, then frees those that were free. Marks
 * such blocks from step `first` on. Returns the step after all these allocations and frees. */
static size_t mark_free_ones(struct mp_torch_history *history, size_t first)
{
    const struct mp_torch_step *steps = history->steps.at;
    size_t count = history->steps.count, end = first, back;
    while (end < count && steps[end].action == MP_TORCH_ALLOC && steps[end].put_back)
        end++;
    for (back = end; back < count && steps[back].action == MP_TORCH_FREE_COMPLETED; back++) {
        /* Blocks are numbered in the order of their allocation. */
        size_t at = first + MP_COUNT_BEFORE(end - first, i, steps[first + i].block < steps[back].block);
        if (at < end && steps[at].block == steps[back].block) history->steps.at[at].was_free = true;
    }
    return back;
}

void mp_torch_follow_uses(const struct mp_model *model, uint16_t driver, struct mp_torch_uses *uses,
                          const struct mp_placements *known, struct mp_torch_history *history)
{
    struct holder h = {.model = model, .uses = uses, .driver = driver};
    put_in_order(uses);
    for (size_t i = 0; i < history->steps.count && uses->count; i++) {
        struct mp_torch_step *step = &history->steps.at[i];
        if (step->action != MP_TORCH_ALLOC) continue;
        follow_driver(&h, step->event);
        correct_pool(&h, mp_placed(known->pool, step->block) != MP_PLACE_UNKNOWN, step);
        step->put_back = step->pool && is_known(uses, step->pool) && !is_used(uses, step->pool, step->event);
    }
    for (size_t i = 0; i < history->steps.count;)
        i = history->steps.at[i].put_back ? mark_free_ones(history, i) : i + 1;
    mp_vec_free(&h.held);
}
