/*
 * What the peak's report says when only a part of a recording was read, against what it says after reading all: byte
 * for byte, for random recordings, tracks and windows. Some recordings hold what only a full reading can settle; there
 * the part must say so or be right all the same.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/vec.h"
#include "format/writer.h"
#include "model/part.h"
#include "output/report/reports.h"
#include "unit/suite.h"

enum { TRACKS = 3, THREADS = 3, STACKS = 12, NAMES = 6, CHUNKS = 14, SEEDS = 25 };

/* "cpu" and names of regions: two that are steps', one that begins as theirs, others. */
static const char *const texts[] = {"", "cpu", "step 1", "step 2", "step of an optimizer", "forward", "inner", "mark"};
enum { FIRST_NAME = 2, TEXTS = sizeof texts / sizeof *texts };

/* What is odd about a recording. */
enum oddity { NONE, UNKNOWN_FREE, RESIZED, SIZE_UNKNOWN, GAP, SAMPLED, NO_STEPS, TIES, ODDITIES };

struct maker {
    struct mp_writer *writer;
    uint64_t random, now, next_block;
    enum oddity oddity;
    MP_VEC(struct mp_base_block) live;
    struct mp_event events[400];
    size_t count;
};

/* In place of the C library's: a disk that fails from some byte on, or at one. */
static uint64_t disk_fails_from = UINT64_MAX, disk_fails_at = UINT64_MAX;

ssize_t pread(int fd, void *to, size_t size, off_t at)
{
    bool has_bad_byte = disk_fails_at >= (uint64_t)at && disk_fails_at < (uint64_t)at + size;
    if ((uint64_t)at + size <= disk_fails_from && !has_bad_byte) return syscall(SYS_pread64, fd, to, size, at);
    errno = EIO;
    return -1;
}

static uint64_t dice(struct maker *maker, uint64_t below)
{
    maker->random ^= maker->random << 13;
    maker->random ^= maker->random >> 7;
    maker->random ^= maker->random << 17;
    return maker->random % below;
}

#define MUST(call) ck_assert_int_eq(call, MP_OK)

static void put_tables(struct maker *maker)
{
    struct mp_string strings[TEXTS];
    struct mp_thread_info threads[THREADS] = {{1, 0}, {2, 0}, {MP_TID_LANE, 0}};
    struct mp_frame frames[STACKS] = {{0}};
    struct mp_stack_node nodes[STACKS] = {{0}};
    struct mp_track tracks[TRACKS] = {{.layer = MP_LAYER_DRIVER}, {.layer = MP_LAYER_TORCH}, {.layer = MP_LAYER_APP}};
    struct mp_device device = {.name = 1, .total_bytes = MP_BYTES_UNKNOWN};
    for (size_t i = 0; i < TEXTS; i++)
        strings[i] = (struct mp_string){texts[i], strlen(texts[i])};
    for (uint32_t i = 1; i < STACKS; i++) {
        frames[i] = (struct mp_frame){.language = MP_PYTHON, .function = 5 + i % 2, .file = 7, .line = i};
        nodes[i] = (struct mp_stack_node){(uint32_t)dice(maker, i), i};
    }
    MUST(mp_writer_strings(maker->writer, strings, TEXTS, NULL));
    MUST(mp_writer_devices(maker->writer, &device, 1, NULL));
    MUST(mp_writer_tracks(maker->writer, tracks, TRACKS, NULL));
    MUST(mp_writer_threads(maker->writer, threads, THREADS, NULL));
    MUST(mp_writer_frames(maker->writer, frames, STACKS, NULL));
    MUST(mp_writer_stacks(maker->writer, nodes, STACKS, NULL));
}

static struct mp_base_block new_block(struct maker *maker)
{
    struct mp_base_block block = {.block = maker->next_block++,
                                  .address = 4096 + 4096 * dice(maker, 100000),
                                  .bytes = dice(maker, 8) ? 1 + dice(maker, 5000) : 100000 * (1 + dice(maker, 3)),
                                  .birth_ns = maker->now,
                                  .stack = (uint32_t)dice(maker, STACKS),
                                  .track = (uint16_t)dice(maker, TRACKS),
                                  .kind = MP_KIND_HOST};
    ck_assert(mp_vec_push(&maker->live, block));
    return block;
}

static struct mp_event about(const struct mp_base_block *block, unsigned type)
{
    return (struct mp_event){.type = (uint8_t)type,
                             .address = block->address,
                             .bytes = block->bytes,
                             .block = block->block,
                             .stack = type == MP_EVENT_ALLOC ? block->stack : 0,
                             .track = block->track,
                             .kind = type == MP_EVENT_ALLOC ? block->kind : 0};
}

static struct mp_event free_one(struct maker *maker)
{
    size_t at = dice(maker, maker->live.count);
    struct mp_event event = about(&maker->live.at[at], MP_EVENT_FREE);
    memmove(&maker->live.at[at], &maker->live.at[at + 1], (--maker->live.count - at) * sizeof *maker->live.at);
    return event;
}

static struct mp_event resize_one(struct maker *maker)
{
    struct mp_base_block *block = &maker->live.at[dice(maker, maker->live.count)];
    block->bytes = 1 + dice(maker, 9000);
    return about(block, MP_EVENT_RESIZE);
}

static struct mp_event next_event(struct maker *maker, bool grows)
{
    unsigned what = (unsigned)dice(maker, 100);
    bool steps = maker->oddity != NO_STEPS;
    uint32_t name = FIRST_NAME + (uint32_t)dice(maker, NAMES);
    if (what < 2 && steps) return (struct mp_event){.type = MP_EVENT_STEP};
    if (what < 6) return (struct mp_event){.type = MP_EVENT_REGION_BEGIN, .name = steps ? name : 5};
    if (what < 10) return (struct mp_event){.type = MP_EVENT_REGION_END, .name = dice(maker, 4) ? name : 0};
    if (what < 11) return (struct mp_event){.type = MP_EVENT_RESERVED, .bytes = dice(maker, 99999), .track = 1};
    if (what < 12) return (struct mp_event){.type = MP_EVENT_OOM, .bytes = 1 << 20, .track = (uint16_t)dice(maker, 3)};
    if (what < 13) return (struct mp_event){.type = MP_EVENT_MARK, .name = 7};
    if (what < 14 && maker->oddity == UNKNOWN_FREE) {
        struct mp_base_block block = new_block(maker);
        maker->live.count--;
        return about(&block, MP_EVENT_FREE);
    }
    if (what < 16 && maker->oddity == RESIZED && maker->live.count) return resize_one(maker);
    bool frees = maker->live.count && dice(maker, 10) >= (grows ? 6 : 4);
    if (frees) return free_one(maker);
    struct mp_base_block block = new_block(maker);
    return about(&block, MP_EVENT_ALLOC);
}

static void put_events(struct maker *maker, bool grows)
{
    uint64_t live[TRACKS] = {0};
    for (size_t i = 0; i < maker->live.count; i++)
        live[maker->live.at[i].track] += maker->live.at[i].bytes;
    maker->count = 1 + dice(maker, sizeof maker->events / sizeof *maker->events);
    for (size_t i = 0; i < maker->count; i++) {
        maker->now += maker->oddity == TIES ? dice(maker, 3) : 1 + dice(maker, 1000);
        maker->events[i] = next_event(maker, grows);
        maker->events[i].time_ns = maker->now;
        maker->events[i].thread = (uint32_t)dice(maker, THREADS);
    }
    MUST(mp_writer_events(maker->writer, maker->events, maker->count, live, TRACKS, NULL, 0, NULL));
}

static void put_base(struct maker *maker)
{
    if (maker->oddity == GAP && maker->now && maker->live.count && dice(maker, 2)) free_one(maker);
    if (maker->oddity == GAP && maker->now && dice(maker, 2)) new_block(maker);
    MUST(mp_writer_base(maker->writer, maker->now, maker->live.at, maker->live.count, NULL));
}

/* A path that names the recording while fd is open. */
static int make_recording(uint64_t seed, enum oddity oddity, char *path)
{
    static struct maker maker;
    maker = (struct maker){.random = seed * UINT64_C(0x9e3779b97f4a7c15) + 88172645463325252u, .oddity = oddity};
    const struct mp_recording_start start = {
        .host = "", .command = (const char *const[]){"x", NULL}, .configuration = "", .spool = ""};
    int fd = memfd_create("part", MFD_CLOEXEC), mine = dup(fd);
    ck_assert(fd >= 0 && mine >= 0);
    MUST(mp_writer_open(fd, &start, &maker.writer, NULL));
    put_tables(&maker);
    for (uint64_t i = dice(&maker, 2) ? dice(&maker, 40) : 0; i; i--)
        new_block(&maker);
    if (oddity == SIZE_UNKNOWN && maker.live.count) maker.live.at[0].bytes = MP_BYTES_UNKNOWN;
    for (size_t i = 0; i < maker.live.count; i++)
        maker.live.at[i].birth_ns = 0;
    if (maker.live.count) put_base(&maker);
    size_t chunks = dice(&maker, CHUNKS), highest = dice(&maker, CHUNKS);
    for (size_t i = 0; i < chunks; i++) {
        put_events(&maker, i < highest);
        if (!dice(&maker, 3)) put_base(&maker);
    }
    const struct mp_sample sample = {.time_ns = maker.now, .counter = 1, .value = 5};
    if (oddity == SAMPLED) MUST(mp_writer_samples(maker.writer, &sample, 1, NULL));
    const struct mp_exit how = {.known = true, .time_ns = maker.now + dice(&maker, 2) * 1000};
    if (dice(&maker, 2)) MUST(mp_writer_exit(maker.writer, &how, NULL));
    MUST(mp_writer_finish(maker.writer, NULL));
    mp_vec_free(&maker.live);
    sprintf(path, "/proc/self/fd/%d", mine);
    return mine;
}

/* The report, or an empty text where there is nothing to report on. */
static struct mp_buffer report_on(const struct mp_model *model, const struct mp_part_query *ask, enum mp_group_by by)
{
    struct mp_buffer out = {0};
    struct mp_json json;
    struct mp_error error;
    struct mp_peak peak;
    struct mp_view view = {.grouping = {.by = by, .frames = 2}};
    uint16_t track = ask->track ? mp_track_find(model, ask->track) : mp_track_default(model);
    if (mp_window_make(model, ask->from, ask->to, &view.window, &error)) return out;
    const struct mp_peak_query query = {.track = track, .window = view.window, .grouping = view.grouping};
    mp_peak_find(model, &query, &peak);
    mp_json_start(&json, &out);
    mp_peak_json(&json, NULL, model, &peak, &view);
    mp_peak_free(&peak);
    return out;
}

/* Takes out what only the whole can know, and a part leaves open: memory that was unmapped beneath a block before. */
static void leave_out_unbacked(struct mp_buffer *report, bool part)
{
    static const char key[] = "\"unbacked_bytes\": ";
    mp_buffer_append(report, "", 1);
    char *text = (char *)report->data, *found = strstr(text, key), *end = found ? strpbrk(found, ",\n") : NULL;
    if (!found) return;
    ck_assert(!part || !strncmp(found + strlen(key), "null", 4));
    memmove(found, end, strlen(end) + 1);
}

/* Both are longer than Check's messages may be. */
static void tell(const char *path, const struct mp_part_query *ask, const struct mp_buffer *want,
                 const struct mp_buffer *got)
{
    fprintf(stderr, "all of %s says\n%s\nand a part\n%s\n", path, (const char *)want->data, (const char *)got->data);
    ck_abort_msg("track %s, from %s to %s", ask->track ? ask->track : "-", ask->from ? ask->from : "-",
                 ask->to ? ask->to : "-");
}

/* Whether the part could tell. */
static bool compare(const char *path, const struct mp_model *full, const struct mp_part_query *ask)
{
    struct mp_model *part;
    struct mp_error error;
    if (mp_model_load_part(path, ask, &part, &error)) return false;
    for (enum mp_group_by by = MP_GROUP_STACK; by <= MP_GROUP_FUNCTION; by++) {
        struct mp_buffer want = report_on(full, ask, by), got = report_on(part, ask, by);
        leave_out_unbacked(&want, false);
        leave_out_unbacked(&got, true);
        if (strcmp((const char *)got.data, (const char *)want.data)) tell(path, ask, &want, &got);
        mp_buffer_free(&want);
        mp_buffer_free(&got);
    }
    mp_model_free(part);
    return true;
}

/* How many of the questions about a recording a part could answer. */
static size_t ask_all(const char *path, struct maker *random, size_t *asked)
{
    static const char *const tracks[] = {NULL, "cpu/driver", "cpu/torch", "cpu/app"};
    struct mp_model *full;
    size_t told = 0;
    MUST(mp_model_load(path, &full, NULL));
    for (size_t i = 0; i < 4; i++) {
        struct mp_part_query ask = {.track = tracks[i]};
        told += compare(path, full, &ask);
        for (int windows = 0; windows < 6; windows++) {
            char from[32], to[32];
            uint64_t first = dice(random, 101);
            sprintf(from, windows == 5 ? "step:%d" : "%d%%", (int)(windows == 5 ? 1 + first % 3 : first));
            sprintf(to, "%d%%", (int)(first + dice(random, 101 - first)));
            ask.from = dice(random, 4) ? from : NULL;
            ask.to = dice(random, 4) ? to : NULL;
            told += compare(path, full, &ask);
        }
        *asked += 7;
    }
    mp_model_free(full);
    return told;
}

START_TEST(a_part_says_what_all_says)
{
    char path[64];
    for (int oddity = 0; oddity < ODDITIES; oddity++) {
        struct maker random = {.random = (uint64_t)oddity * 7919 + 1};
        size_t told = 0, asked = 0;
        for (uint64_t seed = 0; seed < SEEDS; seed++) {
            int fd = make_recording(seed * ODDITIES + (uint64_t)oddity, (enum oddity)oddity, path);
            told += ask_all(path, &random, &asked);
            close(fd);
        }
        /* So many questions a part could answer; fewer would be right as well, and slow. */
        static const size_t answered[ODDITIES] = {669, 0, 0, 364, 140, 616, 0, 423};
        ck_assert_msg(told >= answered[oddity], "oddity %d: %zu of %zu", oddity, told, asked);
    }
}
END_TEST

/* Of questions asked while the disk fails at so many places over the file, how many were answered, and how many
 * refused: what is answered is right all the same. */
static void ask_of_bad_disks(uint64_t *fails, uint64_t places, const char *odd, const char *even, size_t *answered,
                             size_t *refused)
{
    char path[64];
    *answered = *refused = 0;
    for (uint64_t seed = 0; seed < 4; seed++) {
        int fd = make_recording(seed * ODDITIES, NONE, path);
        uint64_t size = (uint64_t)lseek(fd, 0, SEEK_END);
        struct mp_model *full;
        MUST(mp_model_load(path, &full, NULL));
        for (uint64_t at = 0; at < size; at += 1 + size / places) {
            const struct mp_part_query ask = {.from = at % 2 ? odd : even};
            *fails = at;
            *(compare(path, full, &ask) ? answered : refused) += 1;
            *fails = UINT64_MAX;
        }
        mp_model_free(full);
        close(fd);
    }
}

START_TEST(a_disk_that_fails_makes_no_other_answer)
{
    size_t answered, refused;
    ask_of_bad_disks(&disk_fails_from, 60, "20%", NULL, &answered, &refused);
    ck_assert_uint_gt(refused, 100);
    ck_assert_uint_lt(answered, refused);
}
END_TEST

/* The index and all else can be read. */
START_TEST(a_byte_that_cannot_be_read_makes_no_other_answer)
{
    size_t answered, refused;
    ask_of_bad_disks(&disk_fails_at, 250, "20%", "60%", &answered, &refused);
    ck_assert_uint_gt(refused, 100);
    ck_assert_uint_gt(answered, 30);
}
END_TEST

MP_SUITE("part", a_part_says_what_all_says, a_disk_that_fails_makes_no_other_answer,
         a_byte_that_cannot_be_read_makes_no_other_answer)
