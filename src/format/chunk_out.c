#include "format/chunk_out.h"

#include <msgpack.h>
#include <zlib.h>

/* On these columns, level 1 of zstd takes a third of the time of level 3 and compresses a few per cent less; see
 * docs/FORMAT.md. */
#define LEVEL       1
#define BREAK_BYTES 2048

bool mp_chunk_out_init(struct mp_chunk_out *out)
{
    *out = (struct mp_chunk_out){.zstd = ZSTD_createCCtx()};
    return out->zstd && !ZSTD_isError(ZSTD_CCtx_setParameter(out->zstd, ZSTD_c_compressionLevel, LEVEL));
}

void mp_chunk_out_free(struct mp_chunk_out *out)
{
    mp_buffer_free(&out->raw);
    mp_buffer_free(&out->bytes);
    mp_vec_free(&out->breaks);
    ZSTD_freeCCtx(out->zstd);
}

void mp_chunk_out_clear(struct mp_chunk_out *out)
{
    mp_buffer_clear(&out->raw);
    mp_buffer_clear(&out->bytes);
    out->breaks.count = 0;
    out->column_count = 0;
}

/* Each block of a zstd frame has its own statistics. So different data (planes, columns) compresses better in blocks of
 * its own, if it is long enough to pay for a block. If memory is short, breaks get lost, which only costs a little
 * compression. */
static void add_breaks(struct mp_chunk_out *out, size_t before, enum mp_encoding encoding, size_t count)
{
    size_t step = encoding == MP_ENCODING_PLANES ? count : out->raw.size - before;
    for (; step >= BREAK_BYTES && before < out->raw.size; before += step)
        if (!mp_vec_push(&out->breaks, before)) return;
}

void mp_chunk_out_column(struct mp_chunk_out *out, const char *name, enum mp_encoding wanted, const uint64_t *values,
                         size_t count)
{
    if (!count) return;
    size_t before = out->raw.size;
    enum mp_encoding encoding = mp_column_encode(&out->raw, values, count, wanted);
    add_breaks(out, before, encoding, count);
    out->columns[out->column_count++] = (struct mp_column){.name = name,
                                                           .name_length = strlen(name),
                                                           .encoding = encoding,
                                                           .count = count,
                                                           .bytes = out->raw.size - before};
}

void mp_chunk_out_took_bytes(struct mp_chunk_out *out, const char *name, size_t before)
{
    size_t length = out->raw.size - before;
    if (!length) return;
    out->columns[out->column_count++] = (struct mp_column){
        .name = name, .name_length = strlen(name), .encoding = MP_ENCODING_BYTES, .count = length, .bytes = length};
}

static int append_packed(void *buffer, const char *data, size_t length)
{
    mp_buffer_append(buffer, data, length);
    return 0;
}

static void pack_text(msgpack_packer *packer, const char *text)
{
    msgpack_pack_str_with_body(packer, text, strlen(text));
}

static void pack_columns(msgpack_packer *packer, const struct mp_chunk_out *out)
{
    pack_text(packer, "columns");
    msgpack_pack_array(packer, out->column_count);
    for (size_t i = 0; i < out->column_count; i++) {
        const struct mp_column *column = &out->columns[i];
        msgpack_pack_array(packer, 4);
        pack_text(packer, column->name);
        pack_text(packer, mp_encoding_name(column->encoding));
        msgpack_pack_uint64(packer, column->count);
        msgpack_pack_uint64(packer, column->bytes);
    }
}

static void pack_lists(msgpack_packer *packer, const struct mp_chunk_meta *meta)
{
    pack_text(packer, "tables");
    msgpack_pack_array(packer, MP_CHUNK_STACKS);
    for (size_t i = 0; i < MP_CHUNK_STACKS; i++)
        msgpack_pack_uint64(packer, meta->tables[i]);
    if (meta->live_bytes_count) {
        pack_text(packer, "live_bytes");
        msgpack_pack_array(packer, meta->live_bytes_count);
        for (size_t i = 0; i < meta->live_bytes_count; i++)
            msgpack_pack_uint64(packer, meta->live_bytes[i]);
    }
    if (meta->mark_count) {
        pack_text(packer, "marks");
        msgpack_pack_array(packer, meta->mark_count * 2);
        for (size_t i = 0; i < meta->mark_count; i++) {
            msgpack_pack_uint32(packer, meta->marks[i].ring);
            msgpack_pack_uint64(packer, meta->marks[i].sequence);
        }
    }
}

static void pack_meta(struct mp_chunk_out *out, const struct mp_chunk_meta *meta)
{
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {
        {"time", meta->time_ns},          {"end", meta->end_ns},
        {"next_block", meta->next_block}, {"total", meta->total},
        {"part_first", meta->part_first},
    };
    enum { NUMBERS = sizeof numbers / sizeof *numbers };
    size_t keys = 3 + (meta->live_bytes_count > 0) + (meta->mark_count > 0);
    for (size_t i = 0; i < NUMBERS; i++)
        keys += numbers[i].value != 0;

    msgpack_packer packer;
    msgpack_packer_init(&packer, &out->bytes, append_packed);
    msgpack_pack_map(&packer, keys);
    pack_text(&packer, "count");
    msgpack_pack_uint64(&packer, meta->count);
    for (size_t i = 0; i < NUMBERS; i++) {
        if (!numbers[i].value) continue;
        pack_text(&packer, numbers[i].key);
        msgpack_pack_uint64(&packer, numbers[i].value);
    }
    pack_lists(&packer, meta);
    pack_columns(&packer, out);
}

/* Compresses out->raw into `room` bytes at `to`. Returns zstd's error code if that fails. */
static size_t compress_raw(struct mp_chunk_out *out, unsigned char *to, size_t room)
{
    ZSTD_outBuffer target = {to, room, 0};
    size_t result = ZSTD_CCtx_reset(out->zstd, ZSTD_reset_session_only);
    if (!ZSTD_isError(result)) result = ZSTD_CCtx_setPledgedSrcSize(out->zstd, out->raw.size);
    ZSTD_inBuffer source = {out->raw.data, 0, 0};
    for (size_t i = 0; i <= out->breaks.count && !ZSTD_isError(result); i++) {
        bool last = i == out->breaks.count;
        source.size = last ? out->raw.size : out->breaks.at[i];
        if (!last && source.size == source.pos) continue;
        do
            result = ZSTD_compressStream2(out->zstd, &target, &source, last ? ZSTD_e_end : ZSTD_e_flush);
        while (!ZSTD_isError(result) && result);
    }
    return ZSTD_isError(result) ? result : target.pos;
}

/* Appends the payload as a bin 32, whatever its length: the frame can then be compressed in place. */
static enum mp_status pack_payload(struct mp_chunk_out *out, struct mp_error *error)
{
    enum { BLOCK_HEAD = 32 }; /* more than a flush adds */
    size_t bound = ZSTD_compressBound(out->raw.size) + (out->breaks.count + 1) * BLOCK_HEAD;
    unsigned char *to = mp_buffer_room(&out->bytes, 5 + bound);
    if (!to) return mp_fail(error, MP_NO_MEMORY, "no memory for a chunk of %zu bytes", out->raw.size);
    size_t length = out->raw.size ? compress_raw(out, to + 5, bound) : 0;
    if (ZSTD_isError(length))
        return mp_fail(error, MP_NO_MEMORY, "zstd could not compress a chunk: %s", ZSTD_getErrorName(length));
    to[0] = 0xc6;
    mp_put_be32(to + 1, (uint32_t)length);
    mp_buffer_grew(&out->bytes, 5 + length);
    return MP_OK;
}

void mp_chunk_renumber(unsigned char *chunk, size_t size, uint32_t sequence)
{
    mp_put_be32(chunk + MP_AT_SEQUENCE + 1, sequence);
    uLong sum = crc32(0, chunk + MP_AT_SEQUENCE, MP_AT_CHECKSUM - MP_AT_SEQUENCE);
    sum = crc32_z(sum, chunk + MP_AT_KIND, size - MP_AT_KIND);
    mp_put_be32(chunk + MP_AT_CHECKSUM + 1, (uint32_t)sum);
}

enum mp_status mp_chunk_out_finish(struct mp_chunk_out *out, enum mp_chunk_kind kind, uint32_t sequence,
                                   const struct mp_chunk_meta *meta, struct mp_error *error)
{
    unsigned char head[MP_HEAD_BYTES] = MP_SYNC;
    mp_buffer_append(&out->bytes, head, sizeof head);
    pack_meta(out, meta);
    enum mp_status status = MP_OK;
    if (out->raw.failed || out->bytes.failed)
        status = mp_fail(error, MP_NO_MEMORY, "no memory for a chunk of %zu entries", meta->count);
    if (!status) status = pack_payload(out, error);
    if (status) return status;

    if (out->bytes.size - MP_HEAD_BYTES > MP_CHUNK_BYTES)
        return mp_fail(error, MP_LIMIT, "a chunk of %zu bytes is over the recording's limit", out->bytes.size);
    unsigned char *at = out->bytes.data;
    at[MP_AT_SEQUENCE] = at[MP_AT_LENGTH] = at[MP_AT_CHECKSUM] = 0xce;
    mp_put_be32(at + MP_AT_LENGTH + 1, (uint32_t)(out->bytes.size - MP_HEAD_BYTES));
    at[MP_AT_KIND] = (unsigned char)kind;
    mp_chunk_renumber(at, out->bytes.size, sequence);
    return MP_OK;
}
