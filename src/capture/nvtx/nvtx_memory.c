/*
 * NVTX's memory extension: an allocator announces its heaps and their blocks. Each heap becomes a track of the app
 * layer, DEVICE/app/HEAP. The extension does not say on which device a heap lies, so DEVICE is "device". A free may
 * give only the address, so the recorder remembers the heap and size of each block (capture/cuda/live.h).
 */
#include <string.h>

#include "capture/core/recorder.h"
#include "capture/cuda/live.h"
#include "capture/nvtx/nvtx_names.h"

#define HEAPS   32        /* number 0 is for blocks that are announced without a heap */
#define NO_TYPE UINT8_MAX /* a number that no device type of c10 has */

static struct heap {
    char name[NVTX_NAME_ROOM];
    _Atomic uint64_t known; /* its track, as mp_record_track_once() stores it */
} heaps[HEAPS];
static _Atomic uint32_t heap_count = 1;

static uint16_t track_of(struct heap *heap)
{
    return mp_record_track_once(&heap->known, NO_TYPE, -1, MP_LAYER_APP, MP_BASIS_EXACT,
                                *heap->name ? heap->name : "nvtx");
}

static void record_region(struct mp_thread *thread, const struct mp_live *region, bool begins)
{
    struct mp_block_facts block = {.track = track_of(&heaps[region->other]),
                                   .kind = MP_KIND_DEVICE,
                                   .address = region->value,
                                   .bytes = region->bytes,
                                   .total_allocated = MP_RECORD_TOTAL_UNKNOWN,
                                   .total_reserved = MP_RECORD_TOTAL_UNKNOWN,
                                   .may_be_left_out = true};
    (begins ? mp_record_alloc : mp_record_free)(thread, &block);
}

static void end_region(struct mp_thread *thread, const void *address)
{
    struct mp_live region;
    if (mp_live_take(MP_LIVE_REGION, (uint64_t)(uintptr_t)address, &region)) record_region(thread, &region, false);
}

/* Begins a block. An address that is announced again begins a new block. */
static void begin_region(struct mp_thread *thread, uint64_t heap, const void *address, uint64_t bytes)
{
    const struct mp_live region = {
        .value = (uint64_t)(uintptr_t)address, .bytes = bytes, .other = heap, .class = MP_LIVE_REGION};
    struct mp_live before;
    if (!address || !bytes) return;
    if (mp_live_put(&region, &before)) record_region(thread, &before, false);
    record_region(thread, &region, true);
}

static bool is_of_heap(const struct mp_live *entry, uint64_t heap)
{
    return entry->class == MP_LIVE_REGION && entry->other == heap;
}

static void end_heap(struct mp_thread *thread, uint32_t heap)
{
    struct mp_live taken[MP_LIVE_TAKEN];
    for (unsigned count; (count = mp_live_take_some(is_of_heap, heap, taken));)
        for (unsigned i = 0; i < count; i++)
            record_region(thread, &taken[i], false);
}

static struct mp_thread *enter(void)
{
    struct mp_thread *thread = mp_hook_enter();
    if (thread) mp_session_source(MP_SOURCE_NVTX);
    return thread;
}

/* The number of a heap. Its handle is the address of its entry in `heaps`. */
static uint32_t number_of(const void *handle)
{
    uintptr_t offset = (uintptr_t)handle - (uintptr_t)heaps;
    return handle && offset < sizeof heaps && offset % sizeof *heaps == 0 ? (uint32_t)(offset / sizeof *heaps) : 0;
}

/* ---- functions that the program calls ---- */

static void *heap_register(const void *domain, const struct nvtx_heap *description)
{
    struct mp_thread *thread = description && description->bytes >= sizeof *description ? enter() : NULL;
    if (!thread) return NULL;
    uint32_t number = atomic_load(&heap_count) < HEAPS ? atomic_fetch_add(&heap_count, 1) : HEAPS;
    struct heap *heap = number < HEAPS ? &heaps[number] : NULL;
    if (heap)
        mp_nvtx_name(heap->name, mp_nvtx_domain_number(domain), (int32_t)description->message_type,
                     description->message);
    else
        mp_session_note("NVTX announced more than 31 heaps; the others share one track");
    mp_hook_leave(thread);
    return heap;
}

static void heap_reset(const void *domain, const void *heap)
{
    (void)domain;
    struct mp_thread *thread = enter();
    if (!thread) return;
    end_heap(thread, number_of(heap));
    mp_hook_leave(thread);
}

/* True if a batch's elements are ranges of virtual addresses. Batches for allocation and for freeing have these members
 * in different places. */
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
        if (batch->handles) batch->handles[i] = (void *)(uintptr_t)range->address; /* a block's handle is its address */
    }
    mp_hook_leave(thread);
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
        struct mp_live region;
        if (mp_live_find(MP_LIVE_REGION, (uint64_t)(uintptr_t)range->address, &region))
            begin_region(thread, region.other, range->address, range->bytes);
    }
    mp_hook_leave(thread);
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
        end_region(thread, address);
    }
    mp_hook_leave(thread);
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
