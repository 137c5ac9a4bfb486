#include "format/writer.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/vec.h"
#include "format/chunk_in.h"
#include "format/chunk_out.h"
#include "format/events.h"
#include "format/layout.h"
#include "format/scan.h"
#include "format/start.h"
#include "format/tables.h"

struct mp_writer {
    int fd;
    uint64_t offset; /* bytes of whole objects in the file */
    uint32_t sequence;
    uint64_t next_block;
    struct mp_table_counts counts;
    uint64_t text_bytes; /* bytes of all strings together */
    struct mp_chunk_out chunk;
    struct mp_events_out *events;
    MP_VEC(struct mp_index_entry) index;
    uint64_t *scratch;       /* MP_CHUNK_ENTRIES values */
    struct mp_error failure; /* the first write's failure; every later call repeats it */
};

static enum mp_status writer_failure(const struct mp_writer *writer, struct mp_error *error)
{
    if (error && writer->failure.status) *error = writer->failure;
    return writer->failure.status;
}

/* Writes all `size` bytes. If that fails, truncates the file to its former length. */
static enum mp_status writer_put(struct mp_writer *writer, const void *data, size_t size, struct mp_error *error)
{
    const char *at = data;
    for (size_t left = size; left;) {
        ssize_t put = write(writer->fd, at, left);
        if (put > 0) {
            at += put;
            left -= (size_t)put;
        } else if (!put || errno != EINTR) {
            if (!put) errno = EIO;
            enum mp_status status = mp_fail_errno(&writer->failure, "cannot write the recording");
            if (ftruncate(writer->fd, (off_t)writer->offset)) errno = writer->failure.sys_errno;
            writer_failure(writer, error);
            return status;
        }
    }
    writer->offset += size;
    return MP_OK;
}

static bool make_buffers(struct mp_writer *writer)
{
    writer->events = mp_events_out_new();
    writer->scratch = malloc(MP_CHUNK_ENTRIES * sizeof *writer->scratch);
    return mp_chunk_out_init(&writer->chunk) && writer->events && writer->scratch;
}

enum mp_status mp_writer_open(int fd, const struct mp_recording_start *start, struct mp_writer **writer,
                              struct mp_error *error)
{
    *writer = NULL;
    struct mp_writer *opened = calloc(1, sizeof *opened);
    if (!opened) {
        close(fd);
        return mp_fail(error, MP_NO_MEMORY, "no memory to write a recording");
    }
    opened->fd = fd;
    struct mp_buffer first = {0};
    enum mp_status status = MP_OK;
    if (!make_buffers(opened)) status = mp_fail(error, MP_NO_MEMORY, "no memory to write a recording");
    if (!status) status = mp_start_pack(&first, start, error);
    if (!status) status = writer_put(opened, first.data, first.size, error);
    mp_buffer_free(&first);
    if (status)
        mp_writer_abandon(opened);
    else
        *writer = opened;
    return status;
}

/* Writes the chunk whose columns were added. */
static enum mp_status emit(struct mp_writer *writer, enum mp_chunk_kind kind, struct mp_chunk_meta *meta,
                           struct mp_error *error)
{
    memcpy(meta->tables, writer->counts.of + 1, sizeof meta->tables);
    enum mp_status status = mp_chunk_out_finish(&writer->chunk, kind, writer->sequence, meta, error);
    if (status) return status;
    struct mp_index_entry entry = {.offset = writer->offset,
                                   .kind = kind,
                                   .sequence = writer->sequence,
                                   .count = meta->count,
                                   .time_ns = meta->time_ns,
                                   .end_ns = meta->end_ns};
    if (kind != MP_CHUNK_INDEX && !mp_vec_push(&writer->index, entry))
        return mp_fail(error, MP_NO_MEMORY, "no memory for the recording's index");
    status = writer_put(writer, writer->chunk.bytes.data, writer->chunk.bytes.size, error);
    if (!status) writer->sequence++;
    return status;
}

static bool all_zero(const uint64_t *values, size_t count)
{
    uint64_t any = 0;
    for (size_t i = 0; i < count; i++)
        any |= values[i];
    return !any;
}

static enum mp_status add_field(struct mp_writer *writer, const struct mp_table_layout *table,
                                const struct mp_field *field, const void *rows, size_t count, uint64_t first,
                                struct mp_error *error)
{
    struct mp_chunk_out *chunk = &writer->chunk;
    if (field->width > 8) {
        size_t before = chunk->raw.size;
        for (size_t i = 0; i < count; i++)
            mp_buffer_append(&chunk->raw, (const char *)rows + i * table->row + field->offset, field->width);
        mp_chunk_out_took_bytes(chunk, field->name, before);
        return MP_OK;
    }
    size_t bad;
    mp_table_gather(field, rows, table->row, count, writer->scratch);
    if (field->optional && all_zero(writer->scratch, count)) return MP_OK;
    if (!mp_table_check(field, writer->scratch, count, first, &writer->counts, &bad))
        return mp_fail(error, MP_INVALID, "%s %llu has %s %llu, which there is not", table->name,
                       (unsigned long long)(first + bad), field->name, (unsigned long long)writer->scratch[bad]);
    mp_chunk_out_column(chunk, field->name, field->encoding, writer->scratch, count);
    return MP_OK;
}

/* Adds the columns of up to MP_CHUNK_ENTRIES rows. */
static enum mp_status add_rows(struct mp_writer *writer, const struct mp_table_layout *table, const void *rows,
                               size_t count, uint64_t first, struct mp_error *error)
{
    mp_chunk_out_clear(&writer->chunk);
    enum mp_status status = MP_OK;
    for (size_t i = 0; !status && i < table->field_count; i++)
        status = add_field(writer, table, &table->fields[i], rows, count, first, error);
    return status;
}

static enum mp_status check_room(const struct mp_writer *writer, enum mp_chunk_kind kind, const char *name, size_t more,
                                 struct mp_error *error)
{
    if (kind > MP_CHUNK_STACKS || more <= mp_table_most(kind) - writer->counts.of[kind]) return MP_OK;
    return mp_fail(error, MP_LIMIT, "a recording has room for %llu entries of kind \"%s\", and there are more",
                   (unsigned long long)mp_table_most(kind), name);
}

/* Writes all rows of a plain table, in as many chunks as needed. */
static enum mp_status put_table(struct mp_writer *writer, enum mp_chunk_kind kind, const void *rows, size_t count,
                                struct mp_error *error)
{
    const struct mp_table_layout *table = mp_table_of(kind);
    enum mp_status status = writer_failure(writer, error);
    if (!status) status = check_room(writer, kind, table->name, count, error);
    for (size_t done = 0; !status && done < count;) {
        size_t here = count - done < MP_CHUNK_ENTRIES ? count - done : MP_CHUNK_ENTRIES;
        struct mp_chunk_meta meta = {.count = here};
        bool has_ids = kind <= MP_CHUNK_STACKS;
        uint64_t first = has_ids ? writer->counts.of[kind] : 0;
        status = add_rows(writer, table, (const char *)rows + done * table->row, here, first, error);
        if (!status) status = emit(writer, kind, &meta, error);
        if (!status) mp_table_counts_add(&writer->counts, kind, here);
        done += here;
    }
    return status;
}

enum mp_status mp_writer_strings(struct mp_writer *writer, const struct mp_string *strings, size_t count,
                                 struct mp_error *error)
{
    enum mp_status status = writer_failure(writer, error);
    if (!status) status = check_room(writer, MP_CHUNK_STRINGS, "string", count, error);
    for (size_t done = 0; !status && done < count;) {
        mp_chunk_out_clear(&writer->chunk);
        size_t here = 0, text = 0;
        for (; here < MP_CHUNK_ENTRIES && done + here < count && text < MP_CHUNK_TEXT; here++) {
            const struct mp_string *string = &strings[done + here];
            if (string->length > MP_STRING_BYTES)
                return mp_fail(error, MP_LIMIT, "a text of %zu bytes is longer than a recording's limit of %u",
                               string->length, MP_STRING_BYTES);
            writer->scratch[here] = string->length;
            mp_buffer_append(&writer->chunk.raw, string->text, string->length);
            text += string->length;
        }
        if (text > MP_TEXT_BYTES - writer->text_bytes)
            return mp_fail(error, MP_LIMIT, "a recording has room for %u bytes of text, and there is more",
                           MP_TEXT_BYTES);
        mp_chunk_out_took_bytes(&writer->chunk, "text", 0);
        mp_chunk_out_column(&writer->chunk, "length", MP_ENCODING_VARINT, writer->scratch, here);
        struct mp_chunk_meta meta = {.count = here};
        status = emit(writer, MP_CHUNK_STRINGS, &meta, error);
        if (!status) {
            writer->counts.of[MP_CHUNK_STRINGS] += here;
            writer->text_bytes += text;
        }
        done += here;
    }
    return status;
}

#define TABLE_WRITER(function, type, kind)                                                                             \
    enum mp_status function(struct mp_writer *writer, const struct type *rows, size_t count, struct mp_error *error)   \
    {                                                                                                                  \
        return put_table(writer, kind, rows, count, error);                                                            \
    }

TABLE_WRITER(mp_writer_devices, mp_device, MP_CHUNK_DEVICES)
TABLE_WRITER(mp_writer_tracks, mp_track, MP_CHUNK_TRACKS)
TABLE_WRITER(mp_writer_threads, mp_thread_info, MP_CHUNK_THREADS)
TABLE_WRITER(mp_writer_modules, mp_module, MP_CHUNK_MODULES)
TABLE_WRITER(mp_writer_frames, mp_frame, MP_CHUNK_FRAMES)
TABLE_WRITER(mp_writer_stacks, mp_stack_node, MP_CHUNK_STACKS)
TABLE_WRITER(mp_writer_symbols, mp_symbol, MP_CHUNK_SYMBOLS)
TABLE_WRITER(mp_writer_samples, mp_sample, MP_CHUNK_SAMPLES)
TABLE_WRITER(mp_writer_segments, mp_segment, MP_CHUNK_SEGMENTS)
TABLE_WRITER(mp_writer_parts, mp_segment_part, MP_CHUNK_SEGMENT_PARTS)
TABLE_WRITER(mp_writer_calls, mp_allocator_call, MP_CHUNK_CALLS)
TABLE_WRITER(mp_writer_asides, mp_aside, MP_CHUNK_ASIDES)
TABLE_WRITER(mp_writer_labels, mp_label, MP_CHUNK_LABELS)
TABLE_WRITER(mp_writer_holders, mp_block_holder, MP_CHUNK_HOLDERS)
TABLE_WRITER(mp_writer_uses, mp_block_use, MP_CHUNK_USES)
TABLE_WRITER(mp_writer_metadata, mp_block_metadata, MP_CHUNK_METADATA)
TABLE_WRITER(mp_writer_requests, mp_block_request, MP_CHUNK_REQUESTS)
TABLE_WRITER(mp_writer_past_peaks, mp_past_peak, MP_CHUNK_PAST_PEAKS)
TABLE_WRITER(mp_writer_past_sites, mp_past_site, MP_CHUNK_PAST_SITES)

enum mp_status mp_writer_rows(struct mp_writer *writer, enum mp_chunk_kind kind, const void *rows, size_t count,
                              struct mp_error *error)
{
    return put_table(writer, kind, rows, count, error);
}

enum mp_status mp_writer_past(struct mp_writer *writer, const struct mp_past *past, struct mp_error *error)
{
    return mp_writer_rows(writer, MP_CHUNK_PAST, past, 1, error);
}

enum mp_status mp_writer_events(struct mp_writer *writer, const struct mp_event *events, size_t count,
                                const uint64_t *live_bytes, size_t track_count, const struct mp_ring_mark *marks,
                                size_t mark_count, struct mp_error *error)
{
    enum mp_status status = writer_failure(writer, error);
    if (status) return status;
    if (count > MP_CHUNK_EVENTS || track_count > MP_CHUNK_ENTRIES || mark_count > MP_CHUNK_ENTRIES)
        return mp_fail(error, MP_LIMIT, "%zu events, %zu tracks or %zu rings are too many for one chunk", count,
                       track_count, mark_count);
    uint64_t next_block = writer->next_block;
    struct mp_chunk_meta meta = {.count = count,
                                 .next_block = next_block,
                                 .live_bytes = live_bytes,
                                 .live_bytes_count = track_count,
                                 .marks = marks,
                                 .mark_count = mark_count};
    mp_chunk_out_clear(&writer->chunk);
    if (count) {
        meta.time_ns = events[0].time_ns;
        meta.end_ns = events[count - 1].time_ns;
        status = mp_events_encode(writer->events, &writer->chunk, events, count, &writer->counts, &next_block, error);
    }
    if (!status) status = emit(writer, MP_CHUNK_EVENTS_KIND, &meta, error);
    if (!status) writer->next_block = next_block;
    return status;
}

/* Each block number must be below the next new number plus the chunk's count. Readers check the same, so they need not
 * trust it. */
static enum mp_status check_base(uint64_t next_block, const struct mp_base_block *blocks, size_t count,
                                 struct mp_error *error)
{
    for (size_t i = 0; i < count; i++)
        if (blocks[i].block >= next_block + count)
            return mp_fail(error, MP_INVALID, "a base block has number %llu, and the next new one is %llu",
                           (unsigned long long)blocks[i].block, (unsigned long long)next_block);
    return MP_OK;
}

static enum mp_status put_base_part(struct mp_writer *writer, const struct mp_base_block *blocks,
                                    struct mp_chunk_meta *meta, struct mp_error *error)
{
    meta->next_block = writer->next_block;
    enum mp_status status = check_base(writer->next_block, blocks, meta->count, error);
    if (!status) status = add_rows(writer, mp_table_of(MP_CHUNK_BASE), blocks, meta->count, 0, error);
    if (!status) status = emit(writer, MP_CHUNK_BASE, meta, error);
    for (size_t i = 0; !status && i < meta->count; i++)
        if (blocks[i].block >= writer->next_block) writer->next_block = blocks[i].block + 1;
    return status;
}

enum mp_status mp_writer_base(struct mp_writer *writer, uint64_t time_ns, const struct mp_base_block *blocks,
                              size_t count, struct mp_error *error)
{
    enum mp_status status = writer_failure(writer, error);
    struct mp_chunk_meta meta = {.time_ns = time_ns, .end_ns = time_ns, .total = count};
    size_t done = 0;
    do {
        if (status) return status;
        meta.part_first = done;
        meta.count = count - done < MP_CHUNK_ENTRIES ? count - done : MP_CHUNK_ENTRIES;
        status = put_base_part(writer, done ? blocks + done : blocks, &meta, error); /* of none: NULL */
        done += meta.count;
    } while (done < count);
    return status;
}

static enum mp_status add_ids(struct mp_writer *writer, const char *name, const uint32_t *ids, size_t count,
                              struct mp_error *error)
{
    if (count > MP_CHUNK_ENTRIES) return mp_fail(error, MP_LIMIT, "%zu %s are too many", count, name);
    for (size_t i = 0; i < count; i++) {
        writer->scratch[i] = ids[i];
        if (!mp_id_known(&writer->counts, MP_CHUNK_STRINGS, ids[i]))
            return mp_fail(error, MP_INVALID, "%s name string %u, which there is not", name, ids[i]);
    }
    mp_chunk_out_column(&writer->chunk, name, MP_ENCODING_VARINT, writer->scratch, count);
    return MP_OK;
}

enum mp_status mp_writer_coverage(struct mp_writer *writer, const struct mp_coverage *coverage, struct mp_error *error)
{
    enum mp_status status = writer_failure(writer, error);
    if (!status) status = add_rows(writer, mp_table_of(MP_CHUNK_COVERAGE), coverage, 1, 0, error);
    if (!status) status = add_ids(writer, "sources", coverage->sources, coverage->source_count, error);
    if (!status) status = add_ids(writer, "notes", coverage->notes, coverage->note_count, error);
    if (!status) status = add_ids(writer, "limits", coverage->limits, coverage->limit_count, error);
    struct mp_chunk_meta meta = {.count = 1};
    return status ? status : emit(writer, MP_CHUNK_COVERAGE, &meta, error);
}

enum mp_status mp_writer_exit(struct mp_writer *writer, const struct mp_exit *how, struct mp_error *error)
{
    return put_table(writer, MP_CHUNK_EXIT, how, 1, error);
}

void mp_writer_lost(struct mp_writer *writer, uint64_t chunks, uint64_t next_block)
{
    uint32_t room = UINT32_MAX / 2 - (writer->sequence < UINT32_MAX / 2 ? writer->sequence : UINT32_MAX / 2);
    writer->sequence += chunks < room ? (uint32_t)chunks : room;
    if (next_block > writer->next_block) writer->next_block = next_block;
}

uint64_t mp_writer_bytes(const struct mp_writer *writer)
{
    return writer->offset;
}

static enum mp_status put_index(struct mp_writer *writer, struct mp_error *error)
{
    struct mp_chunk_meta meta = {0};
    if (writer->index.count) return put_table(writer, MP_CHUNK_INDEX, writer->index.at, writer->index.count, error);
    mp_chunk_out_clear(&writer->chunk);
    return emit(writer, MP_CHUNK_INDEX, &meta, error);
}

static enum mp_status put_end(struct mp_writer *writer, uint64_t index_offset, struct mp_error *error)
{
    unsigned char end[MP_END_BYTES] = MP_END;
    end[MP_END_AT_INDEX] = 0xcf;
    mp_put_be64(end + MP_END_AT_INDEX + 1, index_offset);
    end[MP_END_AT_COUNT] = end[MP_END_AT_CHECKSUM] = 0xce;
    mp_put_be32(end + MP_END_AT_COUNT + 1, writer->sequence);
    mp_put_be32(end + MP_END_AT_CHECKSUM + 1, (uint32_t)crc32(0, end, MP_END_AT_CHECKSUM));
    return writer_put(writer, end, sizeof end, error);
}

enum mp_status mp_writer_finish(struct mp_writer *writer, struct mp_error *error)
{
    enum mp_status status = writer_failure(writer, error);
    uint64_t index_offset = writer->offset;
    if (!status) status = put_index(writer, error);
    if (!status) status = put_end(writer, index_offset, error);
    int fd = writer->fd;
    writer->fd = -1;
    mp_writer_abandon(writer);
    if (close(fd) && errno != EINTR && !status) status = mp_fail_errno(error, "cannot close the recording");
    return status;
}

bool mp_writer_is_replaced(const struct mp_writer *writer, const char *path)
{
    struct stat own, there;
    return !fstat(writer->fd, &own) && !stat(path, &there) &&
           (own.st_dev != there.st_dev || own.st_ino != there.st_ino);
}

enum mp_status mp_writer_redirect(struct mp_writer *writer, int fd, struct mp_error *error)
{
    off_t from = 0;
    while ((uint64_t)from < writer->offset) {
        size_t left = (size_t)(writer->offset - (uint64_t)from);
        ssize_t copied = sendfile(fd, writer->fd, &from, left);
        if (copied < 0 && errno == EINTR) continue;
        if (copied <= 0) {
            if (!copied) errno = EIO;
            enum mp_status status = mp_fail_errno(error, "cannot copy the recording");
            close(fd);
            return status;
        }
    }
    close(writer->fd);
    writer->fd = fd;
    return MP_OK;
}

void mp_writer_abandon(struct mp_writer *writer)
{
    if (!writer) return;
    if (writer->fd >= 0) close(writer->fd);
    mp_chunk_out_free(&writer->chunk);
    mp_events_out_free(writer->events);
    mp_vec_free(&writer->index);
    free(writer->scratch);
    free(writer);
}

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
        status = writer_put(writer, bytes, size, error);
    }
    if (!status) writer->sequence++;
    free(bytes);
    return status;
}

enum mp_status mp_writer_copy(struct mp_writer *writer, const struct mp_written *from, uint64_t offset,
                              struct mp_error *error)
{
    enum mp_status status = writer_failure(writer, error);
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
