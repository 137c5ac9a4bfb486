#include "viz/made_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/intern.h"
#include "base/words.h"
#include "model/builder.h"

#define CHUNK_EVENTS 65536

/* Everything for the builder, collected first. */
struct making {
    struct mp_intern strings;
    MP_VEC(struct mp_device) devices;
    MP_VEC(struct mp_track) tracks;
    MP_VEC(struct mp_thread_info) threads;
    MP_VEC(struct mp_module) modules;
    MP_VEC(struct mp_frame) frames;
    MP_VEC(struct mp_symbol) symbols;
    MP_VEC(struct mp_stack_node) stacks;
    MP_VEC(struct mp_base_block) base;
    MP_VEC(struct mp_event) events;
    MP_VEC(struct mp_event) blocks; /* the alloc events of the blocks */
    MP_VEC(struct mp_sample) samples;
    uint64_t now_ns;
    uint64_t dropped;
    uint64_t random;
    uint32_t module; /* module in which allocate() allocates */
};

static void die(const char *what)
{
    fprintf(stderr, "made_model: %s\n", what);
    exit(EXIT_FAILURE);
}

#define push(vec, value)                                                                                               \
    do {                                                                                                               \
        if (!mp_vec_push(vec, value)) die("no memory");                                                                \
    } while (0)

static uint32_t text(struct making *make, const char *string)
{
    return mp_intern_text(&make->strings, string);
}

static uint32_t name(struct making *make, const char *format, unsigned number)
{
    char made[64];
    snprintf(made, sizeof made, format, number);
    return text(make, made);
}

/* xorshift64* (Vigna): the same numbers in every run. */
static uint64_t random_number(struct making *make, uint64_t below)
{
    make->random ^= make->random >> 12;
    make->random ^= make->random << 25;
    make->random ^= make->random >> 27;
    return (make->random * UINT64_C(2685821657736338717) >> 20) % below;
}

static uint32_t python_frame(struct making *make, uint32_t function, uint32_t file, uint32_t line)
{
    struct mp_frame frame = {.language = MP_PYTHON, .function = function, .file = file, .line = line};
    push(&make->frames, frame);
    return (uint32_t)make->frames.count - 1;
}

static uint32_t native_frame(struct making *make, const char *function, uint64_t address)
{
    struct mp_frame frame = {.language = MP_NATIVE, .module = 1, .address = address};
    push(&make->frames, frame);
    uint32_t id = (uint32_t)make->frames.count - 1;
    struct mp_symbol symbol = {.frame = id, .function = text(make, function)};
    if (*function) push(&make->symbols, symbol);
    return id;
}

static uint32_t node(struct making *make, uint32_t parent, uint32_t frame)
{
    struct mp_stack_node made = {.parent = parent, .frame = frame};
    push(&make->stacks, made);
    return (uint32_t)make->stacks.count - 1;
}

static void begin(struct making *make)
{
    *make = (struct making){.random = 88172645463325252};
    struct mp_stack_node root = {0};
    struct mp_module unknown = {0}, torch = {.path = text(make, "/usr/lib/libtorch_cpu.so"), .end = 1 << 28};
    struct mp_thread_info thread = {.tid = 4711, .name = text(make, "python3")};
    push(&make->stacks, root);
    push(&make->modules, unknown);
    push(&make->modules, torch);
    push(&make->threads, thread);
}

static void add_track(struct making *make, const char *device, uint64_t capacity)
{
    struct mp_device made = {.name = text(make, device), .total_bytes = capacity};
    struct mp_track track = {
        .device = (uint32_t)make->devices.count, .layer = MP_LAYER_TORCH, .size_basis = MP_BASIS_BLOCK};
    push(&make->devices, made);
    push(&make->tracks, track);
}

static uint64_t allocate(struct making *make, uint16_t track, uint64_t bytes, uint32_t stack, uint64_t address)
{
    struct mp_event event = {
        .time_ns = make->now_ns,
        .address = address,
        .bytes = bytes,
        .block = make->base.count + make->blocks.count,
        .stack = stack,
        .track = track,
        .type = MP_EVENT_ALLOC,
        .kind = MP_KIND_DEVICE,
        .name = make->module,
    };
    push(&make->events, event);
    push(&make->blocks, event);
    return event.block;
}

static void release(struct making *make, uint64_t block)
{
    struct mp_event event = {.time_ns = make->now_ns, .block = block, .type = MP_EVENT_FREE};
    if (block < make->base.count) {
        event.bytes = make->base.at[block].bytes;
        event.address = make->base.at[block].address;
        event.track = make->base.at[block].track;
    } else {
        const struct mp_event *birth = &make->blocks.at[block - make->base.count];
        event.bytes = birth->bytes;
        event.address = birth->address;
        event.track = birth->track;
    }
    push(&make->events, event);
}

static void resize(struct making *make, uint64_t block, uint64_t bytes)
{
    struct mp_event *birth = &make->blocks.at[block - make->base.count];
    struct mp_event event = *birth;
    event.time_ns = make->now_ns;
    event.type = MP_EVENT_RESIZE;
    event.bytes = birth->bytes = bytes;
    push(&make->events, event);
}

static void note(struct making *make, enum mp_event_type type, const char *called, uint64_t bytes, uint16_t track)
{
    struct mp_event event = {
        .time_ns = make->now_ns, .bytes = bytes, .name = text(make, called), .track = track, .type = (uint8_t)type};
    push(&make->events, event);
}

static void add_chunk(struct mp_builder *builder, const struct mp_chunk *chunk)
{
    struct mp_error error;
    if (mp_builder_add(builder, chunk, &error)) die(error.text);
}

/* Adds events in the form of a chunk's columns. */
static void add_event_chunk(struct mp_builder *builder, const struct mp_event *events, size_t count)
{
    size_t room = count + 1;
    uint64_t *wide = calloc(room, 4 * sizeof *wide);
    uint32_t *words = calloc(room, 3 * sizeof *words);
    uint16_t *track = calloc(room, sizeof *track);
    uint8_t *bytes = calloc(room, 2);
    if (!wide || !words || !track || !bytes) die("no memory");
    for (size_t i = 0; i < count; i++) {
        wide[i] = events[i].time_ns;
        wide[room + i] = events[i].address;
        wide[2 * room + i] = events[i].bytes;
        wide[3 * room + i] = events[i].block;
        words[i] = events[i].stack;
        words[room + i] = events[i].name;
        words[2 * room + i] = events[i].thread;
        track[i] = events[i].track;
        bytes[i] = events[i].type;
        bytes[room + i] = events[i].kind;
    }
    struct mp_chunk chunk = {
        .kind = MP_CHUNK_EVENTS_KIND,
        .count = count,
        .time_ns = events->time_ns,
        .as.events = {.count = count,
                      .time_ns = wide,
                      .address = wide + room,
                      .bytes = wide + 2 * room,
                      .block = wide + 3 * room,
                      .stack = words,
                      .name = words + room,
                      .thread = words + 2 * room,
                      .track = track,
                      .type = bytes,
                      .kind = bytes + room},
    };
    add_chunk(builder, &chunk);
    free(wide);
    free(words);
    free(track);
    free(bytes);
}

static void add_strings(struct mp_builder *builder, const struct mp_intern *strings)
{
    struct mp_string_entry *entries = calloc(strings->count, sizeof *entries);
    if (!entries) die("no memory");
    for (uint32_t i = 0; i < strings->count; i++)
        entries[i].text = mp_intern_get(strings, i, &entries[i].length);
    struct mp_chunk chunk = {.kind = MP_CHUNK_STRINGS, .count = strings->count, .as.strings = entries};
    add_chunk(builder, &chunk);
    free(entries);
}

#define add_table(builder, which, member, table)                                                                       \
    do {                                                                                                               \
        struct mp_chunk chunk = {.kind = which, .count = (table).count, .as.member = (table).at};                      \
        if (chunk.count) add_chunk(builder, &chunk);                                                                   \
    } while (0)

static struct mp_model *finish(struct making *make, const char *const *command)
{
    struct mp_recording_start start = {.realtime_ns = UINT64_C(1767225600000000000),
                                       .pid = 4711,
                                       .host = "node7",
                                       .command = command,
                                       .configuration = "",
                                       .spool = ""};
    struct mp_builder *builder;
    struct mp_model *model = NULL;
    uint32_t exit_text = text(make, "exit 0");
    mp_builder_new(&start, &builder);
    add_strings(builder, &make->strings);
    add_table(builder, MP_CHUNK_DEVICES, devices, make->devices);
    add_table(builder, MP_CHUNK_TRACKS, tracks, make->tracks);
    add_table(builder, MP_CHUNK_THREADS, threads, make->threads);
    add_table(builder, MP_CHUNK_MODULES, modules, make->modules);
    add_table(builder, MP_CHUNK_FRAMES, frames, make->frames);
    add_table(builder, MP_CHUNK_SYMBOLS, symbols, make->symbols);
    add_table(builder, MP_CHUNK_STACKS, stacks, make->stacks);
    add_table(builder, MP_CHUNK_BASE, base, make->base);
    if (make->samples.count) add_table(builder, MP_CHUNK_SAMPLES, samples, make->samples);
    for (size_t i = 0; i < make->events.count; i += CHUNK_EVENTS) {
        size_t left = make->events.count - i;
        add_event_chunk(builder, make->events.at + i, left < CHUNK_EVENTS ? left : CHUNK_EVENTS);
    }
    struct mp_coverage coverage = {.events = make->events.count, .dropped = make->dropped, .truncated_stacks = 2};
    struct mp_exit how = {.known = true, .time_ns = make->now_ns + 1000000, .text = exit_text};
    struct mp_chunk last[] = {{.kind = MP_CHUNK_COVERAGE, .count = 1, .as.coverage = &coverage},
                              {.kind = MP_CHUNK_EXIT, .count = 1, .as.how = &how}};
    add_chunk(builder, &last[0]);
    add_chunk(builder, &last[1]);
    struct mp_damage damage = {0};
    mp_builder_finish(builder, &damage, 0, &model);
    mp_intern_free(&make->strings);
    mp_vec_free(&make->devices);
    mp_vec_free(&make->tracks);
    mp_vec_free(&make->threads);
    mp_vec_free(&make->modules);
    mp_vec_free(&make->frames);
    mp_vec_free(&make->symbols);
    mp_vec_free(&make->stacks);
    mp_vec_free(&make->base);
    mp_vec_free(&make->events);
    mp_vec_free(&make->blocks);
    mp_vec_free(&make->samples);
    return model;
}

/* main > train_step > made_K > (library) > two native frames. For made_6 a backward node calls them. made_0 has the
 * hostile names. */
static void small_stacks(struct making *make, uint32_t stacks[7])
{
    uint32_t file = text(make, "/home/me/train.py");
    uint32_t outer = node(make, 0, python_frame(make, text(make, "main"), file, 10));
    uint32_t step = node(make, outer, python_frame(make, text(make, "train_step"), file, 20));
    uint32_t library =
        python_frame(make, text(make, "forward"), text(make, "/usr/lib/python3/dist-packages/torch/nn/linear.py"), 114);
    struct mp_frame border = {.language = MP_BACKWARD, .function = text(make, "backward of")};
    push(&make->frames, border);
    uint32_t backward = (uint32_t)make->frames.count - 1;
    uint32_t natives[] = {native_frame(make, "at::native::empty", 0x1000), native_frame(make, "", 0x2000)};
    for (unsigned i = 0; i < 7; i++) {
        uint32_t function = i ? name(make, "made_%u", i) : text(make, MADE_EVIL_FUNCTION);
        uint32_t at = node(make, step, python_frame(make, function, i ? file : text(make, MADE_EVIL_FILE), 100 + i));
        if (i % 2) at = node(make, at, library);
        if (i == 6) at = node(make, at, backward);
        at = node(make, at, natives[1]);
        stacks[i] = node(make, at, natives[0]);
    }
}

static void small_base(struct making *make, const uint32_t stacks[7])
{
    for (unsigned i = 0; i < 4; i++) {
        struct mp_base_block block = {.block = i,
                                      .address = 0x7f0000000000 + (i << 22),
                                      .bytes = (i + 1) << 20,
                                      .stack = stacks[i],
                                      .track = 0,
                                      .kind = MP_KIND_DEVICE};
        push(&make->base, block);
    }
}

struct mp_model *made_small(void)
{
    static const char *const command[] = {"python3", "train.py", "--tag=</title>",
                                          "<img src =x onerror=document.title='broken'>", NULL};
    struct making make;
    uint32_t stacks[7];
    uint64_t live[400], lives = 0;
    begin(&make);
    add_track(&make, "cuda:0", UINT64_C(96) << 20);
    add_track(&make, "cpu", MP_BYTES_UNKNOWN);
    small_stacks(&make, stacks);
    small_base(&make, stacks);
    for (unsigned i = 0; i < 4; i++)
        live[lives++] = i;
    make.now_ns = 1000000;
    for (unsigned step = 0; step < 8; step++) {
        note(&make, MP_EVENT_STEP, "", 0, 0);
        note(&make, MP_EVENT_REGION_BEGIN, "forward", 0, 0);
        for (unsigned i = 0; i < 40; i++) {
            make.now_ns += 500000 + random_number(&make, 1000000);
            uint64_t bytes = (1 + random_number(&make, 16)) << 17;
            make.module = i % 4 == 3   ? 0
                          : i % 4 == 2 ? text(&make, MADE_EVIL_MODULE)
                                       : name(&make, i % 2 ? "Net.blocks.%u.attn" : "Net.blocks.%u.mlp", i / 8);
            live[lives] = allocate(&make, 0, bytes, stacks[make.blocks.count % 7], 0x7f1000000000 + (lives << 24));
            lives++;
            if (step == 3 && i == 10) resize(&make, live[lives - 1], UINT64_C(5) << 20);
            if (i == 20) allocate(&make, 1, 4096 * (step + 1), stacks[step % 7], 0x5500 + 64 * step);
        }
        note(&make, MP_EVENT_RESERVED, "", UINT64_C(80) << 20, 0);
        note(&make, MP_EVENT_REGION_END, "forward", 0, 0);
        note(&make, MP_EVENT_REGION_BEGIN, "<svg onload=document.title='broken'>", 0, 0);
        note(&make, MP_EVENT_REGION_BEGIN, "backward", 0, 0);
        for (unsigned i = 0; i < 39; i++) {
            make.now_ns += 300000 + random_number(&make, 500000);
            uint64_t at = random_number(&make, lives);
            release(&make, live[at]);
            live[at] = live[--lives];
        }
        note(&make, MP_EVENT_REGION_END, "backward", 0, 0);
        note(&make, MP_EVENT_REGION_END, "<svg onload=document.title='broken'>", 0, 0);
        struct mp_sample sample = {make.now_ns, text(&make, "cuda:0/device"), (UINT64_C(84) + step) << 20};
        push(&make.samples, sample);
        if (step == 2) note(&make, MP_EVENT_MARK, "<script>document.title='broken'</script>", 0, 0);
        if (step == 5) note(&make, MP_EVENT_OOM, "", UINT64_C(64) << 20, 0);
    }
    make.dropped = 12;
    return finish(&make, command);
}

#define LAYERS  24
#define STACKS  1000
#define TENSORS 12 /* activations per layer */

static void training_stacks(struct making *make, uint32_t stacks[STACKS])
{
    uint32_t file = text(make, "/home/me/project/model.py"), last = 0;
    for (unsigned i = 0; i < STACKS; i++) {
        uint32_t at = i % 20 ? make->stacks.at[make->stacks.at[make->stacks.at[last].parent].parent].parent : 0;
        if (i % 20 == 0)
            for (unsigned depth = 0; depth < 22; depth++)
                at = node(make, at, python_frame(make, name(make, "caller_%u", i * 100 + depth), file, depth + i));
        at = node(make, at, python_frame(make, name(make, "layer_%u", i), file, 1000 + i));
        at = node(make, at,
                  python_frame(make, text(make, "forward"),
                               text(make, "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py"), 114));
        last = stacks[i] = node(make, at, native_frame(make, "at::native::empty_cuda", 0x1000 + i));
    }
}

static uint64_t tensor_bytes(unsigned layer, unsigned tensor)
{
    static const uint64_t sizes[] = {64, 8, 8, 32, 1, 4, 16, 24, 2, 40, 12, 6};
    return (sizes[tensor % 12] << 18) + layer % 3 * 512;
}

static void tick(struct making *make)
{
    make->now_ns += 8000 + random_number(make, 30000);
}

/* The first half of each layer's tensors is its attention's. */
static void enter_module(struct making *make, unsigned layer, unsigned tensor)
{
    make->module =
        name(make, tensor % TENSORS < TENSORS / 2 ? "Net.blocks.%u.attn" : "Net.blocks.%u.mlp", layer % LAYERS);
}

static void training_step(struct making *make, unsigned step, const uint32_t stacks[STACKS])
{
    uint64_t activations[LAYERS * TENSORS], gradients[LAYERS * 4];
    note(make, MP_EVENT_STEP, "", 0, 0);
    note(make, MP_EVENT_REGION_BEGIN, "forward", 0, 0);
    for (unsigned i = 0; i < LAYERS * TENSORS; i++) {
        tick(make);
        enter_module(make, i / TENSORS, i);
        uint64_t bytes = tensor_bytes(i / TENSORS, i % TENSORS);
        activations[i] = allocate(make, 0, bytes, stacks[i], 0x7f2000000000 + ((uint64_t)i << 25));
        tick(make);
        uint64_t scratch =
            allocate(make, 0, 512 * (1 + random_number(make, 64)), stacks[400 + i % 300], 0x7f1000000000);
        tick(make);
        release(make, scratch);
    }
    note(make, MP_EVENT_REGION_END, "forward", 0, 0);
    note(make, MP_EVENT_REGION_BEGIN, "backward", 0, 0);
    for (unsigned i = LAYERS * TENSORS; i-- > 0;) {
        tick(make);
        enter_module(make, i / TENSORS, i);
        if (i % 3 == 0)
            gradients[i / 3] = allocate(make, 0, tensor_bytes(i, i / 3) / 2, stacks[700 + i / 3],
                                        0x7f3000000000 + ((uint64_t)i << 25));
        tick(make);
        release(make, activations[i]);
    }
    note(make, MP_EVENT_REGION_END, "backward", 0, 0);
    make->module = 0;
    note(make, MP_EVENT_REGION_BEGIN, "optimizer", 0, 0);
    for (unsigned i = 0; i < LAYERS * 4; i++) {
        tick(make);
        if (!step) allocate(make, 0, tensor_bytes(i, i), stacks[800 + i], 0x7f4000000000 + ((uint64_t)i << 25));
        release(make, gradients[i]);
    }
    note(make, MP_EVENT_REGION_END, "optimizer", 0, 0);
    if (step % 4 == 1) allocate(make, 0, 3 << 20, stacks[999], 0x7f5000000000 + ((uint64_t)step << 25));
}

struct mp_model *made_training(uint64_t events)
{
    static const char *const command[] = {"python3", "train.py", "--batch-size", "32", NULL};
    struct making make;
    uint32_t stacks[STACKS];
    begin(&make);
    add_track(&make, "cuda:0", UINT64_C(8) << 30);
    training_stacks(&make, stacks);
    for (unsigned i = 0; i < 12 * LAYERS; i++) {
        tick(&make);
        allocate(&make, 0, tensor_bytes(i, i) / 2, stacks[900 + i % 90], 0x7f0000000000 + ((uint64_t)i << 24));
    }
    for (unsigned step = 0; make.events.count < events; step++)
        training_step(&make, step, stacks);
    return finish(&make, command);
}
