/*
 * libFuzzer target for the reader of snapshot files. A file's checksums and zstd frames would stop nearly every
 * mutation at the door, so the input is the part behind them, and a file is made of it. It begins with a mode byte.
 * Then a chunk has its kind and sequence step (1 byte each), and the lengths of meta and columns (2 bytes each,
 * little-endian). Meta and columns follow. Mode 0 takes the rest of the input as a file as it is, mode 2 as one whose
 * checksums are put right. make_seeds.py makes such inputs from recordings. A readable file is also loaded as a model,
 * whole and by its index. A job is also reported, drawn, and joined with itself. The reading library makes all tables
 * of a recording.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/buffer.h"
#include "format/layout.h"
#include "format/start.h"
#include "jobs/join.h"
#include "jobs/page.h"
#include "memprof_read.h"
#include "model/load.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void add_chunk(struct mp_buffer *file, unsigned kind, uint32_t sequence, const uint8_t *meta, size_t meta_size,
                      const uint8_t *columns, size_t columns_size)
{
    size_t start = file->size;
    unsigned char head[MP_HEAD_BYTES] = MP_SYNC, bin[5] = {0xc6};
    mp_buffer_append(file, head, sizeof head);
    mp_buffer_append(file, meta, meta_size);
    size_t bound = ZSTD_compressBound(columns_size), length = 0;
    unsigned char *to = mp_buffer_room(file, 5 + bound);
    if (!to) abort();
    if (columns_size) length = ZSTD_compress(to + 5, bound, columns, columns_size, 1);
    mp_put_be32(bin + 1, (uint32_t)length);
    memcpy(to, bin, 5);
    mp_buffer_grew(file, 5 + length);
    unsigned char *at = file->data + start;
    at[MP_AT_SEQUENCE] = at[MP_AT_LENGTH] = at[MP_AT_CHECKSUM] = 0xce;
    mp_put_be32(at + MP_AT_SEQUENCE + 1, sequence);
    mp_put_be32(at + MP_AT_LENGTH + 1, (uint32_t)(file->size - start - MP_HEAD_BYTES));
    at[MP_AT_KIND] = (unsigned char)kind;
    uLong sum = crc32(0, at + MP_AT_SEQUENCE, 10);
    sum = crc32_z(sum, at + MP_AT_KIND, file->size - start - MP_AT_KIND);
    mp_put_be32(at + MP_AT_CHECKSUM + 1, (uint32_t)sum);
}

static void make_file(struct mp_buffer *file, const uint8_t *data, size_t size)
{
    const struct mp_recording_start start = {.host = "", .configuration = "", .spool = ""};
    if (mp_start_pack(file, &start, NULL)) abort();
    uint32_t sequence = 0;
    while (size >= 6) {
        size_t meta = data[2] | (size_t)data[3] << 8, columns = data[4] | (size_t)data[5] << 8;
        unsigned kind = data[0];
        sequence += data[1];
        data += 6;
        size -= 6;
        if (meta > size) meta = size;
        if (columns > size - meta) columns = size - meta;
        add_chunk(file, kind, sequence, data, meta, data + meta, columns);
        data += meta + columns;
        size -= meta + columns;
    }
}

/* Mends the checksums of each chunk whose length may be right, of the start before the first one, and of the clean-end
 * mark. */
static void put_checksums_right(struct mp_buffer *file)
{
    static const unsigned char head[MP_HEAD_BYTES] = MP_SYNC;
    unsigned char *end = file->data + file->size, *first = NULL;
    if (file->size < MP_END_BYTES) return;
    for (unsigned char *at = file->data; (at = memmem(at, (size_t)(end - at), head, MP_AT_SEQUENCE)); at++) {
        if (!first) first = at;
        if (end - at < MP_HEAD_BYTES) break;
        size_t length = mp_get_be32(at + MP_AT_LENGTH + 1);
        if (length > (size_t)(end - at) - MP_HEAD_BYTES) continue;
        uLong sum = crc32(0, at + MP_AT_SEQUENCE, 10);
        mp_put_be32(at + MP_AT_CHECKSUM + 1, (uint32_t)crc32_z(sum, at + MP_AT_KIND, length + 1));
    }
    if (first && first - file->data > 5)
        mp_put_be32(first - 4, (uint32_t)crc32_z(0, file->data, (size_t)(first - file->data) - 5));
    mp_put_be32(end - 4, (uint32_t)crc32_z(0, end - MP_END_BYTES, MP_END_BYTES - 5));
}

static void answer_of_job(const struct mp_model *model)
{
    const struct mp_view view = {.path = "job.mp", .limit = 5, .outstanding = true};
    struct mp_job_view job;
    struct mp_buffer out = {0};
    struct mp_text text = {.out = &out};
    struct mp_json json;
    struct mp_error error;
    mp_job_view_make(model, &job);
    mp_job_report_text(&text, &job, &view);
    mp_job_steps_text(&text, &job, &view);
    mp_job_info_text(&text, &job, &view);
    mp_json_start(&json, &out);
    mp_job_report_json(&json, &job, &view);
    FILE *page = fopen("/dev/null", "w");
    if (page) {
        mp_job_page_write(&job, "job.mp", page, &error);
        fclose(page);
    }
    mp_job_view_free(&job);
    mp_buffer_free(&out);
}

static void use_job(const char *path, const struct mp_model *model)
{
    struct mp_model *joined;
    struct mp_error error;
    if (!mp_model_is_job(model)) return;
    if (model->job.processes.count) answer_of_job(model);
    struct mp_job *job = mp_job_new();
    for (int i = 0; i < 2; i++)
        if (mp_job_add(job, path, model, &error)) break;
    if (mp_job_finish(job, &joined, &error)) return;
    if (joined->job.processes.count) answer_of_job(joined);
    mp_model_free(joined);
}

static void load_models(const char *path)
{
    struct mp_model *model;
    struct mp_error error;
    if (!mp_model_load(path, &model, &error)) {
        use_job(path, model);
        mp_model_free(model);
    }
}

static uint64_t used; /* so that reading what came is not optimised away */

static void use(const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (size_t i = 0; i < size; i++)
        used += bytes[i];
}

/* https://arrow.apache.org/docs/format/CDataInterface.html */
struct ArrowSchema {
    const char *format, *name, *metadata;
    int64_t flags, children;
    struct ArrowSchema **child, *dictionary;
    void (*release)(struct ArrowSchema *);
    void *own;
};

struct ArrowArray {
    int64_t length, nulls, offset, buffers, children;
    const void **buffer;
    struct ArrowArray **child, *dictionary;
    void (*release)(struct ArrowArray *);
    void *own;
};

static void use_column(struct memprof_recording *recording, const struct memprof_column *column, size_t rows)
{
    static const size_t bytes[] = {
        [MEMPROF_U8] = 1, [MEMPROF_U32] = 4, [MEMPROF_U64] = 8, [MEMPROF_I64] = 8, [MEMPROF_TEXT] = 4};
    const uint32_t *numbers = column->values;
    size_t count;
    use(column->values, rows * bytes[column->type]);
    for (size_t i = 0; i < rows && column->type == MEMPROF_TEXT; i++) {
        const char *text = memprof_read_text(recording, numbers[i], &count);
        if (text) use(text, count + 1);
    }
    for (size_t i = 0; i < rows && !strcmp(column->name, "stack_id"); i++) {
        const struct memprof_line *lines = memprof_read_stack(recording, numbers[i], &count);
        if (lines) use(lines, count * sizeof *lines);
    }
}

/* Every table, text and stack, and each table as Arrow arrays, which outlive the recording. */
static void make_tables(const char *path)
{
    struct memprof_recording *recording = memprof_read_open(path, NULL);
    struct ArrowSchema schema = {0};
    struct ArrowArray array = {0};
    for (const char *const *name = memprof_read_tables(); recording && *name; name++) {
        const struct memprof_table *table = memprof_read_table(recording, *name, NULL);
        if (!table) abort();
        for (size_t i = 0; i < table->column_count; i++)
            use_column(recording, &table->columns[i], table->rows);
        if (array.release) array.release(&array);
        if (schema.release) schema.release(&schema);
        if (memprof_read_arrow(recording, table, &schema, &array)) abort();
    }
    memprof_read_close(recording);
    if (!array.release) return;
    use(&array.length, sizeof array.length);
    array.release(&array);
    schema.release(&schema);
}

static void use_events(const struct mp_event_columns *events)
{
    use(events->time_ns, events->count * 8);
    use(events->address, events->count * 8);
    use(events->bytes, events->count * 8);
    use(events->block, events->count * 8);
    use(events->stack, events->count * 4);
    use(events->name, events->count * 4);
    use(events->thread, events->count * 4);
    use(events->track, events->count * 2);
    use(events->type, events->count);
    use(events->kind, events->count);
}

static void use_chunk(const struct mp_chunk *chunk)
{
    use(chunk->marks, chunk->mark_count * sizeof *chunk->marks);
    use(chunk->live_bytes, chunk->live_bytes_count * sizeof *chunk->live_bytes);
    if (chunk->kind == MP_CHUNK_EVENTS_KIND) use_events(&chunk->as.events);
    if (chunk->kind == MP_CHUNK_STRINGS)
        for (size_t i = 0; i < chunk->count; i++)
            use(chunk->as.strings[i].text, chunk->as.strings[i].length);
    if (chunk->kind == MP_CHUNK_FRAMES) use(chunk->as.frames, chunk->count * sizeof *chunk->as.frames);
    if (chunk->kind == MP_CHUNK_MODULES) use(chunk->as.modules, chunk->count * sizeof *chunk->as.modules);
    if (chunk->kind == MP_CHUNK_STACKS) use(chunk->as.stacks, chunk->count * sizeof *chunk->as.stacks);
    if (chunk->kind == MP_CHUNK_BASE) use(chunk->as.base, chunk->count * sizeof *chunk->as.base);
    if (chunk->kind == MP_CHUNK_COVERAGE) {
        use(chunk->as.coverage->sources, chunk->as.coverage->source_count * sizeof *chunk->as.coverage->sources);
        use(chunk->as.coverage->notes, chunk->as.coverage->note_count * sizeof *chunk->as.coverage->notes);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!size) return 0;
    struct mp_buffer file = {0};
    if (data[0] == 1)
        make_file(&file, data + 1, size - 1);
    else
        mp_buffer_append(&file, data + 1, size - 1);
    if (data[0] == 2 && !file.failed) put_checksums_right(&file);
    char path[64];
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (fd < 0 || file.failed || pwrite(fd, file.data, file.size, 0) != (ssize_t)file.size) abort();
    struct mp_reader *reader;
    struct mp_chunk chunk;
    struct mp_error error;
    if (!mp_reader_open(path, &reader, &error)) {
        for (size_t chunks = 0; !mp_reader_next(reader, &chunk, &error); chunks++) {
            /* Not more than the file can hold, and sixteen made-up ones for a loss. */
            if (chunks > file.size) abort();
            use_chunk(&chunk);
        }
        mp_reader_close(reader);
        load_models(path);
        make_tables(path);
    }
    close(fd);
    mp_buffer_free(&file);
    return 0;
}
