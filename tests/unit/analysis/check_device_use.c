#include "analysis/device/device_use.h"

#include <string.h>

#include "base/clock.h"
#include "model/builder.h"
#include "unit/suite.h"

enum { DRIVER, POOL, TORCH, CONTEXTS, MODULES, MANAGED, TRACKS };
enum { NCCL = 2, OF_TORCH = 4, STACKS };
enum { IN_USE = 6, PROCESS, OTHERS, BEFORE, SYSTEM };

struct row {
    uint64_t ms;
    unsigned type;
    uint16_t track;
    uint64_t block, bytes;
    uint32_t stack;
};

static void feed(struct mp_builder *builder, const struct mp_chunk *chunk)
{
    struct mp_error error;
    enum mp_status status = mp_builder_add(builder, chunk, &error);
    ck_assert_msg(status == MP_OK, "%s", error.text);
}

static struct mp_builder *begin(void)
{
    static const char *const texts[] = {"",
                                        "cuda:0",
                                        "pool",
                                        "contexts",
                                        "modules",
                                        "managed",
                                        "cuda:0/device",
                                        "cuda:0/process",
                                        "cuda:0/others",
                                        "cuda:0/before",
                                        "cuda:0/system",
                                        "/usr/lib/libnccl.so.2",
                                        "/x/torch/lib/libc10_cuda.so",
                                        "/usr/lib/libcuda.so.1"};
    enum { COUNT = sizeof texts / sizeof *texts };
    static const struct mp_device devices[] = {{1, 0, 0, UINT64_C(1) << 40}};
    static const struct mp_track tracks[TRACKS] = {
        {0, MP_LAYER_DRIVER, MP_BASIS_EXACT, 0}, {0, MP_LAYER_DRIVER, MP_BASIS_EXACT, 2},
        {0, MP_LAYER_TORCH, MP_BASIS_BLOCK, 0},  {0, MP_LAYER_DRIVER, MP_BASIS_EXACT, 3},
        {0, MP_LAYER_DRIVER, MP_BASIS_EXACT, 4}, {0, MP_LAYER_DRIVER, MP_BASIS_EXACT, 5}};
    static const struct mp_thread_info thread = {1, 0};
    static const struct mp_module modules[] = {{.path = 0}, {.path = 11}, {.path = 12}, {.path = 13}};
    static const struct mp_frame frames[] = {
        {MP_NATIVE, 3, 1, 0, 0, 0, 0}, {MP_NATIVE, 1, 1, 0, 0, 0, 0}, {MP_NATIVE, 2, 1, 0, 0, 0, 0}};
    /* The driver's own frame is inside of its caller's frame. */
    static const struct mp_stack_node stacks[STACKS + 1] = {{0, 0}, {0, 1}, {1, 0}, {0, 2}, {3, 0}, {0, 0}};
    static const struct mp_recording_start start = {.host = "", .configuration = "", .spool = ""};
    struct mp_string_entry strings[COUNT];
    struct mp_builder *builder;
    mp_builder_new(&start, &builder);
    for (size_t i = 0; i < COUNT; i++)
        strings[i] = (struct mp_string_entry){texts[i], strlen(texts[i])};
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_STRINGS, .count = COUNT, .as.strings = strings});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_DEVICES, .count = 1, .as.devices = devices});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_TRACKS, .count = TRACKS, .as.tracks = tracks});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_THREADS, .count = 1, .as.threads = &thread});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_MODULES, .count = 4, .as.modules = modules});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_FRAMES, .count = 3, .as.frames = frames});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_STACKS, .count = STACKS, .as.stacks = stacks});
    return builder;
}

static void feed_row(struct mp_builder *builder, const struct row *from)
{
    struct row row = *from;
    uint64_t time = row.ms * MP_NS_PER_MS, address = 4096 * (row.block + 1);
    uint8_t type = (uint8_t)row.type, kind = 0;
    uint32_t name = 0, thread = 0;
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_EVENTS_KIND,
                                     .as.events = {.count = 1,
                                                   .time_ns = &time,
                                                   .address = &address,
                                                   .bytes = &row.bytes,
                                                   .block = &row.block,
                                                   .stack = &row.stack,
                                                   .name = &name,
                                                   .thread = &thread,
                                                   .track = &row.track,
                                                   .type = &type,
                                                   .kind = &kind}});
}

static void feed_sample(struct mp_builder *builder, uint64_t ms, uint32_t counter, uint64_t value)
{
    struct mp_sample sample = {ms * MP_NS_PER_MS, counter, value};
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_SAMPLES, .count = 1, .as.samples = &sample});
}

static void feed_reading(struct mp_builder *builder, uint64_t ms, uint64_t in_use, uint64_t process, uint64_t others)
{
    feed_sample(builder, ms, IN_USE, in_use);
    if (process != MP_BYTES_UNKNOWN) feed_sample(builder, ms, PROCESS, process);
    if (others != MP_BYTES_UNKNOWN) feed_sample(builder, ms, OTHERS, others);
}

static struct mp_device_use use_of(struct mp_builder *builder, struct mp_model **model, struct mp_device_uses *uses)
{
    static const struct mp_damage none;
    mp_builder_finish(builder, &none, 0, model);
    memset(uses, 0, sizeof *uses);
    mp_device_uses_find(*model, uses);
    ck_assert_uint_eq(uses->count, 1);
    return uses->at[0];
}

static uint64_t part(const struct mp_device_use *use, const char *name)
{
    for (size_t i = 0; i < use->parts.count; i++)
        if (!strcmp(use->parts.at[i].name, name)) return use->parts.at[i].bytes;
    return 0;
}

static uint64_t sum(const struct mp_device_use *use)
{
    uint64_t total = 0;
    for (size_t i = 0; i < use->parts.count; i++) {
        ck_assert_uint_ne(use->parts.at[i].bytes, 0);
        total += use->parts.at[i].bytes;
    }
    return total;
}

static const struct row story[] = {
    {10, MP_EVENT_ALLOC, CONTEXTS, 0, 0, 0},         {100, MP_EVENT_ALLOC, MODULES, 1, 0, 0},
    {200, MP_EVENT_ALLOC, DRIVER, 2, 100, OF_TORCH}, {201, MP_EVENT_RESERVED, TORCH, 0, 100, 0},
    {202, MP_EVENT_ALLOC, TORCH, 3, 70, 0},          {210, MP_EVENT_ALLOC, DRIVER, 4, 30, NCCL},
    {220, MP_EVENT_RESERVED, POOL, 0, 64, 0},        {221, MP_EVENT_ALLOC, POOL, 5, 10, NCCL},
    {230, MP_EVENT_ALLOC, MANAGED, 6, 1000, 0},
};

static void feed_story(struct mp_builder *builder, uint64_t known)
{
    uint64_t process[] = {200, 260, 470};
    const uint64_t when[] = {50, 150, 300};
    size_t next = 0;
    for (size_t i = 0; i < sizeof story / sizeof *story; i++)
        feed_row(builder, &story[i]);
    feed_sample(builder, 0, BEFORE, 700);
    feed_sample(builder, 0, SYSTEM, 200);
    for (; next < 3; next++)
        feed_reading(builder, when[next], 700 + process[next], known ? process[next] : MP_BYTES_UNKNOWN,
                     known ? 500 : MP_BYTES_UNKNOWN);
}

START_TEST(every_part_has_its_bytes)
{
    struct mp_builder *builder = begin();
    struct mp_device_uses uses;
    struct mp_model *model;
    feed_story(builder, true);
    struct mp_device_use use = use_of(builder, &model, &uses);
    ck_assert_uint_eq(use.at_ns, 300 * MP_NS_PER_MS);
    ck_assert_uint_eq(use.in_use_bytes, 1170);
    ck_assert_uint_eq(use.handed_out_bytes, 194);
    ck_assert_uint_eq(part(&use, "tensors"), 70);
    ck_assert_uint_eq(part(&use, "cached, free"), 30);
    ck_assert_uint_eq(part(&use, "NCCL"), 40);
    ck_assert_uint_eq(part(&use, "in pools, free"), 54);
    ck_assert_uint_eq(part(&use, "context"), 200);
    ck_assert_uint_eq(part(&use, "modules"), 60);
    ck_assert_uint_eq(part(&use, "other processes"), 500);
    ck_assert_uint_eq(part(&use, "driver"), 200);
    ck_assert_uint_eq(part(&use, "unattributed"), 16);
    ck_assert_uint_eq(use.unattributed_bytes, 16);
    ck_assert_uint_eq(mp_device_unattributed(&uses), 16);
    ck_assert_uint_eq(sum(&use), 1170);
    mp_device_uses_free(&uses);
    mp_model_free(model);
}

START_TEST(what_was_there_before_stands_for_whom_nobody_names)
{
    struct mp_builder *builder = begin();
    struct mp_device_uses uses;
    struct mp_model *model;
    feed_story(builder, false);
    struct mp_device_use use = use_of(builder, &model, &uses);
    ck_assert_uint_eq(use.process_bytes, MP_BYTES_UNKNOWN);
    ck_assert_uint_eq(use.others_bytes, MP_BYTES_UNKNOWN);
    ck_assert_uint_eq(part(&use, "in use before"), 700);
    ck_assert_uint_eq(part(&use, "context"), 200);
    ck_assert_uint_eq(part(&use, "unattributed"), 16);
    ck_assert_uint_eq(sum(&use), 1170);
    mp_device_uses_free(&uses);
    mp_model_free(model);
}

/* A total that was read while memory was being allocated is not used. */
START_TEST(a_reading_amid_changes_is_not_taken)
{
    struct mp_builder *builder = begin();
    struct mp_device_uses uses;
    struct mp_model *model;
    feed_story(builder, true);
    feed_row(builder, &(struct row){400, MP_EVENT_ALLOC, DRIVER, 7, 5000, NCCL});
    feed_reading(builder, 401, 700 + 9000, 9000, 500);
    feed_row(builder, &(struct row){403, MP_EVENT_FREE, DRIVER, 7, 5000, 0});
    struct mp_device_use use = use_of(builder, &model, &uses);
    ck_assert(use.quiet);
    ck_assert_uint_eq(use.in_use_bytes, 1170);
    ck_assert_uint_eq(part(&use, "unattributed"), 16);
    mp_device_uses_free(&uses);
    mp_model_free(model);
}

START_TEST(without_readings_only_what_was_handed_out_is_known)
{
    struct mp_builder *builder = begin();
    struct mp_device_uses uses;
    struct mp_model *model;
    for (size_t i = 0; i < sizeof story / sizeof *story; i++)
        feed_row(builder, &story[i]);
    struct mp_device_use use = use_of(builder, &model, &uses);
    ck_assert_uint_eq(use.in_use_bytes, MP_BYTES_UNKNOWN);
    ck_assert_uint_eq(use.unattributed_bytes, MP_BYTES_UNKNOWN);
    ck_assert_uint_eq(mp_device_unattributed(&uses), MP_BYTES_UNKNOWN);
    ck_assert_uint_eq(sum(&use), use.handed_out_bytes);
    mp_device_uses_free(&uses);
    mp_model_free(model);
}

/* Memory of an allocator that the recorder does not see is named, with the switch that opens it. */
START_TEST(allocators_that_hide_are_named)
{
    static const char name[] = "rmm::mr::pool_memory_resource<rmm::mr::cuda_memory_resource>::allocate";
    struct mp_builder *builder = begin();
    struct mp_device_uses uses;
    struct mp_model *model;
    struct mp_string_entry string = {name, sizeof name - 1};
    struct mp_symbol symbol = {.frame = 1, .function = 14};
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_STRINGS, .count = 1, .as.strings = &string});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_SYMBOLS, .count = 1, .as.symbols = &symbol});
    for (uint64_t i = 0; i < 4; i++)
        feed_row(builder, &(struct row){10 + i, MP_EVENT_ALLOC, DRIVER, i, 100, i ? NCCL : OF_TORCH});
    struct mp_device_use use = use_of(builder, &model, &uses);
    ck_assert_uint_eq(use.hidden.count, 1);
    ck_assert_str_eq(use.hidden.at[0].name, "RMM's pool");
    ck_assert_uint_eq(use.hidden.at[0].bytes, 300);
    ck_assert(strstr(use.hidden.at[0].advice, "pool_allocator=False"));
    mp_device_uses_free(&uses);
    mp_model_free(model);
}

static uint64_t state = 88172645463325252u;

static uint64_t random_below(uint64_t limit)
{
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return state % limit;
}

/* With any numbers, the parts add up to the total, and the bytes handed out are a plain sum over live blocks. */
START_TEST(parts_add_up)
{
    int sampled = 0, clamped = 0;
    for (int round = 0; round < 400; round++) {
        struct mp_builder *builder = begin();
        uint64_t live[64] = {0}, reserved = 0, torch = 0, used = 0, tensors = 0;
        uint64_t handed_out[40], in_pools[40], in_tensors[40], cached[40], ms = 0;
        bool tells = round % 3 != 0;
        if (tells) feed_sample(builder, 0, SYSTEM, random_below(300));
        feed_sample(builder, 0, BEFORE, random_below(900));
        for (int i = 0; i < 40; i++) {
            uint16_t track = (uint16_t)random_below(TRACKS);
            ms += 20;
            if (track == POOL)
                feed_row(builder, &(struct row){ms, MP_EVENT_RESERVED, POOL, 0, reserved = random_below(500), 0});
            if (track == TORCH)
                feed_row(builder, &(struct row){ms, MP_EVENT_RESERVED, TORCH, 0, torch = random_below(500), 0});
            live[i] = track == CONTEXTS || track == MODULES ? 0 : random_below(400);
            feed_row(builder,
                     &(struct row){ms, MP_EVENT_ALLOC, track, (uint64_t)i, live[i], random_below(2) ? NCCL : OF_TORCH});
            if (track == POOL) used += live[i];
            if (track == TORCH) tensors += live[i];
            if (track != DRIVER) live[i] = 0;
            if (i && live[i - 1] && random_below(2)) {
                feed_row(builder, &(struct row){ms, MP_EVENT_FREE, DRIVER, (uint64_t)i - 1, live[i - 1], 0});
                live[i - 1] = 0;
            }
            handed_out[i] = reserved > used ? reserved : used;
            for (int j = 0; j <= i; j++)
                handed_out[i] += live[j];
            uint64_t held = torch > tensors ? torch : tensors;
            if (held > handed_out[i]) handed_out[i] = held;
            /* PyTorch's memory counts first, even if it is in the driver's pool. At most the rest of a pool is free. */
            in_tensors[i] = tensors;
            cached[i] = held - tensors;
            in_pools[i] = reserved > used ? reserved - used : 0;
            if (in_pools[i] > handed_out[i] - held) in_pools[i] = handed_out[i] - held, clamped++;
            uint64_t process = random_below(4000), others = random_below(500);
            feed_reading(builder, ms + 10, process + others + random_below(600), tells ? process : MP_BYTES_UNKNOWN,
                         tells && round % 2 ? others : MP_BYTES_UNKNOWN);
        }
        struct mp_device_uses uses;
        struct mp_model *model;
        struct mp_device_use use = use_of(builder, &model, &uses);
        if (use.sampled) {
            ck_assert(use.quiet);
            ck_assert_uint_ge(use.in_use_bytes, use.handed_out_bytes);
            ck_assert_uint_eq(sum(&use), use.in_use_bytes + use.beyond_bytes);
            ck_assert_uint_eq(use.handed_out_bytes, handed_out[use.at_ns / MP_NS_PER_MS / 20 - 1]);
            ck_assert_uint_eq(part(&use, "unattributed"), use.unattributed_bytes);
            size_t at = use.at_ns / MP_NS_PER_MS / 20 - 1;
            ck_assert_uint_eq(part(&use, "tensors"), in_tensors[at]);
            ck_assert_uint_eq(part(&use, "cached, free"), cached[at]);
            ck_assert_uint_eq(part(&use, "in pools, free"), in_pools[at]);
        }
        sampled += use.sampled;
        mp_device_uses_free(&uses);
        mp_model_free(model);
    }
    ck_assert_int_gt(sampled, 200);
    ck_assert_int_gt(clamped, 100);
}

MP_SUITE("device_use", every_part_has_its_bytes, what_was_there_before_stands_for_whom_nobody_names,
         a_reading_amid_changes_is_not_taken, without_readings_only_what_was_handed_out_is_known,
         allocators_that_hide_are_named, parts_add_up)
