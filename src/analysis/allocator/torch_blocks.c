#include "analysis/allocator/torch_parts.h"

uint32_t mp_torch_block_new(struct mp_torch_allocator *a, const struct block *block)
{
    uint32_t id = a->unused_block;
    if (id != NONE) {
        a->unused_block = a->blocks.at[id].next;
        a->blocks.at[id] = *block;
        return id;
    }
    mp_vec_add(&a->blocks, *block);
    return (uint32_t)a->blocks.count - 1;
}

void mp_torch_block_unused(struct mp_torch_allocator *a, uint32_t block)
{
    a->blocks.at[block].unused = true;
    a->blocks.at[block].next = a->unused_block;
    a->unused_block = block;
}

uint32_t mp_torch_cut(struct mp_torch_allocator *a, uint32_t block, uint64_t bytes)
{
    struct block high = a->blocks.at[block];
    high.address += bytes;
    high.bytes -= bytes;
    high.previous = block;
    uint32_t id = mp_torch_block_new(a, &high);
    a->blocks.at[block].bytes = bytes;
    a->blocks.at[block].next = id;
    if (high.next != NONE) a->blocks.at[high.next].previous = id;
    return id;
}

static struct mp_torch_set *set_of(struct mp_torch_allocator *a, uint32_t block, struct mp_torch_key *key)
{
    const struct block *it = &a->blocks.at[block];
    const struct segment *segment = segment_of(a, block);
    struct side *side = side_of(a, segment);
    bool unmapped = it->state == MP_TORCH_UNMAPPED;
    *key = (struct mp_torch_key){.stream = segment->stream,
                                 .bytes = unmapped ? 0 : it->bytes,
                                 .age = unmapped ? 0 : segment->age,
                                 .address = it->address,
                                 .block = block};
    return unmapped ? &side->unmapped : &side->blocks;
}

void mp_torch_put(struct mp_torch_allocator *a, uint32_t block)
{
    struct mp_torch_key key;
    struct mp_torch_set *set = set_of(a, block, &key);
    a->blocks.at[block].age_base = side_of(a, segment_of(a, block))->searches;
    mp_torch_set_insert(set, &key);
}

void mp_torch_take(struct mp_torch_allocator *a, uint32_t block)
{
    struct mp_torch_key key;
    struct mp_torch_set *set = set_of(a, block, &key);
    mp_torch_set_remove(set, &key);
}

/* Makes one block of two neighbours. */
static void absorb(struct mp_torch_allocator *a, uint32_t low, uint32_t high)
{
    a->blocks.at[low].bytes += a->blocks.at[high].bytes;
    a->blocks.at[low].next = a->blocks.at[high].next;
    if (a->blocks.at[low].next != NONE) a->blocks.at[a->blocks.at[low].next].previous = low;
    mp_torch_block_unused(a, high);
}

uint32_t mp_torch_join(struct mp_torch_allocator *a, uint32_t block)
{
    uint32_t previous = a->blocks.at[block].previous, next = a->blocks.at[block].next;
    uint8_t state = a->blocks.at[block].state;
    if (previous != NONE && a->blocks.at[previous].state == state) {
        mp_torch_take(a, previous);
        absorb(a, previous, block);
        block = previous;
    }
    if (next != NONE && a->blocks.at[next].state == state) {
        mp_torch_take(a, next);
        absorb(a, block, next);
    }
    return block;
}

void mp_torch_pool_need(struct mp_torch_allocator *a, uint32_t pool)
{
    mp_vec_grow_to(&a->pools, (size_t)pool + 1);
}
