#include "capture/cuda/array_bytes.h"

#include <stdbool.h>

/* Bits of one channel by CUarray_format (cuda.h). Negative: bits of a whole element, in block-compressed and planar
 * formats. The driver's additional padding is unknown. */
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

uint64_t mp_cuda_array_bytes(const struct mp_cu_array3d *array, unsigned levels)
{
    uint64_t bytes = 0;
    if (array->Flags & (MP_CU_ARRAY_SPARSE | MP_CU_ARRAY_DEFERRED_MAPPING)) return 0;
    for (unsigned level = 0; level < levels && level < 32; level++)
        bytes += bytes_of_level(array, level);
    return bytes;
}
