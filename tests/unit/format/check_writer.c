#include "unit/format/maker.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "format/layout.h"
#include "unit/suite.h"

static struct mp_writer *open_writer(int fd)
{
    struct mp_writer *writer;
    struct mp_error error = {0};
    ck_assert_msg(!mp_writer_open(fd, &made_start, &writer, &error), "%s", error.text);
    return writer;
}

static int memory_file(char path[64])
{
    int fd = memfd_create("recording", 0);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static const struct mp_string texts[] = {{"", 0}, {"one", 3}, {"two", 3}};

/* One of everything that an event can name. */
static void put_little(struct mp_writer *writer)
{
    const struct mp_device device = {.name = 1};
    const struct mp_track track = {.device = 0};
    const struct mp_thread_info thread = {1, 0};
    const struct mp_frame frame = {.language = MP_PYTHON};
    const struct mp_stack_node nodes[2] = {{0, 0}, {0, 0}};
    ck_assert(!mp_writer_strings(writer, texts, 3, NULL) && !mp_writer_devices(writer, &device, 1, NULL) &&
              !mp_writer_tracks(writer, &track, 1, NULL) && !mp_writer_threads(writer, &thread, 1, NULL) &&
              !mp_writer_frames(writer, &frame, 1, NULL) && !mp_writer_stacks(writer, nodes, 2, NULL));
}

/* Random lengths do not compress, so that a small file is soon full. */
static enum mp_status put_noise(struct mp_writer *writer, uint64_t *random, struct mp_error *error)
{
    char noise[4096];
    for (size_t i = 0; i < sizeof noise; i++) {
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        noise[i] = (char)(*random >> 56);
    }
    const struct mp_string string = {noise, sizeof noise};
    return mp_writer_strings(writer, &string, 1, error);
}

static size_t count_chunks(const char *path, struct mp_damage *damage)
{
    struct mp_reader *reader;
    struct mp_chunk chunk;
    struct mp_error error = {0};
    size_t count = 0;
    ck_assert_msg(!mp_reader_open(path, &reader, &error), "%s", error.text);
    while (!mp_reader_next(reader, &chunk, &error))
        count++;
    *damage = *mp_reader_damage(reader);
    mp_reader_close(reader);
    return count;
}

START_TEST(a_full_disk_leaves_whole_chunks)
{
    char path[] = "/tmp/memprof-full-XXXXXX";
    int fd = mkstemp(path);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit limit = {100000, 100000};
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    struct mp_writer *writer = open_writer(fd);
    struct mp_error error = {0};
    uint64_t random = 1;
    size_t written = 0;
    while (!put_noise(writer, &random, &error))
        ck_assert_uint_lt(++written, 30);
    ck_assert_uint_gt(written, 10);
    ck_assert_int_eq(error.status, MP_IO);
    ck_assert_int_eq(error.sys_errno, EFBIG);
    struct stat info;
    ck_assert_int_eq(stat(path, &info), 0);
    ck_assert_uint_eq((uint64_t)info.st_size, mp_writer_bytes(writer));
    /* every later call returns the same error, and writes nothing */
    struct mp_error again = {0};
    const struct mp_exit how = {.known = true};
    ck_assert_int_eq(mp_writer_strings(writer, texts, 3, &again), MP_IO);
    ck_assert_str_eq(again.text, error.text);
    ck_assert_int_eq(mp_writer_exit(writer, &how, NULL), MP_IO);
    ck_assert_int_eq(mp_writer_events(writer, NULL, 0, NULL, 0, NULL, 0, NULL), MP_IO);
    ck_assert_int_eq(mp_writer_finish(writer, &again), MP_IO);
    ck_assert_int_eq(again.sys_errno, EFBIG);
    struct mp_damage damage;
    ck_assert_uint_eq(count_chunks(path, &damage), written);
    ck_assert(damage.cut && !damage.lost_bytes && !damage.lost_chunks);
    unlink(path);
}

START_TEST(a_device_without_room_fails_at_once)
{
    struct mp_writer *writer;
    struct mp_error error = {0};
    int fd = open("/dev/full", O_WRONLY | O_CLOEXEC);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(mp_writer_open(fd, &made_start, &writer, &error), MP_IO);
    ck_assert_int_eq(error.sys_errno, ENOSPC);
    ck_assert_ptr_null(writer);
    ck_assert_int_eq(fcntl(fd, F_GETFD), -1); /* closed */
}

static void ignore(int number) {}

/* A pipe that is read slowly under a timer without SA_RESTART: writes are short and interrupted. */
START_TEST(short_and_interrupted_writes_are_finished)
{
    int ends[2];
    char path[64];
    int copy = memory_file(path);
    ck_assert_int_eq(pipe(ends), 0);
    pid_t child = fork();
    if (!child) {
        close(ends[1]);
        char bytes[300];
        for (ssize_t got; (got = read(ends[0], bytes, sizeof bytes)) > 0; usleep(20))
            if (write(copy, bytes, (size_t)got) != got) _exit(1);
        _exit(0);
    }
    close(ends[0]);
    struct sigaction action = {.sa_handler = ignore};
    sigaction(SIGALRM, &action, NULL);
    struct itimerval timer = {{0, 300}, {0, 300}};
    setitimer(ITIMER_REAL, &timer, NULL);
    struct mp_writer *writer = open_writer(ends[1]);
    uint64_t random = 1;
    for (int i = 0; i < 60; i++)
        ck_assert_int_eq(put_noise(writer, &random, NULL), MP_OK);
    ck_assert_int_eq(mp_writer_finish(writer, NULL), MP_OK);
    setitimer(ITIMER_REAL, &(struct itimerval){0}, NULL);
    int status;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    struct mp_damage damage;
    ck_assert_uint_eq(count_chunks(path, &damage), 60);
    ck_assert(!damage.cut && !damage.lost_bytes);
    close(copy);
}

START_TEST(what_a_reader_would_refuse_is_not_written)
{
    char path[64];
    int fd = memory_file(path);
    struct mp_writer *writer = open_writer(dup(fd));
    put_little(writer);
    uint64_t before = mp_writer_bytes(writer);
    const struct mp_event good = {.type = MP_EVENT_ALLOC, .time_ns = 5, .stack = 1, .bytes = 1};
    struct mp_event bad[8];
    for (size_t i = 0; i < 8; i++)
        bad[i] = good;
    bad[0].type = MP_EVENT_TYPES;
    bad[1].type = MP_EVENT_NONE;
    bad[2].stack = 2;
    bad[3].track = 1;
    bad[4].thread = 1;
    bad[5].block = 9;
    bad[6] = (struct mp_event){.type = MP_EVENT_MARK, .name = 3};
    bad[7].time_ns = 4;
    for (size_t i = 0; i < 8; i++) {
        struct mp_event both[2] = {good, bad[i]};
        struct mp_error error = {0};
        static const char *const words[8] = {"type", "type", "stack", "track", "thread", "block", "name", "time"};
        char wanted[300];
        ck_assert_int_eq(mp_writer_events(writer, both, 2, NULL, 0, NULL, 0, &error), MP_INVALID);
        snprintf(wanted, sizeof wanted,
                 "event 1 of 2 has an impossible %s (type %u, time %llu, thread %u, stack %u, track %u, block %llu, "
                 "name %u)",
                 words[i], bad[i].type, (unsigned long long)bad[i].time_ns, bad[i].thread, bad[i].stack, bad[i].track,
                 (unsigned long long)bad[i].block, bad[i].name);
        ck_assert_str_eq(error.text, wanted);
    }
    const struct mp_stack_node node = {2, 0};
    const struct mp_track track = {.device = 1};
    const struct mp_base_block base = {.block = 1};
    ck_assert_int_eq(mp_writer_stacks(writer, &node, 1, NULL), MP_INVALID);
    ck_assert_int_eq(mp_writer_tracks(writer, &track, 1, NULL), MP_INVALID);
    ck_assert_int_eq(mp_writer_base(writer, 0, &base, 1, NULL), MP_INVALID);
    ck_assert_uint_eq(mp_writer_bytes(writer), before);
    ck_assert_int_eq(mp_writer_events(writer, &good, 1, NULL, 0, NULL, 0, NULL), MP_OK); /* still in order */
    ck_assert_int_eq(mp_writer_finish(writer, NULL), MP_OK);
    struct mp_damage damage;
    ck_assert_uint_eq(count_chunks(path, &damage), 7);
    ck_assert(!damage.lost_bytes && !damage.lost_chunks && !damage.cut);
    close(fd);
}

START_TEST(big_tables_take_several_chunks)
{
    enum { COUNT = 3 * MP_CHUNK_EVENTS + 17 };
    char path[64];
    int fd = memory_file(path);
    struct mp_writer *writer = open_writer(dup(fd));
    put_little(writer);
    struct mp_stack_node *nodes = calloc(COUNT, sizeof *nodes);
    struct mp_base_block *blocks = calloc(COUNT, sizeof *blocks);
    struct mp_string *strings = calloc(COUNT, sizeof *strings);
    char *long_text = malloc(3 << 20);
    memset(long_text, 'x', 3 << 20);
    for (uint32_t i = 0; i < COUNT; i++) {
        nodes[i] = (struct mp_stack_node){i, 0};
        blocks[i] = (struct mp_base_block){.block = i, .address = i * 512, .bytes = i};
        strings[i] = (struct mp_string){long_text, i % 5000 ? i % 7 : i * 10};
    }
    ck_assert_int_eq(mp_writer_stacks(writer, nodes, COUNT, NULL), MP_OK);
    ck_assert_int_eq(mp_writer_base(writer, 77, blocks, COUNT, NULL), MP_OK);
    ck_assert_int_eq(mp_writer_base(writer, 78, NULL, 0, NULL), MP_OK);
    ck_assert_int_eq(mp_writer_strings(writer, strings, COUNT, NULL), MP_OK);
    ck_assert_int_eq(mp_writer_finish(writer, NULL), MP_OK);
    struct mp_reader *reader;
    struct mp_chunk chunk;
    ck_assert_int_eq(mp_reader_open(path, &reader, NULL), MP_OK);
    size_t stacks = 0, base = 0, texts_seen = 0, empty_bases = 0;
    while (!mp_reader_next(reader, &chunk, NULL)) {
        ck_assert_uint_le(chunk.count, MP_CHUNK_EVENTS);
        if (chunk.sequence < 6) continue;
        for (size_t i = 0; i < chunk.count; i++) {
            if (chunk.kind == MP_CHUNK_STACKS) ck_assert_uint_eq(chunk.as.stacks[i].parent, stacks++);
            if (chunk.kind == MP_CHUNK_STRINGS)
                ck_assert_uint_eq(chunk.as.strings[i].length, strings[texts_seen++].length);
            if (chunk.kind == MP_CHUNK_BASE) ck_assert_uint_eq(chunk.as.base[i].block, base + i);
        }
        if (chunk.kind != MP_CHUNK_BASE) continue;
        ck_assert_uint_eq(chunk.base_total, chunk.count ? COUNT : 0);
        ck_assert_uint_eq(chunk.base_before, chunk.count ? base : 0);
        ck_assert_uint_eq(chunk.time_ns, chunk.count ? 77 : 78);
        base += chunk.count;
        empty_bases += !chunk.count;
    }
    ck_assert_uint_eq(stacks, COUNT);
    ck_assert_uint_eq(base, COUNT);
    ck_assert_uint_eq(texts_seen, COUNT);
    ck_assert_uint_eq(empty_bases, 1);
    ck_assert_uint_eq(mp_reader_damage(reader)->lost_bytes, 0);
    mp_reader_close(reader);
    free(nodes);
    free(blocks);
    free(strings);
    free(long_text);
    close(fd);
}

START_TEST(limits_are_stated)
{
    char path[64];
    int fd = memory_file(path);
    struct mp_writer *writer = open_writer(fd);
    put_little(writer);
    const struct mp_string giant = {"", 9u << 20};
    struct mp_error error = {0};
    ck_assert_int_eq(mp_writer_strings(writer, &giant, 1, &error), MP_LIMIT);
    static const struct {
        size_t events, tracks, rings;
    } many[] = {{MP_CHUNK_EVENTS + 1, 1, 2}, {3, MP_CHUNK_ENTRIES + 1, 4}, {5, 6, MP_CHUNK_ENTRIES + 1}};
    for (size_t i = 0; i < sizeof many / sizeof *many; i++) {
        char wanted[200];
        ck_assert_int_eq(
            mp_writer_events(writer, NULL, many[i].events, NULL, many[i].tracks, NULL, many[i].rings, &error),
            MP_LIMIT);
        snprintf(wanted, sizeof wanted, "%zu events, %zu tracks or %zu rings are too many for one chunk",
                 many[i].events, many[i].tracks, many[i].rings);
        ck_assert_str_eq(error.text, wanted);
    }
    ck_assert_int_eq(mp_writer_finish(writer, NULL), MP_OK);
}

MP_SUITE("writer", a_full_disk_leaves_whole_chunks, a_device_without_room_fails_at_once,
         short_and_interrupted_writes_are_finished, what_a_reader_would_refuse_is_not_written,
         big_tables_take_several_chunks, limits_are_stated)
