#include "format/reader.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/vec.h"
#include "format/chunk_in.h"
#include "format/events.h"
#include "format/scan.h"
#include "format/start.h"
#include "format/tables.h"

#define BLOCKS_MAX (UINT64_C(1) << 62) /* far above the blocks of any recording */

struct mp_reader {
    int fd;
    uint64_t file_bytes;
    struct mp_start_owned start;
    uint64_t start_bytes;
    struct mp_scan scan;
    struct mp_chunk_in chunk;
    struct mp_events_in *events;
    struct mp_table_counts counts;
    uint64_t text_bytes; /* bytes of all strings so far */
    uint64_t next_block;
    bool any_blocks;    /* a chunk that numbers blocks was seen; the first of these chunks sets where numbers begin */
    uint64_t sequence;  /* the number that the next chunk should have */
    uint64_t allowance; /* entries and block numbers that lost chunks may have had */
    uint64_t seen_lost_bytes;
    MP_VEC(unsigned char) rows; /* of the current table chunk */
    MP_VEC(uint64_t) values;
    MP_VEC(uint32_t) ids; /* of coverage */
    struct mp_damage damage;
};

static enum mp_status open_file(struct mp_reader *reader, const char *path, struct mp_error *error)
{
    struct stat info;
    reader->fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (reader->fd < 0 || fstat(reader->fd, &info)) return mp_fail_errno(error, "cannot open %s", path);
    if (S_ISDIR(info.st_mode)) return mp_fail(error, MP_NOT_A_RECORDING, "%s is a folder, not a recording", path);
    if (!S_ISREG(info.st_mode))
        return mp_fail(error, MP_NOT_A_RECORDING, "%s is not a regular file, so it is no recording", path);
    if (!info.st_size) return mp_fail(error, MP_NOT_A_RECORDING, "%s is empty: nothing was recorded", path);
    reader->file_bytes = (uint64_t)info.st_size;
    return MP_OK;
}

/* Doubles the bytes read until the first object is whole, since it may hold a long command line. */
static enum mp_status read_start(struct mp_reader *reader, const char *path, struct mp_error *error)
{
    struct mp_error why;
    size_t length = 0;
    for (size_t want = 8192;; want *= 2) {
        reader->rows.count = 0;
        if (!mp_vec_reserve(&reader->rows, want)) return mp_fail(error, MP_NO_MEMORY, "no memory to open %s", path);
        ssize_t got = mp_read_at(reader->fd, reader->rows.at, want, 0);
        if (got < 0) return mp_fail_errno(error, "cannot read %s", path);
        enum mp_status status = mp_start_parse(reader->rows.at, (size_t)got, &reader->start, &length, &why);
        if (status == MP_DAMAGED && (size_t)got == want && want < MP_START_BYTES) continue;
        reader->start_bytes = length;
        reader->start.start.starts_late |= status == MP_DAMAGED; /* it is not known, so a copy must allow for it */
        if (!status || status == MP_DAMAGED) return MP_OK;
        return mp_fail(error, status, "%s: %s", path, why.text);
    }
}

enum mp_status mp_reader_open(const char *path, struct mp_reader **reader, struct mp_error *error)
{
    *reader = NULL;
    struct mp_reader *opened = calloc(1, sizeof *opened);
    if (!opened) return mp_fail(error, MP_NO_MEMORY, "no memory to open %s", path);
    opened->fd = -1;
    enum mp_status status = open_file(opened, path, error);
    if (!status) status = read_start(opened, path, error);
    if (!status) status = mp_scan_open(&opened->scan, opened->fd, opened->start_bytes, opened->file_bytes, error);
    opened->damage.cut = !opened->scan.has_end;
    opened->events = mp_events_in_new();
    if (!status && (!mp_chunk_in_init(&opened->chunk) || !opened->events))
        status = mp_fail(error, MP_NO_MEMORY, "no memory to read %s", path);
    if (status)
        mp_reader_close(opened);
    else
        *reader = opened;
    return status;
}

const struct mp_recording_start *mp_reader_start(const struct mp_reader *reader)
{
    return &reader->start.start;
}

uint64_t mp_reader_file_bytes(const struct mp_reader *reader)
{
    return reader->file_bytes;
}

const struct mp_damage *mp_reader_damage(const struct mp_reader *reader)
{
    return &reader->damage;
}

void mp_reader_close(struct mp_reader *reader)
{
    if (!reader) return;
    if (reader->fd >= 0) close(reader->fd);
    mp_start_free(&reader->start);
    mp_scan_close(&reader->scan);
    mp_chunk_in_free(&reader->chunk);
    mp_events_in_free(reader->events);
    mp_vec_free(&reader->rows);
    mp_vec_free(&reader->values);
    mp_vec_free(&reader->ids);
    free(reader);
}

static enum mp_status no_memory(struct mp_error *error)
{
    return mp_fail(error, MP_NO_MEMORY, "no memory to read a chunk");
}

/* Makes zeroed room for rows of a chunk. */
static bool make_rows(struct mp_reader *reader, size_t bytes)
{
    reader->rows.count = 0;
    return mp_vec_extend(&reader->rows, bytes);
}

static enum mp_status decode_field(struct mp_reader *reader, const struct mp_table_layout *table,
                                   const struct mp_field *field, uint64_t first)
{
    size_t count = reader->chunk.meta.count, bad;
    if (field->width > 8) {
        const struct mp_column *column = mp_chunk_in_column(&reader->chunk, field->name, count * field->width);
        if (!column || (count && column->encoding != MP_ENCODING_BYTES)) return MP_DAMAGED;
        for (size_t i = 0; i < count; i++)
            memcpy(reader->rows.at + i * table->row + field->offset, column->data + i * field->width, field->width);
        return MP_OK;
    }
    if (field->optional && !mp_chunk_in_count(&reader->chunk, field->name)) return MP_OK; /* the rows are zeroed */
    reader->values.count = 0;
    if (!mp_vec_reserve(&reader->values, count)) return MP_NO_MEMORY;
    if (!mp_chunk_in_decode(&reader->chunk, field->name, count, reader->values.at, 64)) return MP_DAMAGED;
    uint64_t most = 0;
    for (size_t i = 0; i < count; i++)
        most |= reader->values.at[i];
    if (field->width < 8 && most >> (8 * field->width)) return MP_DAMAGED;
    if (!mp_table_check(field, reader->values.at, count, first, &reader->counts, &bad)) return MP_DAMAGED;
    mp_table_scatter(field, reader->rows.at, table->row, count, reader->values.at);
    return MP_OK;
}

static enum mp_status decode_table(struct mp_reader *reader, struct mp_chunk *chunk)
{
    const struct mp_table_layout *table = mp_table_of(chunk->kind);
    uint64_t first = chunk->kind <= MP_CHUNK_STACKS ? reader->counts.of[chunk->kind] : 0;
    if (!make_rows(reader, chunk->count * table->row)) return MP_NO_MEMORY;
    for (size_t i = 0; i < table->field_count; i++) {
        enum mp_status status = decode_field(reader, table, &table->fields[i], first);
        if (status) return status;
    }
    chunk->as.rows = reader->rows.at;
    return MP_OK;
}

static enum mp_status decode_strings(struct mp_reader *reader, struct mp_chunk *chunk)
{
    size_t count = chunk->count, total = 0;
    reader->values.count = 0;
    if (!mp_vec_reserve(&reader->values, count) || !make_rows(reader, count * sizeof *chunk->as.strings))
        return MP_NO_MEMORY;
    if (!mp_chunk_in_decode(&reader->chunk, "length", count, reader->values.at, 64)) return MP_DAMAGED;
    for (size_t i = 0; i < count; i++) {
        if (reader->values.at[i] > MP_STRING_BYTES) return MP_DAMAGED;
        total += reader->values.at[i];
    }
    if (total > MP_TEXT_BYTES - reader->text_bytes) return MP_DAMAGED;
    const struct mp_column *text = mp_chunk_in_column(&reader->chunk, "text", total);
    if (!text || (total && text->encoding != MP_ENCODING_BYTES)) return MP_DAMAGED;
    struct mp_string_entry *entries = (void *)reader->rows.at;
    const char *at = total ? (const char *)text->data : "";
    for (size_t i = 0; i < count; at += entries[i++].length)
        entries[i] = (struct mp_string_entry){at, (size_t)reader->values.at[i]};
    reader->text_bytes += total;
    chunk->as.strings = entries;
    return MP_OK;
}

/* Appends the ids of column `name` to reader->ids. */
static enum mp_status decode_ids(struct mp_reader *reader, const char *name, uint32_t *count)
{
    size_t have = mp_chunk_in_count(&reader->chunk, name), before = reader->ids.count;
    *count = (uint32_t)have;
    if (have > MP_CHUNK_ENTRIES) return MP_DAMAGED;
    if (!have) return MP_OK;
    if (!mp_vec_extend(&reader->ids, before + have)) return MP_NO_MEMORY;
    if (!mp_chunk_in_decode(&reader->chunk, name, have, reader->ids.at + before, 32)) return MP_DAMAGED;
    for (size_t i = before; i < before + have; i++)
        if (!mp_id_known(&reader->counts, MP_CHUNK_STRINGS, reader->ids.at[i])) return MP_DAMAGED;
    return MP_OK;
}

static enum mp_status decode_coverage(struct mp_reader *reader, struct mp_chunk *chunk)
{
    if (chunk->count != 1) return MP_DAMAGED;
    enum mp_status status = decode_table(reader, chunk);
    if (status) return status;
    struct mp_coverage *coverage = (void *)reader->rows.at;
    reader->ids.count = 0;
    status = decode_ids(reader, "sources", &coverage->source_count);
    if (!status) status = decode_ids(reader, "notes", &coverage->note_count);
    if (!status) status = decode_ids(reader, "limits", &coverage->limit_count);
    coverage->sources = reader->ids.at;
    coverage->notes = coverage->note_count ? reader->ids.at + coverage->source_count : NULL;
    coverage->limits = coverage->limit_count ? reader->ids.at + coverage->source_count + coverage->note_count : NULL;
    return status;
}

static enum mp_status decode_base(struct mp_reader *reader, struct mp_chunk *chunk)
{
    const struct mp_chunk_meta *meta = &reader->chunk.meta;
    enum mp_status status = decode_table(reader, chunk);
    if (status) return status;
    uint64_t next = reader->next_block;
    for (size_t i = 0; i < chunk->count; i++) {
        if (chunk->as.base[i].block >= reader->next_block + chunk->count) return MP_DAMAGED;
        if (chunk->as.base[i].block >= next) next = chunk->as.base[i].block + 1;
    }
    if (meta->part_first > meta->total || meta->total - meta->part_first < chunk->count) return MP_DAMAGED;
    reader->next_block = next;
    chunk->base_total = meta->total;
    chunk->base_before = meta->part_first;
    return MP_OK;
}

static enum mp_status decode(struct mp_reader *reader, struct mp_chunk *chunk)
{
    const struct mp_chunk_meta *meta = &reader->chunk.meta;
    chunk->count = meta->count;
    chunk->time_ns = meta->time_ns;
    chunk->next_block = meta->next_block;
    chunk->marks = meta->marks;
    chunk->mark_count = meta->mark_count;
    chunk->live_bytes = meta->live_bytes;
    chunk->live_bytes_count = meta->live_bytes_count;
    switch (chunk->kind) {
    case MP_CHUNK_STRINGS:
        return decode_strings(reader, chunk);
    case MP_CHUNK_EVENTS_KIND:
        return mp_events_decode(reader->events, &reader->chunk, &reader->counts, &reader->next_block, &chunk->as.events)
                   ? MP_OK
                   : MP_DAMAGED;
    case MP_CHUNK_BASE:
        return decode_base(reader, chunk);
    case MP_CHUNK_COVERAGE:
        return decode_coverage(reader, chunk);
    case MP_CHUNK_EXIT:
    case MP_CHUNK_PAST:
        return meta->count == 1 ? decode_table(reader, chunk) : MP_DAMAGED;
    default:
        return decode_table(reader, chunk);
    }
}

/* Takes `wanted` entries or numbers from the allowance. False: lost chunks cannot have had so many. */
static bool allow(struct mp_reader *reader, uint64_t wanted)
{
    if (wanted > reader->allowance) return false;
    reader->allowance -= wanted;
    return true;
}

/* Fills *chunk with made-up entries in place of the entries of lost chunks. */
static enum mp_status make_up(struct mp_reader *reader, struct mp_chunk *chunk, uint64_t missing)
{
    const struct mp_table_layout *table = mp_table_of(chunk->kind);
    size_t row = table ? table->row : sizeof *chunk->as.strings;
    chunk->lost = true;
    chunk->count = missing < MP_CHUNK_ENTRIES ? (size_t)missing : MP_CHUNK_ENTRIES;
    if (!make_rows(reader, chunk->count * row)) return MP_NO_MEMORY;
    chunk->as.rows = reader->rows.at;
    if (chunk->kind == MP_CHUNK_STRINGS)
        for (size_t i = 0; i < chunk->count; i++)
            ((struct mp_string_entry *)(void *)reader->rows.at)[i].text = "";
    if (chunk->kind == MP_CHUNK_STACKS)
        for (size_t i = 0; i < chunk->count; i++)
            ((struct mp_stack_node *)(void *)reader->rows.at)[i].frame = MP_FRAME_CUT;
    return MP_OK;
}

static bool has_room(const struct mp_reader *reader, unsigned kind, uint64_t more)
{
    return more <= mp_table_most((enum mp_chunk_kind)kind) - reader->counts.of[kind];
}

/* Compares the chunk's meta with the counts so far. MP_NOT_FOUND: nothing is missing before it. MP_OK: *chunk has
 * made-up entries, and the chunk itself is yet to be read. */
static enum mp_status fill_gaps(struct mp_reader *reader, struct mp_chunk *chunk)
{
    const struct mp_chunk_meta *meta = &reader->chunk.meta;
    for (unsigned kind = 1; kind <= MP_CHUNK_STACKS; kind++) {
        uint64_t stated = meta->tables[kind - 1], have = reader->counts.of[kind];
        if (stated == have) continue;
        if (stated < have || !has_room(reader, kind, stated - have) ||
            !allow(reader, stated - have < MP_CHUNK_ENTRIES ? stated - have : MP_CHUNK_ENTRIES))
            return MP_DAMAGED;
        if (kind == MP_CHUNK_TRACKS && !reader->counts.of[MP_CHUNK_DEVICES]) return MP_DAMAGED;
        chunk->kind = (enum mp_chunk_kind)kind;
        enum mp_status status = make_up(reader, chunk, stated - have);
        if (!status) reader->counts.of[kind] += chunk->count;
        return status;
    }
    if (reader->chunk.kind != MP_CHUNK_EVENTS_KIND && reader->chunk.kind != MP_CHUNK_BASE) return MP_NOT_FOUND;
    if (meta->next_block < reader->next_block || meta->next_block > BLOCKS_MAX) return MP_DAMAGED;
    if (!reader->any_blocks) reader->next_block = meta->next_block;
    reader->any_blocks = true;
    if (!allow(reader, meta->next_block - reader->next_block)) return MP_DAMAGED;
    reader->next_block = meta->next_block;
    return MP_NOT_FOUND;
}

/* A lost chunk had at most MP_CHUNK_ENTRIES entries, and took some bytes. So the number of lost bytes limits the losses
 * that a file can claim. */
static void count_lost(struct mp_reader *reader, uint64_t chunks)
{
    enum { LEAST_BYTES = 64 };
    uint64_t room = 16 + (reader->scan.lost_bytes - reader->seen_lost_bytes) / LEAST_BYTES;
    reader->seen_lost_bytes = reader->scan.lost_bytes;
    reader->damage.lost_chunks += chunks;
    if (chunks) reader->allowance += (chunks < room ? chunks : room) * MP_CHUNK_ENTRIES;
}

/* Reads the intact chunk at scan.at. MP_OK: *chunk is filled. MP_DAMAGED. MP_NOT_FOUND: it is of a kind that is not
 * returned. */
static enum mp_status take_chunk(struct mp_reader *reader, struct mp_chunk *chunk)
{
    enum mp_status status = mp_chunk_in_parse(&reader->chunk, reader->scan.bytes.at, reader->scan.bytes.count);
    uint64_t sequence = reader->chunk.sequence;
    if (sequence < reader->sequence) return MP_DAMAGED;
    count_lost(reader, sequence - reader->sequence);
    reader->sequence = sequence;
    uint64_t kind = reader->chunk.kind;
    bool known = kind && kind < MP_CHUNK_KINDS && kind != MP_CHUNK_INDEX &&
                 (kind < MP_CHUNK_PEAKS || kind > MP_CHUNK_OPEN_REGIONS);
    if (status || !known) return status ? status : MP_NOT_FOUND;
    *chunk = (struct mp_chunk){.sequence = sequence, .offset = reader->scan.at};
    status = fill_gaps(reader, chunk);
    if (status != MP_NOT_FOUND) return status;
    chunk->kind = (enum mp_chunk_kind)reader->chunk.kind;
    chunk->bytes = reader->scan.bytes.count;
    if (chunk->kind <= MP_CHUNK_STACKS && !has_room(reader, chunk->kind, reader->chunk.meta.count)) return MP_DAMAGED;
    status = decode(reader, chunk);
    if (!status) mp_table_counts_add(&reader->counts, chunk->kind, chunk->count);
    return status;
}

static enum mp_status at_end(struct mp_reader *reader)
{
    if (reader->scan.has_end && reader->scan.chunk_total > reader->sequence)
        count_lost(reader, reader->scan.chunk_total - reader->sequence);
    reader->sequence = UINT64_MAX;
    reader->damage.lost_bytes = reader->scan.lost_bytes;
    reader->damage.cut |= reader->scan.shrank;
    return MP_NOT_FOUND;
}

enum mp_status mp_reader_next(struct mp_reader *reader, struct mp_chunk *chunk, struct mp_error *error)
{
    for (;;) {
        enum mp_status status = mp_scan_chunk(&reader->scan, error);
        if (status == MP_NOT_FOUND) return at_end(reader);
        if (status) return status;
        status = take_chunk(reader, chunk);
        if (status == MP_NO_MEMORY) return no_memory(error);
        if (!status && chunk->lost) return MP_OK;
        if (status == MP_DAMAGED) {
            reader->scan.lost_bytes += reader->scan.bytes.count;
            if (reader->chunk.sequence >= reader->sequence) count_lost(reader, 1);
        }
        if (reader->chunk.sequence >= reader->sequence) reader->sequence = reader->chunk.sequence + UINT64_C(1);
        mp_scan_advance(&reader->scan);
        if (!status) return MP_OK;
    }
}
