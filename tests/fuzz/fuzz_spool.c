/*
 * libFuzzer target for spools that a killed program and collector leave behind, as `memprof recover` reads them. The
 * input overwrites parts of a small correct spool. A patch has its place, a number of bytes, and the bytes. The place
 * is a region and two bytes, in words of eight. A region of OF_FILE is a chunk of the file that was being written
 * instead: its kind, numbers of rows and bytes, and the bytes, each of which becomes a value. The result of both must
 * be a whole, readable recording.
 */
#include <fcntl.h>
#include <linux/futex.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "collect/recover/recover.h"
#include "format/tables.h"
#include "model/load.h"
#include "model/model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RECORDS 24
#define REGIONS (3 + MP_TABLES) /* header, its end, ring 0, tables */
#define OF_FILE 255

static struct mp_spool_header *good;
static char folder[64], spool_path[128], output_path[128];

static void put(int fd, const void *bytes, size_t size, uint64_t offset)
{
    if (pwrite(fd, bytes, size, (off_t)offset) != (ssize_t)size) abort();
}

static void make_header(void)
{
    snprintf(folder, sizeof folder, "/dev/shm/memprof-fuzz-XXXXXX");
    if (!mkdtemp(folder) || rmdir(folder) || setenv("XDG_RUNTIME_DIR", folder, 1)) abort();
    snprintf(output_path, sizeof output_path, "%s/run.mp", folder);
    good = calloc(1, MP_SPOOL_HEADER_BYTES);
    if (!good) abort();
    good->magic = MP_SPOOL_MAGIC;
    good->version = MP_SPOOL_VERSION;
    good->header_bytes = sizeof *good;
    good->spool_id = 7;
    good->pid = 1;
    good->monotonic_ns = 1000;
    snprintf(good->output, sizeof good->output, "%s", output_path);
    snprintf(good->command, sizeof good->command, "python3");
    atomic_store(&good->collector, FUTEX_OWNER_DIED);
    snprintf(spool_path, sizeof spool_path, "%s/memprof-1-0000000000000007.spool", folder);
    mp_spool_layout(good->tables);
    good->rings_committed = 2;
    good->rings_used = 1;
    good->rings[0].head = RECORDS;
    good->rings[0].state = MP_RING_OWNED;
    good->rings[0].tid = 1;
    static const uint64_t counts[MP_TABLES] = {4, 3, 2, 2, 32};
    for (int i = 0; i < MP_TABLES; i++) {
        good->tables[i].committed = 64;
        good->tables[i].count = counts[i];
    }
}

static void put_tables(int fd)
{
    const struct mp_wire_node nodes[] = {{0, MP_WIRE_FRAME_CUT}, {0, 0}, {1, 1}, {1, 2}};
    const struct mp_wire_frame frames[] = {{.address = 16, .module = 1, .language = MP_NATIVE},
                                           {.function = 1, .file = 3, .line = 4, .language = MP_PYTHON},
                                           {.function = 3, .file = 1, .line = 9, .language = MP_PYTHON}};
    const struct mp_wire_module modules[] = {{.path = 0}, {.start = 4096, .end = 8192, .path = 5}};
    const struct mp_wire_track tracks[] = {{.device_type = 1, .layer = MP_LAYER_TORCH, .size_basis = MP_BASIS_BLOCK},
                                           {.device_index = -1, .layer = MP_LAYER_APP, .name = 1}};
    static const char strings[32] = "\0\0\0\0\4\0\0\0main\4\0\0\0a.py\6\0\0\0/no/so\0";
    const void *const entries[MP_TABLES] = {nodes, frames, modules, tracks, strings};
    const size_t sizes[MP_TABLES] = {sizeof nodes, sizeof frames, sizeof modules, sizeof tracks, sizeof strings};
    for (int i = 0; i < MP_TABLES; i++)
        put(fd, entries[i], sizes[i], good->tables[i].offset);
}

static void put_records(int fd)
{
    struct mp_record records[RECORDS];
    memset(records, 0, sizeof records);
    for (size_t i = 0; i < RECORDS; i++)
        records[i] = (struct mp_record){.time_ns = 2000 + i * 10,
                                        .address = (i % 4 == 3 ? i : i + 1) << 12, /* the fourth frees the third */
                                        .bytes = 512,
                                        .total_allocated = MP_RECORD_TOTAL_UNKNOWN,
                                        .total_reserved = MP_RECORD_TOTAL_UNKNOWN,
                                        .stack = (uint32_t)(i % 4),
                                        .track = (uint16_t)(i / 8 % 2),
                                        .type = i % 4 == 3 ? MP_EVENT_FREE : MP_EVENT_ALLOC};
    records[10].type = MP_EVENT_STEP;
    records[11].type = MP_EVENT_REGION_BEGIN;
    records[11].name = 1;
    put(fd, records, sizeof records, mp_ring_offset(0));
}

static uint64_t region_at(unsigned region)
{
    if (region == 0) return 0;
    if (region == 1) return offsetof(struct mp_spool_header, collector);
    return region == 2 ? mp_ring_offset(0) : good->tables[region - 3].offset;
}

static void make_spool(const uint8_t *data, size_t size)
{
    struct mp_spool_table layout[MP_TABLES];
    if (mkdir(folder, 0700)) abort();
    int fd = open(spool_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)mp_spool_layout(layout))) abort();
    put(fd, good, MP_SPOOL_HEADER_BYTES, 0);
    put_tables(fd);
    put_records(fd);
    while (size >= 4) {
        size_t length = data[3] < size - 4 ? data[3] : size - 4;
        if (data[0] != OF_FILE)
            put(fd, data + 4, length, region_at(data[0] % REGIONS) + 8 * (data[1] | (uint64_t)data[2] << 8) % 65536);
        data += 4 + length;
        size -= 4 + length;
    }
    close(fd);
}

/* ---- the file --------------------------------------------------------------------------------------------------- */

struct bytes {
    const uint8_t *at;
    size_t count, next;
};

static uint64_t value(struct bytes *bytes)
{
    uint8_t byte = bytes->count ? bytes->at[bytes->next++ % bytes->count] : 0;
    return byte == 255 ? UINT64_MAX : byte == 254 ? UINT64_C(1) << 40 : byte;
}

static void fill_rows(const struct mp_table_layout *table, unsigned char *rows, size_t count, struct bytes *bytes)
{
    uint64_t values[256];
    for (size_t i = 0; i < table->field_count; i++) {
        for (size_t j = 0; j < count; j++)
            values[j] = value(bytes);
        if (table->fields[i].width <= 8) mp_table_scatter(&table->fields[i], rows, table->row, count, values);
    }
}

static void put_strings(struct mp_writer *writer, size_t count, struct bytes *bytes)
{
    struct mp_string strings[256];
    for (size_t i = 0; i < count; i++)
        strings[i] = (struct mp_string){(const char *)bytes->at, value(bytes) % (bytes->count + 1)};
    (void)mp_writer_strings(writer, strings, count, NULL);
}

static void put_events(struct mp_writer *writer, size_t count, struct bytes *bytes)
{
    struct mp_event events[256];
    struct mp_ring_mark mark = {.ring = (uint32_t)value(bytes), .sequence = value(bytes)};
    for (size_t i = 0; i < count; i++)
        events[i] = (struct mp_event){.time_ns = (i ? events[i - 1].time_ns : 0) + (uint8_t)value(bytes),
                                      .address = value(bytes) << 12,
                                      .bytes = value(bytes),
                                      .block = value(bytes),
                                      .stack = (uint32_t)value(bytes),
                                      .name = (uint32_t)value(bytes),
                                      .thread = (uint32_t)value(bytes),
                                      .track = (uint16_t)value(bytes),
                                      .type = (uint8_t)value(bytes),
                                      .kind = (uint8_t)value(bytes)};
    (void)mp_writer_events(writer, events, count, NULL, 0, &mark, 1, NULL);
}

/* Chunks that the writer refuses are left out. */
static void put_chunk(struct mp_writer *writer, unsigned kind, size_t count, struct bytes *bytes)
{
    _Alignas(max_align_t) unsigned char rows[256 * 256] = {0};
    const struct mp_table_layout *table = mp_table_of((enum mp_chunk_kind)kind);
    switch (kind) {
    case MP_CHUNK_STRINGS:
        put_strings(writer, count, bytes);
        break;
    case MP_CHUNK_EVENTS_KIND:
        put_events(writer, count, bytes);
        break;
    case MP_CHUNK_BASE:
        fill_rows(table, rows, count, bytes);
        (void)mp_writer_base(writer, value(bytes), (const struct mp_base_block *)(const void *)rows, count, NULL);
        break;
    case MP_CHUNK_COVERAGE:
    case MP_CHUNK_EXIT:
    case MP_CHUNK_INDEX:
    case MP_CHUNK_PEAKS:
    case MP_CHUNK_BOUNDARIES:
    case MP_CHUNK_OPEN_REGIONS: /* of the end, and the writer's own */
        break;
    default:
        if (!table || table->row > 256) break;
        if (kind == MP_CHUNK_PAST) count = 1;
        fill_rows(table, rows, count, bytes);
        (void)mp_writer_rows(writer, (enum mp_chunk_kind)kind, rows, count, NULL);
    }
}

static void make_file(const uint8_t *data, size_t size)
{
    const struct mp_recording_start start = {
        .realtime_ns = 1, .host = "", .configuration = "", .spool = spool_path, .spool_id = good->spool_id};
    struct mp_writer *writer = NULL;
    while (size >= 4) {
        size_t length = data[3] < size - 4 ? data[3] : size - 4;
        struct bytes bytes = {data + 4, length, 0};
        if (data[0] == OF_FILE && !writer) {
            int fd = open(output_path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
            if (fd < 0 || mp_writer_open(fd, &start, &writer, NULL)) abort();
        }
        if (data[0] == OF_FILE) put_chunk(writer, data[1], data[2], &bytes);
        data += 4 + length;
        size -= 4 + length;
    }
    mp_writer_abandon(writer);
}

static enum mp_status name_file(void *context, struct mp_recording *recording, char **path, int *fd,
                                struct mp_error *error)
{
    int *again = context;
    (void)recording;
    *fd = memfd_create("recovered", MFD_CLOEXEC);
    *again = fcntl(*fd, F_DUPFD_CLOEXEC, 0);
    *path = strdup("recovered");
    return *fd < 0 || *again < 0 || !*path ? mp_fail(error, MP_NO_MEMORY, "no file") : MP_OK;
}

/* `alone`: the spool was of no use, so that the file's end is lost. */
static void read_again(int fd, const struct mp_recovery *recovery, bool alone)
{
    char path[64];
    struct mp_model *model;
    struct mp_error error;
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (mp_model_load(path, &model, &error)) abort();
    if (model->file.damage.cut || model->file.damage.lost_bytes || model->file.damage.lost_chunks != alone) abort();
    uint64_t events = alone ? recovery->summary.events : recovery->summary.kept;
    if (model->coverage.events != events || (!alone && model->events.count > events)) abort();
    mp_model_free(model);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!good) make_header();
    make_spool(data, size);
    make_file(data, size);
    struct mp_recovery recovery;
    struct mp_error error;
    int fd = -1;
    enum mp_status status = mp_recover(output_path, name_file, &fd, &recovery, &error);
    if (status && (status == MP_NO_MEMORY || !*error.text)) abort();
    if (!status && !size && recovery.summary.events != RECORDS) abort();
    if (!status && recovery.summary.path) read_again(fd, &recovery, !recovery.had_spool);
    free(recovery.summary.path);
    if (fd >= 0) close(fd);
    unlink(spool_path);
    unlink(output_path);
    if (rmdir(folder)) abort();
    return 0;
}
