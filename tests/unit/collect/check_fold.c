/*
 * Bounded recordings against the plainest truth. Random events go to a file that is folded again and again while it is
 * written. The result is compared with sums over the list of all events.
 */
#include "collect/fold/fold.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "analysis/sites/peak.h"
#include "model/load.h"
#include "model/steps_infer.h"
#include "unit/suite.h"

#define TRACKS 3
#define STACKS 12
#define NAMES  4 /* strings from 1: step, forward, backward, other */

static uint64_t state;

static uint64_t chance(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (state >> 33) % below;
}

/* A block of the list of all events. Blocks of the base were born at -1. */
struct truth_block {
    uint64_t number, bytes;
    int64_t born, died; /* events; died INT64_MAX: lives */
    uint32_t stack;
    uint16_t track;
    uint8_t kind;
};
struct truth {
    MP_VEC(struct mp_event) events;
    MP_VEC(struct truth_block) blocks;
    uint64_t next_block, now;
    size_t base;
};

static bool lives(const struct truth_block *block, int64_t moment)
{
    return block->born < moment && block->died >= moment;
}

static uint64_t level(const struct truth *truth, uint16_t track, int64_t moment, uint64_t *blocks)
{
    uint64_t bytes = 0;
    *blocks = 0;
    mp_vec_each (const struct truth_block, block, &truth->blocks) {
        if (block->track != track || !lives(block, moment)) continue;
        bytes += block->bytes;
        ++*blocks;
    }
    return bytes;
}

static struct mp_event random_event(struct truth *truth)
{
    static const uint8_t others[] = {MP_EVENT_STEP, MP_EVENT_REGION_BEGIN, MP_EVENT_REGION_END, MP_EVENT_RESERVED,
                                     MP_EVENT_MARK};
    int64_t at = (int64_t)truth->events.count;
    struct mp_event event = {.time_ns = truth->now += 1 + chance(5), .thread = (uint32_t)chance(2)};
    uint64_t what = chance(20);
    if (what < 5) {
        event.type = others[what];
        event.track = (uint16_t)(event.type == MP_EVENT_RESERVED ? chance(TRACKS) : 0);
        if (event.type == MP_EVENT_RESERVED) event.bytes = chance(9000);
        if (event.type != MP_EVENT_RESERVED) event.name = event.type == MP_EVENT_STEP ? 0 : 2 + (uint32_t)chance(3);
        return event;
    }
    size_t block = truth->blocks.count ? chance(truth->blocks.count) : 0;
    if (what < 12 && truth->blocks.count && truth->blocks.at[block].died == INT64_MAX) {
        struct truth_block *freed = &truth->blocks.at[block];
        freed->died = at;
        event.type = MP_EVENT_FREE;
        event.block = freed->number;
        event.bytes = freed->bytes;
        event.track = freed->track;
        event.address = 512 * (freed->number + 1);
        return event;
    }
    struct truth_block fresh = {.number = truth->next_block++,
                                .bytes = 1 + chance(1000),
                                .born = at,
                                .died = INT64_MAX,
                                .stack = (uint32_t)chance(STACKS),
                                .track = (uint16_t)chance(TRACKS),
                                .kind = (uint8_t)chance(2)};
    event.type = MP_EVENT_ALLOC;
    if (!chance(40)) { /* a block from before the recording: only its free is seen */
        fresh.born = -1;
        fresh.died = at;
        fresh.stack = 0;
        fresh.kind = 0;
        event.type = MP_EVENT_FREE;
    }
    event.block = fresh.number;
    event.address = 512 * (fresh.number + 1);
    event.bytes = fresh.bytes;
    event.stack = event.type == MP_EVENT_ALLOC ? fresh.stack : 0;
    event.track = fresh.track;
    event.kind = fresh.kind;
    ck_assert(mp_vec_push(&truth->blocks, fresh));
    return event;
}

/* ---- the file ---------------------------------------------------------------------------------------------------- */

static int temporary(void)
{
    char path[] = "/tmp/memprof-check-XXXXXX";
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    unlink(path);
    return fd;
}

static void write_tables(struct mp_writer *writer)
{
    static const struct mp_string strings[] = {{"", 0}, {"cpu", 3}, {"forward", 7}, {"backward", 8}, {"other", 5}};
    static const struct mp_device device = {.name = 1, .total_bytes = MP_BYTES_UNKNOWN};
    static const struct mp_track tracks[TRACKS] = {{.layer = 0}, {.layer = 1}, {.layer = 2}};
    static const struct mp_thread_info threads[2] = {{.tid = 1}, {.tid = 2}};
    struct mp_frame frames[STACKS] = {0};
    struct mp_stack_node stacks[STACKS] = {0};
    struct mp_error error;
    for (uint32_t i = 0; i < STACKS; i++) {
        frames[i] = (struct mp_frame){.language = MP_PYTHON, .function = 2, .line = i};
        stacks[i] = (struct mp_stack_node){.frame = i};
    }
    ck_assert(!mp_writer_strings(writer, strings, 5, &error) && !mp_writer_devices(writer, &device, 1, &error) &&
              !mp_writer_tracks(writer, tracks, TRACKS, &error) && !mp_writer_threads(writer, threads, 2, &error));
    ck_assert(!mp_writer_frames(writer, frames, STACKS, &error) && !mp_writer_stacks(writer, stacks, STACKS, &error));
}

static struct mp_writer *begin(struct truth *truth)
{
    static const char *const command[] = {"program", NULL};
    struct mp_recording_start start = {.host = "h", .command = command, .configuration = "", .spool = ""};
    struct mp_writer *writer;
    struct mp_error error;
    ck_assert(!mp_writer_open(temporary(), &start, &writer, &error));
    write_tables(writer);
    MP_VEC(struct mp_base_block) base = {0};
    for (; truth->base; truth->base--) {
        struct truth_block block = {truth->next_block++,      100 * (1 + chance(9)),    -1, INT64_MAX,
                                    (uint32_t)chance(STACKS), (uint16_t)chance(TRACKS), 0};
        struct mp_base_block reported = {.block = block.number,
                                         .address = 512 * (block.number + 1),
                                         .bytes = block.bytes,
                                         .stack = block.stack,
                                         .track = block.track};
        ck_assert(mp_vec_push(&truth->blocks, block) && mp_vec_push(&base, reported));
    }
    if (base.count) ck_assert(!mp_writer_base(writer, 0, base.at, base.count, &error));
    mp_vec_free(&base);
    return writer;
}

/* Folds the file, as the collector does between two chunks. */
static void fold(struct mp_writer **writer, uint64_t *events, uint64_t keep)
{
    struct mp_written written;
    struct mp_folded folded;
    struct mp_error error;
    ck_assert(!mp_writer_written(*writer, &written, &error));
    enum mp_status status = mp_fold(&written, *events, keep, temporary(), &folded, &error);
    ck_assert_msg(!status, "%s", status ? error.text : "");
    free(written.chunks);
    mp_writer_abandon(*writer);
    *writer = folded.writer;
    *events = folded.events;
}

static void add_chunk(struct mp_writer *writer, struct truth *truth, size_t count)
{
    struct mp_error error;
    uint64_t live[TRACKS], ignored;
    size_t first = truth->events.count;
    for (uint16_t track = 0; track < TRACKS; track++)
        live[track] = level(truth, track, (int64_t)first, &ignored);
    while (count--) {
        struct mp_event event = random_event(truth);
        ck_assert(mp_vec_push(&truth->events, event));
    }
    struct mp_ring_mark mark = {3, truth->events.count};
    ck_assert(!mp_writer_events(writer, truth->events.at + first, truth->events.count - first, live, TRACKS, &mark, 1,
                                &error));
}

static struct mp_model *finish(struct mp_writer *writer)
{
    char path[64];
    struct mp_written written;
    struct mp_model *model;
    struct mp_error error;
    ck_assert(!mp_writer_written(writer, &written, &error));
    free(written.chunks);
    int fd = dup(written.fd);
    struct mp_exit how = {.known = true};
    struct mp_coverage coverage = {0};
    ck_assert(!mp_writer_coverage(writer, &coverage, &error) && !mp_writer_exit(writer, &how, &error));
    ck_assert(!mp_writer_finish(writer, &error));
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    enum mp_status status = mp_model_load(path, &model, &error);
    ck_assert_msg(!status, "%s", status ? error.text : "");
    close(fd);
    ck_assert(!mp_damage_any(&model->file.damage));
    return model;
}

/* ---- what must be true ------------------------------------------------------------------------------------------- */

static void check_sites(const struct truth *truth, uint16_t track, int64_t moment, const struct mp_sites *sites)
{
    uint64_t bytes[STACKS] = {0}, blocks[STACKS] = {0}, found = 0;
    mp_vec_each (const struct truth_block, block, &truth->blocks) {
        if (block->track != track || !lives(block, moment)) continue;
        bytes[block->stack] += block->bytes;
        blocks[block->stack]++;
    }
    for (size_t i = 0; i < sites->count; i++) {
        ck_assert_uint_eq(sites->at[i].bytes, bytes[sites->at[i].stack]);
        ck_assert_uint_eq(sites->at[i].blocks, blocks[sites->at[i].stack]);
    }
    for (uint32_t stack = 0; stack < STACKS; stack++)
        found += blocks[stack] != 0;
    ck_assert_uint_eq(sites->count, found);
}

static uint64_t steps_before(const struct truth *truth, int64_t moment)
{
    uint64_t steps = 0;
    for (int64_t i = 0; i < moment; i++)
        steps += truth->events.at[i].type == MP_EVENT_STEP;
    return steps;
}

static void check_track(const struct truth *truth, const struct mp_model *model, uint16_t track)
{
    const struct mp_model_track_sum *sum = &model->sums.at[track];
    int64_t end = (int64_t)truth->events.count, moment = 0;
    uint64_t peak_blocks, peak = level(truth, track, 0, &peak_blocks), blocks, reserved = 0;
    for (int64_t at = 1; at <= end; at++) {
        const struct mp_event *event = &truth->events.at[at - 1];
        if (event->type == MP_EVENT_RESERVED && event->track == track && event->bytes > reserved)
            reserved = event->bytes;
        uint64_t bytes = level(truth, track, at, &blocks);
        if (bytes <= peak) continue;
        peak = bytes;
        peak_blocks = blocks;
        moment = at;
    }
    ck_assert_uint_eq(sum->end_bytes, level(truth, track, end, &blocks));
    ck_assert_uint_eq(sum->end_blocks, blocks);
    if (reserved) ck_assert_uint_eq(sum->reserved_peak_bytes, reserved);
    struct mp_peak_query query = {.track = track, .window = mp_window_all(model)};
    struct mp_peak found;
    mp_peak_find(model, &query, &found);
    ck_assert_uint_eq(found.bytes, peak);
    ck_assert_uint_eq(sum->peak_bytes, peak);
    ck_assert_uint_eq(found.blocks, peak_blocks);
    if (moment) ck_assert_uint_eq(found.ns, truth->events.at[moment - 1].time_ns);
    if (moment) ck_assert_uint_eq(found.step, steps_before(truth, moment));
    check_sites(truth, track, moment, &found.sites);
    mp_peak_free(&found);
}

/* Checks that the file has the newest events, and otherwise only repeated ones. */
static void check_events(const struct truth *truth, const struct mp_model *model, uint64_t keep)
{
    size_t count = model->events.count, again = 0;
    ck_assert_uint_eq(model->past.events + count, truth->events.count);
    if (truth->events.count >= keep) ck_assert_uint_le(count, keep);
    while (again < count && model->events.time_ns[again] == model->past.time_ns)
        again++;
    for (size_t i = again; i < count; i++) {
        const struct mp_event *event = &truth->events.at[truth->events.count - count + i];
        ck_assert_uint_eq(model->events.time_ns[i], event->time_ns);
        ck_assert_uint_eq(model->events.type[i], event->type);
    }
    struct mp_steps steps = {0};
    mp_steps_marked(model, &steps);
    if (steps.count) ck_assert_uint_eq(steps.before + steps.count, steps_before(truth, (int64_t)truth->events.count));
    mp_steps_free(&steps);
}

static void run(uint64_t seed, uint64_t keep)
{
    struct truth truth = {.base = seed % 3 ? 0 : 5};
    state = seed * 77 + keep;
    struct mp_writer *writer = begin(&truth);
    uint64_t events = 0;
    for (size_t round = 0; round < 12; round++) {
        size_t before = truth.events.count;
        add_chunk(writer, &truth, 1 + chance(60));
        events += truth.events.count - before;
        if (events > 2 * keep && chance(2)) fold(&writer, &events, keep);
    }
    if (events > keep) fold(&writer, &events, keep);
    struct mp_model *model = finish(writer);
    for (uint16_t track = 0; track < TRACKS; track++)
        check_track(&truth, model, track);
    check_events(&truth, model, keep);
    mp_model_free(model);
    mp_vec_free(&truth.events);
    mp_vec_free(&truth.blocks);
}

START_TEST(folded_files_tell_the_truth)
{
    for (uint64_t seed = 1; seed <= 150; seed++) {
        run(seed, 40);
        run(seed, 100);
        run(seed, 100000);
    }
}

/* Bases of more than one chunk, and of none. */
START_TEST(many_blocks_survive_a_fold)
{
    enum { MANY = 150000 };
    struct truth truth = {0};
    struct mp_writer *writer = begin(&truth);
    struct mp_event *events = calloc(MANY, sizeof *events);
    struct mp_error error;
    uint64_t live[TRACKS] = {0}, count = MANY;
    for (uint64_t i = 0; i < MANY; i++)
        events[i] = (struct mp_event){
            .time_ns = i, .type = MP_EVENT_ALLOC, .block = i, .address = (i + 1) * 512, .bytes = 8, .stack = 1};
    for (size_t done = 0; done < MANY; done += 50000) {
        live[0] = done * 8;
        ck_assert(!mp_writer_events(writer, events + done, 50000, live, TRACKS, NULL, 0, &error));
    }
    fold(&writer, &count, 10);
    ck_assert_uint_eq(count, 10);
    for (uint64_t i = 0; i < MANY; i++)
        events[i].type = MP_EVENT_FREE, events[i].time_ns = MANY + i;
    for (size_t done = 0; done < MANY; done += 50000) {
        live[0] = (MANY - done) * 8;
        ck_assert(!mp_writer_events(writer, events + done, 50000, live, TRACKS, NULL, 0, &error));
    }
    count += MANY;
    fold(&writer, &count, 10);
    struct mp_model *model = finish(writer);
    ck_assert_uint_eq(model->sums.at[0].peak_bytes, MANY * 8);
    ck_assert_uint_eq(model->sums.at[0].peak_blocks, MANY);
    ck_assert_uint_eq(model->sums.at[0].peak_ns, MANY - 1);
    ck_assert_uint_eq(model->sums.at[0].end_blocks, 0);
    ck_assert_uint_eq(model->past_sites.count, 1);
    mp_model_free(model);
    free(events);
}

MP_SUITE("fold", folded_files_tell_the_truth, many_blocks_survive_a_fold)
