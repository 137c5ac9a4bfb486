#include "format/column.h"

#include <string.h>

#include "base/varint.h"

static const char *const names[MP_ENCODINGS] = {"constant", "varint", "delta", "run", "planes", "bytes"};

const char *mp_encoding_name(enum mp_encoding encoding)
{
    return names[encoding];
}

enum mp_encoding mp_encoding_find(const char *name, size_t length)
{
    for (unsigned i = 0; i < MP_ENCODINGS; i++)
        if (strlen(names[i]) == length && !memcmp(names[i], name, length)) return (enum mp_encoding)i;
    return MP_ENCODINGS;
}

size_t mp_column_bound(enum mp_encoding encoding, size_t count)
{
    switch (encoding) {
    case MP_ENCODING_CONSTANT:
        return MP_VARINT_MAX;
    case MP_ENCODING_RUN:
        return count * 2 * MP_VARINT_MAX;
    case MP_ENCODING_PLANES:
        return count * 8;
    case MP_ENCODING_BYTES:
        return count;
    default:
        return count * MP_VARINT_MAX;
    }
}

static size_t count_runs(const uint64_t *values, size_t count)
{
    size_t runs = 1;
    for (size_t i = 1; i < count; i++)
        runs += values[i] != values[i - 1];
    return runs;
}

static unsigned char *put_runs(unsigned char *to, const uint64_t *values, size_t count)
{
    for (size_t i = 0, end; i < count; i = end) {
        for (end = i + 1; end < count && values[end] == values[i];)
            end++;
        to = mp_varint_put(to, values[i]);
        to = mp_varint_put(to, end - i);
    }
    return to;
}

static unsigned char *put_planes(unsigned char *to, const uint64_t *values, size_t count)
{
    uint64_t all = 0;
    for (size_t i = 0; i < count; i++)
        all |= values[i];
    for (unsigned shift = 0; !shift || (shift < 64 && all >> shift); shift += 8, to += count)
        for (size_t i = 0; i < count; i++)
            to[i] = (unsigned char)(values[i] >> shift);
    return to;
}

enum mp_encoding mp_column_encode(struct mp_buffer *to, const uint64_t *values, size_t count, enum mp_encoding wanted)
{
    size_t runs = count_runs(values, count);
    if (runs == 1)
        wanted = MP_ENCODING_CONSTANT;
    else if (runs < count / 16)
        wanted = MP_ENCODING_RUN;
    unsigned char *start = mp_buffer_room(to, mp_column_bound(wanted, count)), *at = start;
    if (!start) return wanted;
    uint64_t before = 0;
    switch (wanted) {
    case MP_ENCODING_CONSTANT:
        at = mp_varint_put(at, values[0]);
        break;
    case MP_ENCODING_RUN:
        at = put_runs(at, values, count);
        break;
    case MP_ENCODING_PLANES:
        at = put_planes(at, values, count);
        break;
    case MP_ENCODING_DELTA:
        for (size_t i = 0; i < count; before = values[i++])
            at = mp_varint_put(at, mp_zigzag((int64_t)(values[i] - before)));
        break;
    default:
        for (size_t i = 0; i < count; i++)
            at = mp_varint_put(at, values[i]);
        break;
    }
    mp_buffer_grew(to, (size_t)(at - start));
    return wanted;
}

/* Values are decoded in blocks that fit the first-level cache, then narrowed to the requested width. */
#define BLOCK 512

struct decoder {
    enum mp_encoding encoding;
    const unsigned char *at, *end;
    uint64_t value; /* constant, run: the current value; delta: the previous value */
    uint64_t left;  /* run: repetitions left */
};

static bool next_run(struct decoder *decoder)
{
    return mp_varint_get(&decoder->at, decoder->end, &decoder->value) &&
           mp_varint_get(&decoder->at, decoder->end, &decoder->left) && decoder->left;
}

static bool get_runs(struct decoder *decoder, uint64_t *to, size_t count)
{
    for (size_t i = 0; i < count;) {
        if (!decoder->left && !next_run(decoder)) return false;
        size_t here = decoder->left < count - i ? (size_t)decoder->left : count - i;
        decoder->left -= here;
        for (; here; here--)
            to[i++] = decoder->value;
    }
    return true;
}

/* Has a fast path for one or two bytes, the common case; needs room to look ahead. */
static inline bool get_varint(const unsigned char **at, const unsigned char *end, uint64_t *value)
{
    const unsigned char *from = *at;
    if (end - from >= 2) {
        if (from[0] < 0x80) {
            *value = from[0];
            *at = from + 1;
            return true;
        }
        if (from[1] < 0x80) {
            *value = (from[0] & 0x7fu) | (uint64_t)from[1] << 7;
            *at = from + 2;
            return true;
        }
    }
    return mp_varint_get(at, end, value);
}

static bool get_block(struct decoder *decoder, uint64_t *to, size_t count)
{
    const unsigned char *at = decoder->at;
    switch (decoder->encoding) {
    case MP_ENCODING_CONSTANT:
        for (size_t i = 0; i < count; i++)
            to[i] = decoder->value;
        return true;
    case MP_ENCODING_RUN:
        return get_runs(decoder, to, count);
    case MP_ENCODING_DELTA:
        for (size_t i = 0; i < count; i++) {
            uint64_t step;
            if (!get_varint(&at, decoder->end, &step)) return false;
            to[i] = decoder->value += (uint64_t)mp_unzigzag(step);
        }
        break;
    default:
        for (size_t i = 0; i < count; i++)
            if (!get_varint(&at, decoder->end, &to[i])) return false;
        break;
    }
    decoder->at = at;
    return true;
}

#define NARROW(type)                                                                                                   \
    do {                                                                                                               \
        uint64_t all = 0;                                                                                              \
        type *out = to;                                                                                                \
        for (size_t i = 0; i < count; i++) {                                                                           \
            all |= from[i];                                                                                            \
            out[i] = (type)from[i];                                                                                    \
        }                                                                                                              \
        return all <= (type) ~(type)0;                                                                                 \
    } while (0)

static bool narrow(const uint64_t *from, void *to, size_t count, unsigned bits)
{
    switch (bits) {
    case 8:
        NARROW(uint8_t);
    case 16:
        NARROW(uint16_t);
    case 32:
        NARROW(uint32_t);
    default:
        memcpy(to, from, count * sizeof *from);
        return true;
    }
}

static void get_planes(const struct mp_column *column, size_t planes, size_t start, uint64_t *to, size_t count)
{
    const unsigned char *plane = column->data + start;
    for (size_t i = 0; i < count; i++)
        to[i] = plane[i];
    for (unsigned shift = 8; shift < planes * 8; shift += 8) {
        plane += column->count;
        for (size_t i = 0; i < count; i++)
            to[i] |= (uint64_t)plane[i] << shift;
    }
}

static bool decode_planes(const struct mp_column *column, void *to, unsigned bits)
{
    size_t planes = column->bytes / column->count;
    if (!planes || planes > 8 || column->bytes % column->count) return false;
    if (planes == 1 && bits == 8) {
        memcpy(to, column->data, column->count);
        return true;
    }
    uint64_t block[BLOCK];
    for (size_t i = 0; i < column->count; i += BLOCK) {
        size_t here = column->count - i < BLOCK ? column->count - i : BLOCK;
        get_planes(column, planes, i, block, here);
        if (!narrow(block, (char *)to + i * (bits / 8), here, bits)) return false;
    }
    return true;
}

bool mp_column_decode(const struct mp_column *column, void *to, unsigned bits)
{
    if (!column->count) return !column->bytes;
    if (column->encoding == MP_ENCODING_BYTES) return false;
    if (column->encoding == MP_ENCODING_PLANES) return decode_planes(column, to, bits);
    struct decoder decoder = {.encoding = column->encoding, .at = column->data, .end = column->data + column->bytes};
    if (decoder.encoding == MP_ENCODING_CONSTANT && !mp_varint_get(&decoder.at, decoder.end, &decoder.value))
        return false;
    uint64_t block[BLOCK];
    for (size_t i = 0; i < column->count; i += BLOCK) {
        size_t here = column->count - i < BLOCK ? column->count - i : BLOCK;
        if (!get_block(&decoder, block, here)) return false;
        if (!narrow(block, (char *)to + i * (bits / 8), here, bits)) return false;
    }
    return decoder.at == decoder.end && !decoder.left;
}
