#include "format/chunk_in.h"

#include <msgpack.h>
#include <zlib.h>

#include "format/msgpack_bound.h"

bool mp_chunk_head(const unsigned char *data, uint32_t *sequence, uint32_t *length)
{
    if (memcmp(data, MP_SYNC, MP_SYNC_BYTES) || data[MP_AT_SEQUENCE] != 0xce || data[MP_AT_LENGTH] != 0xce ||
        data[MP_AT_CHECKSUM] != 0xce)
        return false;
    *sequence = mp_get_be32(data + MP_AT_SEQUENCE + 1);
    *length = mp_get_be32(data + MP_AT_LENGTH + 1);
    return *length <= MP_CHUNK_BYTES;
}

bool mp_chunk_intact(const unsigned char *data, size_t size)
{
    uLong sum = crc32(0, data + MP_AT_SEQUENCE, MP_AT_CHECKSUM - MP_AT_SEQUENCE);
    sum = crc32_z(sum, data + MP_AT_KIND, size - MP_AT_KIND);
    return mp_get_be32(data + MP_AT_CHECKSUM + 1) == (uint32_t)sum;
}

bool mp_chunk_in_init(struct mp_chunk_in *in)
{
    *in = (struct mp_chunk_in){.zstd = ZSTD_createDCtx()};
    return in->zstd != NULL;
}

void mp_chunk_in_free(struct mp_chunk_in *in)
{
    mp_vec_free(&in->raw);
    mp_vec_free(&in->live_bytes);
    mp_vec_free(&in->marks);
    ZSTD_freeDCtx(in->zstd);
}

static bool is_uint(const msgpack_object *object)
{
    return object->type == MSGPACK_OBJECT_POSITIVE_INTEGER;
}

static bool parse_column(struct mp_chunk_in *in, const msgpack_object *object)
{
    if (object->type != MSGPACK_OBJECT_ARRAY || object->via.array.size < 4) return false;
    const msgpack_object *parts = object->via.array.ptr;
    if (parts[0].type != MSGPACK_OBJECT_STR || parts[1].type != MSGPACK_OBJECT_STR || !is_uint(&parts[2]) ||
        !is_uint(&parts[3]))
        return false;
    struct mp_column column = {.name = parts[0].via.str.ptr, .name_length = parts[0].via.str.size};
    column.encoding = mp_encoding_find(parts[1].via.str.ptr, parts[1].via.str.size);
    uint64_t count = parts[2].via.u64, bytes = parts[3].via.u64;
    bool text = column.encoding == MP_ENCODING_BYTES;
    if (column.encoding == MP_ENCODINGS) return false;
    if (count > (text ? MP_CHUNK_TEXT + MP_STRING_BYTES : MP_CHUNK_ENTRIES)) return false;
    if (bytes > mp_column_bound(column.encoding, (size_t)count) || (text && bytes != count)) return false;
    column.count = (size_t)count;
    column.bytes = (size_t)bytes;
    in->columns[in->column_count++] = column;
    return true;
}

static bool parse_columns(struct mp_chunk_in *in, const msgpack_object *map)
{
    const msgpack_object *columns = mp_msgpack_get(map, "columns");
    in->column_count = 0;
    if (!columns) return true;
    if (columns->type != MSGPACK_OBJECT_ARRAY || columns->via.array.size > MP_COLUMNS) return false;
    for (uint32_t i = 0; i < columns->via.array.size; i++)
        if (!parse_column(in, &columns->via.array.ptr[i])) return false;
    return true;
}

/* Finds a list of at most MP_CHUNK_ENTRIES integers; an absent list is an empty one. */
static bool uint_list(const msgpack_object *map, const char *key, const msgpack_object **list, size_t *count)
{
    const msgpack_object *object = mp_msgpack_get(map, key);
    *count = 0;
    if (!object) return true;
    if (object->type != MSGPACK_OBJECT_ARRAY || object->via.array.size > 2 * MP_CHUNK_ENTRIES) return false;
    *list = object->via.array.ptr;
    *count = object->via.array.size;
    for (size_t i = 0; i < *count; i++)
        if (!is_uint(&(*list)[i])) return false;
    return true;
}

static enum mp_status parse_live_bytes(struct mp_chunk_in *in, const msgpack_object *map)
{
    const msgpack_object *list;
    size_t count;
    if (!uint_list(map, "live_bytes", &list, &count)) return MP_DAMAGED;
    in->live_bytes.count = 0;
    if (!mp_vec_extend(&in->live_bytes, count)) return MP_NO_MEMORY;
    for (size_t i = 0; i < count; i++)
        in->live_bytes.at[i] = list[i].via.u64;
    in->meta.live_bytes = in->live_bytes.at;
    in->meta.live_bytes_count = count;
    return MP_OK;
}

static enum mp_status parse_marks(struct mp_chunk_in *in, const msgpack_object *map)
{
    const msgpack_object *list;
    size_t count;
    if (!uint_list(map, "marks", &list, &count) || count % 2) return MP_DAMAGED;
    in->marks.count = 0;
    if (!mp_vec_extend(&in->marks, count / 2)) return MP_NO_MEMORY;
    for (size_t i = 0; i < count / 2; i++) {
        if (list[2 * i].via.u64 > UINT32_MAX) return MP_DAMAGED;
        in->marks.at[i].ring = (uint32_t)list[2 * i].via.u64;
        in->marks.at[i].sequence = list[2 * i + 1].via.u64;
    }
    in->meta.marks = in->marks.at;
    in->meta.mark_count = count / 2;
    return MP_OK;
}

static bool parse_tables(struct mp_chunk_meta *meta, const msgpack_object *map)
{
    const msgpack_object *list;
    size_t count;
    if (!uint_list(map, "tables", &list, &count) || count != MP_CHUNK_STACKS) return false;
    for (size_t i = 0; i < MP_CHUNK_STACKS; i++)
        meta->tables[i] = list[i].via.u64;
    return true;
}

static enum mp_status parse_map(struct mp_chunk_in *in, const msgpack_object *map)
{
    uint64_t count;
    struct mp_chunk_meta *meta = &in->meta;
    *meta = (struct mp_chunk_meta){0};
    if (!mp_msgpack_uint(map, "count", &count) || !mp_msgpack_uint(map, "time", &meta->time_ns) ||
        !mp_msgpack_uint(map, "end", &meta->end_ns) || !mp_msgpack_uint(map, "next_block", &meta->next_block) ||
        !mp_msgpack_uint(map, "total", &meta->total) || !mp_msgpack_uint(map, "part_first", &meta->part_first))
        return MP_DAMAGED;
    if (count > MP_CHUNK_ENTRIES || !parse_columns(in, map) || !parse_tables(meta, map)) return MP_DAMAGED;
    meta->count = (size_t)count;
    enum mp_status status = parse_live_bytes(in, map);
    return status ? status : parse_marks(in, map);
}

static enum mp_status parse_meta(struct mp_chunk_in *in, const unsigned char *data, size_t size)
{
    msgpack_unpacked unpacked;
    msgpack_unpacked_init(&unpacked);
    msgpack_unpack_return got = msgpack_unpack_next(&unpacked, (const char *)data, size, NULL);
    enum mp_status status = MP_DAMAGED;
    if (got == MSGPACK_UNPACK_NOMEM_ERROR)
        status = MP_NO_MEMORY;
    else if (got >= MSGPACK_UNPACK_EXTRA_BYTES && unpacked.data.type == MSGPACK_OBJECT_MAP)
        status = parse_map(in, &unpacked.data);
    msgpack_unpacked_destroy(&unpacked);
    return status;
}

/* Finds the bytes of the bin object at `data`, which must end where `data` ends. */
static bool bin_body(const unsigned char *data, size_t size, const unsigned char **body, size_t *length)
{
    size_t head = size && data[0] >= 0xc4 && data[0] <= 0xc6 ? 1 + ((size_t)1 << (data[0] - 0xc4)) : 0;
    if (!head || mp_msgpack_length(data, size) != size) return false;
    *body = data + head;
    *length = size - head;
    return true;
}

static enum mp_status decompress(struct mp_chunk_in *in, const unsigned char *body, size_t length)
{
    size_t total = 0;
    for (size_t i = 0; i < in->column_count; i++)
        total += in->columns[i].bytes;
    if (!total) return length ? MP_DAMAGED : MP_OK;
    in->raw.count = 0;
    if (!mp_vec_reserve(&in->raw, total)) return MP_NO_MEMORY;
    if (ZSTD_decompressDCtx(in->zstd, in->raw.at, total, body, length) != total) return MP_DAMAGED;
    in->raw.count = total;
    const unsigned char *at = in->raw.at;
    for (size_t i = 0; i < in->column_count; at += in->columns[i++].bytes)
        in->columns[i].data = at;
    return MP_OK;
}

enum mp_status mp_chunk_in_parse(struct mp_chunk_in *in, const unsigned char *data, size_t size)
{
    in->kind = data[MP_AT_KIND];
    in->sequence = mp_get_be32(data + MP_AT_SEQUENCE + 1);
    in->column_count = 0;
    if (!in->kind || in->kind >= MP_CHUNK_KINDS) return MP_OK;
    const unsigned char *meta = data + MP_HEAD_BYTES, *end = data + size, *body;
    size_t meta_length = mp_msgpack_length(meta, (size_t)(end - meta)), body_length;
    if (!meta_length || !bin_body(meta + meta_length, (size_t)(end - meta) - meta_length, &body, &body_length))
        return MP_DAMAGED;
    enum mp_status status = parse_meta(in, meta, meta_length);
    return status ? status : decompress(in, body, body_length);
}

static const struct mp_column *find(const struct mp_chunk_in *in, const char *name)
{
    static const struct mp_column absent;
    size_t length = strlen(name);
    for (size_t i = 0; i < in->column_count; i++)
        if (in->columns[i].name_length == length && !memcmp(in->columns[i].name, name, length)) return &in->columns[i];
    return &absent;
}

size_t mp_chunk_in_count(const struct mp_chunk_in *in, const char *name)
{
    return find(in, name)->count;
}

const struct mp_column *mp_chunk_in_column(const struct mp_chunk_in *in, const char *name, size_t count)
{
    const struct mp_column *column = find(in, name);
    return column->count == count ? column : NULL;
}

bool mp_chunk_in_decode(const struct mp_chunk_in *in, const char *name, size_t count, void *to, unsigned bits)
{
    const struct mp_column *column = mp_chunk_in_column(in, name, count);
    return column && mp_column_decode(column, to, bits);
}
