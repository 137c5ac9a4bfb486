/* Expandable segments: address space into which pages are mapped, from its start on. Follows
 * try_allocate_expandable_block(), map_block() and unmap_block() of CUDACachingAllocator.cpp. */
#include "analysis/allocator/torch_parts.h"

static bool ask_address_space(struct mp_torch_allocator *a, uint64_t bytes, uint64_t page, uint64_t *address)
{
    if (a->hooks.reserve) return a->hooks.reserve(a->hooks.context, bytes, page, address);
    *address = a->next_reservation;
    a->next_reservation += bytes;
    return true;
}

static bool ask_pages(struct mp_torch_allocator *a, uint64_t address, uint64_t bytes)
{
    if (a->hooks.map) return a->hooks.map(a->hooks.context, address, bytes);
    return bytes <= a->capacity && a->device_used <= a->capacity - bytes;
}

uint64_t mp_torch_expandable_room(const struct mp_torch_settings *settings, uint64_t total, uint64_t bytes)
{
    uint64_t page = bytes <= MP_TORCH_SMALL ? MP_TORCH_PAGE : settings->large_segment, most = total + total / 8;
    double set = settings->reserve * (double)(settings->reserve_in_gib ? (uint64_t)1 << 30 : total);
    if (set > 0 && set < (double)most) most = (uint64_t)set;
    return (most + page - 1) / page * page;
}

/* A new expandable segment as one unmapped block. */
static uint32_t reserve(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool)
{
    bool small = bytes <= MP_TORCH_SMALL;
    uint64_t page = small ? MP_TORCH_PAGE : a->settings.large_segment, address;
    uint64_t room = mp_torch_expandable_room(&a->settings, a->total, bytes);
    if (room < bytes || !ask_address_space(a, room, page, &address)) return NONE;
    const struct segment segment = {
        .address = address, .bytes = room, .page = page, .stream = stream, .pool = pool, .small = small};
    uint32_t id = mp_torch_segment_new(a, &segment);
    const struct block whole = {.address = address,
                                .bytes = room,
                                .segment = id,
                                .previous = NONE,
                                .next = NONE,
                                .uses = NONE,
                                .state = MP_TORCH_UNMAPPED};
    uint32_t block = mp_torch_block_new(a, &whole);
    a->segments.at[id].first = block;
    mp_torch_put(a, block);
    return block;
}

static bool has_room(const struct mp_torch_allocator *a, uint32_t block, uint64_t bytes)
{
    for (uint64_t sum = 0; block != NONE; block = a->blocks.at[block].next) {
        const struct block *it = &a->blocks.at[block];
        if (it->state != MP_TORCH_FREE && it->state != MP_TORCH_UNMAPPED) return false;
        sum += it->bytes;
        if (sum >= bytes) return true;
    }
    return false;
}

/* The lowest free or unmapped block from which `bytes` would be free in a row, once pages are mapped. */
static uint32_t find_room(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool)
{
    const struct mp_torch_set *set = &a->pools.at[pool].sides[bytes <= MP_TORCH_SMALL].unmapped;
    struct mp_torch_place place = mp_torch_set_find(set, &(struct mp_torch_key){.stream = stream});
    const struct mp_torch_key *key;
    for (; (key = mp_torch_set_at(set, place)) && key->stream == stream; place = mp_torch_set_next(set, place)) {
        uint32_t previous = a->blocks.at[key->block].previous;
        uint32_t from = previous != NONE && a->blocks.at[previous].state == MP_TORCH_FREE ? previous : key->block;
        if (has_room(a, from, bytes)) return from;
    }
    return reserve(a, bytes, stream, pool);
}

/* Maps the pages of the first `bytes` of an unmapped block. Returns the free block that contains them, or NONE. */
static uint32_t map(struct mp_torch_allocator *a, uint32_t block, uint64_t bytes)
{
    const struct segment segment = *segment_of(a, block);
    uint64_t address = a->blocks.at[block].address;
    uint64_t pages = (bytes + segment.page - 1) / segment.page * segment.page;
    if (!ask_pages(a, address, pages)) return NONE;
    mp_torch_take(a, block);
    if (pages < a->blocks.at[block].bytes) {
        mp_torch_put(a, mp_torch_cut(a, block, pages));
    }
    a->blocks.at[block].state = MP_TORCH_FREE;
    block = mp_torch_join(a, block);
    mp_torch_put(a, block);
    mp_torch_gained(a, &segment, pages);
    mp_torch_trace(a, MP_TORCH_SEGMENT_MAP, address, pages, &segment, MP_TORCH_NO_BLOCK);
    return block;
}

uint32_t mp_torch_expand(struct mp_torch_allocator *a, uint64_t bytes, uint64_t stream, uint32_t pool)
{
    uint32_t block = find_room(a, bytes, stream, pool);
    if (block == NONE) return NONE;
    if (a->blocks.at[block].state == MP_TORCH_UNMAPPED) {
        uint64_t room = a->blocks.at[block].bytes;
        block = map(a, block, room < bytes ? room : bytes);
    }
    while (block != NONE && a->blocks.at[block].bytes < bytes) {
        uint32_t next = a->blocks.at[block].next;
        uint64_t missing = bytes - a->blocks.at[block].bytes, room = a->blocks.at[next].bytes;
        block = map(a, next, room < missing ? room : missing); /* joined, so it is the lower one again */
    }
    if (block != NONE) mp_torch_take(a, block);
    return block;
}

void mp_torch_unmap(struct mp_torch_allocator *a, uint32_t block)
{
    const struct segment segment = *segment_of(a, block);
    const struct block it = a->blocks.at[block];
    uint64_t begin = it.address - segment.address, end = begin + it.bytes; /* offsets in the segment */
    uint64_t first = (begin + segment.page - 1) / segment.page * segment.page, last = end / segment.page * segment.page;
    if (first >= last) return;
    mp_torch_take(a, block);
    if (first > begin) {
        uint32_t rest = mp_torch_cut(a, block, first - begin);
        mp_torch_put(a, block);
        block = rest;
    }
    if (end > last) mp_torch_put(a, mp_torch_cut(a, block, last - first));
    a->blocks.at[block].state = MP_TORCH_UNMAPPED;
    block = mp_torch_join(a, block);
    mp_torch_put(a, block);
    mp_torch_lost(a, &segment, last - first);
    mp_torch_trace(a, MP_TORCH_SEGMENT_UNMAP, segment.address + first, last - first, &segment, MP_TORCH_NO_BLOCK);
    if (is_split(&a->blocks.at[block])) return;
    mp_torch_take(a, block);
    mp_torch_segment_unused(a, a->blocks.at[block].segment);
    mp_torch_block_unused(a, block);
}
