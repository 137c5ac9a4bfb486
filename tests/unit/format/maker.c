#include "unit/format/maker.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/whole.h"

static const char *const command[] = {"python3", "train.py", "--epochs", "3", "", NULL};

const struct mp_recording_start made_start = {
    .realtime_ns = UINT64_C(1763620000123456789),
    .monotonic_ns = UINT64_C(987654321012345),
    .pid = 4242,
    .host = "node-17",
    .member = {.known = 0x1f, .number = {3, 1, 8, 2, 4200}, .role = "trainer", .job = "812"},
    .command = command,
    .configuration = "sources=torch,follow=yes",
    .spool = "/dev/shm/memprof.4242.spool",
    .spool_id = UINT64_C(0xfedcba9876543210),
};

/* An assertion that also works outside of a test, unlike Check's. */
static void must(bool ok, const char *what)
{
    if (ok) return;
    fprintf(stderr, "making a recording: %s\n", what);
    abort();
}

/* xorshift64: a fixed sequence, so that a failure repeats. */
uint64_t made_random(struct maker *maker)
{
    maker->random ^= maker->random << 13;
    maker->random ^= maker->random >> 7;
    return maker->random ^= maker->random << 17;
}

static uint64_t below(struct maker *maker, uint64_t bound)
{
    return made_random(maker) % bound;
}

/* Mostly small, sometimes any 64-bit number. */
static uint64_t wild(struct maker *maker)
{
    unsigned shift = below(maker, 8) ? 40 + (unsigned)below(maker, 20) : (unsigned)below(maker, 64);
    return made_random(maker) >> shift;
}

static struct made_chunk *keep(struct maker *maker, enum mp_chunk_kind kind, const void *rows, size_t count, size_t row)
{
    struct made_chunk made = {.kind = kind, .count = count, .bytes_before = mp_writer_bytes(maker->writer)};
    made.rows = malloc(count * row + 1);
    must(made.rows != NULL, "no memory");
    memcpy(made.rows, rows, count * row);
    must(mp_vec_push(&maker->chunks, made), "no memory");
    return &maker->chunks.at[maker->chunks.count - 1];
}

static void check_put(struct maker *maker, enum mp_status status, const struct mp_error *error)
{
    must(!status, error->text);
    maker->chunks.at[maker->chunks.count - 1].bytes_after = mp_writer_bytes(maker->writer);
}

#define PUT(function, kind, rows, count)                                                                               \
    do {                                                                                                               \
        struct mp_error error = {0};                                                                                   \
        keep(maker, kind, rows, count, sizeof *(rows));                                                                \
        check_put(maker, function(maker->writer, rows, count, &error), &error);                                        \
    } while (0)

static void put_strings(struct maker *maker, size_t count)
{
    char text[40][24];
    struct mp_string strings[40];
    for (size_t i = 0; i < count; i++) {
        size_t id = maker->strings + i;
        int length =
            id ? snprintf(text[i], sizeof text[i], "name %zu/%llu", id, (unsigned long long)below(maker, 1000000)) : 0;
        if (id % 7 == 3) text[i][2] = '\0'; /* NULs are kept */
        char *copy = malloc((size_t)length + 1);
        memcpy(copy, text[i], (size_t)length);
        strings[i] = (struct mp_string){copy, (size_t)length};
    }
    PUT(mp_writer_strings, MP_CHUNK_STRINGS, strings, count);
    maker->strings += count;
}

static void put_devices(struct maker *maker)
{
    struct mp_device devices[2] = {
        {.name = 1, .uuid = 2, .model = 3, .total_bytes = UINT64_C(150323855360)},
        {.name = 4, .total_bytes = MP_BYTES_UNKNOWN},
    };
    PUT(mp_writer_devices, MP_CHUNK_DEVICES, devices, 2);
    maker->devices = 2;
}

static void put_tracks(struct maker *maker)
{
    struct mp_track tracks[3];
    memset(tracks, 0, sizeof tracks);
    tracks[0] = (struct mp_track){.device = 0, .layer = MP_LAYER_DRIVER, .size_basis = MP_BASIS_EXACT};
    tracks[1] = (struct mp_track){.device = 0, .layer = MP_LAYER_TORCH, .size_basis = MP_BASIS_BLOCK};
    tracks[2] = (struct mp_track){.device = 1, .layer = MP_LAYER_APP, .size_basis = MP_BASIS_REQUESTED, .name = 5};
    PUT(mp_writer_tracks, MP_CHUNK_TRACKS, tracks, 3);
    maker->tracks = 3;
}

static void put_threads(struct maker *maker)
{
    struct mp_thread_info threads[2] = {{4242, 6}, {4250 + (uint32_t)below(maker, 1000), 7}};
    PUT(mp_writer_threads, MP_CHUNK_THREADS, threads, 2);
    maker->threads += 2;
}

static void put_modules(struct maker *maker)
{
    struct mp_module modules[3];
    memset(modules, 0, sizeof modules);
    for (size_t i = 0; i < 3; i++) {
        if (!maker->modules && !i) continue;
        struct mp_module *module = &modules[i];
        module->path = (uint32_t)below(maker, maker->strings);
        module->start = made_random(maker) >> 17;
        module->end = module->start + 4096 * below(maker, 100000);
        module->bias = module->start - 4096;
        module->file.size = wild(maker);
        module->file.inode = wild(maker);
        module->file.mtime_ns = (int64_t)made_random(maker);
        module->file.build_id_size = i == 1 ? 20 : 0;
        for (size_t k = 0; k < module->file.build_id_size; k++)
            module->file.build_id[k] = (uint8_t)made_random(maker);
    }
    PUT(mp_writer_modules, MP_CHUNK_MODULES, modules, 3);
    maker->modules += 3;
}

static void put_frames(struct maker *maker)
{
    struct mp_frame frames[20];
    memset(frames, 0, sizeof frames);
    for (size_t i = 0; i < 20; i++) {
        if (below(maker, 2)) {
            frames[i].language = MP_NATIVE;
            frames[i].module = (uint32_t)below(maker, maker->modules);
            frames[i].address = made_random(maker) >> 16;
        } else {
            frames[i].language = MP_PYTHON;
            frames[i].function = (uint32_t)below(maker, maker->strings);
            frames[i].file = (uint32_t)below(maker, maker->strings);
            frames[i].line = (uint32_t)below(maker, 3000);
        }
        frames[i].more = (uint32_t)below(maker, maker->strings);
    }
    PUT(mp_writer_frames, MP_CHUNK_FRAMES, frames, 20);
    maker->frames += 20;
}

static void put_stacks(struct maker *maker)
{
    struct mp_stack_node nodes[30];
    for (size_t i = 0; i < 30; i++) {
        size_t id = maker->stacks + i;
        nodes[i].parent = id ? (uint32_t)below(maker, id) : 0;
        nodes[i].frame = !id ? 0 : below(maker, 10) ? (uint32_t)below(maker, maker->frames) : MP_FRAME_CUT;
    }
    PUT(mp_writer_stacks, MP_CHUNK_STACKS, nodes, 30);
    maker->stacks += 30;
}

static void put_symbols(struct maker *maker)
{
    struct mp_symbol symbols[12];
    for (size_t i = 0; i < 12; i++) {
        symbols[i].frame = (uint32_t)((maker->frames - 12) + i / 2);
        symbols[i].function = (uint32_t)below(maker, maker->strings);
        symbols[i].file = (uint32_t)below(maker, maker->strings);
        symbols[i].line = (uint32_t)wild(maker);
    }
    PUT(mp_writer_symbols, MP_CHUNK_SYMBOLS, symbols, 12);
}

static void put_samples(struct maker *maker)
{
    struct mp_sample samples[5];
    memset(samples, 0, sizeof samples);
    for (size_t i = 0; i < 5; i++) {
        samples[i].time_ns = maker->now + i;
        samples[i].counter = (uint32_t)below(maker, maker->strings);
        samples[i].value = wild(maker);
    }
    PUT(mp_writer_samples, MP_CHUNK_SAMPLES, samples, 5);
}

static void put_segments(struct maker *maker)
{
    struct mp_segment segments[4];
    struct mp_segment_part parts[9];
    struct mp_allocator_call calls[11];
    struct mp_aside asides[11];
    memset(segments, 0, sizeof segments);
    memset(parts, 0, sizeof parts);
    memset(calls, 0, sizeof calls);
    memset(asides, 0, sizeof asides);
    for (size_t i = 0; i < 4; i++) {
        segments[i].address = wild(maker);
        segments[i].bytes = wild(maker);
        segments[i].stream = wild(maker);
        segments[i].pool = wild(maker);
        segments[i].track = (uint16_t)below(maker, maker->tracks);
        segments[i].small = (uint8_t)below(maker, 2);
        segments[i].expandable = (uint8_t)below(maker, 2);
        segments[i].keys = (uint16_t)wild(maker);
        segments[i].stack = maker->stacks ? (uint32_t)below(maker, maker->stacks) : 0;
    }
    for (size_t i = 0; i < 9; i++) {
        parts[i].bytes = wild(maker);
        parts[i].requested = wild(maker);
        parts[i].segment = (uint32_t)i / 3;
        parts[i].state = (uint8_t)below(maker, MP_TORCH_STATES);
    }
    for (size_t i = 0; i < 11; i++) {
        calls[i].address = wild(maker);
        calls[i].bytes = wild(maker);
        calls[i].stream = wild(maker);
        calls[i].pool = wild(maker);
        calls[i].track = (uint16_t)below(maker, maker->tracks);
        calls[i].action = (uint8_t)below(maker, MP_TORCH_ACTIONS);
        calls[i].keys = (uint16_t)wild(maker);
        asides[i].text = (uint32_t)below(maker, maker->strings);
        asides[i].kind = (uint8_t)below(maker, MP_ASIDE_KINDS);
    }
    PUT(mp_writer_segments, MP_CHUNK_SEGMENTS, segments, 4);
    PUT(mp_writer_parts, MP_CHUNK_SEGMENT_PARTS, parts, 9);
    PUT(mp_writer_calls, MP_CHUNK_CALLS, calls, 11);
    PUT(mp_writer_asides, MP_CHUNK_ASIDES, asides, 11);
}

static void put_base(struct maker *maker, size_t count)
{
    struct mp_base_block *blocks = calloc(count + 1, sizeof *blocks);
    for (size_t i = 0; i < count; i++) {
        blocks[i].block = maker->next_block++;
        blocks[i].address = made_random(maker) >> 16;
        blocks[i].bytes = below(maker, 9) ? wild(maker) : MP_BYTES_UNKNOWN;
        blocks[i].birth_ns = below(maker, maker->now + 1);
        blocks[i].stack = maker->stacks ? (uint32_t)below(maker, maker->stacks) : 0;
        blocks[i].track = (uint16_t)below(maker, maker->tracks);
        blocks[i].kind = (uint8_t)below(maker, MP_KINDS);
        if (maker->paths) {
            blocks[i].module = (uint32_t)below(maker, maker->strings);
            blocks[i].role = (uint8_t)below(maker, MP_ROLES);
            blocks[i].label = (uint32_t)below(maker, maker->strings);
            blocks[i].request = (struct mp_request){wild(maker), wild(maker), wild(maker)};
        }
        struct mp_event live = {
            .block = blocks[i].block, .address = blocks[i].address, .bytes = blocks[i].bytes, .track = blocks[i].track};
        must(mp_vec_push(&maker->live, live), "no memory");
    }
    struct mp_error error = {0};
    keep(maker, MP_CHUNK_BASE, blocks, count, sizeof *blocks)->time_ns = maker->now;
    check_put(maker, mp_writer_base(maker->writer, maker->now, blocks, count, &error), &error);
    free(blocks);
}

static void random_alloc(struct maker *maker, struct mp_event *event)
{
    event->type = MP_EVENT_ALLOC;
    event->address = below(maker, 3) ? 0x7f0000000000 + 512 * below(maker, 64) : made_random(maker);
    event->bytes = below(maker, 3) ? 512 * below(maker, 8) : wild(maker);
    event->block = maker->next_block++;
    event->stack = (uint32_t)below(maker, maker->stacks);
    event->track = (uint16_t)below(maker, maker->tracks);
    event->kind = (uint8_t)below(maker, MP_KINDS);
    if (maker->paths) event->name = (uint32_t)below(maker, 5) ? (uint32_t)below(maker, 8) : 0;
    must(mp_vec_push(&maker->live, *event), "no memory");
}

/* A free or a resize of a live block; now and then its fields differ from the alloc's. */
static void random_end(struct maker *maker, struct mp_event *event, bool resize)
{
    size_t at = (size_t)below(maker, maker->live.count);
    struct mp_event *live = &maker->live.at[at];
    event->type = resize ? MP_EVENT_RESIZE : MP_EVENT_FREE;
    event->address = live->address;
    event->bytes = resize || !below(maker, 20) ? wild(maker) : live->bytes;
    event->block = live->block;
    event->track = live->track;
    event->stack = below(maker, 3) ? 0 : (uint32_t)below(maker, maker->stacks);
    if (resize)
        *live = *event;
    else
        *live = maker->live.at[--maker->live.count];
}

static void random_other(struct maker *maker, struct mp_event *event)
{
    static const uint8_t types[] = {MP_EVENT_OOM,  MP_EVENT_STEP,     MP_EVENT_REGION_BEGIN, MP_EVENT_REGION_END,
                                    MP_EVENT_MARK, MP_EVENT_RESERVED, MP_EVENT_START,        MP_EVENT_STOP};
    event->type = types[below(maker, sizeof types)];
    if (event->type == MP_EVENT_OOM || event->type == MP_EVENT_RESERVED) {
        event->bytes = wild(maker);
        event->track = (uint16_t)below(maker, maker->tracks);
        if (event->type == MP_EVENT_OOM && maker->paths) event->name = (uint32_t)below(maker, maker->strings);
    } else if (event->type < MP_EVENT_START) {
        event->name = (uint32_t)below(maker, maker->strings);
    }
    if (event->type == MP_EVENT_OOM || event->type == MP_EVENT_MARK)
        event->stack = (uint32_t)below(maker, maker->stacks);
}

static void random_event(struct maker *maker, struct mp_event *event)
{
    memset(event, 0, sizeof *event);
    event->time_ns = maker->now += below(maker, 50) ? wild(maker) >> 8 : 0;
    event->thread = (uint32_t)below(maker, maker->threads);
    unsigned dice = (unsigned)below(maker, 100);
    if (dice < 10) {
        random_other(maker, event);
    } else if (dice < 13) { /* a block known only by its free */
        event->type = MP_EVENT_FREE;
        event->address = made_random(maker);
        event->bytes = MP_BYTES_UNKNOWN;
        event->block = maker->next_block++;
    } else if (maker->live.count && dice < 55) {
        random_end(maker, event, dice < 18);
    } else {
        random_alloc(maker, event);
    }
}

static void put_events(struct maker *maker, size_t count)
{
    struct mp_event *events = malloc(count * sizeof *events);
    for (size_t i = 0; i < count; i++)
        random_event(maker, &events[i]);
    struct mp_error error = {0};
    struct made_chunk *made = keep(maker, MP_CHUNK_EVENTS_KIND, events, count, sizeof *events);
    made->time_ns = events[0].time_ns;
    for (size_t i = 0; i < maker->tracks; i++)
        made->live_bytes[made->live_bytes_count++] = wild(maker);
    for (size_t i = 0; i < 2; i++) {
        made->marks[i].ring = (uint32_t)below(maker, 9);
        made->marks[i].sequence = wild(maker);
    }
    made->mark_count = (size_t)below(maker, 3);
    check_put(maker,
              mp_writer_events(maker->writer, events, count, made->live_bytes, made->live_bytes_count, made->marks,
                               made->mark_count, &error),
              &error);
    free(events);
}

static void put_labels(struct maker *maker)
{
    struct mp_label labels[7];
    memset(labels, 0, sizeof labels);
    for (size_t i = 0; i < 7; i++) {
        labels[i].time_ns = below(maker, maker->now + 1);
        labels[i].block = below(maker, maker->next_block + 100);
        labels[i].role = (uint8_t)below(maker, MP_ROLES);
        labels[i].name = (uint32_t)below(maker, maker->strings);
    }
    PUT(mp_writer_labels, MP_CHUNK_LABELS, labels, 7);
}

static void put_holders(struct maker *maker)
{
    struct mp_block_holder holders[5];
    memset(holders, 0, sizeof holders);
    for (size_t i = 0; i < 5; i++) {
        holders[i].time_ns = below(maker, maker->now + 1);
        holders[i].block = i == 4 ? MP_HOLDER_LOOK : below(maker, maker->next_block + 100);
        holders[i].kind = (uint8_t)below(maker, MP_HOLDER_KINDS);
        holders[i].certain = below(maker, 2);
        holders[i].path = (uint32_t)below(maker, maker->strings);
        holders[i].file = (uint32_t)below(maker, maker->strings);
        holders[i].line = (uint32_t)below(maker, 5000);
    }
    PUT(mp_writer_holders, MP_CHUNK_HOLDERS, holders, 5);
}

static void put_uses(struct maker *maker)
{
    struct mp_block_use uses[9];
    memset(uses, 0, sizeof uses);
    for (size_t i = 0; i < 9; i++) {
        uses[i].time_ns = below(maker, maker->now + 1);
        uses[i].block = below(maker, maker->next_block + 100);
        uses[i].operator=(uint32_t) below(maker, maker->strings);
        uses[i].node = (uint32_t)below(maker, maker->strings);
        uses[i].shape = (uint32_t)below(maker, maker->strings);
        uses[i].module = (uint32_t)below(maker, maker->strings);
        uses[i].how = (uint8_t)below(maker, 32);
    }
    PUT(mp_writer_uses, MP_CHUNK_USES, uses, 9);
}

static void put_metadata(struct maker *maker)
{
    struct mp_block_metadata metadata[5];
    memset(metadata, 0, sizeof metadata);
    for (size_t i = 0; i < 5; i++) {
        metadata[i].time_ns = below(maker, maker->now + 1);
        metadata[i].block = below(maker, maker->next_block + 100);
        metadata[i].kind = (uint8_t)below(maker, MP_METADATA_KINDS);
        metadata[i].text = (uint32_t)below(maker, maker->strings);
    }
    PUT(mp_writer_metadata, MP_CHUNK_METADATA, metadata, 5);
}

static void put_requests(struct maker *maker)
{
    struct mp_block_request requests[5];
    memset(requests, 0, sizeof requests);
    for (size_t i = 0; i < 5; i++)
        requests[i] =
            (struct mp_block_request){below(maker, maker->next_block + 100), {wild(maker), wild(maker), wild(maker)}};
    PUT(mp_writer_requests, MP_CHUNK_REQUESTS, requests, 5);
}

static void put_coverage(struct maker *maker)
{
    uint32_t sources[2] = {1, 3}, notes[3] = {(uint32_t)below(maker, maker->strings), 2, 5}, limits[1] = {4};
    struct mp_coverage coverage = {.events = maker->now,
                                   .dropped = maker->random,
                                   .truncated_stacks = 3,
                                   .unmatched_stacks = 4,
                                   .totals_checked = maker->next_block,
                                   .totals_wrong = 5,
                                   .unknown_frees = 6,
                                   .missed_frees = 7,
                                   .sources = sources,
                                   .source_count = 2,
                                   .notes = notes,
                                   .note_count = 3,
                                   .limits = limits,
                                   .limit_count = 1};
    struct mp_error error = {0};
    struct made_chunk *made = keep(maker, MP_CHUNK_COVERAGE, &coverage, 1, sizeof coverage);
    struct mp_coverage *copy = made->rows;
    copy->sources = memcpy(malloc(sizeof sources), sources, sizeof sources);
    copy->notes = memcpy(malloc(sizeof notes), notes, sizeof notes);
    copy->limits = memcpy(malloc(sizeof limits), limits, sizeof limits);
    check_put(maker, mp_writer_coverage(maker->writer, &coverage, &error), &error);
}

static void put_exit(struct maker *maker)
{
    struct mp_exit how;
    memset(&how, 0, sizeof how);
    how = (struct mp_exit){.known = true, .by_signal = true, .status = 9, .time_ns = maker->now, .text = 4};
    struct mp_error error = {0};
    keep(maker, MP_CHUNK_EXIT, &how, 1, sizeof how);
    check_put(maker, mp_writer_exit(maker->writer, &how, &error), &error);
}

static void put_past(struct maker *maker)
{
    struct mp_past past = {wild(maker), wild(maker), wild(maker)};
    struct mp_past_peak peaks[3];
    struct mp_past_site sites[6];
    memset(peaks, 0, sizeof peaks);
    memset(sites, 0, sizeof sites);
    for (size_t i = 0; i < 3; i++) {
        peaks[i].bytes = wild(maker);
        peaks[i].blocks = wild(maker);
        peaks[i].time_ns = wild(maker);
        peaks[i].step = wild(maker);
        peaks[i].reserved_bytes = i ? wild(maker) : MP_BYTES_UNKNOWN;
        peaks[i].track = (uint16_t)below(maker, maker->tracks);
    }
    for (size_t i = 0; i < 6; i++) {
        sites[i].bytes = wild(maker);
        sites[i].blocks = wild(maker);
        sites[i].stack = maker->stacks ? (uint32_t)below(maker, maker->stacks) : 0;
        sites[i].module = (uint32_t)below(maker, maker->strings);
        sites[i].track = (uint16_t)below(maker, maker->tracks);
        sites[i].kind = (uint8_t)below(maker, MP_KINDS);
    }
    struct mp_error failure = {0};
    keep(maker, MP_CHUNK_PAST, &past, 1, sizeof past);
    check_put(maker, mp_writer_past(maker->writer, &past, &failure), &failure);
    PUT(mp_writer_past_peaks, MP_CHUNK_PAST_PEAKS, peaks, 3);
    PUT(mp_writer_past_sites, MP_CHUNK_PAST_SITES, sites, 6);
}

void make_recording(struct maker *maker, int fd, size_t rounds, size_t events, bool finish)
{
    struct mp_error error = {0};
    *maker = (struct maker){.random = 88172645463325252u, .now = 1000};
    must(!mp_writer_open(fd, &made_start, &maker->writer, &error), error.text);
    put_strings(maker, 40);
    put_devices(maker);
    put_tracks(maker);
    for (size_t round = 0; round < rounds; round++) {
        if (round) put_strings(maker, 1 + (size_t)below(maker, 40));
        put_threads(maker);
        put_modules(maker);
        put_frames(maker);
        put_stacks(maker);
        maker->paths = round % 2;
        if (maker->paths) put_labels(maker);
        if (maker->paths) put_holders(maker);
        if (maker->paths) put_uses(maker);
        if (maker->paths) put_metadata(maker);
        if (round == 1) put_past(maker);
        if (!round || round % 5 >= 3) put_base(maker, (size_t)below(maker, 20));
        put_events(maker, 1 + (size_t)below(maker, events));
        if (maker->paths) put_requests(maker);
        put_samples(maker);
        put_symbols(maker);
        put_coverage(maker);
    }
    put_segments(maker);
    put_exit(maker);
    if (finish)
        must(!mp_writer_finish(maker->writer, &error), error.text);
    else
        mp_writer_abandon(maker->writer);
    maker->writer = NULL;
}

void free_made(struct maker *maker)
{
    mp_vec_each (struct made_chunk, made, &maker->chunks) {
        if (made->kind == MP_CHUNK_STRINGS)
            for (size_t k = 0; k < made->count; k++)
                free((void *)(uintptr_t)((struct mp_string *)made->rows)[k].text);
        if (made->kind == MP_CHUNK_COVERAGE) {
            free(((struct mp_coverage *)made->rows)->sources);
            free(((struct mp_coverage *)made->rows)->notes);
            free(((struct mp_coverage *)made->rows)->limits);
        }
        free(made->rows);
    }
    mp_vec_free(&maker->chunks);
    mp_vec_free(&maker->live);
}

static bool same_strings(const struct mp_chunk *chunk, const struct made_chunk *made)
{
    const struct mp_string *strings = made->rows;
    for (size_t i = 0; i < made->count; i++)
        if (chunk->as.strings[i].length != strings[i].length ||
            memcmp(chunk->as.strings[i].text, strings[i].text, strings[i].length))
            return false;
    return true;
}

static bool same_events(const struct mp_event_columns *columns, const struct made_chunk *made)
{
    const struct mp_event *event = made->rows;
    if (columns->count != made->count) return false;
    for (size_t i = 0; i < made->count; i++, event++)
        if (columns->time_ns[i] != event->time_ns || columns->address[i] != event->address ||
            columns->bytes[i] != event->bytes || columns->block[i] != event->block ||
            columns->stack[i] != event->stack || columns->name[i] != event->name ||
            columns->thread[i] != event->thread || columns->track[i] != event->track ||
            columns->type[i] != event->type || columns->kind[i] != event->kind)
            return false;
    return true;
}

static bool same_coverage(const struct mp_coverage *got, const struct mp_coverage *made)
{
    return !memcmp(got, made, offsetof(struct mp_coverage, sources)) && got->source_count == made->source_count &&
           got->note_count == made->note_count && got->limit_count == made->limit_count &&
           !memcmp(got->sources, made->sources, made->source_count * sizeof *made->sources) &&
           !memcmp(got->notes, made->notes, made->note_count * sizeof *made->notes) &&
           !memcmp(got->limits, made->limits, made->limit_count * sizeof *made->limits);
}

static bool same_marks(const struct mp_chunk *chunk, const struct made_chunk *made)
{
    if (chunk->mark_count != made->mark_count) return false;
    for (size_t i = 0; i < made->mark_count; i++)
        if (chunk->marks[i].ring != made->marks[i].ring || chunk->marks[i].sequence != made->marks[i].sequence)
            return false;
    return true;
}

static bool same_exit(const struct mp_exit *got, const struct mp_exit *made)
{
    return got->known == made->known && got->by_signal == made->by_signal && got->status == made->status &&
           got->time_ns == made->time_ns && got->text == made->text;
}

static bool same_rows(const struct mp_chunk *chunk, const struct made_chunk *made)
{
    const struct whole_type *type = whole_of_chunk(made->kind);
    must(type != NULL, "a kind of chunk that is not known (tests/unit/whole.c)");
    for (size_t i = 0; i < made->count; i++)
        if (whole_difference(type, (const char *)chunk->as.rows + i * type->bytes,
                             (const char *)made->rows + i * type->bytes, NULL, NULL))
            return false;
    return true;
}

bool same_as_made(const struct mp_chunk *chunk, const struct made_chunk *made)
{
    if (chunk->lost || chunk->kind != made->kind || chunk->count != made->count || chunk->time_ns != made->time_ns ||
        chunk->live_bytes_count != made->live_bytes_count || !same_marks(chunk, made))
        return false;
    if (made->live_bytes_count &&
        memcmp(chunk->live_bytes, made->live_bytes, made->live_bytes_count * sizeof *made->live_bytes) != 0)
        return false;
    switch (made->kind) {
    case MP_CHUNK_STRINGS:
        return same_strings(chunk, made);
    case MP_CHUNK_EVENTS_KIND:
        return same_events(&chunk->as.events, made);
    case MP_CHUNK_COVERAGE:
        return same_coverage(chunk->as.coverage, made->rows);
    case MP_CHUNK_EXIT:
        return same_exit(chunk->as.how, made->rows);
    default:
        return same_rows(chunk, made);
    }
}
