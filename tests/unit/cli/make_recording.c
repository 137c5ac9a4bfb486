/*
 * Writes small recordings of a made-up training, with the format's writer, for the tests of the commands.
 *
 *   make_recording FILE train          one whole recording: 3 steps, regions, a leak, two tracks, a base, a mixed stack
 *   make_recording FILE leaking [NS]   the same with 40 steps; NS: from one event to the next
 *   make_recording FILE held           the same, where the program looked twice for what holds its blocks
 *   make_recording FILE used           the same as train, with a log of operators
 *   make_recording FILE cut            the same, ended by no clean mark
 *   make_recording FILE dropped        the same; its coverage says that events were lost
 *   make_recording FILE nothing        whole, without a track
 *   make_recording FILE hostile        names that hold control sequences and bytes that are no UTF-8
 *   make_recording FILE odd            the same names elsewhere: of regions and of a thread
 *   make_recording FILE network        the same, where modules and what the program says of blocks are known
 *   make_recording FILE big EVENTS     a long one, to measure reading
 *
 * Every number in it is fixed, so that the expected outputs are plain files.
 */
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/vec.h"
#include "format/writer.h"

#include "must.h"

#define MIB UINT64_C(1048576)
#define MS  UINT64_C(1000000)

static struct mp_writer *writer;

/* String ids, in the order of `texts`. */
enum {
    NONE,
    CPU,
    CUDA,
    UUID,
    MODEL,
    MAIN_THREAD,
    WORKER,
    TORCH_CPU,
    C10,
    PYTHON,
    TRAIN_PY,
    MODEL_PY,
    MODULE_PY,
    LINEAR_PY,
    MODULE,
    MAIN,
    TRAIN_STEP,
    INIT,
    FORWARD,
    CALL_IMPL,
    LINEAR_FORWARD,
    LEAKING,
    ADDMM,
    OPS_ADDMM,
    EMPTY_CPU,
    ALLOC_CPU,
    BLAS_CPP,
    OPS_CPP,
    REGION_FORWARD,
    REGION_BACKWARD,
    RESIDENT,
    SHARED,
    EXIT_TEXT,
    SOURCE_TORCH,
    NOTE,
    LAYER, /* modules of the network, one for each of LAYERS */
    TEXTS = LAYER + 3
};

static const char *const texts[TEXTS] = {
    [NONE] = "",
    [CPU] = "cpu",
    [CUDA] = "cuda:0",
    [UUID] = "GPU-11111111-2222-3333-4444-555555555555",
    [MODEL] = "NVIDIA H200",
    [MAIN_THREAD] = "python3",
    [WORKER] = "pt_autograd_0",
    [TORCH_CPU] = "/usr/lib/x86_64-linux-gnu/libtorch_cpu.so.1.13",
    [C10] = "/usr/lib/x86_64-linux-gnu/libc10.so.1.13",
    [PYTHON] = "/usr/bin/python3.11",
    [TRAIN_PY] = "/home/ada/train.py",
    [MODEL_PY] = "/home/ada/model.py",
    [MODULE_PY] = "/usr/lib/python3/dist-packages/torch/nn/modules/module.py",
    [LINEAR_PY] = "/usr/lib/python3/dist-packages/torch/nn/modules/linear.py",
    [MODULE] = "<module>",
    [MAIN] = "main",
    [TRAIN_STEP] = "train_step",
    [INIT] = "__init__",
    [FORWARD] = "forward",
    [CALL_IMPL] = "_call_impl",
    [LINEAR_FORWARD] = "forward",
    [LEAKING] = "remember",
    [ADDMM] = "at::native::addmm(at::Tensor const&, at::Tensor const&, at::Tensor const&)",
    [OPS_ADDMM] = "at::_ops::addmm::call(at::Tensor const&, at::Tensor const&)",
    [EMPTY_CPU] = "at::(anonymous namespace)::empty_cpu(c10::ArrayRef<long>, c10::ScalarType)",
    [ALLOC_CPU] = "c10::alloc_cpu(unsigned long)",
    [BLAS_CPP] = "./aten/src/ATen/native/LinearAlgebra.cpp",
    [OPS_CPP] = "./build/aten/src/ATen/Operators_1.cpp",
    [REGION_FORWARD] = "forward",
    [REGION_BACKWARD] = "backward",
    [RESIDENT] = "cpu/resident",
    [SHARED] = "cpu/shared",
    [EXIT_TEXT] = "exit 0",
    [SOURCE_TORCH] = "torch",
    [NOTE] = "CPU tensors were recorded until the first CUDA block",
    [LAYER] = "Net.blocks.0.mlp",
    [LAYER + 1] = "Net.blocks.1.mlp",
    [LAYER + 2] = "Net.head",
};

static const char *const hostile_texts[] = {"\033[31mred\033[0m\n", "caf\xe9 \xf0\x9f\x98\x80 \"quoted\" \\"};

static void put_strings(const char *what)
{
    struct mp_string strings[TEXTS];
    for (size_t i = 0; i < TEXTS; i++)
        strings[i] = (struct mp_string){texts[i], strlen(texts[i])};
    bool hostile = !strcmp(what, "hostile");
    if (hostile || !strcmp(what, "odd")) {
        strings[hostile ? TRAIN_STEP : REGION_FORWARD] = (struct mp_string){hostile_texts[0], strlen(hostile_texts[0])};
        strings[hostile ? MODEL_PY : WORKER] = (struct mp_string){hostile_texts[1], strlen(hostile_texts[1])};
    }
    MUST(mp_writer_strings(writer, strings, TEXTS, &error));
}

/* Frame ids. */
enum {
    F_MODULE,
    F_MAIN,
    F_STEP,
    F_MODEL_INIT,
    F_MODEL,
    F_CALL,
    F_LINEAR,
    F_LEAK,
    F_ADDMM,
    F_EMPTY,
    F_ALLOC,
    F_EVAL,
    FRAMES
};

static void put_frames(void)
{
    static const struct mp_frame frames[FRAMES] = {
        [F_MODULE] = {MP_PYTHON, 0, 0, MODULE, TRAIN_PY, 81},
        [F_MAIN] = {MP_PYTHON, 0, 0, MAIN, TRAIN_PY, 60},
        [F_STEP] = {MP_PYTHON, 0, 0, TRAIN_STEP, TRAIN_PY, 42},
        [F_MODEL_INIT] = {MP_PYTHON, 0, 0, INIT, MODEL_PY, 12},
        [F_MODEL] = {MP_PYTHON, 0, 0, FORWARD, MODEL_PY, 31},
        [F_CALL] = {MP_PYTHON, 0, 0, CALL_IMPL, MODULE_PY, 1194},
        [F_LINEAR] = {MP_PYTHON, 0, 0, LINEAR_FORWARD, LINEAR_PY, 114},
        [F_LEAK] = {MP_PYTHON, 0, 0, LEAKING, TRAIN_PY, 27},
        [F_ADDMM] = {MP_NATIVE, 1, 0x1a2b30, 0, 0, 0},
        [F_EMPTY] = {MP_NATIVE, 1, 0x0f00d0, 0, 0, 0},
        [F_ALLOC] = {MP_NATIVE, 2, 0x004440, 0, 0, 0},
        [F_EVAL] = {MP_NATIVE, 3, 0x0beef0, 0, 0, 0},
    };
    MUST(mp_writer_frames(writer, frames, FRAMES, &error));
    static const struct mp_symbol symbols[] = {
        {F_ADDMM, ADDMM, BLAS_CPP, 1452},
        {F_ADDMM, OPS_ADDMM, OPS_CPP, 7071}, /* inlined into its caller */
        {F_EMPTY, EMPTY_CPU, 0, 0},
        {F_ALLOC, ALLOC_CPU, 0, 0},
    };
    MUST(mp_writer_symbols(writer, symbols, sizeof symbols / sizeof *symbols, &error));
}

/* Stacks by their innermost node. */
enum {
    S_EMPTY,
    S_EVAL,
    S_MODULE,
    S_MAIN,
    S_INIT,
    S_PARAMETERS,
    S_STEP,
    S_CALL,
    S_MODEL,
    S_LINEAR,
    S_ADDMM,
    S_EMPTY_CPU,
    S_ACTIVATION,
    S_LEAK,
    S_LEAK_ALLOC,
    S_NATIVE,
    S_CUT,
    S_GRADIENT,
    STACKS
};

static void put_stacks(void)
{
    static const struct mp_stack_node nodes[STACKS] = {
        [S_EMPTY] = {0, MP_FRAME_CUT},
        [S_EVAL] = {S_EMPTY, F_EVAL},
        [S_MODULE] = {S_EVAL, F_MODULE},
        [S_MAIN] = {S_MODULE, F_MAIN},
        [S_INIT] = {S_MAIN, F_MODEL_INIT},
        [S_PARAMETERS] = {S_INIT, F_ALLOC},
        [S_STEP] = {S_MAIN, F_STEP},
        [S_CALL] = {S_STEP, F_CALL},
        [S_MODEL] = {S_CALL, F_MODEL},
        [S_LINEAR] = {S_MODEL, F_LINEAR},
        [S_ADDMM] = {S_LINEAR, F_ADDMM},
        [S_EMPTY_CPU] = {S_ADDMM, F_EMPTY},
        [S_ACTIVATION] = {S_EMPTY_CPU, F_ALLOC},
        [S_LEAK] = {S_STEP, F_LEAK},
        [S_LEAK_ALLOC] = {S_LEAK, F_ALLOC},
        [S_NATIVE] = {S_EMPTY, F_ADDMM},
        [S_CUT] = {S_EMPTY, MP_FRAME_CUT},
        [S_GRADIENT] = {S_CUT, F_ADDMM},
    };
    MUST(mp_writer_stacks(writer, nodes, STACKS, &error));
}

static void put_tables(const char *what)
{
    static const struct mp_device devices[] = {{CPU, 0, 0, MP_BYTES_UNKNOWN}, {CUDA, UUID, MODEL, 150754820096}};
    static const struct mp_track tracks[] = {{0, MP_LAYER_TORCH, MP_BASIS_BLOCK, 0},
                                             {1, MP_LAYER_TORCH, MP_BASIS_BLOCK, 0},
                                             {1, MP_LAYER_DRIVER, MP_BASIS_EXACT, 0}};
    static const struct mp_thread_info threads[] = {{4711, MAIN_THREAD}, {4720, WORKER}};
    static const struct mp_module modules[] = {{0}, {.path = TORCH_CPU}, {.path = C10}, {.path = PYTHON}};
    put_strings(what);
    MUST(mp_writer_devices(writer, devices, 2, &error));
    MUST(mp_writer_tracks(writer, tracks, 3, &error));
    MUST(mp_writer_threads(writer, threads, 2, &error));
    MUST(mp_writer_modules(writer, modules, 4, &error));
    put_frames();
    put_stacks();
}

/* The events so far, and what lives. */
static MP_VEC(struct mp_event) events;
static MP_VEC(struct mp_event) born; /* by block number */
static uint64_t now_ns, tick_ns = MS;
static bool named; /* modules are known */

static void push(struct mp_event event)
{
    event.time_ns = now_ns += tick_ns;
    if (!mp_vec_push(&events, event)) exit(1);
}

static uint64_t allocate(uint16_t track, uint64_t bytes, uint32_t stack, uint32_t thread)
{
    struct mp_event event = {.type = MP_EVENT_ALLOC,
                             .track = track,
                             .bytes = bytes,
                             .stack = stack,
                             .thread = thread,
                             .block = born.count,
                             .address = 0x7f0000000000 + born.count * 0x4000000,
                             .kind = track ? MP_KIND_DEVICE : MP_KIND_HOST};
    if (!mp_vec_push(&born, event)) exit(1);
    push(event);
    return event.block;
}

static void release(uint64_t block, uint32_t thread)
{
    struct mp_event event = born.at[block];
    event.type = MP_EVENT_FREE;
    event.stack = 0;
    event.thread = thread;
    push(event);
}

static void note(unsigned type, uint16_t track, uint64_t bytes, uint32_t name)
{
    push((struct mp_event){.type = (uint8_t)type, .track = track, .bytes = bytes, .name = name});
}

/* One step: activations forward, gradients backward on another thread, one block kept for ever. */
static void one_step(void)
{
    uint64_t activations[3], gradients[3];
    note(MP_EVENT_STEP, 0, 0, 0);
    note(MP_EVENT_REGION_BEGIN, 0, 0, REGION_FORWARD);
    for (size_t i = 0; i < 3; i++)
        activations[i] = allocate(1, (8 + i) * MIB, S_ACTIVATION, 0);
    for (size_t i = 0; named && i < 3; i++)
        events.at[events.count - 3 + i].name = LAYER + (uint32_t)i;
    note(MP_EVENT_REGION_END, 0, 0, REGION_FORWARD);
    allocate(1, MIB, S_LEAK_ALLOC, 0);
    note(MP_EVENT_REGION_BEGIN, 0, 0, REGION_BACKWARD);
    for (size_t i = 3; i--;) {
        gradients[i] = allocate(1, 2 * MIB, S_GRADIENT, 1);
        release(activations[i], 1);
    }
    note(MP_EVENT_REGION_END, 0, 0, REGION_BACKWARD);
    for (size_t i = 0; i < 3; i++)
        release(gradients[i], 0);
}

static void put_events(void)
{
    uint64_t live[3] = {0};
    MUST(mp_writer_events(writer, events.at, events.count, live, 3, NULL, 0, &error));
}

static void training(size_t steps)
{
    uint64_t base_bytes = 512 * 1024;
    struct mp_base_block base = {
        .block = 0, .address = 0x7e0000000000, .bytes = base_bytes, .track = 1, .kind = MP_KIND_DEVICE};
    struct mp_event base_birth = {.type = MP_EVENT_ALLOC, .track = 1, .bytes = base_bytes, .address = base.address};
    if (!mp_vec_push(&born, base_birth)) exit(1);
    MUST(mp_writer_base(writer, 0, &base, 1, &error));
    uint64_t cpu = allocate(0, 3 * MIB, S_NATIVE, 0);
    note(MP_EVENT_RESERVED, 1, 20 * MIB, 0);
    allocate(2, 64 * MIB, S_EMPTY, 0);
    for (size_t i = 0; i < 4; i++)
        allocate(1, 4 * MIB + i * 512, S_PARAMETERS, 0);
    release(cpu, 0);
    for (size_t step = 0; step < steps; step++)
        one_step();
    note(MP_EVENT_RESERVED, 1, 48 * MIB, 0);
    note(MP_EVENT_OOM, 1, 1024 * MIB, 0);
    struct mp_event unknown = {
        .type = MP_EVENT_FREE, .track = 0, .bytes = MP_BYTES_UNKNOWN, .block = born.count, .address = 0x55aa0000};
    push(unknown);
    put_events();
    static const struct mp_label labels[] = {{MS, 0, MP_ROLE_BUFFER, 0},
                                             {6 * MS, 3, MP_ROLE_PARAMETER, 0},
                                             {7 * MS, 4, MP_ROLE_PARAMETER, 0},
                                             {8 * MS, 5, MP_ROLE_PARAMETER, 0},
                                             {9 * MS, 6, MP_ROLE_PARAMETER, 0}};
    if (named) MUST(mp_writer_labels(writer, labels, sizeof labels / sizeof *labels, &error));
}

/* At the first look half of the leaking blocks existed; the second look was incomplete. */
static void put_holders(void)
{
    static const char *const held_texts[] = {"trainer.history[*].grad_fn → AddmmBackward0._saved_mat1",
                                             "history[0]['loss']",
                                             "the look was out of time (200 ms): 5000 of some 9000 objects"};
    struct mp_string strings[sizeof held_texts / sizeof *held_texts];
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        strings[i] = (struct mp_string){held_texts[i], strlen(held_texts[i])};
    MUST(mp_writer_strings(writer, strings, sizeof strings / sizeof *strings, &error));
    MP_VEC(struct mp_block_holder) rows = {0};
    uint64_t looks[] = {now_ns / 2, now_ns};
    for (size_t look = 0; look < 2; look++) {
        for (size_t block = 0, kept = 0; block < born.count; block++) {
            if (born.at[block].stack != S_LEAK_ALLOC || born.at[block].time_ns > looks[look] || kept++ % 4 == 3)
                continue;
            bool in_graph = kept % 3 != 0;
            struct mp_block_holder row = {.time_ns = looks[look],
                                          .block = block,
                                          .kind = in_graph ? MP_HOLDER_GRAPH : MP_HOLDER_DICT,
                                          .certain = in_graph,
                                          .path = in_graph ? TEXTS : TEXTS + 1,
                                          .file = in_graph ? TRAIN_PY : 0,
                                          .line = in_graph ? 31 : 0};
            if (!mp_vec_push(&rows, row)) exit(1);
        }
        struct mp_block_holder end = {.time_ns = looks[look], .block = MP_HOLDER_LOOK, .certain = !look};
        end.path = look ? TEXTS + 2 : 0;
        if (!mp_vec_push(&rows, end)) exit(1);
    }
    MUST(mp_writer_holders(writer, rows.at, rows.count, &error));
    mp_vec_free(&rows);
}

/* A log of operators: each block is made by one of two operators, and every third is read again later. */
static void put_uses(void)
{
    static const char *const used_texts[] = {"addmm", "gelu", "MmBackward0", "float32 [8, 128]",
                                             "float32 [8, 256] strides [1, 8]"};
    struct mp_string strings[sizeof used_texts / sizeof *used_texts];
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++)
        strings[i] = (struct mp_string){used_texts[i], strlen(used_texts[i])};
    MUST(mp_writer_strings(writer, strings, sizeof strings / sizeof *strings, &error));
    MP_VEC(struct mp_block_use) rows = {0};
    for (size_t block = 0; block < born.count; block++) {
        struct mp_block_use row = {.time_ns = born.at[block].time_ns,
                                   .block = block,
                                   .operator=(uint32_t)(TEXTS + block % 2),
                                   .shape = block % 5 ? (uint32_t)(TEXTS + 3 + block % 7 / 5) : 0,
                                   .module = block % 4 ? (uint32_t)(LAYER + block % 3) : 0,
                                   .how = MP_USE_MADE | (block % 5 ? MP_USE_OUTPUT : 0)};
        if (!mp_vec_push(&rows, row)) exit(1);
        row.time_ns += 200 * MS;
        row.node = TEXTS + 2;
        row.how = MP_USE_READ;
        if (block % 3 == 0 && row.shape && !mp_vec_push(&rows, row)) exit(1);
    }
    MUST(mp_writer_uses(writer, rows.at, rows.count, &error));
    mp_vec_free(&rows);
}

static void put_end(uint64_t dropped)
{
    static const struct mp_sample samples[] = {
        {10 * MS, RESIDENT, 200 * MIB}, {10 * MS, SHARED, 30 * MIB},    {50 * MS, RESIDENT, 260 * MIB},
        {50 * MS, SHARED, 31 * MIB},    {90 * MS, RESIDENT, 255 * MIB}, {90 * MS, SHARED, 31 * MIB},
    };
    static uint32_t sources[] = {SOURCE_TORCH}, notes[] = {NOTE};
    struct mp_coverage coverage = {.events = events.count,
                                   .dropped = dropped,
                                   .totals_checked = events.count,
                                   .unknown_frees = 1,
                                   .truncated_stacks = 1,
                                   .sources = sources,
                                   .source_count = 1,
                                   .notes = notes,
                                   .note_count = 1};
    struct mp_exit how = {.known = true, .time_ns = 120 * MS, .text = EXIT_TEXT};
    MUST(mp_writer_samples(writer, samples, sizeof samples / sizeof *samples, &error));
    MUST(mp_writer_coverage(writer, &coverage, &error));
    MUST(mp_writer_exit(writer, &how, &error));
}

/* A loop of 500 live blocks, of ten sizes from ten stacks; one in a thousand is kept. A step has 5000 events, half of
 * them in a region. */
static void big(size_t count)
{
    enum { LIVE = 500 };
    static uint64_t live[LIVE];
    static uint64_t totals[3];
    size_t written = 0;
    uint64_t number = 0, random = 88172645463325252ull;
    static struct mp_event buffer[MP_CHUNK_EVENTS];
    struct {
        uint64_t bytes, address;
    } *known = calloc(count, sizeof *known);
    if (!known) exit(1);
    for (size_t i = 0; i < LIVE; i++)
        live[i] = UINT64_MAX;
    while (written < count) {
        size_t filled = 0;
        uint64_t at_start[3] = {totals[0], totals[1], totals[2]};
        while (filled < MP_CHUNK_EVENTS && written + filled < count) {
            random ^= random << 13, random ^= random >> 7, random ^= random << 17;
            size_t slot = random % LIVE;
            struct mp_event event = {.time_ns = (written + filled) * 1000, .track = 1};
            size_t phase = (written + filled) % 5000;
            if (phase < 2 || phase == 2500) {
                event.type = !phase ? MP_EVENT_STEP : phase == 1 ? MP_EVENT_REGION_BEGIN : MP_EVENT_REGION_END;
                event.name = phase ? REGION_FORWARD : 0;
                buffer[filled++] = event;
                continue;
            }
            if (live[slot] == UINT64_MAX) {
                event.type = MP_EVENT_ALLOC;
                event.kind = MP_KIND_DEVICE;
                event.block = number;
                event.bytes = known[number].bytes = 512 * (1 + (random >> 20) % 10);
                event.address = known[number].address = 0x7f0000000000 + slot * 0x10000;
                event.stack = S_MODULE + (uint32_t)((random >> 30) % 10);
                totals[1] += event.bytes;
                live[slot] = number++ % 1000 ? number - 1 : UINT64_MAX;
            } else {
                event.type = MP_EVENT_FREE;
                event.block = live[slot];
                event.bytes = known[live[slot]].bytes;
                event.address = known[live[slot]].address;
                totals[1] -= event.bytes;
                live[slot] = UINT64_MAX;
            }
            buffer[filled++] = event;
        }
        MUST(mp_writer_events(writer, buffer, filled, at_start, 3, NULL, 0, &error));
        written += filled;
    }
    free(known);
}

int main(int argc, char **argv)
{
    static const char *const command[] = {"python3", "train.py", "--batch-size", "32", NULL};
    struct mp_recording_start start = {.realtime_ns = UINT64_C(1763620000123456789),
                                       .monotonic_ns = 1,
                                       .pid = 4711,
                                       .host = "node7",
                                       .command = command,
                                       .configuration = "",
                                       .spool = ""};
    if (argc < 3) return 2;
    const char *what = argv[2];
    int fd = open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0666);
    if (fd < 0) return 1;
    MUST(mp_writer_open(fd, &start, &writer, &error));
    if (!strcmp(what, "nothing")) {
        MUST(mp_writer_finish(writer, &error));
        return 0;
    }
    named = !strcmp(what, "network");
    if (!strcmp(what, "leaking") && argc > 3) tick_ns = strtoul(argv[3], NULL, 10);
    put_tables(what);
    if (!strcmp(what, "big"))
        big(strtoul(argv[3], NULL, 10));
    else
        training(strcmp(what, "leaking") && strcmp(what, "held") ? 3 : 40);
    if (!strcmp(what, "held")) put_holders();
    if (!strcmp(what, "used")) put_uses();
    if (!strcmp(what, "cut")) {
        mp_writer_abandon(writer);
    } else {
        put_end(strcmp(what, "dropped") ? 0 : 17);
        MUST(mp_writer_finish(writer, &error));
    }
    mp_vec_free(&events);
    mp_vec_free(&born);
    return 0;
}
