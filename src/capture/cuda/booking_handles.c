/* Contexts, and the handles that use memory of a device. */
#include "capture/cuda/booking_parts.h"

#include <string.h>

#include "capture/core/session.h"

enum { CREATED, PRIMARY }; /* `origin` of a context */

static uint64_t value_of(mp_cu_handle handle)
{
    return (uint64_t)(uintptr_t)handle;
}

/* Asks the collector for the device's totals: they may change when contexts, modules or libraries begin or end. */
static void totals_may_have_moved(void)
{
    atomic_fetch_add_explicit(&mp_session.header->devices_changed, 1, memory_order_relaxed);
    mp_session_ring_doorbell();
}

/* ---- contexts ---------------------------------------------------------------------------------------------------- */

int mp_cuda_device_of(uint64_t context)
{
    struct mp_live found;
    return context && mp_live_find(MP_LIVE_CONTEXT, context, &found) ? found.device : MP_NOT_KNOWN;
}

void mp_cuda_context_seen(struct mp_thread *thread, uint64_t context, int device, bool primary)
{
    struct mp_live known;
    if (!context || device < 0) return;
    if (mp_live_find(MP_LIVE_CONTEXT, context, &known)) {
        if (primary || known.origin == CREATED) return;
        known.origin = CREATED;
        struct mp_live entry = known;
        mp_live_put(&entry, &known);
        return;
    }
    struct mp_live entry = {.value = context,
                            .device = (int16_t)device,
                            .refs = 1,
                            .class = MP_LIVE_CONTEXT,
                            .book = MP_BOOK_CONTEXTS,
                            .kind = MP_KIND_HANDLE,
                            .origin = primary ? PRIMARY : CREATED};
    mp_book_begin(thread, &entry);
    totals_may_have_moved();
}

static bool is_of_context(const struct mp_live *entry, uint64_t context)
{
    return entry->context == context && entry->class != MP_LIVE_BINDING;
}

void mp_cuda_context_gone(struct mp_thread *thread, uint64_t context)
{
    struct mp_live taken[MP_LIVE_TAKEN];
    if (!context || !mp_live_take(MP_LIVE_CONTEXT, context, &taken[0])) return;
    mp_book_end(thread, &taken[0]);
    for (unsigned count; (count = mp_live_take_some(is_of_context, context, taken));)
        for (unsigned i = 0; i < count; i++)
            mp_book_end(thread, &taken[i]);
    totals_may_have_moved();
}

void mp_exit_context_create(struct mp_cuda_event *event)
{
    const struct mp_params_cuCtxCreate_v2 *a = event->arguments;
    if (mp_cuda_succeeded(event)) mp_cuda_context_seen(event->thread, value_of(*a->pctx), a->dev, false);
}

void mp_exit_context_create_v3(struct mp_cuda_event *event)
{
    const struct mp_params_cuCtxCreate_v3 *a = event->arguments;
    if (mp_cuda_succeeded(event)) mp_cuda_context_seen(event->thread, value_of(*a->pctx), a->dev, false);
}

void mp_exit_context_create_v4(struct mp_cuda_event *event)
{
    const struct mp_params_cuCtxCreate_v4 *a = event->arguments;
    if (mp_cuda_succeeded(event)) mp_cuda_context_seen(event->thread, value_of(*a->pctx), a->dev, false);
}

void mp_exit_context_destroy(struct mp_cuda_event *event)
{
    const struct mp_params_cuCtxDestroy_v2 *a = event->arguments;
    if (mp_cuda_succeeded(event)) mp_cuda_context_gone(event->thread, value_of(a->ctx));
}

void mp_exit_primary_retain(struct mp_cuda_event *event)
{
    const struct mp_params_cuDevicePrimaryCtxRetain *a = event->arguments;
    if (mp_cuda_succeeded(event)) mp_cuda_context_seen(event->thread, value_of(*a->pctx), a->dev, true);
}

static bool is_primary_of(const struct mp_live *entry, uint64_t device)
{
    return entry->class == MP_LIVE_CONTEXT && entry->origin == PRIMARY && entry->device == (int64_t)device;
}

static void primary_gone(struct mp_cuda_event *event, int device)
{
    struct mp_live taken[MP_LIVE_TAKEN], before;
    unsigned count = mp_live_take_some(is_primary_of, (uint64_t)device, taken);
    for (unsigned i = 0; i < count; i++) {
        mp_live_put(&taken[i], &before); /* put back for the moment: context_gone() ends it */
        mp_cuda_context_gone(event->thread, taken[i].value);
    }
}

void mp_exit_primary_release(struct mp_cuda_event *event)
{
    const struct mp_params_cuDevicePrimaryCtxRelease *a = event->arguments;
    if (mp_cuda_succeeded(event) && event->facts->active == 0) primary_gone(event, a->dev);
}

void mp_exit_primary_reset(struct mp_cuda_event *event)
{
    const struct mp_params_cuDevicePrimaryCtxReset *a = event->arguments;
    if (mp_cuda_succeeded(event)) primary_gone(event, a->dev);
}

void mp_exit_code_load(struct mp_cuda_event *event)
{
    if (mp_cuda_succeeded(event)) totals_may_have_moved();
}

/* ---- devices ----------------------------------------------------------------------------------------------------- */

void mp_cuda_device_is(int ordinal, const struct mp_cu_uuid *uuid, bool final)
{
    if (ordinal < 0 || ordinal >= MP_SPOOL_DEVICES || !uuid) return;
    struct mp_spool_device *device = &mp_session.header->devices[ordinal];
    if (!final && atomic_load(&device->known)) return;
    memcpy(device->uuid, uuid->bytes, sizeof device->uuid);
    atomic_store_explicit(&device->known, 1, memory_order_release);
}

/* For a MIG instance the first form of the call returns the whole GPU's UUID, so the second form's answer is final. */
void mp_exit_device_uuid(struct mp_cuda_event *event)
{
    const struct mp_params_cuDeviceGetUuid_v2 *a = event->arguments;
    if (mp_cuda_succeeded(event)) mp_cuda_device_is(a->dev, a->uuid, event->id == MP_CALL_cuDeviceGetUuid_v2);
}
