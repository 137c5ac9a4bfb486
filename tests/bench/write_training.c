/*
 * Writes a recording of a made-up training loop with at least EVENTS events, as the collector would. For tools/bench.
 *
 *     write_training FILE EVENTS
 */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "format/writer.h"
#include "unit/format/training.h"

enum { DEPTH = 25, SHARED = 15, LAYERS = 24, STEPS = 40 };

static void must(enum mp_status status, const struct mp_error *error)
{
    if (!status) return;
    fprintf(stderr, "write_training: %s\n", error->text);
    exit(EXIT_FAILURE);
}

/* As many nodes as the events name stacks, in paths of DEPTH Python frames that share their outer part. */
static void put_stacks(struct mp_writer *writer, uint32_t stacks)
{
    struct mp_string *strings = calloc(stacks + 1, sizeof *strings);
    struct mp_frame *frames = calloc(stacks, sizeof *frames);
    struct mp_stack_node *nodes = calloc(stacks, sizeof *nodes);
    char(*names)[32] = calloc(stacks + 1, sizeof *names);
    if (!strings || !frames || !nodes || !names) exit(EXIT_FAILURE);
    strings[0].text = "";
    for (uint32_t i = 1; i <= stacks; i++) {
        int length = snprintf(names[i], sizeof *names, i == stacks ? "/home/user/model.py" : "Layer%u.forward", i);
        strings[i] = (struct mp_string){names[i], (size_t)length};
    }
    for (uint32_t i = 1; i < stacks; i++) {
        frames[i] = (struct mp_frame){.language = MP_PYTHON, .function = i, .file = stacks, .line = 10 + i};
        nodes[i] = (struct mp_stack_node){i % DEPTH || i < DEPTH ? i - 1 : SHARED, i};
    }
    struct mp_error error;
    must(mp_writer_strings(writer, strings, stacks + 1, &error), &error);
    must(mp_writer_frames(writer, frames, stacks, &error), &error);
    must(mp_writer_stacks(writer, nodes, stacks, &error), &error);
    free(strings);
    free(frames);
    free(nodes);
    free(names);
}

/* No two rounds of a loop take the same time: +-25 % on each gap. */
static uint64_t vary(uint64_t gap)
{
    static uint64_t random = UINT64_C(88172645463325252);
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return gap - gap / 4 + random % (gap / 2 + 1);
}

/* Blocks that live after the first `count` events, which begin with nothing, as the collector writes them. */
static void put_base(struct mp_writer *writer, const struct mp_event *events, size_t count, uint64_t first_block)
{
    struct mp_error error;
    struct mp_base_block *live = calloc(count, sizeof *live);
    size_t blocks = 0, kept = 0;
    if (!live) exit(EXIT_FAILURE);
    for (size_t i = 0; i < count; i++) {
        struct mp_base_block *block = &live[events[i].block - first_block];
        if (events[i].type == MP_EVENT_ALLOC) {
            *block = (struct mp_base_block){.block = events[i].block,
                                            .address = events[i].address,
                                            .bytes = events[i].bytes,
                                            .birth_ns = events[i].time_ns,
                                            .stack = events[i].stack,
                                            .track = events[i].track,
                                            .kind = events[i].kind};
            blocks++;
        } else if (events[i].type == MP_EVENT_FREE) {
            block->bytes = MP_BYTES_UNKNOWN;
        }
    }
    for (size_t i = 0; i < blocks; i++)
        if (live[i].bytes != MP_BYTES_UNKNOWN) live[kept++] = live[i];
    must(mp_writer_base(writer, events[count - 1].time_ns, live, kept, &error), &error);
    free(live);
}

/* The loop frees all that it allocates, so that it can follow itself. */
static void put_events(struct mp_writer *writer, struct mp_event *events, size_t count, size_t wanted)
{
    struct mp_error error;
    uint64_t live = 0, blocks = 0, now = 0;
    uint64_t *gaps = calloc(count, sizeof *gaps);
    if (!gaps) exit(EXIT_FAILURE);
    for (size_t i = 0; i < count; i++) {
        gaps[i] = events[i].time_ns - (i ? events[i - 1].time_ns : 0);
        if (events[i].block >= blocks) blocks = events[i].block + 1;
    }
    for (size_t written = 0; written < wanted; written += count) {
        for (size_t i = 0; i < count; i++) {
            events[i].time_ns = now += vary(gaps[i]);
            events[i].block += written ? blocks : 0;
        }
        for (size_t i = 0; i < count; i += MP_CHUNK_EVENTS) {
            size_t here = count - i < MP_CHUNK_EVENTS ? count - i : MP_CHUNK_EVENTS;
            must(mp_writer_events(writer, events + i, here, &live, 1, NULL, 0, &error), &error);
            put_base(writer, events, i + here, written / count * blocks);
            for (size_t k = i; k < i + here; k++)
                live += events[k].type == MP_EVENT_ALLOC ? events[k].bytes : -events[k].bytes;
        }
    }
    free(gaps);
}

int main(int argc, char **argv)
{
    if (argc != 3) return 2;
    static const char *const command[] = {"write_training", NULL};
    const struct mp_recording_start start = {.realtime_ns = UINT64_C(1763620000000000000),
                                             .host = "bench",
                                             .command = command,
                                             .configuration = "",
                                             .spool = ""};
    struct mp_error error;
    struct mp_writer *writer;
    size_t count;
    uint32_t stacks;
    struct mp_event *events = make_training(LAYERS, STEPS, &count, &stacks);
    int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0) {
        perror(argv[1]);
        return EXIT_FAILURE;
    }
    must(mp_writer_open(fd, &start, &writer, &error), &error);
    put_stacks(writer, stacks);
    const struct mp_string device_name = {"cpu", 3};
    const struct mp_device device = {.name = stacks + 1, .total_bytes = MP_BYTES_UNKNOWN};
    const struct mp_track track = {.device = 0, .layer = MP_LAYER_TORCH};
    const struct mp_thread_info threads[2] = {{1, 0}, {2, 0}};
    must(mp_writer_strings(writer, &device_name, 1, &error), &error);
    must(mp_writer_devices(writer, &device, 1, &error), &error);
    must(mp_writer_tracks(writer, &track, 1, &error), &error);
    must(mp_writer_threads(writer, threads, 2, &error), &error);
    const size_t wanted = strtoull(argv[2], NULL, 10);
    put_events(writer, events, wanted < count ? wanted : count, wanted);
    must(mp_writer_finish(writer, &error), &error);
    free(events);
    return EXIT_SUCCESS;
}
