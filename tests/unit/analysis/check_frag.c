/* An allocator's memory in random lists of segments, against plain sums over their parts. */
#include "analysis/allocator/frag.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "model/builder.h"
#include "unit/suite.h"

enum { SEGMENTS = 6, PARTS = 8 };

static uint64_t state = 77;

static uint64_t chance(uint64_t below)
{
    state = state * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (state >> 33) % below;
}

struct layout {
    struct mp_segment segments[SEGMENTS];
    struct mp_segment_part parts[SEGMENTS * PARTS];
    size_t segment_count, part_count;
    uint64_t largest; /* block ever */
    uint64_t oom;     /* bytes of a failed request at the end; 0: none */
};

static void feed(struct mp_builder *builder, const struct mp_chunk *chunk)
{
    struct mp_error error;
    enum mp_status status = mp_builder_add(builder, chunk, &error);
    ck_assert_msg(status == MP_OK, "%s", status ? error.text : "");
}

static void feed_event(struct mp_builder *builder, struct mp_event event)
{
    static uint64_t time;
    event.time_ns = ++time;
    struct mp_event_columns one = {
        1,           &event.time_ns, &event.address, &event.bytes, &event.block, &event.stack,
        &event.name, &event.thread,  &event.track,   &event.type,  &event.kind};
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_EVENTS_KIND, .count = 1, .as.events = one});
}

/* `strings`: Begins a model with these strings: "", "cuda:0", then the events' names. */
static struct mp_builder *begin_with(const struct mp_string_entry *strings, size_t string_count)
{
    static const struct mp_device device = {.name = 1, .total_bytes = UINT64_C(1) << 40};
    static const struct mp_track track = {.layer = MP_LAYER_TORCH, .size_basis = MP_BASIS_BLOCK};
    static const struct mp_thread_info thread = {.tid = 1};
    static const struct mp_stack_node stack = {0};
    struct mp_recording_start start = {.host = "", .configuration = "", .spool = ""};
    struct mp_builder *builder;
    mp_builder_new(&start, &builder);
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_STRINGS, .count = string_count, .as.strings = strings});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_DEVICES, .count = 1, .as.devices = &device});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_TRACKS, .count = 1, .as.tracks = &track});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_THREADS, .count = 1, .as.threads = &thread});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_STACKS, .count = 1, .as.stacks = &stack});
    return builder;
}

static struct mp_builder *begin(void)
{
    static const struct mp_string_entry strings[] = {{"", 0}, {"cuda:0", 6}};
    return begin_with(strings, 2);
}

/* Few sizes, so that many are the same. */
static struct mp_model *make(struct layout *layout)
{
    struct mp_builder *builder = begin();
    struct mp_damage damage = {0};
    struct mp_model *model;
    uint64_t block = 0;
    *layout = (struct layout){.segment_count = 1 + chance(SEGMENTS)};
    for (size_t i = 0; i < layout->segment_count; i++) {
        struct mp_segment *segment = &layout->segments[i];
        *segment = (struct mp_segment){.address = (i + 1) << 32, .stream = chance(3), .pool = chance(2) << 32};
        segment->small = (uint8_t)chance(2);
        unsigned kinds = 1 + (unsigned)chance(3);
        for (size_t k = 1 + chance(PARTS); k--;) {
            struct mp_segment_part part = {.bytes = 512 * (1 + chance(6)), .segment = (uint32_t)i};
            part.state = (uint8_t)chance(kinds);
            if (part.state != MP_TORCH_FREE) part.requested = part.bytes - chance(500);
            if (part.state == MP_TORCH_ALLOCATED) {
                feed_event(builder, (struct mp_event){.type = MP_EVENT_ALLOC,
                                                      .address = segment->address + segment->bytes,
                                                      .bytes = part.bytes,
                                                      .block = block++});
                if (part.bytes > layout->largest) layout->largest = part.bytes;
            }
            segment->bytes += part.bytes;
            layout->parts[layout->part_count++] = part;
        }
    }
    if (chance(2)) { /* a block that was freed again */
        uint64_t bytes = 512 * (1 + chance(8));
        if (bytes > layout->largest) layout->largest = bytes;
        feed_event(builder, (struct mp_event){.type = MP_EVENT_ALLOC, .address = 8, .bytes = bytes, .block = block});
        feed_event(builder, (struct mp_event){.type = MP_EVENT_FREE, .address = 8, .bytes = bytes, .block = block});
    }
    feed_event(builder, (struct mp_event){.type = MP_EVENT_MARK});
    layout->oom = chance(2) ? 512 * (1 + chance(6)) : 0;
    if (layout->oom) feed_event(builder, (struct mp_event){.type = MP_EVENT_OOM, .bytes = layout->oom});
    feed(builder, &(struct mp_chunk){
                      .kind = MP_CHUNK_SEGMENTS, .count = layout->segment_count, .as.segments = layout->segments});
    feed(builder,
         &(struct mp_chunk){.kind = MP_CHUNK_SEGMENT_PARTS, .count = layout->part_count, .as.parts = layout->parts});
    mp_builder_finish(builder, &damage, 0, &model);
    return model;
}

static void check_segment(const struct layout *layout, size_t index, const struct mp_frag_segment *segment,
                          const struct mp_frag *frag)
{
    const struct mp_segment *from = &layout->segments[index];
    uint64_t allocated = 0, held = 0, largest = 0;
    for (size_t i = 0; i < layout->part_count; i++) {
        const struct mp_segment_part *part = &layout->parts[i];
        if (part->segment != index) continue;
        if (part->state == MP_TORCH_ALLOCATED) allocated += part->bytes;
        if (part->state != MP_TORCH_FREE) held += part->bytes;
        if (part->state == MP_TORCH_FREE && part->bytes > largest) largest = part->bytes;
    }
    ck_assert_uint_eq(segment->address, from->address);
    ck_assert_uint_eq(segment->bytes, from->bytes);
    ck_assert_uint_eq(segment->stream, from->stream);
    ck_assert_uint_eq(segment->small, from->small);
    ck_assert_uint_eq(segment->expandable, 0);
    ck_assert_uint_eq(segment->allocated, allocated);
    ck_assert_uint_eq(segment->held, held);
    ck_assert_uint_eq(segment->largest_free, largest);
    bool pinned = held && 2 * held < from->bytes, found = false;
    mp_vec_each (const struct mp_frag_pin, pin, &frag->pins) {
        if (pin->address != from->address) continue;
        found = true;
        ck_assert_uint_eq(pin->segment_bytes, from->bytes);
        ck_assert_uint_eq(pin->held_bytes, held);
        ck_assert_uint_eq(pin->sites.bytes, allocated);
    }
    ck_assert_int_eq(found, pinned);
}

/* A hole exactly as large as the request can be used. */
static void check_sums(const struct layout *layout, const struct mp_frag *frag)
{
    uint64_t allocated = 0, requested = 0, reserved = 0, free_bytes = 0, holes = 0, largest = 0, unusable = 0;
    uint64_t wanted = layout->oom ? layout->oom : layout->largest, whole_free = 0;
    for (size_t i = 0; i < layout->part_count; i++) {
        const struct mp_segment_part *part = &layout->parts[i];
        bool is_free = part->state == MP_TORCH_FREE;
        reserved += part->bytes;
        if (part->state == MP_TORCH_ALLOCATED) allocated += part->bytes;
        if (!is_free) requested += part->requested;
        if (is_free) free_bytes += part->bytes, holes++;
        if (is_free && part->bytes > largest) largest = part->bytes;
        if (is_free && part->bytes < wanted) unusable += part->bytes;
    }
    for (size_t i = 0; i < layout->segment_count; i++) {
        bool is_free = true;
        for (size_t k = 0; k < layout->part_count; k++)
            is_free &= layout->parts[k].segment != i || layout->parts[k].state == MP_TORCH_FREE;
        if (is_free) whole_free += layout->segments[i].bytes;
    }
    ck_assert(frag->known);
    ck_assert_int_eq(frag->moment, layout->oom ? MP_FRAG_OOM : MP_FRAG_END);
    ck_assert_uint_eq(frag->wanted, wanted);
    ck_assert_uint_eq(frag->allocated, allocated);
    ck_assert_uint_eq(frag->requested, requested);
    ck_assert_uint_eq(frag->reserved, reserved);
    ck_assert_uint_eq(frag->free_bytes, free_bytes);
    ck_assert_uint_eq(frag->holes, holes);
    ck_assert_uint_eq(frag->largest_free, largest);
    ck_assert_uint_eq(frag->unusable, unusable);
    ck_assert_uint_eq(frag->whole_free, whole_free);
    ck_assert_uint_eq(frag->segments.count, layout->segment_count);
    if (layout->oom) /* no leak, and no other process */
        ck_assert_int_eq(frag->oom.cause, free_bytes >= layout->oom       ? MP_OOM_FRAGMENTATION
                                          : free_bytes >= layout->oom / 2 ? MP_OOM_UNKNOWN /* enough is free: unknown */
                                                                          : MP_OOM_CAPACITY);
}

START_TEST(holes_and_pins_are_counted)
{
    for (int round = 0; round < 2000; round++) {
        struct layout layout;
        struct mp_frag frag;
        struct mp_error error;
        struct mp_model *model = make(&layout);
        struct mp_frag_query query = {.track = 0, .window = mp_window_all(model)};
        enum mp_status status = mp_frag_find(model, &query, &frag, &error);
        ck_assert_msg(!status, "%s", status ? error.text : "");
        check_sums(&layout, &frag);
        for (size_t i = 0; i < layout.segment_count; i++)
            check_segment(&layout, i, &frag.segments.at[i], &frag);
        for (size_t i = 1; i < frag.pins.count; i++)
            ck_assert_uint_ge(frag.pins.at[i - 1].segment_bytes - frag.pins.at[i - 1].held_bytes,
                              frag.pins.at[i].segment_bytes - frag.pins.at[i].held_bytes);
        mp_frag_free(&frag);
        mp_model_free(model);
    }
}

/* A program's call in a replay: a block of `alloc` MiB, the free of block number `free`, or a mark. */
struct deed {
    int alloc, free;
    const char *mark;
};
enum { DEEDS = 16 };

static uint64_t replay_peak(const struct deed *deeds)
{
    struct mp_string_entry strings[2 + DEEDS] = {{"", 0}, {"cuda:0", 6}};
    size_t count = 2;
    for (size_t i = 0; i < DEEDS; i++)
        if (deeds[i].mark) strings[count++] = (struct mp_string_entry){deeds[i].mark, strlen(deeds[i].mark)};
    struct mp_builder *builder = begin_with(strings, count);
    struct mp_damage damage = {0};
    struct mp_model *model;
    struct mp_frag frag;
    struct mp_error error;
    uint64_t bytes[DEEDS] = {0}, blocks = 0;
    uint32_t name = 2;
    for (size_t i = 0; i < DEEDS; i++) {
        struct mp_event event = {.type = MP_EVENT_ALLOC, .address = (blocks + 1) << 32, .block = blocks};
        if (deeds[i].mark) {
            event = (struct mp_event){.type = MP_EVENT_MARK, .name = name++, .track = MP_TRACK_NONE};
        } else if (deeds[i].alloc) {
            event.bytes = bytes[blocks++] = (uint64_t)deeds[i].alloc << 20;
        } else if (deeds[i].free) {
            uint64_t block = (uint64_t)deeds[i].free - 1;
            event = (struct mp_event){
                .type = MP_EVENT_FREE, .address = (block + 1) << 32, .bytes = bytes[block], .block = block};
        } else {
            break;
        }
        feed_event(builder, event);
    }
    mp_builder_finish(builder, &damage, 0, &model);
    struct mp_frag_query query = {.track = 0, .window = mp_window_all(model), .replay = ""};
    enum mp_status status = mp_frag_find(model, &query, &frag, &error);
    ck_assert_msg(!status, "%s", status ? error.text : "");
    uint64_t peak = frag.replay.result.reserved_peak;
    mp_frag_free(&frag);
    mp_model_free(model);
    return peak;
}

/* Replays make the calls that the shim marked. The highest reserved totals, in MiB, were calculated by hand. The
 * recordings have no blocks of the driver. */
START_TEST(marked_calls_are_replayed)
{
    static const struct {
        struct deed deeds[DEEDS];
        uint64_t peak;
    } cases[] = {
        {{{.alloc = 30}, {.free = 1}, {.alloc = 40}}, 70},
        {{{.alloc = 30}, {.free = 1}, {.mark = "torch: empty_cache"}, {.alloc = 40}}, 40},
        {{{.alloc = 30}, {.free = 1}, {.mark = "empty_cache"}, {.alloc = 40}}, 70}, /* the program's own */
        /* A MemPool has segments of its own. When it is deleted, its segments are released, and no others. */
        {{{.mark = "torch: pool 0:1 made on cuda:0"},
          {.mark = "torch: pool 0:1 begins on cuda:0"},
          {.alloc = 12},
          {.mark = "torch: pool 0:1 ends on cuda:0"},
          {.mark = "torch: pool 0:1 released on cuda:0"},
          {.free = 1},
          {.alloc = 12},
          {.free = 2},
          {.mark = "torch: pool 0:1 deleted on cuda:0"},
          {.alloc = 14}},
         26},
        /* A live pool is not emptied. A pool of the same number on another device is another pool. */
        {{{.mark = "torch: pool 0:1 made on cuda:0"},
          {.mark = "torch: pool 0:1 begins on cuda:0"},
          {.alloc = 12},
          {.mark = "torch: pool 0:1 ends on cuda:0"},
          {.mark = "torch: pool 0:1 released on cuda:0"},
          {.free = 1},
          {.mark = "torch: pool 0:1 deleted on cuda:1"},
          {.mark = "torch: empty_cache"},
          {.alloc = 14}},
         26},
        /* A graph's pool, known when the capture has ended. It lives until it is released. */
        {{{.mark = "torch: capture begins on cuda:0"},
          {.alloc = 12},
          {.free = 1},
          {.mark = "torch: pool 3:0 captured on cuda:0"},
          {.alloc = 12},
          {.free = 2},
          {.mark = "torch: empty_cache"},
          {.alloc = 10},
          {.mark = "torch: pool 3:0 released on cuda:0"},
          {.mark = "torch: empty_cache"},
          {.alloc = 16}},
         26},
        /* A limit, and the memory that is released when it is reached. */
        {{{.mark = "torch: memory fraction 0.0000457763671875 on cuda:0"}, /* 48 MiB of 1 TiB */
          {.alloc = 30},
          {.free = 1},
          {.alloc = 40}},
         40},
        /* Settings that change during the program: expandable segments, and the limit to splits. */
        {{{.mark = "torch: began with settings:"},
          {.alloc = 30},
          {.mark = "torch: settings:expandable_segments:True"},
          {.alloc = 30}},
         70},
        {{{.mark = "torch: began with settings:expandable_segments:True"}, {.alloc = 30}}, 40},
        {{{.mark = "torch: began with settings:max_split_size_mb:20"},
          {.alloc = 48},
          {.free = 1},
          {.mark = "torch: settings:garbage_collection_threshold:0.5"}, /* and no limit to splits any more */
          {.alloc = 24},
          {.alloc = 24}},
         48},
        {{{.mark = "torch: began with settings:max_split_size_mb:20"},
          {.alloc = 48},
          {.free = 1},
          {.alloc = 24},
          {.alloc = 24}},
         96},
        {{{.mark = "torch: settings:no such thing"}, {.mark = "torch: settings:"}, {.alloc = 30}}, 30},
        /* Marks that make no sense are ignored. */
        {{{.mark = "torch: pool 0:7 ends on cuda:0"},
          {.mark = "torch: pool 0:7 released on cuda:0"},
          {.mark = "torch: pool 0:7 deleted on cuda:0"},
          {.mark = "torch: capture begins on cuda:0"},
          {.mark = "torch: capture begins on cuda:0"},
          {.alloc = 12},
          {.mark = "torch: capture fails on cuda:0"},
          {.mark = "torch: capture fails on cuda:0"},
          {.mark = "torch: pool 4:0 captured on cuda:0"},
          {.mark = "torch: memory fraction 7 on cuda:0"},
          {.mark = "torch: memory fraction nan on cuda:0"},
          {.mark = "torch: pool x begins on cuda:0"},
          {.alloc = 12},
          {.mark = "torch: capture begins on cuda:0"},
          {.alloc = 12}},
         36},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint64_t peak = replay_peak(cases[i].deeds) >> 20;
        ck_assert_msg(peak == cases[i].peak, "case %zu: %" PRIu64 " MiB, not %" PRIu64, i, peak, cases[i].peak);
    }
}

MP_SUITE("frag", holes_and_pins_are_counted, marked_calls_are_replayed)
