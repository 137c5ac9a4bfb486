/* Arrays and mipmaps, and memory of other processes and interfaces: IPC and external memory. */
#include "capture/cuda/array_bytes.h"
#include "capture/cuda/booking_parts.h"

static void begin_array(struct mp_cuda_event *event, enum mp_live_class class, const mp_cu_handle *handle,
                        const struct mp_cu_array3d *array, unsigned levels)
{
    uint64_t bytes = mp_cuda_array_bytes(array, levels);
    if (mp_cuda_succeeded(event))
        mp_cuda_begin(event, class, (uint64_t)(uintptr_t)*handle, bytes, MP_BOOK_DEVICE, MP_KIND_ARRAY);
    else
        mp_cuda_refused(event, MP_BOOK_DEVICE, event->facts->device, bytes);
}

void mp_exit_array3d_create(struct mp_cuda_event *event)
{
    const struct mp_params_cuArray3DCreate_v2 *a = event->arguments;
    if (a->pAllocateArray) begin_array(event, MP_LIVE_ARRAY, a->pHandle, a->pAllocateArray, 1);
}

void mp_exit_array_create(struct mp_cuda_event *event)
{
    const struct mp_params_cuArrayCreate_v2 *a = event->arguments;
    if (!a->pAllocateArray) return;
    struct mp_cu_array3d array = {.Width = a->pAllocateArray->Width,
                                  .Height = a->pAllocateArray->Height,
                                  .Format = a->pAllocateArray->Format,
                                  .NumChannels = a->pAllocateArray->NumChannels};
    begin_array(event, MP_LIVE_ARRAY, a->pHandle, &array, 1);
}

void mp_exit_mipmap_create(struct mp_cuda_event *event)
{
    const struct mp_params_cuMipmappedArrayCreate *a = event->arguments;
    if (a->pMipmappedArrayDesc)
        begin_array(event, MP_LIVE_MIPMAP, a->pHandle, a->pMipmappedArrayDesc, a->numMipmapLevels);
}

/* ---- memory of others -------------------------------------------------------------------------------------------- */

/* The driver returns the same address for each opening of the same memory, and counts the openings. */
void mp_exit_ipc_open(struct mp_cuda_event *event)
{
    const struct mp_params_cuIpcOpenMemHandle_v2 *a = event->arguments;
    struct mp_live known;
    if (!mp_cuda_succeeded(event)) return;
    uint64_t bytes = event->facts->bytes == MP_BYTES_UNKNOWN ? 0 : event->facts->bytes;
    if (!mp_live_count(MP_LIVE_MEMORY, *a->pdptr, 1, 0, &known))
        mp_cuda_begin(event, MP_LIVE_MEMORY, *a->pdptr, bytes, MP_BOOK_IMPORTED, MP_KIND_DEVICE);
}

void mp_enter_ipc_close(struct mp_cuda_event *event)
{
    struct mp_live after;
    if (!mp_live_count(MP_LIVE_MEMORY, MP_ARGUMENTS(cuIpcCloseMemHandle, event)->dptr, -1, 0, &after))
        event->visit->unknown = true;
    else if (!after.refs)
        mp_cuda_end(event, &after);
}

void mp_exit_ipc_close(struct mp_cuda_event *event)
{
    struct mp_live known;
    if (mp_cuda_succeeded(event) || !event->visit->entered) return;
    if (event->visit->taken_count)
        event->visit->taken[0].refs = 1;
    else
        mp_live_count(MP_LIVE_MEMORY, MP_ARGUMENTS(cuIpcCloseMemHandle, event)->dptr, 1, 0, &known);
}

void mp_exit_external_import(struct mp_cuda_event *event)
{
    const struct mp_params_cuImportExternalMemory *a = event->arguments;
    if (!mp_cuda_succeeded(event) || !a->memHandleDesc) return;
    mp_cuda_begin(event, MP_LIVE_EXTERNAL, (uint64_t)(uintptr_t)*a->extMem_out, a->memHandleDesc->size,
                  MP_BOOK_IMPORTED, MP_KIND_DEVICE);
}

/* The mipmap is the same memory under a second handle. Destroying the mipmap ends this entry. */
void mp_exit_external_mipmap(struct mp_cuda_event *event)
{
    const struct mp_params_cuExternalMemoryGetMappedMipmappedArray *a = event->arguments;
    if (!mp_cuda_succeeded(event) || !a->mipmapDesc) return;
    mp_cuda_begin(event, MP_LIVE_MIPMAP, (uint64_t)(uintptr_t)*a->mipmap,
                  mp_cuda_array_bytes(&a->mipmapDesc->arrayDesc, a->mipmapDesc->numLevels), MP_BOOK_MAPPED,
                  MP_KIND_ARRAY);
}

/* The buffer is the same memory under an address. cuMemFree ends this entry. */
void mp_exit_external_buffer(struct mp_cuda_event *event)
{
    const struct mp_params_cuExternalMemoryGetMappedBuffer *a = event->arguments;
    if (!mp_cuda_succeeded(event) || !a->bufferDesc) return;
    mp_cuda_begin(event, MP_LIVE_MEMORY, *a->devPtr, a->bufferDesc->size, MP_BOOK_MAPPED, MP_KIND_DEVICE);
}
