#include "unit/format/maker.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "unit/suite.h"

/* A disk whose reads fail from some byte on, return few bytes at a time, or are interrupted every second time.
 */
static struct {
    uint64_t fails_from, most;
    int error;
    bool interrupted;
    unsigned reads;
} disk;

/* Replaces the C library's function. */
ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    if (disk.error && (uint64_t)at + size > disk.fails_from) {
        errno = disk.error;
        return -1;
    }
    if (disk.interrupted && disk.reads++ % 2 == 0) {
        errno = EINTR;
        return -1;
    }
    return syscall(SYS_pread64, fd, to, disk.most && size > disk.most ? disk.most : size, at);
}

/* How often a file is damaged: `all` with tools/test --long, else a fifth of it. */
static size_t times(size_t all)
{
    return getenv("MEMPROF_TEST_LONG") ? all : all / 5;
}

/* A small recording, as bytes and as what went into it. */
struct sample {
    struct maker made;
    unsigned char *bytes;
    size_t size;
    int fd; /* a file in memory for damaged versions */
    char path[64];
};

static void make_sample(struct sample *sample, size_t rounds, size_t events)
{
    int fd = memfd_create("whole", 0);
    make_recording(&sample->made, dup(fd), rounds, events, true);
    sample->size = (size_t)lseek(fd, 0, SEEK_END);
    sample->bytes = malloc(sample->size);
    ck_assert_int_eq(pread(fd, sample->bytes, sample->size, 0), (ssize_t)sample->size);
    close(fd);
    sample->fd = memfd_create("damaged", 0);
    snprintf(sample->path, sizeof sample->path, "/proc/self/fd/%d", sample->fd);
}

static void free_sample(struct sample *sample)
{
    close(sample->fd);
    free(sample->bytes);
    free_made(&sample->made);
}

static void set_file(struct sample *sample, const void *bytes, size_t size)
{
    ck_assert_int_eq(ftruncate(sample->fd, 0), 0);
    ck_assert_int_eq(pwrite(sample->fd, bytes, size, 0), (ssize_t)size);
}

/* The reader's results. */
struct seen {
    enum mp_status opened;
    size_t chunks;          /* equal to what was made, in order */
    size_t made_up;         /* in place of lost table entries */
    uint64_t first_missing; /* sequence number of the first chunk that was not read */
    struct mp_damage damage;
};

/* Reads the sample's file. Each chunk that is read must equal a written one, in order. */
static struct seen read_all(struct sample *sample)
{
    struct seen seen = {.first_missing = UINT64_MAX};
    struct mp_reader *reader;
    struct mp_error error = {0};
    seen.opened = mp_reader_open(sample->path, &reader, &error);
    if (seen.opened) return seen;
    struct mp_chunk chunk;
    uint64_t next = 0;
    enum mp_status status;
    while (!(status = mp_reader_next(reader, &chunk, &error))) {
        if (chunk.lost) {
            seen.made_up++;
            continue;
        }
        ck_assert_uint_ge(chunk.sequence, next);
        ck_assert_uint_lt(chunk.sequence, sample->made.chunks.count);
        if (chunk.sequence > next && seen.first_missing == UINT64_MAX) seen.first_missing = next;
        ck_assert(same_as_made(&chunk, &sample->made.chunks.at[chunk.sequence]));
        next = chunk.sequence + 1;
        seen.chunks++;
    }
    if (seen.first_missing == UINT64_MAX && next < sample->made.chunks.count) seen.first_missing = next;
    ck_assert_int_eq(status, MP_NOT_FOUND);
    seen.damage = *mp_reader_damage(reader);
    mp_reader_close(reader);
    return seen;
}

START_TEST(a_file_cut_at_any_byte_has_all_before_it)
{
    struct sample sample;
    make_sample(&sample, 2, 60);
    const struct made_chunk *chunks = sample.made.chunks.at;
    size_t whole = sample.made.chunks.count;
    set_file(&sample, sample.bytes, sample.size);
    for (size_t cut = sample.size - 1, step = getenv("MEMPROF_TEST_LONG") ? 1 : 5; cut > step; cut -= step) {
        ck_assert_int_eq(ftruncate(sample.fd, (off_t)cut), 0);
        struct seen seen = read_all(&sample);
        if (cut < chunks[0].bytes_before) {
            ck_assert(seen.opened == MP_NOT_A_RECORDING || (!seen.opened && !seen.chunks));
            ck_assert(seen.opened || (seen.damage.cut && seen.damage.lost_bytes == cut));
            continue;
        }
        while (whole && chunks[whole - 1].bytes_after > cut)
            whole--;
        ck_assert_int_eq(seen.opened, MP_OK);
        ck_assert_uint_eq(seen.chunks, whole);
        ck_assert(seen.damage.cut);
        ck_assert_uint_eq(seen.damage.lost_chunks, 0);
        uint64_t boundary = whole ? chunks[whole - 1].bytes_after : chunks[0].bytes_before;
        if (cut >= sample.size - 30) boundary = sample.size - 30; /* the index is whole */
        ck_assert_uint_eq(seen.damage.lost_bytes, cut - boundary);
    }
    free_sample(&sample);
}

/* True if chunk `at` has a part of a segment of chunk `lost`: then `at` is lost, too. */
static bool names_lost_segment(const struct sample *sample, size_t at, size_t lost)
{
    const struct made_chunk *chunks = sample->made.chunks.at;
    if (chunks[lost].kind != MP_CHUNK_SEGMENTS || chunks[at].kind != MP_CHUNK_SEGMENT_PARTS) return false;
    const struct mp_segment_part *parts = chunks[at].rows;
    uint64_t reported = 0;
    for (size_t i = 0; i < at; i++)
        if (i != lost && chunks[i].kind == MP_CHUNK_SEGMENTS) reported += chunks[i].count;
    for (size_t i = 0; i < chunks[at].count; i++)
        if (parts[i].segment >= reported) return true;
    return false;
}

START_TEST(one_flipped_bit_costs_one_chunk)
{
    size_t flips = times(10000);
    struct sample sample;
    make_sample(&sample, 4, 200);
    struct maker dice = {.random = 1234567};
    const struct made_chunk *chunks = sample.made.chunks.at;
    size_t total = sample.made.chunks.count, index_at = (size_t)chunks[total - 1].bytes_after;
    for (size_t flip = 0; flip < flips; flip++) {
        size_t bit = (size_t)(made_random(&dice) % (sample.size * 8)), at = bit / 8;
        sample.bytes[at] ^= (unsigned char)(1u << bit % 8);
        set_file(&sample, sample.bytes, sample.size);
        struct seen seen = read_all(&sample);
        sample.bytes[at] ^= (unsigned char)(1u << bit % 8);
        bool in_end = at >= sample.size - 30, in_index = at >= index_at && !in_end;
        ck_assert_int_eq(seen.opened, MP_OK);
        ck_assert_int_eq(seen.damage.cut, in_end);
        if (at < chunks[0].bytes_before || in_index || in_end) {
            ck_assert_uint_eq(seen.chunks, total);
            ck_assert_uint_eq(seen.damage.lost_bytes, in_end     ? 30
                                                      : in_index ? sample.size - 30 - index_at
                                                                 : chunks[0].bytes_before);
            ck_assert_uint_eq(seen.damage.lost_chunks, in_index);
            continue;
        }
        size_t hit = 0;
        while (chunks[hit].bytes_after <= at)
            hit++;
        size_t lost = 0;
        uint64_t lost_bytes = 0;
        for (size_t i = 0; i < total; i++) {
            if (i != hit && !names_lost_segment(&sample, i, hit)) continue;
            lost++;
            lost_bytes += chunks[i].bytes_after - chunks[i].bytes_before;
        }
        ck_assert_uint_eq(seen.chunks, total - lost);
        ck_assert_uint_eq(seen.first_missing, hit);
        ck_assert_uint_eq(seen.damage.lost_chunks, lost);
        ck_assert_uint_eq(seen.damage.lost_bytes, lost_bytes);
        bool table = chunks[hit].kind <= MP_CHUNK_STACKS;
        ck_assert_uint_eq(seen.made_up, table);
    }
    free_sample(&sample);
}

/* Overwrites, removes or doubles a stretch. */
static size_t maul(struct maker *dice, unsigned char *bytes, size_t size)
{
    size_t at = (size_t)(made_random(dice) % size), length = 1 + (size_t)(made_random(dice) % 300);
    if (length > size - at) length = size - at;
    switch (made_random(dice) % 4) {
    case 0:
        memset(bytes + at, (int)(made_random(dice) & 0xff), length);
        return size;
    case 1:
        for (size_t i = 0; i < length; i++)
            bytes[at + i] = (unsigned char)made_random(dice);
        return size;
    case 2:
        memmove(bytes + at, bytes + at + length, size - at - length);
        return size - length;
    default:
        memmove(bytes + at + length, bytes + at, size - at);
        return size + length;
    }
}

START_TEST(any_damage_leaves_only_what_was_made)
{
    size_t rounds = times(4000);
    struct sample sample;
    make_sample(&sample, 4, 200);
    struct maker dice = {.random = 7654321};
    unsigned char *bytes = malloc(sample.size + 10000);
    size_t came = 0;
    for (size_t round = 0; round < rounds; round++) {
        memcpy(bytes, sample.bytes, sample.size);
        size_t size = sample.size;
        for (size_t times = 1 + (size_t)(made_random(&dice) % 6); times; times--)
            size = maul(&dice, bytes, size);
        set_file(&sample, bytes, size);
        struct seen seen = read_all(&sample);
        came += seen.chunks;
        if (!seen.opened) ck_assert_uint_le(seen.damage.lost_bytes, size);
        if (!seen.opened && !seen.damage.cut)
            ck_assert_uint_ge(seen.damage.lost_chunks + seen.chunks, sample.made.chunks.count);
    }
    /* If some hundred bytes of many thousand are damaged, most chunks survive. */
    ck_assert_uint_gt(came, rounds * sample.made.chunks.count / 2);
    free(bytes);
    free_sample(&sample);
}

START_TEST(what_was_lost_of_a_table_is_made_up)
{
    struct sample sample;
    make_sample(&sample, 3, 50);
    const struct made_chunk *made = sample.made.chunks.at;
    size_t hit = 0, strings = 0;
    while (made[hit].kind != MP_CHUNK_STRINGS || !hit)
        hit++;
    sample.bytes[made[hit].bytes_before + 40] ^= 1;
    set_file(&sample, sample.bytes, sample.size);
    struct mp_reader *reader;
    struct mp_chunk chunk;
    struct mp_error error;
    ck_assert_int_eq(mp_reader_open(sample.path, &reader, &error), MP_OK);
    bool came = false;
    while (!mp_reader_next(reader, &chunk, &error)) {
        if (chunk.kind != MP_CHUNK_STRINGS) continue;
        if (chunk.lost) {
            ck_assert(!came);
            came = true;
            ck_assert_uint_eq(strings, made[0].count);
            ck_assert_uint_eq(chunk.count, made[hit].count);
            for (size_t i = 0; i < chunk.count; i++)
                ck_assert(chunk.as.strings[i].length == 0 && chunk.as.strings[i].text[0] == '\0');
        }
        strings += chunk.count;
    }
    size_t expected = 0;
    for (size_t i = 0; i < sample.made.chunks.count; i++)
        if (made[i].kind == MP_CHUNK_STRINGS) expected += made[i].count;
    ck_assert(came);
    ck_assert_uint_eq(strings, expected);
    mp_reader_close(reader);
    free_sample(&sample);
}

START_TEST(a_file_that_shrinks_while_it_is_read_is_cut)
{
    struct sample sample;
    make_sample(&sample, 3, 50);
    set_file(&sample, sample.bytes, sample.size);
    struct mp_reader *reader;
    struct mp_chunk chunk;
    struct mp_error error;
    ck_assert_int_eq(mp_reader_open(sample.path, &reader, &error), MP_OK);
    ck_assert_int_eq(mp_reader_next(reader, &chunk, &error), MP_OK);
    ck_assert_int_eq(ftruncate(sample.fd, (off_t)sample.made.chunks.at[5].bytes_before + 30), 0);
    size_t came = 1;
    while (!mp_reader_next(reader, &chunk, &error)) {
        ck_assert(same_as_made(&chunk, &sample.made.chunks.at[came]));
        came++;
    }
    ck_assert_uint_eq(came, 5);
    ck_assert(mp_reader_damage(reader)->cut);
    ck_assert_uint_gt(mp_reader_damage(reader)->lost_bytes, 0);
    ck_assert_uint_gt(mp_reader_damage(reader)->lost_chunks, 0);
    mp_reader_close(reader);
    free_sample(&sample);
}

static void check_refused(const char *path, enum mp_status status, const char *text)
{
    struct mp_reader *reader;
    struct mp_error error = {0};
    ck_assert_int_eq(mp_reader_open(path, &reader, &error), status);
    ck_assert_ptr_null(reader);
    ck_assert_int_eq(error.status, status);
    ck_assert_msg(strstr(error.text, text) != NULL, "%s", error.text);
    ck_assert_msg(strstr(error.text, path) != NULL, "%s", error.text);
}

START_TEST(what_is_no_recording_is_refused_with_a_sentence)
{
    struct sample sample;
    make_sample(&sample, 1, 10);
    check_refused("/", MP_NOT_A_RECORDING, "folder");
    check_refused("/dev/null", MP_NOT_A_RECORDING, "not a regular file");
    check_refused("/nowhere/to/be/found.mp", MP_IO, "No such file");
    check_refused(sample.path, MP_NOT_A_RECORDING, "empty");
    set_file(&sample, "hello, world\n", 13);
    check_refused(sample.path, MP_NOT_A_RECORDING, "not a memprof recording");
    set_file(&sample, "\x80\x04\x95\xee\xee\xee\xee\xee", 8); /* a pickle */
    check_refused(sample.path, MP_NOT_A_RECORDING, "not a memprof recording");
    memset(sample.bytes, 0x9f, sample.size);
    set_file(&sample, sample.bytes, sample.size);
    check_refused(sample.path, MP_NOT_A_RECORDING, "not a memprof recording");
    free_sample(&sample);
}

START_TEST(a_disk_that_fails_is_no_damage)
{
    struct sample sample;
    make_sample(&sample, 2, 60);
    set_file(&sample, sample.bytes, sample.size);
    disk.error = EIO;
    for (disk.fails_from = 0; disk.fails_from < sample.size; disk.fails_from += 37) {
        struct mp_reader *reader;
        struct mp_error error = {.text = ""};
        struct mp_chunk chunk;
        enum mp_status status = mp_reader_open(sample.path, &reader, &error);
        if (!status) {
            while (!(status = mp_reader_next(reader, &chunk, &error))) {
            }
            ck_assert_uint_eq(mp_reader_damage(reader)->lost_bytes, 0);
            mp_reader_close(reader);
        }
        ck_assert_msg(status == MP_IO, "byte %llu: status %d", (unsigned long long)disk.fails_from, status);
        ck_assert_msg(strstr(error.text, "Input/output error"), "byte %llu: %s", (unsigned long long)disk.fails_from,
                      error.text);
    }
    disk.error = 0;
    for (disk.most = 0; disk.most < 40; disk.most += 13) {
        disk.interrupted = true;
        struct seen seen = read_all(&sample);
        ck_assert_int_eq(seen.opened, MP_OK);
        ck_assert_uint_eq(seen.chunks, sample.made.chunks.count);
        ck_assert(!seen.damage.lost_bytes && !seen.damage.lost_chunks && !seen.damage.cut);
    }
    ck_assert_uint_gt(disk.reads, 20);
    free_sample(&sample);
}

MP_SUITE_OF("damage", 600, a_disk_that_fails_is_no_damage, a_file_cut_at_any_byte_has_all_before_it,
            one_flipped_bit_costs_one_chunk, any_damage_leaves_only_what_was_made, what_was_lost_of_a_table_is_made_up,
            a_file_that_shrinks_while_it_is_read_is_cut, what_is_no_recording_is_refused_with_a_sentence)
