/* A spool's tables in a file, while a thread goes on filling them. */
#include "collect/recording/tables.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "format/reader.h"
#include "unit/suite.h"
#include "unit/whole.h"

#define MODULES 40
#define FRAMES  6000
#define TRACKS  9

static struct mp_spool_header *spool;

static struct mp_spool_header *new_spool(void)
{
    struct mp_spool_table tables[MP_TABLES] = {{0}};
    void *at =
        mmap(NULL, mp_spool_layout(tables), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    ck_assert_ptr_ne(at, MAP_FAILED);
    struct mp_spool_header *made = at;
    memcpy(made->tables, tables, sizeof tables);
    for (int id = 0; id < MP_TABLES; id++)
        made->tables[id].committed = made->tables[id].room;
    made->tables[MP_TABLE_NODES].count = made->tables[MP_TABLE_MODULES].count = 1;
    made->tables[MP_TABLE_STRINGS].count = sizeof(uint32_t);
    ((struct mp_wire_node *)mp_spool_entries(made, MP_TABLE_NODES))->frame = MP_WIRE_FRAME_CUT;
    return made;
}

static uint32_t put_string(const char *text)
{
    struct mp_spool_table *table = &spool->tables[MP_TABLE_STRINGS];
    uint64_t end = table->count;
    uint32_t length = (uint32_t)strlen(text);
    char *to = (char *)mp_spool_entries(spool, MP_TABLE_STRINGS) + end;
    memcpy(to, &length, sizeof length);
    memcpy(to + sizeof length, text, length);
    atomic_store_explicit(&table->count, end + ((sizeof length + length + 3) & ~UINT64_C(3)), memory_order_release);
    return (uint32_t)(end / 4);
}

static void put(enum mp_spool_table_id id, const void *entry)
{
    struct mp_spool_table *table = &spool->tables[id];
    size_t bytes = mp_spool_entry_bytes(id);
    uint64_t count = table->count;
    memcpy((char *)mp_spool_entries(spool, id) + count * bytes, entry, bytes);
    atomic_store_explicit(&table->count, count + 1, memory_order_release);
}

/* Entry i of each table follows from i alone. */
static void text_of(char *to, const char *what, uint64_t i)
{
    sprintf(to, "%s %llu%.*s", what, (unsigned long long)i, (int)(i % 5), "xxxxx");
}

static uint32_t parent_of(uint64_t node)
{
    return (uint32_t)(node * 7 / 11);
}

static void put_frame(uint64_t i)
{
    char text[64];
    struct mp_wire_frame frame = {.language = i % 3 ? MP_NATIVE : MP_PYTHON};
    if (i % 3) {
        frame.address = 0x1000 + i;
        frame.module = (uint32_t)(i % spool->tables[MP_TABLE_MODULES].count);
    } else {
        text_of(text, "function", i);
        frame.function = put_string(text);
        text_of(text, "file", i % 50);
        frame.file = put_string(text); /* the same text under many ids of the spool */
        frame.line = (uint32_t)i;
    }
    put(MP_TABLE_FRAMES, &frame);
    struct mp_wire_node node = {.parent = parent_of(i + 1), .frame = i % 100 ? (uint32_t)i : MP_WIRE_FRAME_CUT};
    put(MP_TABLE_NODES, &node);
}

static struct mp_file_id file_id_of(uint64_t i)
{
    return (struct mp_file_id){.size = i + 1,
                               .inode = i + 2,
                               .mtime_ns = -(int64_t)i,
                               .build_id_size = 2,
                               .build_id = {(uint8_t)i, (uint8_t)(i >> 8)}};
}

static void *fill(void *context)
{
    char text[64];
    for (uint64_t i = 0; i < FRAMES; i++) {
        if (i % (FRAMES / MODULES) == 0) {
            text_of(text, "module", i);
            struct mp_wire_module module = {.start = i << 20, .end = (i + 1) << 20, .bias = i};
            module.path = put_string(text);
            module.file = file_id_of(i);
            put(MP_TABLE_MODULES, &module);
        }
        if (i % (FRAMES / TRACKS) == 0) {
            text_of(text, "pool", i);
            struct mp_wire_track track = {.device_index = (int16_t)(i / 1000 % 3),
                                          .device_type = MP_DEVICE_CUDA,
                                          .layer = MP_LAYER_APP,
                                          .size_basis = MP_BASIS_EXACT,
                                          .name = put_string(text)};
            put(MP_TABLE_TRACKS, &track);
        }
        put_frame(i);
        if (i % 64 == 0) usleep(100);
    }
    return context;
}

static uint32_t modules_seen;

static void see_module(void *context, uint32_t id, const char *path, const struct mp_file_id *file)
{
    modules_seen++;
    ck_assert_uint_eq(id, modules_seen); /* each once, in their order */
    ck_assert(!strncmp(path, "module ", 7));
    ck_assert_uint_eq(file->build_id_size, 2);
}

/* Everything that the file has, by kind. */
static struct {
    MP_VEC(char *) strings;
    MP_VEC(struct mp_device) devices;
    MP_VEC(struct mp_track) tracks;
    MP_VEC(struct mp_module) modules;
    MP_VEC(struct mp_frame) frames;
    MP_VEC(struct mp_stack_node) nodes;
    MP_VEC(struct mp_thread_info) threads;
} file;

#define APPEND(vec, from)                                                                                              \
    for (size_t i_ = 0; i_ < chunk.count; i_++)                                                                        \
    ck_assert(mp_vec_push(vec, (from)[i_]))

static void read_back(const char *path)
{
    struct mp_reader *reader;
    struct mp_error error;
    struct mp_chunk chunk;
    ck_assert_msg(!mp_reader_open(path, &reader, &error), "%s", error.text);
    while (!mp_reader_next(reader, &chunk, &error)) {
        ck_assert(!chunk.lost);
        switch (chunk.kind) {
        case MP_CHUNK_STRINGS:
            for (size_t i = 0; i < chunk.count; i++)
                ck_assert(mp_vec_push(&file.strings, strndup(chunk.as.strings[i].text, chunk.as.strings[i].length)));
            break;
        case MP_CHUNK_DEVICES:
            APPEND(&file.devices, chunk.as.devices);
            break;
        case MP_CHUNK_TRACKS:
            APPEND(&file.tracks, chunk.as.tracks);
            break;
        case MP_CHUNK_THREADS:
            APPEND(&file.threads, chunk.as.threads);
            break;
        case MP_CHUNK_MODULES:
            APPEND(&file.modules, chunk.as.modules);
            break;
        case MP_CHUNK_FRAMES:
            APPEND(&file.frames, chunk.as.frames);
            break;
        case MP_CHUNK_STACKS:
            APPEND(&file.nodes, chunk.as.stacks);
            break;
        default:
            break;
        }
    }
    const struct mp_damage *damage = mp_reader_damage(reader);
    ck_assert(!damage->lost_bytes && !damage->lost_chunks);
    mp_reader_close(reader);
}

static void check_string(uint32_t id, const char *what, uint64_t i)
{
    char wanted[64];
    text_of(wanted, what, i);
    ck_assert_uint_lt(id, file.strings.count);
    ck_assert_str_eq(file.strings.at[id], wanted);
}

/* The id that the file has for entry i's text. */
static uint32_t id_of(const char *what, uint64_t i, uint32_t got)
{
    check_string(got, what, i);
    return got;
}

/* The program's driver gave UUIDs for devices 0 and 2. */
static const char *uuid_of(uint64_t device)
{
    return device == 1   ? ""
           : device == 0 ? "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
                         : "GPU-02010203-0405-0607-0809-0a0b0c0d0e0f";
}

static void check_frame(uint64_t i)
{
    const struct mp_frame *frame = &file.frames.at[i];
    const struct mp_stack_node *node = &file.nodes.at[i + 1];
    struct mp_frame wanted = {.language = i % 3 ? MP_NATIVE : MP_PYTHON};
    if (i % 3) {
        wanted.address = 0x1000 + i;
        wanted.module = (uint32_t)(i % (i / (FRAMES / MODULES) + 2));
    } else {
        wanted.function = id_of("function", i, frame->function);
        wanted.file = id_of("file", i % 50, frame->file);
        wanted.line = (uint32_t)i;
    }
    ck_whole_eq(mp_frame, frame, &wanted);
    ck_whole_eq(mp_stack_node, node, (&(struct mp_stack_node){parent_of(i + 1), i % 100 ? (uint32_t)i : MP_FRAME_CUT}));
}

static void check_file(void)
{
    ck_assert_uint_eq(file.modules.count, MODULES + 1);
    ck_assert_uint_eq(file.frames.count, FRAMES);
    ck_assert_uint_eq(file.nodes.count, FRAMES + 1);
    ck_assert_uint_eq(file.devices.count, 3);
    ck_assert_uint_eq(file.tracks.count, TRACKS + 1);
    for (uint64_t i = 0; i < FRAMES; i++)
        check_frame(i);
    ck_whole_eq(mp_module, &file.modules.at[0], &(struct mp_module){0});
    for (uint64_t i = 0; i < MODULES; i++) {
        const struct mp_module *module = &file.modules.at[i + 1];
        uint64_t number = i * (FRAMES / MODULES);
        struct mp_module wanted = {.path = id_of("module", number, module->path),
                                   .start = number << 20,
                                   .end = (number + 1) << 20,
                                   .bias = number,
                                   .file = file_id_of(number)};
        ck_whole_eq(mp_module, module, &wanted);
    }
    for (uint64_t i = 0; i < file.tracks.count; i++) {
        const struct mp_track *track = &file.tracks.at[i];
        const struct mp_device *device = &file.devices.at[track->device];
        uint64_t number = i * (FRAMES / TRACKS), card = number / 1000 % 3;
        char name[32];
        struct mp_track wanted = {.device = track->device,
                                  .layer = MP_LAYER_APP,
                                  .size_basis = MP_BASIS_EXACT,
                                  .name = id_of("pool", number, track->name)};
        ck_whole_eq(mp_track, track, &wanted);
        sprintf(name, "cuda:%llu", (unsigned long long)card);
        ck_assert_str_eq(file.strings.at[device->name], name);
        ck_assert_str_eq(file.strings.at[device->uuid], uuid_of(card));
        ck_assert_str_eq(file.strings.at[device->model], "");
        ck_assert_uint_eq(device->total_bytes, MP_BYTES_UNKNOWN);
    }
}

START_TEST(a_file_gets_what_a_growing_spool_holds)
{
    char path[] = "/tmp/memprof-check-XXXXXX";
    int fd = mkstemp(path);
    struct mp_recording_start start = {
        .host = "", .command = (const char *const[]){NULL}, .configuration = "", .spool = ""};
    struct mp_writer *writer;
    struct mp_error error;
    struct mp_tables tables = {0};
    pthread_t thread;
    spool = new_spool();
    for (unsigned card = 0; card < 3; card += 2) {
        for (uint8_t i = 1; i < 16; i++)
            spool->devices[card].uuid[i] = i;
        spool->devices[card].uuid[0] = (uint8_t)card;
        atomic_store(&spool->devices[card].known, 1);
    }
    spool->devices[1].uuid[0] = 9; /* not known yet */
    ck_assert(!mp_writer_open(fd, &start, &writer, &error));
    ck_assert(!pthread_create(&thread, NULL, fill, NULL));
    for (int rounds = 0; tables.done[MP_TABLE_FRAMES] < FRAMES || rounds < 3; rounds++) {
        uint32_t id;
        char own[32];
        sprintf(own, "the collector's own %d", rounds); /* makes the file's ids differ from the spool's */
        ck_assert(!mp_tables_text(&tables, own, &id, &error));
        ck_assert_msg(!mp_tables_read(&tables, spool, see_module, NULL, &error), "%s", error.text);
        ck_assert_msg(!mp_tables_write(&tables, spool, writer, &error), "%s", error.text);
        for (int table = 0; table < MP_TABLES; table++)
            ck_assert_uint_eq(tables.done[table], tables.seen[table]);
        usleep(50);
    }
    pthread_join(thread, NULL);
    ck_assert(!mp_tables_read(&tables, spool, see_module, NULL, &error));
    ck_assert(!mp_tables_write(&tables, spool, writer, &error));
    ck_assert(!mp_writer_finish(writer, &error));
    ck_assert_uint_eq(modules_seen, MODULES);
    read_back(path);
    check_file();
    mp_tables_free(&tables);
    unlink(path);
}

START_TEST(threads_are_told_by_ring_and_number)
{
    struct mp_tables tables = {0};
    struct mp_error error;
    uint32_t first, second, again;
    spool = new_spool();
    spool->rings[0].tid = 10;
    spool->rings[1].tid = 11;
    memcpy(spool->rings[0].name, "sixteen letters!", 16); /* no NUL */
    ck_assert(!mp_tables_thread(&tables, spool, 0, &first, &error));
    ck_assert(!mp_tables_thread(&tables, spool, 1, &second, &error));
    ck_assert(!mp_tables_thread(&tables, spool, 0, &again, &error));
    ck_assert_uint_eq(first, again);
    ck_assert_uint_ne(first, second);
    ck_assert_str_eq(mp_intern_get(&tables.strings, tables.threads.at[first].name, NULL), "sixteen letters!");
    spool->rings[0].tid = 12; /* the ring's next owner */
    ck_assert(!mp_tables_thread(&tables, spool, 0, &again, &error));
    ck_assert_uint_ne(first, again);
    ck_assert_uint_eq(tables.threads.at[again].tid, 12);
    mp_tables_free(&tables);
}

START_TEST(damaged_strings_end_the_reading)
{
    struct mp_tables tables = {0};
    struct mp_error error;
    spool = new_spool();
    uint32_t good = put_string("good"), bad = put_string("bad");
    uint32_t length = 1000;
    memcpy((char *)mp_spool_entries(spool, MP_TABLE_STRINGS) + (size_t)bad * 4, &length, sizeof length);
    ck_assert(!mp_tables_read(&tables, spool, NULL, NULL, &error));
    ck_assert_str_eq(mp_intern_get(&tables.strings, mp_tables_spool_string(&tables, good), NULL), "good");
    ck_assert_uint_eq(mp_tables_spool_string(&tables, bad), 0);
    ck_assert_uint_eq(mp_tables_spool_string(&tables, 12345), 0);
    mp_tables_free(&tables);
}

MP_SUITE("tables", a_file_gets_what_a_growing_spool_holds, threads_are_told_by_ring_and_number,
         damaged_strings_end_the_reading)
