/* Files made by hand with right checksums and wrong contents, which the reader must not trust. */
#include "format/layout.h"
#include "unit/format/maker.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>

#include "base/buffer.h"
#include "unit/suite.h"

struct file {
    struct mp_buffer bytes;
    uint32_t sequence;
};

static void add_text(struct mp_buffer *to, const char *text)
{
    size_t length = strlen(text);
    unsigned char head[2] = {0xd9, (unsigned char)length};
    mp_buffer_append(to, head, 2);
    mp_buffer_append(to, text, length);
}

static void add_number(struct mp_buffer *to, uint64_t value)
{
    unsigned char bytes[9] = {0xcf};
    mp_put_be64(bytes + 1, value);
    mp_buffer_append(to, bytes, 9);
}

static void add_byte(struct mp_buffer *to, unsigned byte)
{
    unsigned char one = (unsigned char)byte;
    mp_buffer_append(to, &one, 1);
}

static void add_start(struct file *file, uint64_t version, uint64_t min_reader)
{
    struct mp_buffer *to = &file->bytes;
    add_byte(to, 0x84);
    mp_buffer_append(to, "\xa5magic\xa7memprof", 14);
    add_text(to, "version");
    add_number(to, version);
    add_text(to, "min_reader");
    add_number(to, min_reader);
    add_text(to, "checksum");
    unsigned char sum[5] = {0xce};
    mp_put_be32(sum + 1, (uint32_t)crc32(0, to->data, (uInt)to->size));
    mp_buffer_append(to, sum, 5);
}

/* A chunk whose meta and payload objects are given; its checksum holds. */
static void add_chunk(struct file *file, unsigned kind, const struct mp_buffer *body)
{
    unsigned char head[MP_HEAD_BYTES] = MP_SYNC;
    head[MP_AT_SEQUENCE] = head[MP_AT_LENGTH] = head[MP_AT_CHECKSUM] = 0xce;
    mp_put_be32(head + MP_AT_SEQUENCE + 1, file->sequence++);
    mp_put_be32(head + MP_AT_LENGTH + 1, (uint32_t)body->size);
    head[MP_AT_KIND] = (unsigned char)kind;
    uLong sum = crc32(0, head + MP_AT_SEQUENCE, 10);
    sum = crc32(sum, head + MP_AT_KIND, 1);
    sum = crc32(sum, body->data, (uInt)body->size);
    mp_put_be32(head + MP_AT_CHECKSUM + 1, (uint32_t)sum);
    mp_buffer_append(&file->bytes, head, sizeof head);
    mp_buffer_append(&file->bytes, body->data, body->size);
}

static void add_raw(struct file *file, unsigned kind, const void *body, size_t size)
{
    struct mp_buffer bytes = {0};
    mp_buffer_append(&bytes, body, size);
    add_chunk(file, kind, &bytes);
    mp_buffer_free(&bytes);
}

struct column {
    const char *name, *encoding;
    uint64_t count, bytes;
    const char *data;
};

#define NO_KEY "x"

static size_t more_after; /* uncounted bytes after the payload of the next chunk of columns */

/* Adds a chunk of columns with a right frame and any numbers in it. `key` is one more number in meta. */
static void add_columns(struct file *file, unsigned kind, uint64_t count, const uint64_t tables[7], const char *key,
                        uint64_t value, const struct column *columns, size_t column_count)
{
    struct mp_buffer body = {0};
    add_byte(&body, 0x84);
    add_text(&body, "count");
    add_number(&body, count);
    add_text(&body, key);
    add_number(&body, value);
    add_text(&body, "tables");
    add_byte(&body, 0x97);
    for (size_t i = 0; i < 7; i++)
        add_number(&body, tables[i]);
    add_text(&body, "columns");
    add_byte(&body, 0xdc); /* an array 16 */
    add_byte(&body, (unsigned)column_count >> 8);
    add_byte(&body, (unsigned)column_count & 0xff);
    char raw[4096];
    size_t size = 0;
    for (size_t i = 0; i < column_count; i++) {
        add_byte(&body, 0x94);
        add_text(&body, columns[i].name);
        add_text(&body, columns[i].encoding);
        add_number(&body, columns[i].count);
        add_number(&body, columns[i].bytes);
        if (columns[i].bytes > sizeof raw - size) continue;
        memcpy(raw + size, columns[i].data, columns[i].bytes);
        size += columns[i].bytes;
    }
    unsigned char frame[8192];
    size_t length = ZSTD_compress(frame, sizeof frame, raw, size, 1);
    unsigned char head[5] = {0xc6};
    mp_put_be32(head + 1, (uint32_t)(length - more_after));
    more_after = 0;
    mp_buffer_append(&body, head, 5);
    mp_buffer_append(&body, frame, length);
    add_chunk(file, kind, &body);
    mp_buffer_free(&body);
}

struct result {
    enum mp_status opened;
    size_t chunks;
    uint64_t read; /* bit i: chunk i of the first 64 was read */
    struct mp_damage damage;
    char text[480];
};

static struct result read_file(struct file *file)
{
    char path[64];
    int fd = memfd_create("hostile", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ck_assert_int_eq(write(fd, file->bytes.data, file->bytes.size), (ssize_t)file->bytes.size);
    struct mp_reader *reader;
    struct mp_error error = {0};
    struct result result = {.opened = mp_reader_open(path, &reader, &error)};
    if (!result.opened) {
        struct mp_chunk chunk;
        enum mp_status status;
        while (!(status = mp_reader_next(reader, &chunk, &error))) {
            result.chunks += !chunk.lost;
            if (!chunk.lost && chunk.sequence < 64) result.read |= UINT64_C(1) << chunk.sequence;
        }
        ck_assert_int_eq(status, MP_NOT_FOUND);
        result.damage = *mp_reader_damage(reader);
        mp_reader_close(reader);
    }
    memcpy(result.text, error.text, sizeof result.text);
    close(fd);
    mp_buffer_free(&file->bytes);
    return result;
}

static const uint64_t empty[7] = {0};
/* One string, one device, track, thread and frame, and two stacks. */
static const uint64_t some[7] = {1, 1, 1, 1, 0, 1, 2};

#define COLUMNS(...)                                                                                                   \
    (const struct column[]){__VA_ARGS__}, sizeof((const struct column[]){__VA_ARGS__}) / sizeof(struct column)
#define CONSTANT(name, count, data)                                                                                    \
    {                                                                                                                  \
        name, "constant", count, sizeof(data) - 1, data                                                                \
    }
#define VARINT(name, count, data)                                                                                      \
    {                                                                                                                  \
        name, "varint", count, sizeof(data) - 1, data                                                                  \
    }

static void add_some_tables(struct file *file)
{
    uint64_t tables[7] = {0};
    add_columns(file, 1, 1, tables, NO_KEY, 0, COLUMNS(VARINT("length", 1, "\0")));
    tables[0] = 1;
    add_columns(file, 2, 1, tables, NO_KEY, 0,
                COLUMNS(VARINT("name", 1, "\0"), VARINT("uuid", 1, "\0"), VARINT("model", 1, "\0"),
                        VARINT("total_bytes", 1, "\7")));
    tables[1] = 1;
    add_columns(file, 3, 1, tables, NO_KEY, 0,
                COLUMNS(VARINT("device", 1, "\0"), VARINT("layer", 1, "\0"), VARINT("size_basis", 1, "\0"),
                        VARINT("name", 1, "\0")));
    tables[2] = 1;
    add_columns(file, 4, 1, tables, NO_KEY, 0, COLUMNS(VARINT("tid", 1, "\0"), VARINT("name", 1, "\0")));
    tables[3] = 1;
    add_columns(file, 6, 1, tables, NO_KEY, 0,
                COLUMNS(VARINT("language", 1, "\0"), VARINT("module", 1, "\0"), VARINT("address", 1, "\0"),
                        VARINT("function", 1, "\0"), VARINT("file", 1, "\0"), VARINT("line", 1, "\0")));
    tables[5] = 1;
    add_columns(file, 7, 2, tables, NO_KEY, 0, COLUMNS(VARINT("parent", 2, "\0\0"), VARINT("frame", 2, "\0\0")));
}

START_TEST(versions_are_compared)
{
    struct file older = {0}, newer = {0};
    add_start(&older, 7, 1); /* written by a later one that this one can read */
    ck_assert_int_eq(read_file(&older).opened, MP_OK);
    add_start(&newer, 7, 6);
    struct result result = read_file(&newer);
    ck_assert_int_eq(result.opened, MP_TOO_NEW);
    ck_assert_ptr_nonnull(strstr(result.text, "version 7"));
    ck_assert_ptr_nonnull(strstr(result.text, "version 6"));
    ck_assert_ptr_nonnull(strstr(result.text, "up to version 2"));
}

/* The checksum is the last of the first object, a number of 32 bits, and nothing else. */
START_TEST(the_first_object_ends_with_its_checksum)
{
    for (unsigned type = 0; type < 256; type++) {
        struct file file = {0};
        add_start(&file, 1, 1);
        size_t size = file.bytes.size;
        file.bytes.data[size - 5] = (unsigned char)type;
        struct result result = read_file(&file);
        ck_assert_msg(result.damage.lost_bytes == (type == 0xce ? 0 : size), "type 0x%02x: %llu bytes lost", type,
                      (unsigned long long)result.damage.lost_bytes);
    }
}

START_TEST(chunks_of_unknown_kinds_are_passed_over)
{
    struct file file = {0};
    add_start(&file, 1, 1);
    add_some_tables(&file);
    add_raw(&file, 99, "\xc0\xc0", 2);
    add_raw(&file, MP_CHUNK_KINDS, "whatever", 8);
    add_columns(&file, 4, 1, some, NO_KEY, 0, COLUMNS(VARINT("tid", 1, "\0"), VARINT("name", 1, "\0")));
    struct result result = read_file(&file);
    ck_assert_uint_eq(result.chunks, 7);
    ck_assert(!result.damage.lost_bytes && !result.damage.lost_chunks && result.damage.cut);
}

/* Each case is one chunk that must be passed over as damage, between chunks that must be read. */
static void check_damaged(struct file *file)
{
    static const uint64_t after[7] = {1, 1, 1, 1, 0, 1, 2};
    add_columns(file, 4, 1, after, NO_KEY, 0, COLUMNS(VARINT("tid", 1, "\0"), VARINT("name", 1, "\0")));
    uint32_t last = file->sequence - 1;
    struct result result = read_file(file);
    ck_assert_int_eq(result.opened, MP_OK);
    ck_assert_uint_eq(result.chunks, 7);
    ck_assert(!(result.read >> (last - 1) & 1)); /* that chunk and not the one after it */
    ck_assert(result.read >> last & 1);
    ck_assert_uint_eq(result.damage.lost_chunks, 1);
    ck_assert_uint_gt(result.damage.lost_bytes, 0);
}

static void begin(struct file *file)
{
    *file = (struct file){0};
    add_start(file, 1, 1);
    add_some_tables(file);
}

START_TEST(hostile_msgpack_is_damage)
{
    static const struct {
        size_t size;
        const char *body;
    } bodies[] = {
        {0, ""},
        {1, "\xc1"},
        {3, "\x80\xc4\x00"},                 /* no "tables" */
        {7, "\xdf\xff\xff\xff\xff\xc4\x00"}, /* a map of four thousand million */
        {7, "\xdd\x0f\xff\xff\xff\xc4\x00"}, /* an array where a map should be */
        {12, "\xdd\xff\xff\xff\xff\xdd\xff\xff\xff\xff\xc4\x00"},
        {8, "\xdb\xff\xff\xff\xff ab"},  /* a text longer than the file */
        {6, "\x80\xc6\xff\xff\xff\xff"}, /* a payload longer than the file */
        {5, "\x80\xc4\x00xx"},           /* more after the payload */
        {6, "\xc9\xff\xff\xff\xff\x01"}, /* ext */
    };
    for (size_t i = 0; i < sizeof bodies / sizeof *bodies; i++) {
        struct file file;
        begin(&file);
        add_raw(&file, 9, bodies[i].body, bodies[i].size);
        check_damaged(&file);
    }
    for (size_t more = 1; more < 4; more++) { /* a good chunk with a wrong end of its payload */
        struct file file;
        begin(&file);
        more_after = more;
        add_columns(&file, 4, 1, (const uint64_t[7]){1, 1, 1, 1, 0, 1, 2}, NO_KEY, 0,
                    COLUMNS(VARINT("tid", 1, "\0"), VARINT("name", 1, "\0")));
        check_damaged(&file);
    }
    static const unsigned char opens[] = {0x91, 0x81};
    for (size_t i = 0; i < 2; i++) { /* nested a hundred thousand deep */
        struct file file;
        struct mp_buffer deep = {0};
        begin(&file);
        for (int depth = 0; depth < 100000; depth++)
            add_byte(&deep, opens[i]);
        add_byte(&deep, 0);
        add_chunk(&file, 9, &deep);
        mp_buffer_free(&deep);
        check_damaged(&file);
    }
}

START_TEST(hostile_columns_are_damage)
{
    const struct column columns[] = {
        {"tid", "varint", UINT64_MAX, 1, "\0"}, /* counts and lengths beyond bounds */
        {"tid", "varint", 65537, 1, "\0"},
        {"tid", "varint", 1, UINT64_MAX, "\0"},
        {"tid", "varint", 1, UINT64_C(1) << 40, "\0"},
        {"tid", "magic", 1, 1, "\0"},    /* unknown encoding */
        {"tid", "varint", 1, 2, "\0\0"}, /* bytes left over */
        {"tid", "varint", 1, 1, "\x80"}, /* cut */
        {"tid", "varint", 1, 10, "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff"},
        {"tid", "varint", 1, 5, "\xff\xff\xff\xff\x7f"}, /* more than 32 bits */
        {"tid", "run", 1, 2, "\0\0"},                    /* a run of none */
        {"tid", "run", 1, 2, "\0\2"},                    /* a run too long */
        {"tid", "run", 1, 11, "\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"},
        {"tid", "bytes", 1, 1, "\0"}, /* bytes where a number should be */
        {"tid", "planes", 1, 0, ""},
        {"tid", "planes", 1, 5, "\0\0\0\0\1"},
        {"dit", "varint", 1, 1, "\0"},   /* missing */
        {"tid", "varint", 2, 2, "\0\0"}, /* another count than the chunk */
    };
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++) {
        struct file file;
        begin(&file);
        struct column both[2] = {columns[i], VARINT("name", 1, "\0")};
        add_columns(&file, 4, 1, some, NO_KEY, 0, both, 2);
        check_damaged(&file);
    }
    struct file file;
    begin(&file);
    add_columns(&file, 4, UINT64_C(1) << 33, some, NO_KEY, 0, COLUMNS(VARINT("tid", 1, "\0")));
    check_damaged(&file);
    begin(&file);
    add_columns(&file, 4, 1, empty, NO_KEY, 0, COLUMNS(VARINT("tid", 1, "\0"), VARINT("name", 1, "\0")));
    check_damaged(&file); /* tables smaller than they were */
}

/* Tables with so many entries that the reader must not compare each pair of them; each table is a chunk of a hundred
 * bytes. */
START_TEST(too_many_entries_are_damage)
{
    struct file file;
    begin(&file);
    add_columns(&file, 3, 4096, some, NO_KEY, 0,
                COLUMNS(CONSTANT("device", 4096, "\0"), CONSTANT("layer", 4096, "\0"),
                        CONSTANT("size_basis", 4096, "\0"), CONSTANT("name", 4096, "\0")));
    check_damaged(&file);
    begin(&file);
    add_columns(&file, 2, 512, some, NO_KEY, 0,
                COLUMNS(CONSTANT("name", 512, "\0"), CONSTANT("uuid", 512, "\0"), CONSTANT("model", 512, "\0"),
                        CONSTANT("total_bytes", 512, "\0")));
    check_damaged(&file);
    /* Made-up entries for lost chunks are limited to the possible number, whatever a table's size claims. */
    static const uint64_t many[][7] = {{1, 513, 1, 1, 0, 1, 2}, {1, 1, 4097, 1, 0, 1, 2}, {1, 512, 4096, 1, 0, 1, 2}};
    for (size_t i = 0; i < 3; i++) {
        begin(&file);
        file.sequence += 9;
        add_columns(&file, 4, 1, many[i], NO_KEY, 0, COLUMNS(VARINT("tid", 1, "\0"), VARINT("name", 1, "\0")));
        struct result result = read_file(&file);
        ck_assert_uint_eq(result.chunks, i == 2 ? 7 : 6);
        ck_assert_int_eq(result.damage.lost_bytes > 0, i < 2);
    }
}

/* The largest allowed number of columns is read; one more is damage. */
START_TEST(columns_have_an_end)
{
    struct column columns[MP_COLUMNS + 1] = {VARINT("tid", 1, "\0"), VARINT("name", 1, "\0")};
    for (size_t i = 2; i <= MP_COLUMNS; i++)
        columns[i] = (struct column)VARINT("of a later version", 1, "\0");
    struct file file;
    begin(&file);
    add_columns(&file, 4, 1, some, NO_KEY, 0, columns, MP_COLUMNS);
    uint32_t last = file.sequence - 1;
    struct result result = read_file(&file);
    ck_assert_uint_eq(result.read >> last, 1);
    ck_assert_uint_eq(result.damage.lost_chunks, 0);
    begin(&file);
    add_columns(&file, 4, 1, some, NO_KEY, 0, columns, MP_COLUMNS + 1);
    check_damaged(&file);
}

START_TEST(ids_that_name_nothing_are_damage)
{
    struct file file;
    begin(&file);
    add_columns(&file, 4, 1, some, NO_KEY, 0, COLUMNS(VARINT("tid", 1, "\0"), VARINT("name", 1, "\1")));
    check_damaged(&file);
    begin(&file);
    add_columns(&file, 7, 1, some, NO_KEY, 0, COLUMNS(VARINT("parent", 1, "\2"), VARINT("frame", 1, "\0")));
    check_damaged(&file); /* its own parent */
    begin(&file);
    add_columns(&file, 7, 1, some, NO_KEY, 0, COLUMNS(VARINT("parent", 1, "\1"), VARINT("frame", 1, "\1")));
    check_damaged(&file);
    begin(&file);
    add_columns(&file, 8, 1, some, NO_KEY, 0,
                COLUMNS(VARINT("frame", 1, "\1"), VARINT("function", 1, "\0"), VARINT("file", 1, "\0"),
                        VARINT("line", 1, "\0")));
    check_damaged(&file);
    begin(&file);
    add_columns(&file, 13, 1, some, NO_KEY, 0,
                COLUMNS(VARINT("known", 1, "\2"), VARINT("by_signal", 1, "\0"), VARINT("status", 1, "\0"),
                        VARINT("time", 1, "\0"), VARINT("text", 1, "\0")));
    check_damaged(&file); /* a bool of 2 */
    begin(&file);
    add_columns(&file, 16, 1, some, NO_KEY, 0,
                COLUMNS(VARINT("bytes", 1, "\1"), VARINT("requested", 1, "\1"), VARINT("segment", 1, "\0"),
                        VARINT("state", 1, "\4")));
    check_damaged(&file); /* no such state */
    begin(&file);
    add_columns(&file, 17, 1, some, NO_KEY, 0,
                COLUMNS(VARINT("address", 1, "\0"), VARINT("bytes", 1, "\0"), VARINT("stream", 1, "\0"),
                        VARINT("pool", 1, "\0"), VARINT("track", 1, "\0"),
                        VARINT("action", 1, (char[]){MP_TORCH_ACTIONS})));
    check_damaged(&file); /* no such action */
    begin(&file);
    add_columns(&file, 12, 1, some, NO_KEY, 0,
                COLUMNS(VARINT("events", 1, "\0"), VARINT("dropped", 1, "\0"), VARINT("truncated_stacks", 1, "\0"),
                        VARINT("unmatched_stacks", 1, "\0"), VARINT("totals_checked", 1, "\0"),
                        VARINT("totals_wrong", 1, "\0"), VARINT("unknown_frees", 1, "\0"),
                        VARINT("missed_frees", 1, "\0"), VARINT("notes", 1, "\1")));
    check_damaged(&file);
    begin(&file);
    add_columns(&file, 10, 1, some, "total", 1,
                COLUMNS(VARINT("block", 1, "\1"), VARINT("address", 1, "\0"), VARINT("bytes", 1, "\0"),
                        VARINT("birth", 1, "\0"), VARINT("stack", 1, "\0"), VARINT("track", 1, "\0"),
                        VARINT("kind", 1, "\0")));
    check_damaged(&file); /* block 1 before block 0 */
}

/* One alloc and one free of it; `bad` replaces the column of the same name. */
static void add_events(struct file *file, const struct column *bad)
{
    struct column columns[] = {
        {"type", "planes", 2, 2, "\1\2"}, CONSTANT("thread", 2, "\0"),        VARINT("time", 2, "\0\5"),
        VARINT("alloc.shape", 1, "\0"),   VARINT("alloc.place", 1, "\xff\1"), VARINT("alloc.address", 1, "\0"),
        VARINT("alloc.block", 1, "\0"),   VARINT("free.back", 1, "\1"),       VARINT("stack", 1, "\0"),
        VARINT("shape.stack", 1, "\1"),   VARINT("shape.bytes", 1, "\4"),     VARINT("shape.track", 1, "\0"),
        VARINT("shape.kind", 1, "\0"),    VARINT("address", 1, "\7"),
    };
    size_t count = sizeof columns / sizeof *columns;
    for (size_t i = 0; bad && i < count; i++)
        if (!strcmp(columns[i].name, bad->name)) columns[i] = *bad;
    add_columns(file, 9, 2, some, "time", 100, columns, count);
}

START_TEST(hostile_events_are_damage)
{
    struct file file;
    begin(&file);
    add_events(&file, NULL);
    struct result result = read_file(&file);
    ck_assert_uint_eq(result.chunks, 7); /* the honest one is read */
    ck_assert_uint_eq(result.damage.lost_bytes, 0);
    const struct column bad[] = {
        {"type", "planes", 2, 2, "\1\xc8"}, /* no such type */
        {"type", "planes", 2, 2, "\0\2"},
        {"type", "planes", 2, 2, "\2\1"}, /* freed before it is allocated */
        CONSTANT("thread", 2, "\1"),
        VARINT("time", 2, "\0\xff\xff\xff\xff\xff\xff\xff\xff\xff\1"),
        VARINT("alloc.shape", 1, "\1"),
        VARINT("alloc.place", 1, "\0"), /* none was freed yet */
        VARINT("alloc.address", 1, "\1"),
        VARINT("alloc.block", 1, "\4"), /* a block number far beyond */
        VARINT("alloc.block", 1, "\1"), /* and one before 0 */
        VARINT("free.back", 1, "\2"),
        VARINT("free.back", 1, "\0"), /* its columns are not there */
        VARINT("free.back", 1, "\xff\xff\xff\xff\xf"),
        VARINT("stack", 1, "\2"),
        VARINT("shape.stack", 1, "\2"),
        VARINT("shape.track", 1, "\1"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        begin(&file);
        add_events(&file, &bad[i]);
        check_damaged(&file);
    }
}

START_TEST(false_sync_marks_do_not_cost_the_square)
{
    enum { MARKS = 150000 };
    struct file file;
    begin(&file);
    /* Each claims a chunk to the end of the file: without a bound, 300 GB to check. */
    for (uint32_t i = 0; i < MARKS; i++) {
        unsigned char head[MP_HEAD_BYTES + 1] = MP_SYNC;
        head[MP_AT_SEQUENCE] = head[MP_AT_LENGTH] = head[MP_AT_CHECKSUM] = 0xce;
        mp_put_be32(head + MP_AT_LENGTH + 1, (MARKS - i) * (uint32_t)sizeof head - MP_HEAD_BYTES);
        mp_buffer_append(&file.bytes, head, sizeof head);
    }
    size_t size = file.bytes.size;
    struct result result = read_file(&file);
    ck_assert_uint_eq(result.chunks, 6);
    ck_assert_uint_gt(result.damage.lost_bytes, size / 2);
}

START_TEST(losses_that_cannot_have_been_are_not_made_up)
{
    /* A sequence gap of thousands of millions and tables to match, from a file of a few hundred bytes. */
    static const uint64_t huge[7] = {UINT64_C(1) << 40, 1, 1, 1, 0, 1, 2};
    struct file file;
    begin(&file);
    file.sequence = UINT32_MAX - 5;
    add_columns(&file, 4, 1, huge, NO_KEY, 0, COLUMNS(VARINT("tid", 1, "\0"), VARINT("name", 1, "\0")));
    char path[64];
    int fd = memfd_create("hostile", 0);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ck_assert_int_eq(write(fd, file.bytes.data, file.bytes.size), (ssize_t)file.bytes.size);
    struct mp_reader *reader;
    struct mp_chunk chunk;
    struct mp_error error;
    size_t made_up = 0;
    ck_assert_int_eq(mp_reader_open(path, &reader, &error), MP_OK);
    while (!mp_reader_next(reader, &chunk, &error))
        if (chunk.lost) made_up += chunk.count;
    ck_assert_uint_le(made_up, 20 * MP_CHUNK_ENTRIES);
    ck_assert_uint_gt(mp_reader_damage(reader)->lost_chunks, 1000000);
    mp_reader_close(reader);
    close(fd);
    mp_buffer_free(&file.bytes);
}

MP_SUITE("hostile", versions_are_compared, the_first_object_ends_with_its_checksum,
         chunks_of_unknown_kinds_are_passed_over, hostile_msgpack_is_damage, hostile_columns_are_damage,
         columns_have_an_end, ids_that_name_nothing_are_damage, too_many_entries_are_damage, hostile_events_are_damage,
         false_sync_marks_do_not_cost_the_square, losses_that_cannot_have_been_are_not_made_up)
