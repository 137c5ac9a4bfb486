/*
 * Writes the recording of one made-up rank, which differs from those of other numbers in a known way.
 *
 *   make_rank FILE RANK SITES STEPS [LEAK [WORLD [ROLE [PROGRAM [BLOCKS]]]]]
 *
 * SITES places allocate a block each and keep it, except one in seven, which differs by rank. One in five takes more in
 * higher ranks. Then come STEPS steps with a block that is freed again. With LEAK, each step also keeps LEAK bytes.
 * With WORLD, the recording knows its rank of WORLD ranks, and its ROLE, if that is not "". BLOCKS: the number of
 * further blocks in a step, of sizes that change, each freed again. Every process has a pid of its own, 1000 + RANK,
 * and begins 1 ms after the one before.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hash.h"
#include "base/memory.h"
#include "base/vec.h"
#include "format/writer.h"

#include "must.h"

#define MS UINT64_C(1000000)

static struct mp_writer *writer;

/* Node N + 1 is the stack of site N, inside the one of site (N - 1) / 4: a tree. */
static void write_tables(uint32_t sites)
{
    MP_VEC(struct mp_string) texts = {0};
    MP_VEC(char *) made = {0};
    MP_VEC(struct mp_frame) frames = {0};
    MP_VEC(struct mp_stack_node) nodes = {0};
    const struct mp_string first[] = {{"", 0}, {"cuda:0", 6}, {"python3", 7}};
    mp_vec_add_all(&texts, first, 3);
    struct mp_stack_node node = {0, 0};
    mp_vec_add(&nodes, node);
    for (uint32_t i = 0; i < sites; i++) {
        char *names[] = {mp_text_make("f%u", i), mp_text_make("/home/ada/m%u.py", i % 50)};
        struct mp_string function = {names[0], strlen(names[0])}, file = {names[1], strlen(names[1])};
        mp_vec_add_all(&made, names, 2);
        struct mp_frame frame = {.language = MP_PYTHON, .function = 3 + 2 * i, .file = 4 + 2 * i, .line = 1 + i % 1000};
        node = (struct mp_stack_node){i ? (i - 1) / 4 + 1 : 0, i};
        mp_vec_add(&texts, function);
        mp_vec_add(&texts, file);
        mp_vec_add(&frames, frame);
        mp_vec_add(&nodes, node);
    }
    const struct mp_device device = {.name = 1, .total_bytes = UINT64_C(80) << 30};
    const struct mp_track track = {.device = 0, .layer = MP_LAYER_TORCH, .size_basis = MP_BASIS_BLOCK};
    const struct mp_thread_info thread = {.tid = 1, .name = 2};
    MUST(mp_writer_strings(writer, texts.at, texts.count, &error));
    MUST(mp_writer_devices(writer, &device, 1, &error));
    MUST(mp_writer_tracks(writer, &track, 1, &error));
    MUST(mp_writer_threads(writer, &thread, 1, &error));
    MUST(mp_writer_frames(writer, frames.at, frames.count, &error));
    MUST(mp_writer_stacks(writer, nodes.at, nodes.count, &error));
    for (size_t i = 0; i < made.count; i++)
        free(made.at[i]);
    mp_vec_free(&made);
    mp_vec_free(&texts);
    mp_vec_free(&frames);
    mp_vec_free(&nodes);
}

struct blocks {
    MP_VEC(struct mp_event) waiting;
    uint64_t now, live, live_before, number;
};

static void flush(struct blocks *blocks)
{
    MUST(mp_writer_events(writer, blocks->waiting.at, blocks->waiting.count, &blocks->live_before, 1, NULL, 0, &error));
    blocks->waiting.count = 0;
    blocks->live_before = blocks->live;
}

static void put(struct blocks *blocks, struct mp_event event)
{
    event.time_ns = blocks->now += 1000;
    mp_vec_add(&blocks->waiting, event);
    if (event.type == MP_EVENT_ALLOC) blocks->live += event.bytes;
    if (event.type == MP_EVENT_FREE) blocks->live -= event.bytes;
    if (blocks->waiting.count == MP_CHUNK_EVENTS) flush(blocks);
}

static uint64_t allocate(struct blocks *blocks, uint32_t site, uint64_t bytes)
{
    uint64_t number = blocks->number++;
    put(blocks, (struct mp_event){.type = MP_EVENT_ALLOC,
                                  .address = 0x700000000000 + number * 4096,
                                  .bytes = bytes,
                                  .block = number,
                                  .stack = site + 1});
    return number;
}

int main(int argc, char **argv)
{
    if (argc < 5) return 2;
    uint32_t rank = (uint32_t)atoi(argv[2]), sites = (uint32_t)atoi(argv[3]), steps = (uint32_t)atoi(argv[4]);
    uint64_t leak = argc > 5 ? strtoull(argv[5], NULL, 10) : 0;
    uint32_t churn = argc > 9 ? (uint32_t)atoi(argv[9]) : 0;
    const char *command[] = {"python3", argc > 8 ? argv[8] : "train.py", NULL};
    struct mp_member member = {0};
    if (argc > 6 && atoi(argv[6])) {
        mp_member_set(&member, MP_MEMBER_RANK, rank);
        mp_member_set(&member, MP_MEMBER_WORLD_SIZE, (uint32_t)atoi(argv[6]));
    }
    if (argc > 7) mp_member_text(member.role, argv[7], strlen(argv[7]));
    uint64_t realtime = UINT64_C(1700000000000000000) + rank * MS;
    if (argc > 10) realtime = strtoull(argv[10], NULL, 10);
    const struct mp_recording_start start = {.realtime_ns = realtime,
                                             .monotonic_ns = 1,
                                             .pid = 1000 + rank + (*member.role ? 5000 : 0),
                                             .host = "node7",
                                             .member = member,
                                             .command = command,
                                             .configuration = "",
                                             .spool = ""};
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0666);
    struct blocks blocks = {.now = 0};
    MUST(mp_writer_open(fd, &start, &writer, &error));
    write_tables(sites);
    for (uint32_t i = 0; i < sites; i++) {
        uint64_t hash = mp_hash_mix(i + 1);
        if (i && (hash + rank) % 7 == 0) continue;
        allocate(&blocks, i, 1024 * (1 + hash % 100) + (hash % 5 == 0 ? 512 * rank : 0));
    }
    for (uint32_t i = 0; i < steps; i++) {
        put(&blocks, (struct mp_event){.type = MP_EVENT_STEP});
        uint64_t bytes = 1 << 20, number = allocate(&blocks, 1 % sites, bytes);
        if (leak) allocate(&blocks, 2 % sites, leak);
        put(&blocks,
            (struct mp_event){
                .type = MP_EVENT_FREE, .address = 0x700000000000 + number * 4096, .bytes = bytes, .block = number});
        for (uint32_t k = 0; k < churn; k++) {
            uint64_t size = 512 * (1 + mp_hash_mix(((uint64_t)rank << 40) + ((uint64_t)i << 20) + k) % 4096);
            number = allocate(&blocks, (3 + k) % sites, size);
            put(&blocks,
                (struct mp_event){
                    .type = MP_EVENT_FREE, .address = 0x700000000000 + number * 4096, .bytes = size, .block = number});
        }
        blocks.now += MS;
    }
    flush(&blocks);
    const struct mp_coverage coverage = {.events = blocks.now};
    const struct mp_exit how = {.known = true, .time_ns = blocks.now};
    MUST(mp_writer_coverage(writer, &coverage, &error));
    MUST(mp_writer_exit(writer, &how, &error));
    MUST(mp_writer_finish(writer, &error));
    mp_vec_free(&blocks.waiting);
    return 0;
}
