/* Reading and writing a recording while each allocation in turn fails. The call that needed it reports the lack of
 * memory. Earlier parts are whole, and nothing is leaked, as the sanitized build would see. */
#include "unit/format/maker.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "unit/suite.h"

/* Number of the allocation, from now on, that fails in calls of the tested code; 0: none. */
static size_t fails_after;
static bool is_tested, has_failed;

#define TESTED(call) (is_tested = true, status = (call), is_tested = false)

static bool fails_now(void)
{
    if (!is_tested || !fails_after || --fails_after) return false;
    has_failed = true;
    return true;
}

/* The C library's, or a sanitizer's. dlsym() itself may allocate before it has found one. */
static void *next_function(const char *name)
{
    static bool looking;
    if (looking) return NULL;
    looking = true;
    void *found = dlsym(RTLD_NEXT, name);
    looking = false;
    return found;
}

#define NEXT(type, name)                                                                                               \
    static type *next;                                                                                                 \
    if (!next) {                                                                                                       \
        void *found = next_function(name);                                                                             \
        memcpy(&next, &found, sizeof next);                                                                            \
    }

typedef void *allocate(size_t bytes);
typedef void *allocate_zeroed(size_t count, size_t each);
typedef void *reallocate(void *memory, size_t bytes);

/* Replaces the C library's function. */
void *malloc(size_t bytes)
{
    NEXT(allocate, "malloc")
    return fails_now() || !next ? NULL : next(bytes);
}

void *calloc(size_t count, size_t each)
{
    NEXT(allocate_zeroed, "calloc")
    return fails_now() || !next ? NULL : next(count, each);
}

void *realloc(void *memory, size_t bytes)
{
    NEXT(reallocate, "realloc")
    return fails_now() || !next ? NULL : next(memory, bytes);
}

struct sample {
    struct maker made;
    int fd;
    char path[64];
};

static void make_sample(struct sample *sample)
{
    sample->fd = memfd_create("whole", 0);
    snprintf(sample->path, sizeof sample->path, "/proc/self/fd/%d", sample->fd);
    make_recording(&sample->made, dup(sample->fd), 2, 60, true);
}

static void free_sample(struct sample *sample)
{
    close(sample->fd);
    free_made(&sample->made);
}

static void expect_no_memory(enum mp_status status, const struct mp_error *error)
{
    ck_assert_msg(status == MP_NO_MEMORY, "status %d: %s", status, error->text);
    ck_assert_msg(strstr(error->text, "memory"), "%s", error->text);
}

/* Reads until the failure; true if there was none. */
static bool read_until_failure(const struct sample *sample, size_t allocation)
{
    struct mp_reader *reader = NULL;
    struct mp_error error = {0};
    struct mp_chunk chunk;
    size_t next = 0;
    has_failed = false;
    fails_after = allocation;
    enum mp_status status;
    TESTED(mp_reader_open(sample->path, &reader, &error));
    while (!status && (TESTED(mp_reader_next(reader, &chunk, &error)), !status)) {
        ck_assert_uint_lt(next, sample->made.chunks.count);
        ck_assert(same_as_made(&chunk, &sample->made.chunks.at[next++]));
    }
    fails_after = 0;
    if (!has_failed) {
        ck_assert_int_eq(status, MP_NOT_FOUND);
        ck_assert_uint_eq(next, sample->made.chunks.count);
        ck_assert(!mp_damage_any(mp_reader_damage(reader)));
    } else {
        expect_no_memory(status, &error);
    }
    mp_reader_close(reader);
    return !has_failed;
}

START_TEST(a_reader_without_memory_says_so)
{
    struct sample sample;
    make_sample(&sample);
    size_t allocation = 1;
    while (!read_until_failure(&sample, allocation))
        allocation++;
    ck_assert_uint_ge(allocation, 20);
    free_sample(&sample);
}

static enum mp_status write_chunk(struct mp_writer *writer, const struct made_chunk *made, struct mp_error *error)
{
    switch (made->kind) {
    case MP_CHUNK_STRINGS:
        return mp_writer_strings(writer, made->rows, made->count, error);
    case MP_CHUNK_BASE:
        return mp_writer_base(writer, made->time_ns, made->rows, made->count, error);
    case MP_CHUNK_EVENTS_KIND:
        return mp_writer_events(writer, made->rows, made->count, made->live_bytes, made->live_bytes_count, made->marks,
                                made->mark_count, error);
    case MP_CHUNK_COVERAGE:
        return mp_writer_coverage(writer, made->rows, error);
    case MP_CHUNK_EXIT:
        return mp_writer_exit(writer, made->rows, error);
    default:
        return mp_writer_rows(writer, made->kind, made->rows, made->count, error);
    }
}

/* The reader gives exactly the chunks of the file, each as it was made. */
static void expect_chunks(const char *path, const struct maker *made, size_t count, bool finished)
{
    struct mp_reader *reader;
    struct mp_error error = {0};
    struct mp_chunk chunk;
    size_t next = 0;
    ck_assert_msg(!mp_reader_open(path, &reader, &error), "%s", error.text);
    while (!mp_reader_next(reader, &chunk, &error)) {
        ck_assert_uint_lt(next, count);
        ck_assert(same_as_made(&chunk, &made->chunks.at[next++]));
    }
    ck_assert_uint_eq(next, count);
    ck_assert_int_eq(mp_reader_damage(reader)->cut, !finished);
    ck_assert_uint_eq(mp_reader_damage(reader)->lost_bytes, 0);
    mp_reader_close(reader);
}

/* Writes until the failure; true if there was none. A call that lacked memory has written nothing: it is repeated, and
 * the file is complete at the end. */
static bool write_with_failure(const struct maker *made, size_t allocation)
{
    char path[64];
    int fd = memfd_create("copy", 0);
    struct mp_writer *writer;
    struct mp_error error = {0};
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    has_failed = false;
    fails_after = allocation;
    enum mp_status status;
    TESTED(mp_writer_open(dup(fd), &made_start, &writer, &error));
    for (size_t i = 0; !status && i < made->chunks.count; i++) {
        TESTED(write_chunk(writer, &made->chunks.at[i], &error));
        if (!status) continue;
        expect_no_memory(status, &error);
        expect_chunks(path, made, i, false);
        status = write_chunk(writer, &made->chunks.at[i], &error);
        ck_assert_msg(!status, "allocation %zu, chunk %zu: %s", allocation, i, error.text);
    }
    if (!status) TESTED(mp_writer_finish(writer, &error));
    fails_after = 0;
    if (status)
        expect_no_memory(status, &error);
    else
        expect_chunks(path, made, made->chunks.count, true);
    close(fd);
    return !has_failed;
}

START_TEST(a_writer_without_memory_writes_nothing_and_goes_on)
{
    struct sample sample;
    make_sample(&sample);
    size_t allocation = 1;
    while (!write_with_failure(&sample.made, allocation))
        allocation++;
    ck_assert_uint_ge(allocation, 20);
    free_sample(&sample);
}

MP_SUITE("no memory", a_reader_without_memory_says_so, a_writer_without_memory_writes_nothing_and_goes_on)
