/*
 * NVTX's memory extension: an allocator that announces its heaps and their blocks becomes a track of the app layer,
 * DEVICE/app/HEAP. The extension does not give a heap's device: such tracks belong to "device". A free may give the
 * address alone, so the place of each block is kept here, up to REGIONS of them.
 */
#include <string.h>

#include "base/hash.h"
#include "capture/core/recorder.h"
#include "capture/core/room.h"
#include "capture/core/session.h"
#include "capture/nvtx/nvtx_names.h"

#define HEAPS   32 /* number 0: for programs that announce blocks without a heap */
#define REGIONS (1U << 16)
#define NO_TYPE UINT8_MAX /* a number that is none of c10's devices */

static struct heap {
    char name[NVTX_NAME_ROOM];
    _Atomic uint64_t known; /* its track */
} heaps[HEAPS];
static uint32_t heap_count = 1;

/* Linear probing, at most half full. */
static struct region {
    uint64_t address; /* 0: free */
    uint64_t bytes;
    uint32_t heap;
} * regions; /* NULL before the first of them */
static uint32_t regions_used;

static mp_lock lock; /* taken inside hooks only, which a fork waits for */

static uint32_t home_of(uint64_t address)
{
    return (uint32_t)(mp_hash_mix(address) % REGIONS);
}

/* The block that begins there, or the free slot for it. */
static struct region *place_of(uint64_t address)
{
    uint32_t at = home_of(address);
    while (regions[at].address && regions[at].address != address)
        at = (at + 1) % REGIONS;
    return &regions[at];
}

/* Closes the gap: blocks behind it that were displaced over it move up. */
static void take_away(struct region *region)
{
    uint32_t gap = (uint32_t)(region - regions);
    for (uint32_t at = (gap + 1) % REGIONS; regions[at].address; at = (at + 1) % REGIONS) {
        if ((at - home_of(regions[at].address)) % REGIONS < (at - gap) % REGIONS) continue;
        regions[gap] = regions[at];
        gap = at;
    }
    regions[gap].address = 0;
    regions_used--;
}

static uint16_t track_of(struct heap *heap)
{
    return mp_record_track_once(&heap->known, NO_TYPE, -1, MP_LAYER_APP, MP_BASIS_EXACT,
                                *heap->name ? heap->name : "nvtx");
}

static void record_region(struct mp_thread *thread, const struct region *region, bool begins)
{
    struct mp_block_facts block = {.track = track_of(&heaps[region->heap]),
                                   .kind = MP_KIND_DEVICE,
                                   .address = region->address,
                                   .bytes = region->bytes,
                                   .total_allocated = MP_RECORD_TOTAL_UNKNOWN,
                                   .total_reserved = MP_RECORD_TOTAL_UNKNOWN,
                                   .may_be_left_out = true};
    (begins ? mp_record_alloc : mp_record_free)(thread, &block);
}

static void end_region(struct mp_thread *thread, struct region *region)
{
    if (!region->address) return;
    record_region(thread, region, false);
    take_away(region);
}

/* Announcing an address again begins a new block. */
static void begin_region(struct mp_thread *thread, uint32_t heap, const void *address, uint64_t bytes)
{
    uint64_t number = (uint64_t)(uintptr_t)address;
    if (!number || !bytes) return;
    end_region(thread, place_of(number));
    if (regions_used == REGIONS / 2) {
        mp_session_note("more blocks of NVTX's heaps were live than can be followed (32 768)");
        return;
    }
    struct region *region = place_of(number);
    *region = (struct region){.address = number, .bytes = bytes, .heap = heap};
    regions_used++;
    record_region(thread, region, true);
}

static void end_heap(struct mp_thread *thread, uint32_t heap)
{
    for (uint32_t i = 0; i < REGIONS; i++) /* the block that moves up into the gap is checked as well */
        while (regions[i].address && regions[i].heap == heap)
            end_region(thread, &regions[i]);
}

static struct mp_thread *enter(void)
{
    struct mp_thread *thread = mp_hook_enter();
    if (!thread) return NULL;
    mp_session_source(MP_SOURCE_NVTX);
    if (mp_lock_take(&lock)) {
        if (!regions) regions = mp_room_map(REGIONS * sizeof *regions);
        if (regions) return thread;
        mp_lock_release(&lock);
    } else {
        mp_session_without_lock();
    }
    mp_hook_leave(thread);
    return NULL;
}

static void leave(struct mp_thread *thread)
{
    mp_lock_release(&lock);
    mp_hook_leave(thread);
}

/* A heap's handle is its entry here. */
static uint32_t number_of(const void *handle)
{
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)heaps;
    return handle && offset < sizeof heaps && offset % sizeof *heaps == 0 ? (uint32_t)(offset / sizeof *heaps) : 0;
}

/* ---- what the program calls ---- */

static void *heap_register(const void *domain, const struct nvtx_heap *description)
{
    struct mp_thread *thread = description && description->bytes >= sizeof *description ? enter() : NULL;
    if (!thread) return NULL;
    struct heap *heap = heap_count < HEAPS ? &heaps[heap_count++] : NULL;
    if (heap)
        mp_nvtx_name(heap->name, mp_nvtx_domain_number(domain), (int32_t)description->message_type,
                     description->message);
    else
        mp_session_note("NVTX announced more heaps than can be told apart (31); the others are one track");
    leave(thread);
    return heap;
}

static void heap_reset(const void *domain, const void *heap)
{
    (void)domain;
    struct mp_thread *thread = enter();
    if (!thread) return;
    end_heap(thread, number_of(heap));
    leave(thread);
}

/* Reads what the two kinds of batches have in common, though not at the same places. */
static bool are_ranges(uint32_t type, const void *elements, size_t each)
{
    return type == NVTX_MEMORY_VIRTUAL_ADDRESS && elements && each >= sizeof(struct nvtx_memory_range);
}

static const struct nvtx_memory_range *element(const void *elements, size_t bytes, size_t i)
{
    return (const struct nvtx_memory_range *)((const char *)elements + i * bytes);
}

static void regions_register(const void *domain, const struct nvtx_regions_register *batch)
{
    (void)domain;
    if (!batch || batch->bytes < sizeof *batch || !are_ranges(batch->type, batch->elements, batch->element_bytes))
        return;
    struct mp_thread *thread = enter();
    if (!thread) return;
    for (size_t i = 0; i < batch->count; i++) {
        const struct nvtx_memory_range *range = element(batch->elements, batch->element_bytes, i);
        begin_region(thread, number_of(batch->heap), range->address, range->bytes);
        if (batch->handles) batch->handles[i] = (void *)(uintptr_t)range->address; /* the address is the handle */
    }
    leave(thread);
}

static void regions_resize(const void *domain, const struct nvtx_regions_resize *batch)
{
    (void)domain;
    if (!batch || batch->bytes < sizeof *batch || !are_ranges(batch->type, batch->elements, batch->element_bytes))
        return;
    struct mp_thread *thread = enter();
    if (!thread) return;
    for (size_t i = 0; i < batch->count; i++) {
        const struct nvtx_memory_range *range = element(batch->elements, batch->element_bytes, i);
        const struct region *region = place_of((uint64_t)(uintptr_t)range->address);
        if (region->address) begin_region(thread, region->heap, range->address, range->bytes);
    }
    leave(thread);
}

static void regions_unregister(const void *domain, const struct nvtx_regions_unregister *batch)
{
    (void)domain;
    if (!batch || batch->bytes < sizeof *batch || !batch->elements || batch->element_bytes < sizeof(void *)) return;
    struct mp_thread *thread = enter();
    if (!thread) return;
    for (size_t i = 0; i < batch->count; i++) {
        const void *address;
        memcpy(&address, (const char *)batch->elements + i * batch->element_bytes, sizeof address);
        end_region(thread, place_of((uint64_t)(uintptr_t)address));
    }
    leave(thread);
}

__attribute__((visibility("default"))) int InitializeInjectionNvtxExtension(struct nvtx_extension *extension);
int InitializeInjectionNvtxExtension(struct nvtx_extension *extension)
{
    static const struct {
        unsigned slot;
        void *function;
    } functions[] = {
        {NVTX_HEAP_REGISTER, (void *)heap_register},   {NVTX_HEAP_UNREGISTER, (void *)heap_reset},
        {NVTX_HEAP_RESET, (void *)heap_reset},         {NVTX_REGIONS_REGISTER, (void *)regions_register},
        {NVTX_REGIONS_RESIZE, (void *)regions_resize}, {NVTX_REGIONS_UNREGISTER, (void *)regions_unregister}};
    if (!mp_session.page || !extension || extension->bytes < sizeof *extension ||
        extension->module != NVTX_EXTENSION_MEMORY || extension->compatible != NVTX_MEMORY_COMPATIBLE)
        return 0;
    for (size_t i = 0; i < extension->segment_count; i++) {
        struct nvtx_segment *segment = &extension->segments[i];
        if (segment->id != NVTX_MEMORY_SEGMENT) continue;
        for (size_t j = 0; j < sizeof functions / sizeof *functions; j++)
            if (functions[j].slot < segment->slot_count)
                segment->slots[functions[j].slot] = (intptr_t)functions[j].function;
    }
    return 1;
}
