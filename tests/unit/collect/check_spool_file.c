#include "collect/recording/spool_file.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "unit/suite.h"

static char folder[] = "/tmp/memprof-check-XXXXXX";

static struct mp_spool_header *facts(uint64_t id)
{
    static struct mp_spool_header header;
    header = (struct mp_spool_header){.magic = MP_SPOOL_MAGIC,
                                      .version = MP_SPOOL_VERSION,
                                      .header_bytes = sizeof header,
                                      .spool_id = id,
                                      .pid = (uint32_t)getpid()};
    snprintf(header.output, sizeof header.output, "%s/run-%llu.mp", folder, (unsigned long long)id);
    return &header;
}

static struct mp_spool_file create(uint64_t id)
{
    struct mp_spool_file spool;
    struct mp_error error;
    ck_assert_msg(!mp_spool_file_create(facts(id), folder, &spool, &error), "%s", error.text);
    return spool;
}

/* Blocks that the file really has: nothing that is committed may be a hole. */
static uint64_t allocated(const struct mp_spool_file *spool)
{
    struct stat status;
    ck_assert(!fstat(spool->fd, &status));
    return (uint64_t)status.st_blocks * 512;
}

static uint64_t committed(const struct mp_spool_header *header)
{
    uint64_t sum = MP_SPOOL_HEADER_BYTES + header->rings_committed * MP_RING_BYTES;
    for (int id = 0; id < MP_TABLES; id++)
        sum += header->tables[id].committed * mp_spool_entry_bytes((enum mp_spool_table_id)id);
    return sum;
}

START_TEST(a_spool_is_ready_and_private)
{
    struct mp_spool_file spool = create(1);
    struct stat status;
    ck_assert(!stat(spool.path, &status));
    ck_assert_uint_eq(status.st_mode & 0777, 0600);
    ck_assert(mp_spool_usable(spool.header));
    ck_assert(mp_spool_attended(spool.header));
    ck_assert_uint_ge(allocated(&spool), committed(spool.header));
    ck_assert_uint_ge(spool.header->rings_committed, 1);
    char *path = strdup(spool.path);
    mp_spool_file_close(&spool, true);
    ck_assert(access(path, F_OK));
    free(path);
}

START_TEST(it_grows_ahead_of_its_use)
{
    struct mp_spool_file spool = create(2);
    struct mp_spool_header *header = spool.header;
    ck_assert(!mp_spool_file_grow(&spool));
    for (int round = 0; round < 60; round++) {
        for (int id = 0; id < MP_TABLES; id++) {
            struct mp_spool_table *table = &header->tables[id];
            table->count = table->committed - (table->committed > 2 && id != MP_TABLE_TRACKS);
            if (table->committed > table->room / 8) table->count = 1;
        }
        if (header->rings_used < header->rings_committed) header->rings_used++;
        header->ring_waiters = round == 20 ? 13 : round == 40 ? 1000000 : 0;
        uint32_t used = header->rings_used;
        mp_spool_file_grow(&spool);
        ck_assert_uint_ge(allocated(&spool), committed(header));
        for (int id = 0; id < MP_TABLES; id++) {
            const struct mp_spool_table *table = &header->tables[id];
            ck_assert_uint_le(table->committed, table->room);
            if (table->committed < table->room && id != MP_TABLE_TRACKS)
                ck_assert_uint_lt(table->count, table->committed);
        }
        ck_assert_uint_le(header->rings_committed, MP_SPOOL_RINGS_MAX);
        if (used < MP_SPOOL_RINGS_MAX) ck_assert_uint_gt(header->rings_committed, used);
        if (round == 20) ck_assert_uint_gt(header->rings_committed, used + 13);
    }
    mp_spool_file_close(&spool, true);
}

/* Spools are made and closed in any order; the list of held futexes stays intact. */
START_TEST(many_are_held_and_given_back_in_any_order)
{
    enum { SPOOLS = 6 };
    struct mp_spool_file spools[SPOOLS];
    for (unsigned i = 0; i < SPOOLS; i++)
        spools[i] = create(100 + i);
    uint32_t random = 1;
    for (unsigned round = 0; round < 60; round++) {
        unsigned first = (random = random * 1664525 + 1013904223) >> 16, second = first / SPOOLS;
        mp_spool_file_close(&spools[first % SPOOLS], true);
        if (second % SPOOLS != first % SPOOLS) {
            mp_spool_file_close(&spools[second % SPOOLS], true);
            spools[second % SPOOLS] = create(300 + round);
        }
        spools[first % SPOOLS] = create(200 + round);
        for (unsigned i = 0; i < SPOOLS; i++)
            ck_assert(mp_spool_attended(spools[i].header));
    }
    for (unsigned i = 0; i < SPOOLS; i++)
        mp_spool_file_close(&spools[i], true);
}

START_TEST(every_spool_tells_that_its_collector_was_killed)
{
    enum { SPOOLS = 4 };
    int ready[2];
    ck_assert(!pipe(ready));
    pid_t collector = fork();
    if (!collector) {
        struct mp_spool_file spools[SPOOLS + 2];
        for (unsigned i = 0; i < SPOOLS + 2; i++)
            spools[i] = create(400 + i);
        mp_spool_file_close(&spools[SPOOLS], true); /* of processes that ended before */
        mp_spool_file_close(&spools[SPOOLS + 1], true);
        for (unsigned i = 0; i < SPOOLS; i++) {
            char path[256];
            snprintf(path, sizeof path, "%s", spools[i].path);
            if (write(ready[1], path, sizeof path) != sizeof path) _exit(1);
        }
        pause();
    }
    close(ready[1]);
    struct mp_spool_file seen[SPOOLS];
    struct mp_error error;
    for (unsigned i = 0; i < SPOOLS; i++) {
        char path[256];
        ck_assert_int_eq(read(ready[0], path, sizeof path), sizeof path);
        ck_assert_msg(!mp_spool_file_open(path, &seen[i], &error), "%s", error.text);
        ck_assert(mp_spool_attended(seen[i].header));
    }
    close(ready[0]);
    kill(collector, SIGKILL);
    waitpid(collector, NULL, 0);
    for (unsigned i = 0; i < SPOOLS; i++) {
        ck_assert(!mp_spool_attended(seen[i].header));
        char output[512];
        snprintf(output, sizeof output, "%s/run-%u.mp", folder, 400 + i);
        char *found = mp_spool_file_find(output, folder);
        ck_assert_str_eq(found, seen[i].path);
        free(found);
        mp_spool_file_close(&seen[i], true);
        ck_assert_ptr_null(mp_spool_file_find(output, folder));
    }
}

/* A spool is attended only if its futex is held, the holder has not died, and the collector has not said that it
 * left. */
START_TEST(a_spool_is_attended_while_its_collector_lives)
{
    static struct mp_spool_header header;
    for (unsigned facts = 0; facts < 8; facts++) {
        uint32_t word = (facts & 1 ? 4711 : 0) | (facts & 2 ? UINT32_C(0x40000000) : 0) | UINT32_C(0x80000000);
        atomic_store(&header.collector, word);
        atomic_store(&header.collector_left, facts & 4 ? 1 : 0);
        ck_assert_int_eq(mp_spool_attended(&header), facts == 1);
    }
}

static enum mp_status reopen(const char *path)
{
    struct mp_spool_file spool;
    struct mp_error error;
    enum mp_status status = mp_spool_file_open(path, &spool, &error);
    if (!status) mp_spool_file_close(&spool, false);
    return status;
}

START_TEST(what_is_no_whole_spool_is_refused)
{
    struct mp_spool_file spool = create(3);
    struct mp_spool_header *header = spool.header, good = *header;
    ck_assert(!reopen(spool.path));
#define REFUSED(change, status)                                                                                        \
    change;                                                                                                            \
    ck_assert_int_eq(reopen(spool.path), status);                                                                      \
    memcpy(header, &good, sizeof good)
    REFUSED(header->magic++, MP_NOT_A_RECORDING);
    REFUSED(header->version++, MP_NOT_A_RECORDING);
    REFUSED(header->header_bytes--, MP_NOT_A_RECORDING);
    REFUSED(header->rings_used = MP_SPOOL_RINGS_MAX + 1, MP_DAMAGED);
    REFUSED(header->rings_used = header->rings_committed + 1, MP_DAMAGED);
    REFUSED(header->rings_committed = UINT32_MAX, MP_DAMAGED);
    for (int id = 0; id < MP_TABLES; id++) {
        REFUSED(header->tables[id].offset += 8, MP_DAMAGED);
        REFUSED(header->tables[id].room--, MP_DAMAGED);
        REFUSED(header->tables[id].committed = header->tables[id].room + 1, MP_DAMAGED);
        REFUSED(header->tables[id].count = header->tables[id].committed + 1, MP_DAMAGED);
    }
    ck_assert(!reopen(spool.path));
    ck_assert(!ftruncate(spool.fd, (off_t)spool.bytes - 1));
    ck_assert_int_eq(reopen(spool.path), MP_NOT_A_RECORDING);
    mp_spool_file_close(&spool, true);

    char path[256];
    snprintf(path, sizeof path, "%s/link", folder);
    ck_assert(!symlink("/dev/null", path));
    ck_assert_int_eq(reopen(path), MP_IO);
    unlink(path);
    ck_assert(!mkfifo(path, 0600));
    ck_assert_int_eq(reopen(path), MP_NOT_A_RECORDING); /* and does not wait for a writer */
    unlink(path);
    ck_assert_int_eq(reopen(path), MP_IO);
}

static pid_t owner;

static void make_folder(void) __attribute__((constructor));
static void make_folder(void)
{
    unsetenv("XDG_RUNTIME_DIR");
    owner = getpid();
    if (!mkdtemp(folder)) abort();
}

static void remove_folder(void) __attribute__((destructor));
static void remove_folder(void)
{
    if (getpid() == owner) rmdir(folder); /* not at the end of each test's own process */
}

MP_SUITE("spool_file", a_spool_is_ready_and_private, it_grows_ahead_of_its_use,
         many_are_held_and_given_back_in_any_order, every_spool_tells_that_its_collector_was_killed,
         a_spool_is_attended_while_its_collector_lives, what_is_no_whole_spool_is_refused)
