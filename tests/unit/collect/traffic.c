#include "unit/collect/traffic.h"

#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "model/builder.h"
#include "unit/whole.h"
#include "wire/config.h"

uint64_t traffic_now_ns;
uint64_t traffic_spool_id;

/* Replaces src/base/clock.c, which asks the kernel directly and so bypasses a clock_gettime() of the test. */
static uint64_t ns_of(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (uint64_t)now.tv_sec * MP_NS_PER_SECOND + (uint64_t)now.tv_nsec;
}

uint64_t mp_clock_monotonic_ns(void)
{
    return traffic_now_ns ? traffic_now_ns : ns_of(CLOCK_MONOTONIC);
}

uint64_t mp_clock_realtime_ns(void)
{
    return ns_of(CLOCK_REALTIME);
}

#define NAMES 10
static const char *const names[NAMES] = {
    "",        "po\"ol\\\n2", "Net.layers.0", "Net.layers.1",        "weight",
    "forward", "back\"ward",  "main",         "/home/user/train.py", "/home/user/train.py:" TRAFFIC_STEP_FUNCTION};
enum { POOL = 1, FIRST_NAME = 2, LAST_NAME = 6, FUNCTION = 7, FILE_NAME = 8, CALL_NAME = 9 };

const char *const traffic_track_ids[TRAFFIC_TRACKS] = {"cuda:0/driver", "cuda:0/torch", "cpu/app/po\"ol\\\n2",
                                                       "cpu/torch"};
static const struct mp_wire_track wire_tracks[TRAFFIC_TRACKS] = {
    {.device_type = MP_DEVICE_CUDA, .layer = MP_LAYER_DRIVER, .size_basis = MP_BASIS_EXACT},
    {.device_type = MP_DEVICE_CUDA, .layer = MP_LAYER_TORCH, .size_basis = MP_BASIS_BLOCK},
    {.device_type = MP_DEVICE_CPU, .device_index = -1, .layer = MP_LAYER_APP, .size_basis = MP_BASIS_REQUESTED},
    {.device_type = MP_DEVICE_CPU, .device_index = -1, .layer = MP_LAYER_TORCH, .size_basis = MP_BASIS_REQUESTED}};
static const uint32_t device_of[TRAFFIC_TRACKS] = {0, 0, 1, 1};

static uint64_t chance(struct traffic *traffic, uint64_t below)
{
    traffic->random ^= traffic->random << 13;
    traffic->random ^= traffic->random >> 7;
    traffic->random ^= traffic->random << 17;
    return traffic->random % below;
}

const char *traffic_text(const struct traffic *traffic, uint32_t id)
{
    return mp_intern_get(&traffic->texts, id, NULL);
}

/* ---- what is true ------------------------------------------------------------------------------------------------ */

static struct mp_base_block *find_live(struct traffic *traffic, uint16_t track, uint64_t address)
{
    for (size_t i = 0; i < traffic->live.count; i++)
        if (traffic->live.at[i].track == track && traffic->live.at[i].address == address) return &traffic->live.at[i];
    return NULL;
}

static void end_live(struct traffic *traffic, struct mp_base_block *block)
{
    *block = traffic->live.at[--traffic->live.count];
}

/* Threads have numbers in the order in which their first records were taken; 3 and up of `number` are lanes. */
static uint32_t thread_of(struct traffic *traffic, uint32_t number)
{
    char name[32];
    bool is_lane = number >= TRAFFIC_RINGS;
    if (traffic->ring_thread[number]) return traffic->ring_thread[number] - 1;
    snprintf(name, sizeof name, is_lane ? MP_LANE_NAME "%u" : "thread %u",
             is_lane ? number - TRAFFIC_RINGS + 1 : number);
    struct mp_thread_info info = {is_lane ? MP_TID_LANE : 100 + number, mp_intern_text(&traffic->texts, name)};
    ck_assert(mp_vec_push(&traffic->threads, info));
    traffic->ring_thread[number] = (uint32_t)traffic->threads.count;
    return traffic->ring_thread[number] - 1;
}

static void happen(struct traffic *traffic, struct mp_event event)
{
    ck_assert(mp_vec_push(&traffic->events, event));
}

static void reserve(struct traffic *traffic, const struct mp_event *cause, uint64_t reserved)
{
    if (reserved == MP_RECORD_TOTAL_UNKNOWN || traffic->reserved[cause->track] == reserved) return;
    traffic->reserved[cause->track] = reserved;
    happen(traffic, (struct mp_event){.time_ns = cause->time_ns,
                                      .bytes = reserved,
                                      .thread = cause->thread,
                                      .track = cause->track,
                                      .type = MP_EVENT_RESERVED});
}

static void begin_block(struct traffic *traffic, const struct mp_record *record, struct mp_event event)
{
    struct mp_base_block *before = find_live(traffic, event.track, event.address);
    if (before) {
        happen(traffic, (struct mp_event){.time_ns = event.time_ns,
                                          .address = before->address,
                                          .bytes = before->bytes,
                                          .block = before->block,
                                          .thread = event.thread,
                                          .track = event.track,
                                          .type = MP_EVENT_FREE});
        traffic->missed_frees++;
        end_live(traffic, before);
    }
    event.block = traffic->next_block++;
    struct mp_base_block block = {.block = event.block,
                                  .address = event.address,
                                  .bytes = event.bytes,
                                  .birth_ns = event.time_ns,
                                  .stack = event.stack,
                                  .track = event.track,
                                  .kind = event.kind,
                                  .module = event.name};
    ck_assert(mp_vec_push(&traffic->live, block));
    reserve(traffic, &event, record->total_reserved);
    happen(traffic, event);
    if (event.track == 1) ck_assert(mp_vec_push(&traffic->untold, event));
}

static void end_block(struct traffic *traffic, const struct mp_record *record, struct mp_event event)
{
    struct mp_base_block *block = find_live(traffic, event.track, event.address);
    if (!block && record->flags & MP_RECORD_IF_KNOWN) return;
    if (block) {
        event.block = block->block;
        event.bytes = block->bytes;
        end_live(traffic, block);
    } else {
        event.block = traffic->next_block++;
        traffic->unknown_frees++;
    }
    event.kind = 0; /* the kind is the block's */
    reserve(traffic, &event, record->total_reserved);
    happen(traffic, event);
}

/* PyTorch's block comes first, then an application's, then the driver's; a block that begins at the address before one
 * that contains it. */
static void label_block(struct traffic *traffic, const struct mp_event *event)
{
    static const unsigned ranks[TRAFFIC_TRACKS] = {1, 3, 2, 3};
    struct mp_base_block *best = NULL;
    unsigned best_rank = 0;
    mp_vec_each (struct mp_base_block, block, &traffic->live) {
        uint64_t into = event->address - block->address;
        if (into >= block->bytes) continue;
        unsigned rank = ranks[block->track] + (into ? 0 : 10);
        if (rank > best_rank) best = block, best_rank = rank;
    }
    if (!best || (best->role == event->kind && best->label == event->name)) return;
    best->role = event->kind;
    best->label = event->name;
    struct mp_label label = {event->time_ns, best->block, event->kind, event->name};
    ck_assert(mp_vec_push(&traffic->labels, label));
}

/* ---- what is recorded -------------------------------------------------------------------------------------------- */

static uint32_t text_of(struct traffic *traffic, uint32_t name)
{
    return mp_intern_text(&traffic->texts, names[name]);
}

static struct mp_record new_record(struct traffic *traffic, unsigned type)
{
    traffic->now += 1 + chance(traffic, 200000);
    return (struct mp_record){.time_ns = traffic->now,
                              .type = (uint8_t)type,
                              .total_allocated = MP_RECORD_TOTAL_UNKNOWN,
                              .total_reserved = MP_RECORD_TOTAL_UNKNOWN};
}

/* `name` is an index of names; the recorder's id is put there when the tables are filled. */
static void put(struct traffic *traffic, struct mp_record record, uint32_t ring)
{
    struct traffic_record made = {record, ring};
    ck_assert(mp_vec_push(&traffic->records, made));
}

/* The record as an event of the file. */
static struct mp_event event_of(struct traffic *traffic, const struct mp_record *record, uint32_t ring)
{
    uint32_t thread = record->flags & MP_RECORD_LANE ? TRAFFIC_RINGS - 1 + (uint32_t)record->bytes : ring;
    return (struct mp_event){.time_ns = record->time_ns - TRAFFIC_START_NS,
                             .address = record->address,
                             .bytes = record->bytes,
                             .stack = record->stack,
                             .name = text_of(traffic, record->name),
                             .thread = thread_of(traffic, thread),
                             .track = record->track,
                             .type = record->type,
                             .kind = record->kind};
}

static uint64_t some_address(struct traffic *traffic, uint16_t track)
{
    static const uint64_t bases[TRAFFIC_TRACKS] = {UINT64_C(0x7000000000), UINT64_C(0x7000000000), 0x1000,
                                                   UINT64_C(0x500000000000)};
    return bases[track] + chance(traffic, 25) * 0x10000;
}

static void make_block_record(struct traffic *traffic, uint32_t ring)
{
    bool is_alloc = chance(traffic, 20) < 11;
    struct mp_record record = new_record(traffic, is_alloc ? MP_EVENT_ALLOC : MP_EVENT_FREE);
    record.track = (uint16_t)chance(traffic, TRAFFIC_TRACKS);
    record.address = some_address(traffic, record.track);
    struct mp_base_block *live = find_live(traffic, record.track, record.address);
    record.bytes = is_alloc ? 512 * (1 + chance(traffic, 60)) : MP_BYTES_UNKNOWN;
    record.stack = (uint32_t)chance(traffic, TRAFFIC_STACKS);
    record.kind = (uint8_t)chance(traffic, MP_KINDS);
    if (is_alloc && chance(traffic, 2))
        record.name = FIRST_NAME + (uint32_t)chance(traffic, LAST_NAME + 1 - FIRST_NAME);
    if (!is_alloc && !chance(traffic, 3)) record.flags = MP_RECORD_IF_KNOWN;
    if (!chance(traffic, 6)) record.total_reserved = (1 + chance(traffic, 4)) << 21;
    if (record.track == 3) { /* this track's allocator reports its total with every event */
        if (is_alloc == (live != NULL)) return;
        traffic->total += is_alloc ? record.bytes : -live->bytes;
        record.total_allocated = 4096 + traffic->total;
        traffic->totals_checked++;
    }
    put(traffic, record, ring);
    (is_alloc ? begin_block : end_block)(traffic, &record, event_of(traffic, &record, ring));
}

static void make_label_record(struct traffic *traffic, uint32_t ring)
{
    struct mp_record record = new_record(traffic, MP_RECORD_LABEL);
    record.address = some_address(traffic, (uint16_t)chance(traffic, TRAFFIC_TRACKS));
    if (!chance(traffic, 3)) record.address += chance(traffic, 0x8000);
    record.kind = (uint8_t)(1 + chance(traffic, MP_ROLES - 1));
    record.name = chance(traffic, 3) ? FIRST_NAME + (uint32_t)chance(traffic, 5) : 0;
    put(traffic, record, ring);
    struct mp_event event = event_of(traffic, &record, ring);
    label_block(traffic, &event);
}

static void make_other_record(struct traffic *traffic, uint32_t ring)
{
    static const uint8_t types[] = {MP_EVENT_STEP, MP_EVENT_REGION_BEGIN, MP_EVENT_REGION_END,
                                    MP_EVENT_MARK, MP_EVENT_OOM,          MP_EVENT_RESERVED};
    struct mp_record record = new_record(traffic, types[chance(traffic, sizeof types)]);
    if (record.type == MP_EVENT_STEP && !(traffic->with & TRAFFIC_STEPS)) return;
    record.name = record.type == MP_EVENT_RESERVED || !chance(traffic, 4)
                      ? 0
                      : FIRST_NAME + (uint32_t)chance(traffic, LAST_NAME + 1 - FIRST_NAME);
    if (record.type == MP_EVENT_STEP) {
        bool call = traffic->with & TRAFFIC_STEP_AT && chance(traffic, 2);
        record.name = call ? CALL_NAME : 0;
        *(call ? &traffic->steps_at : &traffic->steps) += 1;
    }
    if (record.type == MP_EVENT_OOM || record.type == MP_EVENT_RESERVED) {
        record.track = (uint16_t)chance(traffic, TRAFFIC_TRACKS);
        record.bytes = (1 + chance(traffic, 4)) << 21;
    }
    if (record.type == MP_EVENT_OOM && chance(traffic, 2)) record.total_reserved = (1 + chance(traffic, 4)) << 21;
    if (record.type == MP_EVENT_OOM || record.type == MP_EVENT_MARK)
        record.stack = (uint32_t)chance(traffic, TRAFFIC_STACKS);
    bool is_region = record.type == MP_EVENT_REGION_BEGIN || record.type == MP_EVENT_REGION_END;
    if (is_region && !chance(traffic, 3)) {
        record.flags = MP_RECORD_LANE;
        record.bytes = 1 + chance(traffic, 2);
    }
    put(traffic, record, ring);
    struct mp_event event = event_of(traffic, &record, ring);
    if (is_region) event.bytes = 0;
    if (event.type == MP_EVENT_OOM) reserve(traffic, &event, record.total_reserved);
    if (event.type == MP_EVENT_RESERVED)
        reserve(traffic, &event, record.bytes);
    else
        happen(traffic, event);
}

static void make_window_record(struct traffic *traffic, uint32_t ring)
{
    traffic->open = !traffic->open;
    struct mp_record record = new_record(traffic, traffic->open ? MP_EVENT_START : MP_EVENT_STOP);
    put(traffic, record, ring);
    happen(traffic, event_of(traffic, &record, ring));
}

/* Makes a reading of the allocations on track 1 since the last reading. */
static void make_reading(struct traffic *traffic)
{
    struct mp_record record;
    for (size_t i = 0; i < traffic->untold.count; i++) {
        const struct mp_event *alloc = &traffic->untold.at[i];
        struct mp_block_request reported = {
            alloc->block, {alloc->bytes - chance(traffic, 500), chance(traffic, 3), chance(traffic, 4)}};
        record = new_record(traffic, MP_RECORD_TORCH);
        record.kind = MP_READING_ALLOC;
        record.track = 1;
        record.moment_ns = TRAFFIC_START_NS + alloc->time_ns;
        record.address = alloc->address;
        record.bytes = reported.request.bytes;
        record.total_allocated = reported.request.stream;
        record.total_reserved = reported.request.pool;
        put(traffic, record, 0);
        (void)thread_of(traffic, 0);
        ck_assert(mp_vec_push(&traffic->requests, reported));
        for (size_t k = 0; k < traffic->live.count; k++)
            if (traffic->live.at[k].block == reported.block) traffic->live.at[k].request = reported.request;
    }
    record = new_record(traffic, MP_RECORD_TORCH);
    record.kind = MP_READING_END;
    record.moment_ns = record.time_ns;
    record.bytes = traffic->untold.count;
    put(traffic, record, 0);
    (void)thread_of(traffic, 0);
    traffic->untold.count = 0;
}

void traffic_make(struct traffic *traffic, uint64_t seed, size_t records, unsigned with)
{
    *traffic = (struct traffic){
        .random = seed * 2654435761u + 88172645463325252ull, .now = TRAFFIC_START_NS, .with = with, .open = true};
    traffic_spool_id = (uint64_t)getpid() << 16 | 1234;
    (void)mp_intern_text(&traffic->texts, "");
    for (uint16_t track = 0; track < TRAFFIC_TRACKS; track++)
        traffic->reserved[track] = MP_BYTES_UNKNOWN;
    while (traffic->records.count < records) {
        uint32_t ring = (uint32_t)chance(traffic, TRAFFIC_RINGS);
        uint64_t what = chance(traffic, 100);
        if (what < 70)
            make_block_record(traffic, ring);
        else if (what < 85)
            make_label_record(traffic, ring);
        else if (what < 96)
            make_other_record(traffic, ring);
        else if (what < 98 && with & TRAFFIC_WINDOWS)
            make_window_record(traffic, ring);
        else if (what == 98 && with & TRAFFIC_HISTORY)
            make_reading(traffic);
    }
}

void traffic_free(struct traffic *traffic)
{
    mp_vec_free(&traffic->records);
    mp_vec_free(&traffic->events);
    mp_vec_free(&traffic->labels);
    mp_vec_free(&traffic->requests);
    mp_vec_free(&traffic->live);
    mp_vec_free(&traffic->threads);
    mp_vec_free(&traffic->untold);
    mp_intern_free(&traffic->texts);
}

/* ---- the collector's part ---------------------------------------------------------------------------------------- */

static struct mp_frame frame_of(uint32_t number)
{
    return (struct mp_frame){.language = MP_PYTHON, .function = FUNCTION, .file = FILE_NAME, .line = 10 + number};
}

/* Node N is a call of frame N from node N - 1, but every fifth from the root. */
static struct mp_stack_node node_of(uint32_t number)
{
    return number ? (struct mp_stack_node){number % 5 ? number - 1 : 0, number} : (struct mp_stack_node){0, 0};
}

static void fill_tables(struct mp_spool_header *spool)
{
    struct mp_wire_node *nodes = mp_spool_entries(spool, MP_TABLE_NODES);
    struct mp_wire_frame *frames = mp_spool_entries(spool, MP_TABLE_FRAMES);
    struct mp_wire_track *tracks = mp_spool_entries(spool, MP_TABLE_TRACKS);
    char *strings = mp_spool_entries(spool, MP_TABLE_STRINGS);
    uint32_t ids[NAMES], at = 0;
    for (uint32_t i = 0; i < NAMES; i++) {
        uint32_t length = (uint32_t)strlen(names[i]);
        ids[i] = at / 4;
        memcpy(strings + at, &length, sizeof length);
        memcpy(strings + at + sizeof length, names[i], length);
        at += (uint32_t)sizeof length + ((length + 3) & ~3u);
    }
    for (uint32_t i = 0; i < TRAFFIC_STACKS; i++) {
        struct mp_frame frame = frame_of(i);
        struct mp_stack_node node = node_of(i);
        frames[i] = (struct mp_wire_frame){
            .language = frame.language, .function = ids[frame.function], .file = ids[frame.file], .line = frame.line};
        nodes[i] = (struct mp_wire_node){node.parent, node.frame};
    }
    memcpy(tracks, wire_tracks, sizeof wire_tracks);
    tracks[2].name = ids[POOL];
    atomic_store(&spool->tables[MP_TABLE_STRINGS].count, at);
    atomic_store(&spool->tables[MP_TABLE_MODULES].count, 1);
    atomic_store(&spool->tables[MP_TABLE_FRAMES].count, TRAFFIC_STACKS);
    atomic_store(&spool->tables[MP_TABLE_NODES].count, TRAFFIC_STACKS);
    atomic_store(&spool->tables[MP_TABLE_TRACKS].count, TRAFFIC_TRACKS);
}

static uint32_t spool_id_of(uint32_t name)
{
    uint32_t at = 0;
    for (uint32_t i = 0; i < name; i++)
        at += 4 + (((uint32_t)strlen(names[i]) + 3) & ~3u);
    return at / 4;
}

static enum mp_status name_file(void *context, struct mp_recording *recording, char **path, int *fd,
                                struct mp_error *error)
{
    if (asprintf(path, "%s", (char *)context) < 0) return mp_fail(error, MP_NO_MEMORY, "no memory for a name");
    *fd = open(*path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    return *fd < 0 ? mp_fail_errno(error, "cannot create %s", *path) : MP_OK;
}

/* Removes files that a failing test leaves: the test's process ends at the failure. */
static char spool_path[512];
static pid_t spool_pid;
static void remove_spool(void)
{
    if (*spool_path && spool_pid == getpid()) unlink(spool_path);
}

struct mp_recording *traffic_record(const struct traffic *traffic, const char *path,
                                    const struct mp_record_config *configuration, const char *spool_folder)
{
    static char kept[512];
    struct mp_spool_header *facts = aligned_alloc(_Alignof(struct mp_spool_header), sizeof *facts);
    struct mp_record_config config;
    struct mp_spool_file spool;
    struct mp_error error;
    (void)traffic;
    ck_assert_ptr_nonnull(facts);
    memset(facts, 0, sizeof *facts);
    snprintf(kept, sizeof kept, "%s", path);
    mp_record_config_defaults(&config);
    if (configuration) config = *configuration;
    facts->magic = MP_SPOOL_MAGIC;
    facts->version = MP_SPOOL_VERSION;
    facts->header_bytes = sizeof *facts;
    facts->spool_id = traffic_spool_id;
    facts->monotonic_ns = TRAFFIC_START_NS;
    facts->realtime_ns = 77;
    snprintf(facts->output, sizeof facts->output, "%s", path);
    snprintf(facts->host, sizeof facts->host, "node-7");
    memcpy(facts->command, "python3\0train.py\0", 18);
    ck_assert(mp_record_config_format(&config, facts->configuration, sizeof facts->configuration));
    traffic_now_ns = TRAFFIC_START_NS;
    enum mp_status status = mp_spool_file_create(facts, spool_folder, &spool, &error);
    ck_assert_msg(!status, "%s", status ? error.text : "");
    free(facts);
    if (spool_pid != getpid()) atexit(remove_spool);
    spool_pid = getpid();
    snprintf(spool_path, sizeof spool_path, "%s", spool.path);
    struct mp_spool_header *header = spool.header;
    atomic_store(&header->rings_used, 1);
    while (atomic_load(&header->rings_committed) < TRAFFIC_RINGS) {
        atomic_store(&header->rings_used, atomic_load(&header->rings_committed));
        ck_assert(mp_spool_file_grow(&spool));
    }
    fill_tables(header);
    for (uint32_t ring = 0; ring < TRAFFIC_RINGS; ring++) {
        atomic_store(&header->rings[ring].state, MP_RING_OWNED);
        header->rings[ring].tid = 100 + ring;
        snprintf(header->rings[ring].name, sizeof header->rings[ring].name, "thread %u", ring);
    }
    atomic_store(&header->rings_used, TRAFFIC_RINGS);
    struct mp_recording *recording = mp_recording_new(&spool, false, name_file, kept, &error);
    ck_assert_ptr_nonnull(recording);
    return recording;
}

void traffic_put(const struct traffic *traffic, struct mp_spool_header *spool, size_t from, size_t to)
{
    for (size_t i = from; i < to; i++) {
        const struct traffic_record *made = &traffic->records.at[i];
        uint64_t head = atomic_load(&spool->rings[made->ring].head);
        ck_assert_uint_lt(head - atomic_load(&spool->rings[made->ring].tail), MP_RING_RECORDS);
        struct mp_record *record = mp_ring_record(spool, made->ring, head);
        *record = made->record;
        record->name = spool_id_of(made->record.name);
        atomic_store(&spool->rings[made->ring].head, head + 1);
    }
    if (to > from) traffic_now_ns = traffic->records.at[to - 1].record.time_ns + 100000;
}

void traffic_play(const struct traffic *traffic, struct mp_recording *recording, size_t from, size_t to)
{
    uint64_t dice = traffic->random + from;
    while (from < to) {
        dice = dice * UINT64_C(6364136223846793005) + 1442695040888963407;
        size_t count = 1 + (dice >> 33) % 300;
        if (count > to - from) count = to - from;
        traffic_put(traffic, recording->spool.header, from, from + count);
        if (!(dice >> 60)) recording->last_write_ns = 0; /* it is time to write */
        if (!mp_recording_round(recording, false)) ck_abort_msg("%s", recording->file.failure.text);
        from += count;
    }
}

/* ---- the truth as a model ---------------------------------------------------------------------------------------- */

typedef void take_chunk(void *to, const struct mp_chunk *chunk);

static void feed(void *builder, const struct mp_chunk *chunk)
{
    struct mp_error error;
    enum mp_status status = mp_builder_add(builder, chunk, &error);
    ck_assert_msg(status == MP_OK, "%s", status ? error.text : "");
}

static void write_chunk(void *writer, const struct mp_chunk *chunk)
{
    struct mp_string strings[256];
    struct mp_error error;
    enum mp_status status;
    if (chunk->kind == MP_CHUNK_STRINGS) {
        for (size_t i = 0; i < chunk->count; i++)
            strings[i] = (struct mp_string){chunk->as.strings[i].text, chunk->as.strings[i].length};
        status = mp_writer_strings(writer, strings, chunk->count, &error);
    } else {
        status = mp_writer_rows(writer, chunk->kind, chunk->as.rows, chunk->count, &error);
    }
    ck_assert_msg(status == MP_OK, "%s", status ? error.text : "");
}

/* Puts the truth's texts, and after them those of the tables. */
static void put_strings(const struct traffic *traffic, take_chunk *take, void *to)
{
    size_t count = traffic->texts.count;
    struct mp_string_entry strings[256];
    ck_assert_uint_lt(count + NAMES + 2, 256);
    for (uint32_t i = 0; i < count; i++)
        strings[i].text = mp_intern_get(&traffic->texts, i, &strings[i].length);
    for (size_t i = 0; i < NAMES; i++)
        strings[count + i] = (struct mp_string_entry){names[i], strlen(names[i])};
    strings[count + NAMES] = (struct mp_string_entry){"cuda:0", 6};
    strings[count + NAMES + 1] = (struct mp_string_entry){"cpu", 3};
    take(to, &(struct mp_chunk){.kind = MP_CHUNK_STRINGS, .count = count + NAMES + 2, .as.strings = strings});
}

static void put_tables(const struct traffic *traffic, take_chunk *take, void *to)
{
    uint32_t base = traffic->texts.count;
    uint64_t memory = (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE);
    struct mp_device devices[] = {{.name = base + NAMES, .total_bytes = MP_BYTES_UNKNOWN},
                                  {.name = base + NAMES + 1, .total_bytes = memory}};
    struct mp_track tracks[TRAFFIC_TRACKS];
    struct mp_frame frames[TRAFFIC_STACKS];
    struct mp_stack_node nodes[TRAFFIC_STACKS];
    struct mp_module module = {0};
    for (uint32_t i = 0; i < TRAFFIC_TRACKS; i++)
        tracks[i] =
            (struct mp_track){device_of[i], wire_tracks[i].layer, wire_tracks[i].size_basis, i == 2 ? base + POOL : 0};
    for (uint32_t i = 0; i < TRAFFIC_STACKS; i++) {
        frames[i] = frame_of(i);
        frames[i].function += base;
        frames[i].file += base;
        nodes[i] = node_of(i);
    }
    put_strings(traffic, take, to);
    take(to, &(struct mp_chunk){.kind = MP_CHUNK_DEVICES, .count = 2, .as.devices = devices});
    take(to, &(struct mp_chunk){.kind = MP_CHUNK_TRACKS, .count = TRAFFIC_TRACKS, .as.tracks = tracks});
    take(to, &(struct mp_chunk){
                 .kind = MP_CHUNK_THREADS, .count = traffic->threads.count, .as.threads = traffic->threads.at});
    take(to, &(struct mp_chunk){.kind = MP_CHUNK_MODULES, .count = 1, .as.modules = &module});
    take(to, &(struct mp_chunk){.kind = MP_CHUNK_FRAMES, .count = TRAFFIC_STACKS, .as.frames = frames});
    take(to, &(struct mp_chunk){.kind = MP_CHUNK_STACKS, .count = TRAFFIC_STACKS, .as.stacks = nodes});
}

struct mp_writer *traffic_write(const struct traffic *traffic, int fd)
{
    static const char *const command[] = {"python3", "train.py", NULL};
    struct mp_recording_start start = {.host = "h", .command = command, .configuration = "", .spool = ""};
    struct mp_writer *writer;
    struct mp_error error;
    enum mp_status status = mp_writer_open(fd, &start, &writer, &error);
    ck_assert_msg(!status, "%s", status ? error.text : "");
    put_tables(traffic, write_chunk, writer);
    return writer;
}

static void feed_event(struct mp_builder *builder, const struct mp_event *event)
{
    struct mp_event_columns columns = {1,
                                       &event->time_ns,
                                       &event->address,
                                       &event->bytes,
                                       &event->block,
                                       &event->stack,
                                       &event->name,
                                       &event->thread,
                                       &event->track,
                                       &event->type,
                                       &event->kind};
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_EVENTS_KIND, .count = 1, .as.events = columns});
}

struct mp_model *traffic_model(const struct traffic *traffic)
{
    struct mp_recording_start start = {.pid = 0};
    struct mp_builder *builder;
    struct mp_model *model;
    struct mp_damage damage = {0};
    mp_builder_new(&start, &builder);
    put_tables(traffic, feed, builder);
    for (size_t i = 0; i < traffic->events.count; i++)
        feed_event(builder, &traffic->events.at[i]);
    if (traffic->labels.count)
        feed(builder, &(struct mp_chunk){
                          .kind = MP_CHUNK_LABELS, .count = traffic->labels.count, .as.labels = traffic->labels.at});
    if (traffic->requests.count)
        feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_REQUESTS,
                                         .count = traffic->requests.count,
                                         .as.requests = traffic->requests.at});
    mp_builder_finish(builder, &damage, 0, &model);
    return model;
}

static struct mp_base_block at_the_end(const struct mp_model *model, uint32_t block)
{
    const struct mp_model_label *label = mp_model_label_at(model, block, MP_NONE);
    const struct mp_request *request = mp_model_request_of(model, block);
    uint32_t born = model->blocks.alloc_event[block];
    return (struct mp_base_block){.address = model->blocks.address[block],
                                  .bytes = mp_model_bytes_at(model, block, MP_NONE),
                                  .birth_ns = born == MP_NONE ? 0 : model->events.time_ns[born],
                                  .stack = model->blocks.stack[block],
                                  .track = model->blocks.track[block],
                                  .kind = model->blocks.kind[block],
                                  .role = label ? (uint8_t)label->role : 0,
                                  .module = mp_model_module(model, block),
                                  .label = label ? label->name : 0,
                                  .request = request ? *request : (struct mp_request){0}};
}

void traffic_check_live(const struct traffic *traffic, const struct mp_model *model)
{
    size_t lives = 0;
    for (uint32_t i = 0; i < model->blocks.count; i++) {
        if (model->blocks.free_event[i] != MP_NONE) continue;
        struct mp_base_block got = at_the_end(model, i), wanted = {0};
        for (size_t k = 0; k < traffic->live.count; k++)
            if (traffic->live.at[k].track == got.track && traffic->live.at[k].address == got.address)
                wanted = traffic->live.at[k];
        wanted.block = 0; /* numbers are the file's own */
        if (model->blocks.alloc_event[i] == MP_NONE) wanted.birth_ns = 0;
        const char *differs = whole_difference(whole_mp_base_block(), &got, &wanted, &model->strings, &traffic->texts);
        ck_assert_msg(!differs, "block %u: %s", i, differs ? differs : "");
        lives++;
    }
    ck_assert_uint_eq(lives, traffic->live.count);
}
