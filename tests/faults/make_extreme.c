/*
 * Writes a recording that is legal, but has as many items of one kind as the format allows, or as a program could make.
 *
 *     make_extreme KIND COUNT FILE      writes it
 *     make_extreme                      lists the kinds
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/vec.h"
#include "format/layout.h"
#include "format/tables.h"
#include "format/writer.h"

#define STEPS 40

struct world {
    struct mp_writer *writer;
    struct mp_error error;
    uint32_t count, strings, frames, stacks;
    uint16_t tracks;
    uint64_t now_ns, next_block;
    uint64_t *live; /* by track */
    MP_VEC(struct mp_event) events;
};

static void must(struct world *world, enum mp_status status)
{
    if (!status) return;
    fprintf(stderr, "make_extreme: %s\n", world->error.text);
    exit(1);
}

static void *room(size_t count, size_t each)
{
    void *made = calloc(count + 1, each);
    if (!made) exit(1);
    return made;
}

static uint32_t say(struct world *world, const char *text, size_t length)
{
    const struct mp_string string = {text, length};
    must(world, mp_writer_strings(world->writer, &string, 1, &world->error));
    return world->strings++;
}

static uint32_t say_text(struct world *world, const char *text)
{
    return say(world, text, strlen(text));
}

/* Adds the strings PREFIX0, PREFIX1, ...; returns the id of the first. */
static uint32_t say_many(struct world *world, const char *prefix, uint32_t count, const char *ending)
{
    struct mp_string *strings = room(count, sizeof *strings);
    char(*texts)[48] = room(count, sizeof *texts);
    uint32_t first = world->strings;
    for (uint32_t i = 0; i < count; i++)
        strings[i] = (struct mp_string){
            texts[i], (size_t)snprintf(texts[i], sizeof *texts, "%s%u%s", prefix, (unsigned)i, ending)};
    must(world, mp_writer_strings(world->writer, strings, count, &world->error));
    world->strings += count;
    free(strings);
    free(texts);
    return first;
}

static void flush(struct world *world)
{
    if (!world->events.count) return;
    must(world, mp_writer_events(world->writer, world->events.at, world->events.count, world->live, world->tracks, NULL,
                                 0, &world->error));
    mp_vec_each (const struct mp_event, event, &world->events) {
        if (event->type == MP_EVENT_ALLOC) world->live[event->track] += event->bytes;
        if (event->type == MP_EVENT_FREE) world->live[event->track] -= event->bytes;
    }
    world->events.count = 0;
}

static void put(struct world *world, struct mp_event event)
{
    event.time_ns = world->now_ns += 100;
    if (!mp_vec_push(&world->events, event)) exit(1);
    if (world->events.count == MP_CHUNK_EVENTS) flush(world);
}

static uint64_t alloc(struct world *world, uint16_t track, uint64_t bytes, uint32_t stack)
{
    uint64_t block = world->next_block++;
    put(world, (struct mp_event){.type = MP_EVENT_ALLOC,
                                 .track = track,
                                 .bytes = bytes,
                                 .stack = stack,
                                 .block = block,
                                 .address = (block + 1) << 9});
    return block;
}

static void release(struct world *world, uint16_t track, uint64_t bytes, uint64_t block)
{
    put(world, (struct mp_event){
                   .type = MP_EVENT_FREE, .track = track, .bytes = bytes, .block = block, .address = (block + 1) << 9});
}

static void step(struct world *world)
{
    put(world, (struct mp_event){.type = MP_EVENT_STEP});
}

static void put_devices(struct world *world, uint32_t first_name, uint32_t count)
{
    struct mp_device *devices = room(count, sizeof *devices);
    for (uint32_t i = 0; i < count; i++)
        devices[i] = (struct mp_device){.name = first_name + i, .total_bytes = UINT64_C(80) << 30};
    must(world, mp_writer_devices(world->writer, devices, count, &world->error));
    free(devices);
}

/* Adds tracks of all layers on devices 0, 1, ... `devices` - 1 in turn. */
static void put_tracks(struct world *world, uint32_t count, uint32_t devices, uint32_t first_name)
{
    struct mp_track *tracks = room(count, sizeof *tracks);
    for (uint32_t i = 0; i < count; i++)
        tracks[i] = (struct mp_track){.device = i % devices,
                                      .layer = (uint8_t)(i / devices % MP_LAYERS),
                                      .size_basis = MP_BASIS_BLOCK,
                                      .name = i / devices % MP_LAYERS == MP_LAYER_APP ? first_name + i : 0};
    must(world, mp_writer_tracks(world->writer, tracks, count, &world->error));
    world->tracks = (uint16_t)count;
    world->live = room(count, sizeof *world->live);
    free(tracks);
}

/* Adds one thread, frames and stacks: `depth` Python frames below one another, and `wide` frames at the root. */
static void put_stacks(struct world *world, uint32_t function, uint32_t functions, uint32_t file, uint32_t depth,
                       uint32_t wide)
{
    uint32_t frames = depth > wide ? depth : wide;
    struct mp_frame *frame = room(frames, sizeof *frame);
    struct mp_stack_node *nodes = room(depth + wide + 1, sizeof *nodes);
    const struct mp_thread_info thread = {.tid = 7};
    for (uint32_t i = 0; i < frames; i++)
        frame[i] =
            (struct mp_frame){.language = MP_PYTHON, .function = function + i % functions, .file = file, .line = 1 + i};
    for (uint32_t i = 0; i < depth; i++)
        nodes[i + 1] = (struct mp_stack_node){i, i};
    for (uint32_t i = 0; i < wide; i++)
        nodes[depth + i + 1] = (struct mp_stack_node){0, i};
    must(world, mp_writer_threads(world->writer, &thread, 1, &world->error));
    must(world, mp_writer_frames(world->writer, frame, frames, &world->error));
    must(world, mp_writer_stacks(world->writer, nodes, depth + wide + 1, &world->error));
    world->frames = frames;
    world->stacks = depth + wide + 1;
    free(frame);
    free(nodes);
}

/* One GPU with the driver's track 0 and PyTorch's track 1; stacks 1 ... `wide`. */
static void usual(struct world *world, uint32_t depth, uint32_t wide)
{
    uint32_t device = say_text(world, "cuda:0"), file = say_text(world, "/home/user/train.py");
    uint32_t names = wide > depth ? wide : depth, function = say_many(world, "f", names, "");
    put_devices(world, device, 1);
    put_tracks(world, 2, 1, 0);
    put_stacks(world, function, names, file, depth, wide);
}

/* A loop of steps, each of which keeps one block and frees another. */
static void train(struct world *world, uint32_t steps)
{
    for (uint32_t i = 0; i < steps; i++) {
        step(world);
        uint64_t block = alloc(world, 1, 4096, 1);
        alloc(world, 1, 1024, 1);
        if (i % 8 == 0) put(world, (struct mp_event){.type = MP_EVENT_RESERVED, .track = 1, .bytes = (i + 1) << 21});
        release(world, 1, 4096, block);
    }
}

/* ---- the kinds ---- */

static void each_track_steps(struct world *world)
{
    for (uint32_t i = 0; i < STEPS; i++) {
        step(world);
        for (uint32_t k = 0; k < world->tracks; k += 1 + world->tracks / 512) {
            uint64_t block = alloc(world, (uint16_t)k, 4096, 1);
            alloc(world, (uint16_t)k, 512, 1);
            put(world, (struct mp_event){.type = MP_EVENT_RESERVED, .track = (uint16_t)k, .bytes = (i + 1) << 20});
            release(world, (uint16_t)k, 4096, block);
        }
    }
}

static void make_tracks(struct world *world)
{
    uint32_t devices = say_many(world, "cuda:", 4, ""), pools = say_many(world, "pool", world->count, "");
    put_devices(world, devices, 4);
    put_tracks(world, world->count, 4, pools);
    put_stacks(world, pools, 1, pools, 1, 1);
    each_track_steps(world);
}

static void make_devices(struct world *world)
{
    static const char *const counters[] = {"/device", "/process", "/others", "/before"};
    uint32_t devices = say_many(world, "cuda:", world->count, ""), counter = 0;
    put_devices(world, devices, world->count);
    put_tracks(world, 2 * world->count, world->count, 0);
    put_stacks(world, devices, 1, devices, 1, 1);
    struct mp_sample *samples = room(4 * world->count, sizeof *samples);
    for (uint32_t k = 0; k < 4; k++) {
        counter = say_many(world, "cuda:", world->count, counters[k]);
        for (uint32_t i = 0; i < world->count; i++)
            samples[k * world->count + i] =
                (struct mp_sample){.time_ns = 5 + k, .counter = counter + i, .value = 100 << 20};
    }
    must(world, mp_writer_samples(world->writer, samples, 4 * world->count, &world->error));
    free(samples);
    each_track_steps(world);
}

static void make_threads(struct world *world)
{
    uint32_t name = say_many(world, "worker", 16, "");
    usual(world, 1, 1);
    struct mp_thread_info *threads = room(world->count, sizeof *threads);
    for (uint32_t i = 0; i < world->count; i++)
        threads[i] = (struct mp_thread_info){.tid = i + 8, .name = name + i % 16};
    must(world, mp_writer_threads(world->writer, threads, world->count, &world->error));
    free(threads);
    train(world, STEPS);
    for (uint32_t i = 0; i < world->count; i++)
        put(world, (struct mp_event){.type = MP_EVENT_REGION_BEGIN, .name = name, .thread = i + 1});
    alloc(world, 1, 4096, 1);
    train(world, STEPS);
}

static void nest(struct world *world, bool one_name, bool close)
{
    uint32_t name = say_many(world, "region", one_name ? 1 : world->count, "");
    usual(world, 1, 1);
    train(world, STEPS);
    for (uint32_t i = 0; i < world->count; i++) {
        put(world, (struct mp_event){.type = MP_EVENT_REGION_BEGIN, .name = one_name ? name : name + i});
        if (i % 4 == 0) alloc(world, 1, 64, 1);
    }
    for (uint32_t i = 0; close && i < world->count; i++)
        put(world, (struct mp_event){.type = MP_EVENT_REGION_END, .name = one_name ? name : name + i});
    train(world, STEPS);
}

static void make_open_regions(struct world *world)
{
    nest(world, true, false);
}

static void make_nested_regions(struct world *world)
{
    nest(world, false, true);
}

/* All regions are open at the same time, and end out of order: the first one first. */
static void make_crossed_regions(struct world *world)
{
    uint32_t name = say_many(world, "region", world->count, "");
    usual(world, 1, 1);
    train(world, STEPS);
    for (unsigned end = 0; end < 2; end++)
        for (uint32_t i = 0; i < world->count; i++)
            put(world, (struct mp_event){.type = end ? MP_EVENT_REGION_END : MP_EVENT_REGION_BEGIN, .name = name + i});
    train(world, STEPS);
}

static void make_deep_stack(struct world *world)
{
    usual(world, world->count, 1);
    train(world, STEPS);
    for (uint32_t i = 1; i < world->stacks; i += 1 + world->stacks / 64)
        alloc(world, 1, 4096, i);
    train(world, STEPS);
}

/* Frames that call one another in turn, so that names repeat on the path. */
static void make_recursion(struct world *world)
{
    uint32_t device = say_text(world, "cuda:0"), function = say_many(world, "f", 2, "");
    put_devices(world, device, 1);
    put_tracks(world, 2, 1, 0);
    put_stacks(world, function, 2, function, world->count, 1);
    for (uint32_t i = 0; i < STEPS; i++) {
        step(world);
        alloc(world, 1, 4096, world->stacks - 2 - i);
    }
}

static void make_long_name(struct world *world)
{
    char *text = room(MP_STRING_BYTES, 1);
    memset(text, 'x', MP_STRING_BYTES);
    uint32_t name = say(world, text, MP_STRING_BYTES - 1);
    put_devices(world, name, 1);
    const struct mp_track tracks[] = {{.layer = MP_LAYER_DRIVER, .size_basis = MP_BASIS_EXACT},
                                      {.layer = MP_LAYER_APP, .size_basis = MP_BASIS_EXACT, .name = name}};
    const struct mp_module modules[] = {{.path = 0}, {.path = name, .end = 4096}};
    must(world, mp_writer_modules(world->writer, modules, 2, &world->error));
    must(world, mp_writer_tracks(world->writer, tracks, 2, &world->error));
    world->tracks = 2;
    world->live = room(2, sizeof *world->live);
    put_stacks(world, name, 1, name, 8, 1);
    put(world, (struct mp_event){.type = MP_EVENT_REGION_BEGIN, .name = name});
    put(world, (struct mp_event){.type = MP_EVENT_MARK, .name = name, .stack = 8});
    for (uint32_t i = 0; i < STEPS; i++) {
        put(world, (struct mp_event){.type = MP_EVENT_STEP, .name = name});
        put(world, (struct mp_event){.type = MP_EVENT_ALLOC,
                                     .track = 1,
                                     .bytes = 4096,
                                     .stack = 8,
                                     .block = world->next_block,
                                     .address = (world->next_block + 1) << 12,
                                     .name = name});
        world->next_block++;
    }
    free(text);
}

static void make_sites(struct world *world)
{
    usual(world, 1, world->count);
    for (uint32_t k = 0; k < 16; k++) {
        step(world);
        for (uint32_t i = k; i < world->count; i += 16)
            alloc(world, 1, 512 + 8 * (i % 100), 2 + i);
    }
    train(world, STEPS);
}

static void make_modules(struct world *world)
{
    uint32_t name = say_many(world, "Net.layers.", world->count, ".weight");
    usual(world, 1, 1);
    struct mp_label *labels = room(world->count, sizeof *labels);
    for (uint32_t i = 0; i < world->count; i++) {
        if (i % (1 + world->count / STEPS) == 0) step(world);
        labels[i] = (struct mp_label){.time_ns = world->now_ns, .block = i / 2, .role = 1 + i % 5, .name = name + i};
        put(world, (struct mp_event){.type = MP_EVENT_ALLOC,
                                     .track = 1,
                                     .bytes = 4096,
                                     .stack = 1,
                                     .block = world->next_block,
                                     .address = (world->next_block + 1) << 12,
                                     .name = name + i});
        world->next_block++;
    }
    flush(world);
    must(world, mp_writer_labels(world->writer, labels, world->count, &world->error));
    free(labels);
}

static void make_steps(struct world *world)
{
    usual(world, 1, 1);
    train(world, world->count);
}

static void make_resizes(struct world *world)
{
    usual(world, 1, 1);
    train(world, STEPS);
    uint64_t block = alloc(world, 1, 4096, 1);
    for (uint32_t i = 0; i < world->count; i++)
        put(world, (struct mp_event){.type = MP_EVENT_RESIZE,
                                     .track = 1,
                                     .block = block,
                                     .address = (block + 1) << 9,
                                     .bytes = 4096 + i % 1024,
                                     .stack = 1});
    train(world, STEPS);
}

/* All blocks at one address, none of them freed. */
static void make_overlaps(struct world *world)
{
    usual(world, 1, 1);
    for (uint32_t i = 0; i < world->count; i++) {
        if (i % (1 + world->count / STEPS) == 0) step(world);
        put(world, (struct mp_event){
                       .type = MP_EVENT_ALLOC, .track = 1, .bytes = 4096, .stack = 1, .block = i, .address = 4096});
    }
    world->next_block = world->count;
}

static void make_ooms(struct world *world)
{
    usual(world, 1, 1);
    train(world, STEPS);
    for (uint32_t i = 0; i < world->count; i++)
        put(world, (struct mp_event){.type = MP_EVENT_OOM, .track = 1, .bytes = UINT64_C(1) << 40, .stack = 1});
    train(world, STEPS);
}

static void make_samples(struct world *world)
{
    uint32_t counter = say_many(world, "cuda:0/counter", world->count / 8 + 1, "");
    usual(world, 1, 1);
    struct mp_sample *samples = room(world->count, sizeof *samples);
    for (uint32_t i = 0; i < world->count; i++)
        samples[i] = (struct mp_sample){.time_ns = i, .counter = counter + i / 8, .value = i};
    must(world, mp_writer_samples(world->writer, samples, world->count, &world->error));
    free(samples);
    train(world, STEPS);
}

static void make_symbols(struct world *world)
{
    const struct mp_module modules[] = {{.path = 0}, {.path = 0, .end = 4096}};
    const struct mp_frame frame = {.language = MP_NATIVE, .module = 1, .address = 16};
    usual(world, 1, 1);
    must(world, mp_writer_modules(world->writer, modules, 2, &world->error));
    must(world, mp_writer_frames(world->writer, &frame, 1, &world->error));
    const struct mp_stack_node node = {0, world->frames};
    must(world, mp_writer_stacks(world->writer, &node, 1, &world->error));
    for (uint32_t i = 0; i < STEPS; i++) {
        step(world);
        alloc(world, 1, 4096, world->stacks);
    }
    flush(world);
    struct mp_symbol *symbols = room(world->count, sizeof *symbols);
    for (uint32_t i = 0; i < world->count; i++)
        symbols[i] = (struct mp_symbol){.frame = world->frames, .function = 3, .file = 2, .line = i};
    must(world, mp_writer_symbols(world->writer, symbols, world->count, &world->error));
    free(symbols);
}

/* Segments and calls of PyTorch's allocator. */
static void make_segments(struct world *world)
{
    usual(world, 1, 1);
    train(world, STEPS);
    flush(world);
    struct mp_segment *segments = room(world->count, sizeof *segments);
    struct mp_segment_part *parts = room(world->count, sizeof *parts);
    for (uint32_t i = 0; i < world->count; i++) {
        segments[i] = (struct mp_segment){
            .address = (uint64_t)(i + 1) << 21, .bytes = 2 << 20, .track = 1, .stream = i, .pool = i};
        parts[i] = (struct mp_segment_part){.bytes = 2 << 20, .segment = i, .state = i % 2};
    }
    must(world, mp_writer_segments(world->writer, segments, world->count, &world->error));
    must(world, mp_writer_parts(world->writer, parts, world->count, &world->error));
    free(segments);
    free(parts);
}

static void make_parts(struct world *world)
{
    usual(world, 1, 1);
    train(world, STEPS);
    flush(world);
    struct mp_segment segment = {.address = UINT64_C(1) << 40, .bytes = (uint64_t)world->count << 9, .track = 1};
    struct mp_segment_part *parts = room(world->count, sizeof *parts);
    for (uint32_t i = 0; i < world->count; i++)
        parts[i] = (struct mp_segment_part){.bytes = 512, .requested = 500, .state = i % 2};
    must(world, mp_writer_segments(world->writer, &segment, 1, &world->error));
    must(world, mp_writer_parts(world->writer, parts, world->count, &world->error));
    free(parts);
}

static void make_calls(struct world *world)
{
    usual(world, 1, 1);
    train(world, STEPS);
    uint64_t *blocks = room(world->count, sizeof *blocks);
    struct mp_allocator_call *calls = room(world->count, sizeof *calls);
    for (uint32_t i = 0; i < world->count; i++) {
        calls[i] = (struct mp_allocator_call){
            .track = 1, .action = i & 1 ? MP_TORCH_FREE_COMPLETED : MP_TORCH_ALLOC, .stream = i / 2};
        if (i & 1)
            release(world, 1, 512, blocks[i - 1]);
        else
            blocks[i] = alloc(world, 1, 512, 1);
        if (i % 64 == 0)
            calls[i] = (struct mp_allocator_call){
                .track = 1, .action = MP_TORCH_SEGMENT_ALLOC, .address = (uint64_t)(i + 1) << 21, .bytes = 2 << 20};
    }
    flush(world);
    must(world, mp_writer_calls(world->writer, calls, world->count, &world->error));
    free(calls);
    free(blocks);
}

static void make_past(struct world *world)
{
    usual(world, 1, 1);
    struct mp_past_site *sites = room(world->count, sizeof *sites);
    uint32_t name = say_many(world, "Net.", world->count, "");
    const struct mp_past past = {.events = 1000000, .steps = 100, .time_ns = 50};
    const struct mp_past_peak peak = {.bytes = UINT64_C(1) << 40,
                                      .blocks = world->count,
                                      .time_ns = 40,
                                      .track = 1,
                                      .reserved_bytes = UINT64_C(1) << 41};
    for (uint32_t i = 0; i < world->count; i++)
        sites[i] = (struct mp_past_site){.bytes = 512, .blocks = 1, .stack = 1, .module = name + i, .track = 1};
    must(world, mp_writer_past(world->writer, &past, &world->error));
    must(world, mp_writer_past_peaks(world->writer, &peak, 1, &world->error));
    must(world, mp_writer_past_sites(world->writer, sites, world->count, &world->error));
    free(sites);
    train(world, STEPS);
}

/* Steps that are only found from stacks and rhythm, since none are marked. */
static void make_unmarked(struct world *world)
{
    usual(world, 4, 64);
    for (uint32_t i = 0; i < world->count; i++) {
        uint64_t block = alloc(world, 1, 512 + i % 64, 5 + i % 64);
        if (i % 64) release(world, 1, 512 + i % 64, block);
    }
}

static void make_marks(struct world *world)
{
    uint32_t name = say_many(world, "mark", world->count, "");
    usual(world, 1, 1);
    train(world, STEPS);
    for (uint32_t i = 0; i < world->count; i++)
        put(world, (struct mp_event){.type = MP_EVENT_MARK, .name = name + i, .stack = 1});
    train(world, STEPS);
}

/* Recording switched on and off. */
static void make_windows(struct world *world)
{
    usual(world, 1, 1);
    for (uint32_t i = 0; i < world->count; i++) {
        put(world, (struct mp_event){.type = MP_EVENT_START});
        if (i % 16 == 0) train(world, 1);
        put(world, (struct mp_event){.type = MP_EVENT_STOP});
    }
}

static const struct {
    const char *name;
    void (*make)(struct world *world);
    uint32_t most; /* 0: as many as requested */
} kinds[] = {
    {"tracks", make_tracks, 4096},
    {"devices", make_devices, 512},
    {"threads", make_threads, 0},
    {"open-regions", make_open_regions, 0},
    {"nested-regions", make_nested_regions, 0},
    {"crossed-regions", make_crossed_regions, 0},
    {"deep-stack", make_deep_stack, 0},
    {"recursion", make_recursion, 0},
    {"long-name", make_long_name, 0},
    {"sites", make_sites, 0},
    {"modules", make_modules, 0},
    {"steps", make_steps, 0},
    {"resizes", make_resizes, 0},
    {"overlaps", make_overlaps, 0},
    {"ooms", make_ooms, 0},
    {"samples", make_samples, 0},
    {"symbols", make_symbols, 0},
    {"segments", make_segments, 0},
    {"parts", make_parts, 0},
    {"calls", make_calls, 0},
    {"past", make_past, 0},
    {"unmarked", make_unmarked, 0},
    {"marks", make_marks, 0},
    {"windows", make_windows, 0},
};

static void make(struct world *world, size_t kind, const char *path)
{
    static const char *const command[] = {"python3", "train.py", NULL};
    const struct mp_recording_start start = {.realtime_ns = UINT64_C(1700000000000000000),
                                             .monotonic_ns = 77,
                                             .pid = 42,
                                             .host = "host",
                                             .command = command,
                                             .configuration = kinds[kind].make == make_past ? "max_events=1000" : "",
                                             .spool = ""};
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0) {
        perror(path);
        exit(1);
    }
    if (kinds[kind].most && world->count > kinds[kind].most) world->count = kinds[kind].most;
    must(world, mp_writer_open(fd, &start, &world->writer, &world->error));
    say_text(world, "");
    uint32_t sources = say_text(world, "torch");
    kinds[kind].make(world);
    flush(world);
    const struct mp_coverage coverage = {.sources = &sources, .source_count = 1};
    const struct mp_exit how = {.known = true, .time_ns = world->now_ns + 1};
    must(world, mp_writer_coverage(world->writer, &coverage, &world->error));
    must(world, mp_writer_exit(world->writer, &how, &world->error));
    must(world, mp_writer_finish(world->writer, &world->error));
    mp_vec_free(&world->events);
    free(world->live);
}

int main(int argc, char **argv)
{
    if (argc == 1)
        for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
            puts(kinds[i].name);
    for (size_t i = 0; argc == 4 && i < sizeof kinds / sizeof *kinds; i++) {
        if (strcmp(kinds[i].name, argv[1])) continue;
        struct world world = {.count = (uint32_t)strtoul(argv[2], NULL, 10)};
        make(&world, i, argv[3]);
        return 0;
    }
    return argc == 1 ? 0 : 2;
}
