/* Arrays and mipmaps, and memory of others: IPC and external memory. */
#include "capture/cuda/booking_parts.h"

/* ---- sizes ------------------------------------------------------------------------------------------------------- */

/* Bits of one channel by CUarray_format (cuda.h); below 0: of a whole element, in block-compressed and planar formats.
 * The driver's additional padding is unknown. */
static const signed char format_bits[256] = {
    [0x01] = 8,   [0x02] = 16,  [0x03] = 32,  /* unsigned integers */
    [0x08] = 8,   [0x09] = 16,  [0x0a] = 32,  /* signed integers */
    [0x10] = 16,  [0x20] = 32,                /* floats */
    [0x50] = -32,                             /* 10, 10, 10 and 2 bits */
    [0x91] = -4,  [0x92] = -4,                /* BC1 */
    [0x93] = -8,  [0x94] = -8,  [0x95] = -8,  /* BC2, BC3 */
    [0x96] = -8,  [0x97] = -4,  [0x98] = -4,  /* BC3, BC4 */
    [0x99] = -8,  [0x9a] = -8,  [0x9b] = -8,  /* BC5, BC6H */
    [0x9c] = -8,  [0x9d] = -8,  [0x9e] = -8,  /* BC6H, BC7 */
    [0x9f] = -24, [0xa1] = -24, [0xb0] = -12, /* 4:2:0: P010, P016, NV12 */
    [0xa2] = -16, [0xa3] = -32, [0xa4] = -16, /* 4:2:2: NV16, P210, YUY2 */
    [0xa5] = -32, [0xa6] = -32, [0xa7] = -32, /* 4:2:2: P216, Y210, Y216 */
    [0xa8] = -32, [0xa9] = -32, [0xb1] = -64, /* 4:4:4: AYUV, Y410, Y416 */
    [0xb2] = -24, [0xb4] = -24, [0xb5] = -48, /* 4:4:4, planar */
    [0xb3] = -24, [0xc0] = 8,   [0xc1] = 8,   /* normalized integers */
    [0xc2] = 8,   [0xc3] = 16,  [0xc4] = 16,  /* */
    [0xc5] = 16,  [0xc6] = 8,   [0xc7] = 8,   /* */
    [0xc8] = 8,   [0xc9] = 16,  [0xca] = 16,  /* */
    [0xcb] = 16,
};

static uint64_t bytes_of_level(const struct mp_cu_array3d *array, unsigned level)
{
    bool layers = array->Flags & (MP_CU_ARRAY_LAYERED | MP_CU_ARRAY_CUBEMAP);
    uint64_t width = array->Width >> level, height = array->Height >> level;
    uint64_t depth = layers ? array->Depth : array->Depth >> level;
    int bits = array->Format >= 0 && array->Format < 256 ? format_bits[array->Format] : 0;
    uint64_t element = bits < 0 ? (uint64_t)-bits : (uint64_t)bits * array->NumChannels;
    return ((width ? width : 1) * (height ? height : 1) * (depth ? depth : 1) * element + 7) / 8;
}

static uint64_t bytes_of_array(const struct mp_cu_array3d *array, unsigned levels)
{
    uint64_t bytes = 0;
    if (array->Flags & (MP_CU_ARRAY_SPARSE | MP_CU_ARRAY_DEFERRED_MAPPING)) return 0;
    for (unsigned level = 0; level < levels && level < 32; level++)
        bytes += bytes_of_level(array, level);
    return bytes;
}

static void begin_array(struct mp_cuda_event *event, enum mp_live_class class, const mp_cu_handle *handle,
                        const struct mp_cu_array3d *array, unsigned levels)
{
    uint64_t bytes = bytes_of_array(array, levels);
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

/* The driver returns the same address for each opening of the same memory, and counts. */
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

/* The same memory again; destroying the mipmap ends that. */
void mp_exit_external_mipmap(struct mp_cuda_event *event)
{
    const struct mp_params_cuExternalMemoryGetMappedMipmappedArray *a = event->arguments;
    if (!mp_cuda_succeeded(event) || !a->mipmapDesc) return;
    mp_cuda_begin(event, MP_LIVE_MIPMAP, (uint64_t)(uintptr_t)*a->mipmap,
                  bytes_of_array(&a->mipmapDesc->arrayDesc, a->mipmapDesc->numLevels), MP_BOOK_MAPPED, MP_KIND_ARRAY);
}

/* Likewise, by address; cuMemFree ends it. */
void mp_exit_external_buffer(struct mp_cuda_event *event)
{
    const struct mp_params_cuExternalMemoryGetMappedBuffer *a = event->arguments;
    if (!mp_cuda_succeeded(event) || !a->bufferDesc) return;
    mp_cuda_begin(event, MP_LIVE_MEMORY, *a->devPtr, a->bufferDesc->size, MP_BOOK_MAPPED, MP_KIND_DEVICE);
}
