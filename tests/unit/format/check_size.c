/* A training loop's size in the file: at most five bytes an event with its share of the tables. */
#include "unit/format/maker.h"
#include "unit/format/training.h"

#include <stdio.h>
#include <sys/mman.h>

#include "unit/suite.h"

/* As many nodes as the events name stacks, in paths of 25 frames that share their outer part. */
static void put_stacks(struct mp_writer *writer, uint32_t stacks)
{
    enum { DEPTH = 25, SHARED = 15 };
    struct mp_frame *frames = calloc(stacks, sizeof *frames);
    struct mp_stack_node *nodes = calloc(stacks, sizeof *nodes);
    for (uint32_t i = 1; i < stacks; i++) {
        frames[i].address = 0x1000 + i * 0x4b1;
        nodes[i] = (struct mp_stack_node){i % DEPTH || i < DEPTH ? i - 1 : SHARED, i};
    }
    ck_assert(!mp_writer_frames(writer, frames, stacks, NULL));
    ck_assert(!mp_writer_stacks(writer, nodes, stacks, NULL));
    free(frames);
    free(nodes);
}

static uint64_t write_training(size_t chunk_events, const struct mp_event *events, size_t count, uint32_t stacks)
{
    const struct mp_device device = {0};
    const struct mp_track track = {.device = 0};
    const struct mp_thread_info threads[2] = {{1, 0}, {2, 0}};
    const struct mp_string none = {"", 0};
    struct mp_writer *writer;
    ck_assert(!mp_writer_open(memfd_create("training", 0), &made_start, &writer, NULL));
    ck_assert(!mp_writer_strings(writer, &none, 1, NULL) && !mp_writer_devices(writer, &device, 1, NULL) &&
              !mp_writer_tracks(writer, &track, 1, NULL) && !mp_writer_threads(writer, threads, 2, NULL));
    put_stacks(writer, stacks);
    const uint64_t live = 0;
    for (size_t i = 0; i < count; i += chunk_events) {
        size_t here = count - i < chunk_events ? count - i : chunk_events;
        ck_assert(!mp_writer_events(writer, events + i, here, &live, 1, NULL, 0, NULL));
    }
    uint64_t bytes = mp_writer_bytes(writer);
    ck_assert(!mp_writer_finish(writer, NULL));
    return bytes;
}

START_TEST(a_training_loop_takes_few_bytes_an_event)
{
    size_t count;
    uint32_t stacks;
    struct mp_event *events = make_training(24, 250, &count, &stacks);
    static const size_t chunk_events[] = {MP_CHUNK_EVENTS, 8192};
    for (size_t i = 0; i < 2; i++) {
        double each = (double)write_training(chunk_events[i], events, count, stacks) / (double)count;
        printf("%zu events, %zu a chunk: %.3f bytes an event\n", count, chunk_events[i], each);
        ck_assert_double_le(each, 5.0);
    }
    free(events);
}

MP_SUITE("size", a_training_loop_takes_few_bytes_an_event)
