/*
 * Simulates a long recording with its own clock. The collector's code gets 10 000 events per simulated second of a
 * training loop, as fast as possible. Its memory and a bounded file must stop growing. Other parts may grow no faster
 * than stated (collect/recording/recording.h). $MEMPROF_SIMULATED_HOURS is the simulated time (168 is a week, and takes
 * hours); the default is four minutes.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "collect/recording/recording.h"
#include "collect/recording/recording_bound.h"
#include "unit/suite.h"

#define ROUND_EVENTS 20000 /* of two seconds */
#define HOUR_ROUNDS  UINT64_C(1800)
#define SHORT_ROUNDS 120
#define WARM_ROUNDS  40
#define LIVE         2000 /* blocks that live at once, at most */
#define STACKS       3000
#define KEPT         100000
#define INDEX_BYTES  (3 * 48 + 2 * 24) /* bytes for each round: chunks, and the writer's notes of them */

struct week {
    struct mp_recording *recording;
    struct mp_spool_header *spool;
    uint64_t now, event, address;
    int fd;
    char path[64];
};

static enum mp_status name_file(void *context, struct mp_recording *recording, char **path, int *fd,
                                struct mp_error *error)
{
    struct week *week = context;
    (void)recording;
    (void)error;
    *path = strdup(week->path);
    *fd = open(week->path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    week->fd = dup(*fd);
    return MP_OK;
}

/* The entries that a recorder would have written when it saw each path for the first time. */
static void fill_tables(struct mp_spool_header *spool)
{
    struct mp_wire_node *nodes = mp_spool_entries(spool, MP_TABLE_NODES);
    struct mp_wire_frame *frames = mp_spool_entries(spool, MP_TABLE_FRAMES);
    struct mp_wire_track *tracks = mp_spool_entries(spool, MP_TABLE_TRACKS);
    for (uint32_t i = 1; i < STACKS; i++) {
        nodes[i] = (struct mp_wire_node){.parent = i % 50 ? i - 1 : 0, .frame = i};
        frames[i] = (struct mp_wire_frame){.language = MP_PYTHON, .line = i};
    }
    tracks[0] = (struct mp_wire_track){.device_index = -1, .device_type = MP_DEVICE_CPU, .layer = MP_LAYER_TORCH};
    atomic_store(&spool->tables[MP_TABLE_STRINGS].count, sizeof(uint32_t));
    atomic_store(&spool->tables[MP_TABLE_MODULES].count, 1);
    atomic_store(&spool->tables[MP_TABLE_FRAMES].count, STACKS);
    atomic_store(&spool->tables[MP_TABLE_NODES].count, STACKS);
    atomic_store(&spool->tables[MP_TABLE_TRACKS].count, 1);
}

static void begin(struct week *week, uint32_t max_events)
{
    struct mp_spool_header *facts = calloc(1, sizeof *facts);
    struct mp_record_config config;
    struct mp_spool_file spool;
    struct mp_error error;
    mp_record_config_defaults(&config);
    config.max_events = max_events;
    facts->magic = MP_SPOOL_MAGIC;
    facts->version = MP_SPOOL_VERSION;
    facts->header_bytes = sizeof *facts;
    facts->pid = (uint32_t)getpid();
    ck_assert(mp_record_config_format(&config, facts->configuration, sizeof facts->configuration));
    ck_assert(!mp_spool_file_create(facts, "/tmp", &spool, &error));
    free(facts);
    week->spool = spool.header;
    snprintf(week->path, sizeof week->path, "/tmp/memprof-week-%d.mp", getpid());
    week->recording = mp_recording_new(&spool, false, name_file, week, &error);
    ck_assert_ptr_nonnull(week->recording);
    mp_spool_file_grow(&week->recording->spool);
    fill_tables(week->spool);
    for (uint32_t ring = 0; ring < 2; ring++) {
        atomic_store(&week->spool->rings[ring].state, MP_RING_OWNED);
        week->spool->rings[ring].tid = ring + 1;
    }
    atomic_store(&week->spool->rings_used, 2);
}

/* The next event of a loop in which each step allocates blocks, frees most and keeps a few. */
static struct mp_record make_record(struct week *week)
{
    uint64_t n = week->event++, step = n / 5000, place = n % 5000;
    struct mp_record record = {.time_ns = week->now += 100000,
                               .total_allocated = MP_RECORD_TOTAL_UNKNOWN,
                               .total_reserved = MP_RECORD_TOTAL_UNKNOWN,
                               .track = 0};
    if (!place) record.type = MP_EVENT_STEP;
    if (place == 1 || place == 4999) record.type = place == 1 ? MP_EVENT_REGION_BEGIN : MP_EVENT_REGION_END;
    if (record.type) return record;
    uint64_t block = place / 2 + 1;
    record.type = place % 2 ? MP_EVENT_FREE : MP_EVENT_ALLOC;
    if (place % 2 && block > LIVE / 2) block -= LIVE / 2;
    record.address = (block % (LIVE / 2) + (place % 2 || block > LIVE / 2 ? 0 : step % 2) * LIVE) << 9;
    record.flags = place % 2 ? MP_RECORD_IF_KNOWN : 0;
    record.bytes = 512 * (1 + block % 40);
    record.stack = (uint32_t)(block % (STACKS - 1) + 1);
    record.kind = MP_KIND_HOST;
    return record;
}

static void run_round(struct week *week)
{
    for (int i = 0; i < ROUND_EVENTS; i++) {
        uint32_t ring = (uint32_t)i % 2;
        struct mp_ring *to = &week->spool->rings[ring];
        *mp_ring_record(week->spool, ring, atomic_load(&to->head)) = make_record(week);
        atomic_store(&to->head, atomic_load(&to->head) + 1);
    }
    ck_assert(mp_recording_round(week->recording, true)); /* as at an end: nothing waits for the real clock */
}

static uint64_t file_bytes(const struct week *week)
{
    int fd = open(week->path, O_RDONLY);
    off_t size = lseek(fd, 0, SEEK_END);
    close(fd);
    return (uint64_t)size;
}

static void simulate(uint32_t max_events)
{
    struct week week = {.fd = -1};
    const char *hours = getenv("MEMPROF_SIMULATED_HOURS");
    uint64_t rounds = hours ? strtoull(hours, NULL, 10) * HOUR_ROUNDS : SHORT_ROUNDS, biggest = 0;
    struct mp_recording_memory warm = {0}, now = {0};
    begin(&week, max_events);
    for (uint64_t round = 1; round <= rounds; round++) {
        run_round(&week);
        if (round == WARM_ROUNDS) mp_recording_memory(week.recording, &warm);
        if (!max_events && round % 1000 == 0) /* the file itself is not read: release its disk space */
            (void)fallocate(week.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, (off_t)file_bytes(&week));
        if (max_events && file_bytes(&week) > biggest) biggest = file_bytes(&week);
    }
    mp_recording_memory(week.recording, &now);
    uint64_t grown = max_events ? 0 : 2 * rounds * INDEX_BYTES; /* a vector has up to half more room than it needs */
    ck_assert_uint_eq(now.spool, warm.spool);
    ck_assert_uint_eq(now.ledger, warm.ledger);
    ck_assert_uint_eq(now.tables, warm.tables);
    ck_assert_uint_le(now.events, warm.events + (UINT64_C(4) << 20)); /* lives that outlast steps: a full table */
    ck_assert_uint_le(now.file, warm.file + grown + (UINT64_C(1) << 20));
    if (!max_events) ck_assert_uint_le(file_bytes(&week), 5 * rounds * ROUND_EVENTS);
    /* the kept events, as many again or MP_BOUND_SLACK, and those during a fold */
    if (max_events) ck_assert_uint_le(biggest, 5 * (2 * KEPT + 4 * MP_BOUND_SLACK));
    printf(
        "%llu events%s: spool %llu KiB, ledger %llu, tables %llu, events %llu, file %llu KiB; file on disk %llu KiB\n",
        (unsigned long long)(rounds * ROUND_EVENTS), max_events ? ", bounded" : "", (unsigned long long)now.spool >> 10,
        (unsigned long long)now.ledger >> 10, (unsigned long long)now.tables >> 10,
        (unsigned long long)now.events >> 10, (unsigned long long)now.file >> 10,
        (unsigned long long)(max_events ? biggest : file_bytes(&week)) >> 10);
    mp_recording_free(week.recording, true);
    close(week.fd);
    unlink(week.path);
}

START_TEST(a_long_recording_comes_to_rest)
{
    simulate(0);
}

START_TEST(a_long_bounded_recording_stays_small)
{
    simulate(KEPT);
}

MP_SUITE_OF("week", getenv("MEMPROF_SIMULATED_HOURS") ? 12 * 3600 : 120, a_long_recording_comes_to_rest,
            a_long_bounded_recording_stays_small)
