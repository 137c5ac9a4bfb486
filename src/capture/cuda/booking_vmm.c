/* Virtual memory: address ranges, physical memory by handle, and mappings. Physical memory exists while the program
 * owns a handle to it, or while a part of it is mapped or bound. */
#include "capture/core/session.h"
#include "capture/cuda/booking_parts.h"

void mp_exit_address_reserve(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemAddressReserve *a = event->arguments;
    if (!mp_cuda_succeeded(event)) return;
    mp_cuda_begin(event, MP_LIVE_RESERVATION, *a->ptr, a->size, MP_BOOK_ADDRESSES, MP_KIND_VMM);
}

void mp_exit_vmm_create(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemCreate *a = event->arguments;
    bool on_device = !a->prop || a->prop->location.type == MP_CU_LOCATION_DEVICE;
    enum mp_book book = on_device ? MP_BOOK_DEVICE : MP_BOOK_PINNED;
    int device = a->prop && on_device ? a->prop->location.id : event->facts->device;
    if (!mp_cuda_succeeded(event)) {
        mp_cuda_refused(event, book, device, a->size);
        return;
    }
    struct mp_live physical = mp_cuda_entry(MP_LIVE_PHYSICAL, *a->handle, device, book, MP_KIND_VMM);
    physical.bytes = a->size;
    mp_cuda_begin_entry(event, &physical);
}

/* Adds to the handles (`refs`) or the uses (`uses`) of physical memory or of a multicast object. The memory or object
 * ends when both counts are 0. */
static bool count_references(struct mp_cuda_event *event, uint64_t handle, int refs, int uses)
{
    struct mp_live after;
    if (!mp_live_count(MP_LIVE_PHYSICAL, handle, refs, uses, &after) &&
        !mp_live_count(MP_LIVE_MULTICAST, handle, refs, uses, &after))
        return false;
    if (!after.refs && !after.other) mp_cuda_end(event, &after);
    return true;
}

void mp_enter_vmm_release(struct mp_cuda_event *event)
{
    uint64_t handle = MP_ARGUMENTS(cuMemRelease, event)->handle;
    if (!count_references(event, handle, -1, 0)) event->visit->unknown = handle != 0;
}

void mp_exit_vmm_release(struct mp_cuda_event *event)
{
    if (mp_cuda_succeeded(event) || !event->visit->entered) return;
    if (event->visit->taken_count)
        event->visit->taken[0].refs = 1;
    else
        count_references(event, MP_ARGUMENTS(cuMemRelease, event)->handle, 1, 0);
}

void mp_exit_vmm_import(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemImportFromShareableHandle *a = event->arguments;
    if (!mp_cuda_succeeded(event) || count_references(event, *a->handle, 1, 0)) return;
    struct mp_live physical =
        mp_cuda_entry(MP_LIVE_PHYSICAL, *a->handle, event->facts->device, MP_BOOK_IMPORTED, MP_KIND_VMM);
    mp_cuda_begin_entry(event, &physical);
    mp_session_note("physical memory that was imported by handle is recorded without its size: the driver tells none");
}

void mp_exit_vmm_retain(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemRetainAllocationHandle *a = event->arguments;
    if (mp_cuda_succeeded(event)) count_references(event, *a->handle, 1, 0);
}

void mp_exit_vmm_map(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemMap *a = event->arguments;
    if (!mp_cuda_succeeded(event)) return;
    struct mp_live mapping = mp_cuda_entry(MP_LIVE_MAPPING, a->ptr, event->facts->device, MP_BOOK_MAPPED, MP_KIND_VMM);
    struct mp_live physical = mapping;
    mp_live_find(MP_LIVE_PHYSICAL, a->handle, &physical);
    mapping.bytes = a->size;
    mapping.other = a->handle;
    mapping.device = physical.device;
    count_references(event, a->handle, 0, 1);
    mp_cuda_begin_entry(event, &mapping);
}

/* One call may unmap several adjacent mappings. */
void mp_enter_vmm_unmap(struct mp_cuda_event *event)
{
    const struct mp_params_cuMemUnmap *a = event->arguments;
    struct mp_live mapping;
    bool known = false;
    for (uint64_t at = a->ptr, end = a->ptr + a->size; at < end && mp_live_take(MP_LIVE_MAPPING, at, &mapping);) {
        known = true;
        at += mapping.bytes ? mapping.bytes : end - at;
        mp_cuda_end(event, &mapping);
        count_references(event, mapping.other, 0, -1);
    }
    event->visit->unknown = !known;
}

void mp_exit_vmm_unmap(struct mp_cuda_event *event)
{
    if (mp_cuda_succeeded(event) || !event->visit->taken_count) return;
    /* Restores physical memory before the mappings that use it. */
    mp_cuda_take_back(event);
    const struct mp_params_cuMemUnmap *a = event->arguments;
    struct mp_live mapping;
    for (uint64_t at = a->ptr, end = a->ptr + a->size; at < end && mp_live_find(MP_LIVE_MAPPING, at, &mapping);) {
        count_references(event, mapping.other, 0, 1);
        at += mapping.bytes ? mapping.bytes : end - at;
    }
}

/* ---- multicast: an object to which memory of several devices is bound -------------------------------------------- */

static uint64_t binding_of(uint64_t object, uint64_t offset)
{
    return object ^ offset << 20;
}

void mp_exit_multicast_bind(struct mp_cuda_event *event)
{
    const struct mp_params_cuMulticastBindMem *a = event->arguments;
    if (!mp_cuda_succeeded(event)) return;
    struct mp_live binding = {.value = binding_of(a->mcHandle, a->mcOffset),
                              .other = a->memHandle,
                              .context = a->mcHandle,
                              .class = MP_LIVE_BINDING};
    count_references(event, a->memHandle, 0, 1);
    mp_cuda_begin_entry(event, &binding);
}

void mp_enter_multicast_unbind(struct mp_cuda_event *event)
{
    const struct mp_params_cuMulticastUnbind *a = event->arguments;
    struct mp_live binding;
    if (!mp_live_take(MP_LIVE_BINDING, binding_of(a->mcHandle, a->mcOffset), &binding)) return;
    mp_cuda_end(event, &binding);
    count_references(event, binding.other, 0, -1);
}

void mp_exit_multicast_unbind(struct mp_cuda_event *event)
{
    if (mp_cuda_succeeded(event) || !event->visit->taken_count) return;
    uint64_t memory = event->visit->taken[0].other;
    mp_cuda_take_back(event);
    count_references(event, memory, 0, 1);
}
