#include "faults/small.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/vec.h"
#include "collect/fold/fold.h"
#include "format/writer.h"

#define STEPS       12
#define STEP_BLOCKS 6
#define STEP_NS     1000000
#define KEPT        180 /* events of the folded form */

static const char *const texts[] = {"",         "cuda:0", "GPU-7",       "Soft GPU", "main",          "train",
                                    "train.py", "leak",   "/lib/lib.so", "forward",  "cuda:0/device", "torch",
                                    "exit 0",   "a note", "cpu"};
enum {
    S_NONE,
    S_CUDA,
    S_UUID,
    S_MODEL,
    S_MAIN,
    S_TRAIN,
    S_FILE,
    S_LEAK,
    S_LIB,
    S_FORWARD,
    S_COUNTER,
    S_TORCH,
    S_EXIT,
    S_NOTE,
    S_CPU,
    S_COUNT
};

struct maker {
    struct mp_writer *writer;
    struct mp_error error;
    MP_VEC(struct mp_event) events;
    uint64_t next_block, now_ns, live[2], records;
    struct mp_base_block held[64];
    size_t held_count;
    unsigned batch;
    enum small_form form;
};

static void must(struct maker *maker, enum mp_status status)
{
    if (!status) return;
    fprintf(stderr, "small recording: %s\n", maker->error.text);
    exit(1);
}

static void put_tables(struct maker *maker)
{
    struct mp_string strings[S_COUNT];
    for (size_t i = 0; i < S_COUNT; i++)
        strings[i] = (struct mp_string){texts[i], strlen(texts[i])};
    const struct mp_device devices[] = {{.name = S_CUDA, .uuid = S_UUID, .model = S_MODEL, .total_bytes = 1 << 30},
                                        {.name = S_CPU, .total_bytes = MP_BYTES_UNKNOWN}};
    const struct mp_track tracks[] = {{.device = 0, .layer = MP_LAYER_DRIVER, .size_basis = MP_BASIS_EXACT},
                                      {.device = 0, .layer = MP_LAYER_TORCH, .size_basis = MP_BASIS_BLOCK}};
    const struct mp_thread_info threads[] = {{.tid = 7, .name = S_MAIN}, {.tid = 8, .name = S_TRAIN}};
    const struct mp_module modules[] = {{.path = S_NONE}, {.path = S_LIB, .start = 4096, .end = 65536, .bias = 4096}};
    const struct mp_frame frames[] = {{.language = MP_PYTHON, .function = S_MAIN, .file = S_FILE, .line = 3},
                                      {.language = MP_PYTHON, .function = S_TRAIN, .file = S_FILE, .line = 9},
                                      {.language = MP_PYTHON, .function = S_LEAK, .file = S_FILE, .line = 12},
                                      {.language = MP_NATIVE, .module = 1, .address = 512}};
    const struct mp_stack_node stacks[] = {{0, 0}, {0, 0}, {1, 1}, {1, 2}, {2, 3}};
    struct mp_error *error = &maker->error;
    must(maker, mp_writer_strings(maker->writer, strings, S_COUNT, error));
    must(maker, mp_writer_devices(maker->writer, devices, 2, error));
    must(maker, mp_writer_tracks(maker->writer, tracks, 2, error));
    must(maker, mp_writer_threads(maker->writer, threads, 2, error));
    must(maker, mp_writer_modules(maker->writer, modules, 2, error));
    must(maker, mp_writer_frames(maker->writer, frames, 4, error));
    must(maker, mp_writer_stacks(maker->writer, stacks, 5, error));
}

static void put_event(struct maker *maker, struct mp_event event)
{
    event.time_ns = maker->now_ns += 1000;
    if (!mp_vec_push(&maker->events, event)) exit(1);
}

static size_t hold(struct maker *maker, uint16_t track, uint64_t bytes, uint32_t stack)
{
    struct mp_base_block block = {.block = maker->next_block++,
                                  .address = (uint64_t)(maker->next_block + 1) << 21,
                                  .bytes = bytes,
                                  .birth_ns = maker->now_ns,
                                  .stack = stack,
                                  .track = track};
    put_event(maker, (struct mp_event){.type = MP_EVENT_ALLOC,
                                       .address = block.address,
                                       .bytes = bytes,
                                       .block = block.block,
                                       .stack = stack,
                                       .track = track});
    maker->held[maker->held_count] = block;
    return maker->held_count++;
}

static void let_go(struct maker *maker, size_t at)
{
    const struct mp_base_block block = maker->held[at];
    put_event(maker, (struct mp_event){.type = MP_EVENT_FREE,
                                       .address = block.address,
                                       .bytes = block.bytes,
                                       .block = block.block,
                                       .track = block.track});
    maker->held[at] = maker->held[--maker->held_count];
}

static void put_chunk(struct maker *maker)
{
    const struct mp_ring_mark mark = {.ring = 0, .sequence = maker->records += maker->events.count};
    must(maker, mp_writer_events(maker->writer, maker->events.at, maker->events.count, maker->live, 2, &mark, 1,
                                 &maker->error));
    maker->events.count = 0;
    maker->live[0] = maker->live[1] = 0;
    for (size_t i = 0; i < maker->held_count; i++)
        maker->live[maker->held[i].track] += maker->held[i].bytes;
}

/* Adds a step: a few blocks that end before the next step, one that stays in every second step, a segment of the layer
 * below. */
static void put_step(struct maker *maker, unsigned step)
{
    maker->now_ns = (uint64_t)step * STEP_NS;
    put_event(maker, (struct mp_event){.type = MP_EVENT_STEP});
    put_event(maker, (struct mp_event){.type = MP_EVENT_REGION_BEGIN, .name = S_FORWARD});
    if (step % 4 == 1) {
        hold(maker, 0, 2 << 20, 4);
        put_event(maker, (struct mp_event){.type = MP_EVENT_RESERVED, .track = 1, .bytes = (step / 4 + 1) << 21});
    }
    size_t first = maker->held_count;
    for (unsigned i = 0; i < STEP_BLOCKS; i++)
        hold(maker, 1, 4096 * (uint64_t)maker->batch + 512 * i, 2);
    put_event(maker, (struct mp_event){.type = MP_EVENT_REGION_END, .name = S_FORWARD});
    if (step % 3 == 2) put_chunk(maker); /* so that blocks end in other chunks than they began in */
    while (maker->held_count > first)
        let_go(maker, first);
    hold(maker, 1, 1024, 3);
}

static void put_end(struct maker *maker)
{
    uint32_t sources[] = {S_TORCH}, notes[] = {S_NOTE};
    const struct mp_symbol symbol = {.frame = 3, .function = S_LEAK, .file = S_FILE, .line = 5};
    const struct mp_sample samples[] = {{.time_ns = 5, .counter = S_COUNTER, .value = 100 << 20},
                                        {.time_ns = 3 * STEP_NS, .counter = S_COUNTER, .value = 200 << 20}};
    const struct mp_segment segment = {.address = 2 << 20, .bytes = 2 << 20, .track = 1, .small = 1};
    const struct mp_segment_part parts[] = {{.bytes = 1 << 20, .requested = 1000, .segment = 0, .state = 1},
                                            {.bytes = 1 << 20, .segment = 0, .state = 0}};
    const struct mp_coverage coverage = {.events = maker->records,
                                         .totals_checked = 3,
                                         .sources = sources,
                                         .source_count = 1,
                                         .notes = notes,
                                         .note_count = 1};
    const struct mp_exit how = {.known = true, .time_ns = (STEPS + 1) * STEP_NS, .text = S_EXIT};
    struct mp_error *error = &maker->error;
    must(maker, mp_writer_symbols(maker->writer, &symbol, 1, error));
    if (maker->form == SMALL_READINGS) must(maker, mp_writer_samples(maker->writer, samples, 2, error));
    must(maker, mp_writer_segments(maker->writer, &segment, 1, error));
    must(maker, mp_writer_parts(maker->writer, parts, 2, error));
    must(maker, mp_writer_coverage(maker->writer, &coverage, error));
    must(maker, mp_writer_exit(maker->writer, &how, error));
    must(maker, mp_writer_finish(maker->writer, error));
}

/* Replaces the file by one with only the newest events. */
static void fold(struct maker *maker, int fd)
{
    struct mp_written written;
    struct mp_folded folded = {0};
    must(maker, mp_writer_written(maker->writer, &written, &maker->error));
    must(maker, mp_fold(&written, maker->records, KEPT, fd, &folded, &maker->error));
    mp_writer_abandon(maker->writer);
    free(written.chunks);
    maker->writer = folded.writer;
    maker->records = folded.events;
}

void small_recording(int fd, unsigned batch, enum small_form form)
{
    static const char *const command[] = {"python3", "train.py", NULL};
    const struct mp_recording_start start = {.realtime_ns = UINT64_C(1700000000000000000),
                                             .monotonic_ns = 77,
                                             .pid = 42,
                                             .host = "host",
                                             .command = command,
                                             .configuration = "native=1",
                                             .spool = ""};
    struct maker maker = {.batch = batch, .form = form};
    int first = form == SMALL_FOLDED ? memfd_create("whole", MFD_CLOEXEC) : fd;
    must(&maker, mp_writer_open(first, &start, &maker.writer, &maker.error));
    put_tables(&maker);
    for (unsigned step = 0; step < STEPS; step++) {
        put_step(&maker, step);
        if (step == STEPS / 2)
            must(&maker, mp_writer_base(maker.writer, maker.now_ns, maker.held, maker.held_count, &maker.error));
    }
    put_chunk(&maker);
    if (form == SMALL_FOLDED) fold(&maker, fd);
    put_end(&maker);
    mp_vec_free(&maker.events);
}
