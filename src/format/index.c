#include "format/index.h"

#include "format/chunk_in.h"
#include "format/tables.h"

/* The rows of an index chunk, appended. */
static enum mp_status add_rows(const struct mp_chunk_in *chunk, struct mp_index *index)
{
    const struct mp_table *table = mp_table_of(MP_CHUNK_INDEX);
    size_t before = index->count, count = chunk->meta.count;
    uint64_t *values = malloc((count + 1) * sizeof *values);
    enum mp_status status = values && mp_vec_extend(index, before + count) ? MP_OK : MP_NO_MEMORY;
    for (size_t i = 0; !status && i < table->field_count; i++) {
        const struct mp_field *field = &table->fields[i];
        if (!mp_chunk_in_decode(chunk, field->name, count, values, 64))
            status = MP_NOT_FOUND;
        else
            mp_table_scatter(field, index->at + before, table->row, count, values);
    }
    free(values);
    return status;
}

/* The chunk at the scan's place. MP_NOT_FOUND: it is none of the index. */
static enum mp_status read_chunk(struct mp_scan *scan, struct mp_chunk_in *chunk, struct mp_index *index,
                                 struct mp_error *error)
{
    uint64_t place = scan->at;
    enum mp_status status = mp_scan_chunk(scan, error);
    if (status) return status;
    if (scan->at != place) return MP_NOT_FOUND;
    status = mp_chunk_in_parse(chunk, scan->bytes.at, scan->bytes.count);
    if (!status && chunk->kind == MP_CHUNK_INDEX) status = add_rows(chunk, index);
    mp_scan_advance(scan);
    if (status == MP_NO_MEMORY) return mp_fail(error, status, "no memory for the recording's index");
    return status || chunk->kind != MP_CHUNK_INDEX ? MP_NOT_FOUND : MP_OK;
}

static bool is_whole(const struct mp_scan *scan, uint64_t start, const struct mp_index *index, uint64_t index_chunks)
{
    uint64_t offset = start;
    for (size_t i = 0; i < index->count; i++) {
        const struct mp_index_entry *entry = &index->at[i];
        if (entry->sequence != i || (i ? entry->offset <= offset : entry->offset != offset)) return false;
        offset = entry->offset;
    }
    return offset <= scan->index && index->count + index_chunks == scan->chunk_total;
}

enum mp_status mp_index_read(const struct mp_scan *scan, uint64_t start, struct mp_index *index, struct mp_error *error)
{
    struct mp_scan here = {.fd = scan->fd, .at = scan->index, .end = scan->end, .effort = scan->end};
    struct mp_chunk_in chunk;
    uint64_t chunks = 0;
    index->count = 0;
    if (!scan->has_end || here.at < start || here.at >= here.end) return MP_NOT_FOUND;
    if (!mp_chunk_in_init(&chunk)) return mp_fail(error, MP_NO_MEMORY, "no memory for the recording's index");
    enum mp_status status = MP_OK;
    for (; !status && here.at < here.end; chunks++)
        status = read_chunk(&here, &chunk, index, error);
    if (!status && !is_whole(scan, start, index, chunks)) status = MP_NOT_FOUND;
    mp_chunk_in_free(&chunk);
    mp_scan_close(&here);
    return status;
}
