#include "unit/format/maker.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit/suite.h"

/* A file in memory that the reader can open by name. */
static int memory_file(char path[64])
{
    int fd = memfd_create("recording", 0);
    ck_assert_int_ge(fd, 0);
    snprintf(path, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void check_comes_back(size_t rounds, size_t events)
{
    char path[64];
    struct maker maker;
    int fd = memory_file(path);
    make_recording(&maker, dup(fd), rounds, events, true);
    struct mp_reader *reader;
    struct mp_error error = {0};
    ck_assert_msg(!mp_reader_open(path, &reader, &error), "%s", error.text);
    struct mp_chunk chunk;
    for (size_t i = 0; i < maker.chunks.count; i++) {
        ck_assert_int_eq(mp_reader_next(reader, &chunk, &error), MP_OK);
        ck_assert_msg(same_as_made(&chunk, &maker.chunks.at[i]), "chunk %zu, kind %d", i, maker.chunks.at[i].kind);
        ck_assert_uint_eq(chunk.sequence, i);
        ck_assert_uint_eq(chunk.offset, maker.chunks.at[i].bytes_before);
    }
    for (int again = 0; again < 2; again++)
        ck_assert_int_eq(mp_reader_next(reader, &chunk, &error), MP_NOT_FOUND);
    const struct mp_damage *damage = mp_reader_damage(reader);
    ck_assert(!damage->cut && !damage->lost_bytes && !damage->lost_chunks);
    mp_reader_close(reader);
    free_made(&maker);
    close(fd);
}

START_TEST(everything_comes_back)
{
    check_comes_back(3, 50);
    check_comes_back(6, 5000);
    check_comes_back(2, MP_CHUNK_EVENTS);
}

START_TEST(the_start_comes_back)
{
    char path[64];
    struct maker maker;
    int fd = memory_file(path);
    make_recording(&maker, dup(fd), 0, 0, true);
    struct mp_reader *reader;
    ck_assert_int_eq(mp_reader_open(path, &reader, NULL), MP_OK);
    const struct mp_recording_start *start = mp_reader_start(reader);
    ck_assert_uint_eq(start->realtime_ns, made_start.realtime_ns);
    ck_assert_uint_eq(start->monotonic_ns, made_start.monotonic_ns);
    ck_assert_uint_eq(start->pid, made_start.pid);
    ck_assert_uint_eq(start->spool_id, made_start.spool_id);
    ck_assert_str_eq(start->host, made_start.host);
    ck_assert_mem_eq(&start->member, &made_start.member, sizeof start->member);
    ck_assert_str_eq(start->configuration, made_start.configuration);
    ck_assert_str_eq(start->spool, made_start.spool);
    size_t i = 0;
    for (; made_start.command[i]; i++)
        ck_assert_str_eq(start->command[i], made_start.command[i]);
    ck_assert_ptr_null(start->command[i]);
    ck_assert_uint_eq(mp_reader_file_bytes(reader), (uint64_t)lseek(fd, 0, SEEK_END));
    mp_reader_close(reader);
    free_made(&maker);
    close(fd);
}

MP_SUITE("roundtrip", everything_comes_back, the_start_comes_back)
