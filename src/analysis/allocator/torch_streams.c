/* Frees of blocks that other streams use: record_stream(), insert_events(), process_events() and
 * synchronize_and_free_events() of CUDACachingAllocator.cpp. No event may be made between a private pool's begin and
 * end, so frees in that time wait. Blocks used only in that time need no event. */
#include "analysis/allocator/torch_parts.h"

void mp_torch_record_stream(struct mp_torch_allocator *a, uint32_t block, uint64_t stream)
{
    if (block == MP_TORCH_NO_BLOCK || segment_of(a, block)->stream == stream) return;
    for (uint32_t id = a->blocks.at[block].uses; id != NONE; id = a->uses.at[id].next)
        if (a->uses.at[id].stream == stream) return;
    const struct use use = {stream, a->blocks.at[block].uses, a->contexts.count > 0};
    uint32_t id = a->unused_use;
    if (id != NONE) {
        a->unused_use = a->uses.at[id].next;
        a->uses.at[id] = use;
    } else {
        id = (uint32_t)a->uses.count;
        mp_vec_add(&a->uses, use);
    }
    a->blocks.at[block].uses = id;
}

static struct queue *queue_of(struct mp_torch_allocator *a, uint64_t stream)
{
    for (size_t i = 0; i < a->queues.count; i++)
        if (a->queues.at[i].stream == stream) return &a->queues.at[i];
    const struct queue queue = {.stream = stream};
    mp_vec_add(&a->queues, queue);
    return &a->queues.at[a->queues.count - 1];
}

/* Ends a block's uses. With `wait`, its free waits for each of them. */
static void end_uses(struct mp_torch_allocator *a, uint32_t block, bool wait, bool but_in_capture)
{
    for (uint32_t id = a->blocks.at[block].uses, next; id != NONE; id = next) {
        struct use *use = &a->uses.at[id];
        next = use->next;
        if (wait && !(but_in_capture && use->in_capture)) {
            struct queue *queue = queue_of(a, use->stream);
            mp_vec_add(&queue->blocks, block);
            a->blocks.at[block].events++;
        }
        use->next = a->unused_use;
        a->unused_use = id;
    }
    a->blocks.at[block].uses = NONE;
}

void mp_torch_wait_for_streams(struct mp_torch_allocator *a, uint32_t block)
{
    a->blocks.at[block].state = MP_TORCH_PENDING;
    if (!a->contexts.count)
        end_uses(a, block, true, false);
    else
        mp_vec_add(&a->deferred, block);
}

static void end_deferral(struct mp_torch_allocator *a)
{
    for (size_t i = 0; i < a->deferred.count; i++) {
        uint32_t block = a->deferred.at[i];
        end_uses(a, block, true, true);
        if (!a->blocks.at[block].events) mp_torch_free_now(a, block);
    }
    a->deferred.count = 0;
}

static void take_done(struct mp_torch_allocator *a, struct queue *queue)
{
    for (; queue->first < queue->done; queue->first++) {
        uint32_t block = queue->blocks.at[queue->first];
        if (!--a->blocks.at[block].events) mp_torch_free_now(a, block);
    }
    if (queue->first == queue->blocks.count) queue->first = queue->done = queue->blocks.count = 0;
}

void mp_torch_look_at_streams(struct mp_torch_allocator *a)
{
    end_deferral(a);
    for (size_t i = 0; i < a->queues.count; i++)
        take_done(a, &a->queues.at[i]);
}

void mp_torch_finish_streams(struct mp_torch_allocator *a)
{
    end_deferral(a);
    for (size_t i = 0; i < a->queues.count; i++) {
        a->queues.at[i].done = a->queues.at[i].blocks.count;
        take_done(a, &a->queues.at[i]);
    }
}

void mp_torch_complete(struct mp_torch_allocator *a, uint32_t block)
{
    if (block == MP_TORCH_NO_BLOCK || a->blocks.at[block].state != MP_TORCH_PENDING) return;
    end_uses(a, block, false, false);
    a->blocks.at[block].events = 0;
    mp_vec_each (struct queue, queue, &a->queues) {
        size_t kept = 0, done = queue->done;
        for (size_t at = 0; at < queue->blocks.count; at++) {
            if (at >= queue->first && queue->blocks.at[at] != block)
                queue->blocks.at[kept++] = queue->blocks.at[at];
            else if (at < queue->done)
                done--;
        }
        queue->first = 0;
        queue->done = done;
        queue->blocks.count = kept;
    }
    size_t kept = 0;
    for (size_t i = 0; i < a->deferred.count; i++)
        if (a->deferred.at[i] != block) a->deferred.at[kept++] = a->deferred.at[i];
    a->deferred.count = kept;
    mp_torch_free_now(a, block);
}
