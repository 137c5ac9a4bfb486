#include <errno.h>
#include <stdlib.h>

#include "format/chunk_in.h"
#include "format/events.h"
#include "format/scan.h"
#include "format/writer_state.h"

enum mp_status mp_writer_written(const struct mp_writer *writer, struct mp_written *written, struct mp_error *error)
{
    size_t bytes = writer->index.count * sizeof *writer->index.at;
    *written = (struct mp_written){.fd = writer->fd,
                                   .bytes = writer->offset,
                                   .next_block = writer->next_block,
                                   .chunks = malloc(bytes + 1),
                                   .count = writer->index.count};
    memcpy(written->tables, writer->counts.of, sizeof written->tables);
    if (!written->chunks) return mp_fail(error, MP_NO_MEMORY, "no memory for the list of chunks");
    if (bytes) memcpy(written->chunks, writer->index.at, bytes);
    return MP_OK;
}

static enum mp_status copy_chunk(struct mp_writer *writer, const struct mp_written *from, size_t at,
                                 struct mp_error *error)
{
    struct mp_index_entry entry = from->chunks[at];
    uint64_t end = at + 1 < from->count ? from->chunks[at + 1].offset : from->bytes;
    size_t size = (size_t)(end - entry.offset);
    unsigned char *bytes = malloc(size);
    if (!bytes) return mp_fail(error, MP_NO_MEMORY, "no memory to copy a chunk");
    ssize_t got = mp_read_at(from->fd, bytes, size, entry.offset);
    enum mp_status status = MP_OK;
    if (got != (ssize_t)size) {
        if (got >= 0) errno = EIO;
        status = mp_fail_errno(error, "cannot read the recording again");
    } else if (!mp_chunk_intact(bytes, size)) {
        status = mp_fail(error, MP_IO, "the recording has changed on disk");
    }
    entry.offset = writer->offset;
    entry.sequence = writer->sequence;
    if (!status && !mp_vec_push(&writer->index, entry))
        status = mp_fail(error, MP_NO_MEMORY, "no memory for the recording's index");
    if (!status) {
        mp_chunk_renumber(bytes, size, writer->sequence);
        status = mp_writer_put(writer, bytes, size, error);
    }
    if (!status) writer->sequence++;
    free(bytes);
    return status;
}

enum mp_status mp_writer_copy(struct mp_writer *writer, const struct mp_written *from, uint64_t offset,
                              struct mp_error *error)
{
    enum mp_status status = mp_writer_failure(writer, error);
    for (size_t i = 0; !status && i < from->count; i++)
        if (from->chunks[i].offset >= offset) status = copy_chunk(writer, from, i, error);
    if (status) return status;
    writer->next_block = from->next_block;
    memcpy(writer->counts.of, from->tables, sizeof from->tables);
    return MP_OK;
}

uint64_t mp_writer_memory(const struct mp_writer *writer)
{
    return sizeof *writer + mp_events_out_bytes() + MP_CHUNK_ENTRIES * sizeof *writer->scratch +
           writer->index.room * sizeof *writer->index.at + writer->chunk.raw.room + writer->chunk.bytes.room;
}
