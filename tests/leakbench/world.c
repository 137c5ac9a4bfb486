#include "leakbench/world.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/builder.h"

#define MUST(done)                                                                                                     \
    do {                                                                                                               \
        if (!(done)) fprintf(stderr, "%s:%d: failed\n", __FILE__, __LINE__), exit(99);                                 \
    } while (0)

#define STEP_NS 1000000

uint32_t world_random(struct world *world, uint32_t below)
{
    world->random ^= world->random << 13;
    world->random ^= world->random >> 7;
    world->random ^= world->random << 17;
    return (uint32_t)((world->random * UINT64_C(2685821657736338717)) >> 33) % below;
}

static uint32_t add_text(struct world *world, const char *text)
{
    for (uint32_t i = 0; i < world->texts.count; i++)
        if (!strcmp(world->texts.at[i], text)) return i;
    char *copy = strdup(text);
    struct mp_string_entry entry = {copy, strlen(text)};
    MUST(copy && mp_vec_push(&world->texts, copy) && mp_vec_push(&world->strings, entry));
    return (uint32_t)world->strings.count - 1;
}

static uint32_t add_node(struct world *world, uint32_t parent, struct mp_frame frame)
{
    struct mp_stack_node node = {parent, (uint32_t)world->frames.count};
    MUST(mp_vec_push(&world->frames, frame) && mp_vec_push(&world->nodes, node));
    return (uint32_t)world->nodes.count - 1;
}

static uint32_t add_native(struct world *world, uint32_t parent, const char *function)
{
    return add_node(world, parent,
                    (struct mp_frame){.language = MP_NATIVE,
                                      .address = 0x1000 + world->frames.count * 16,
                                      .function = add_text(world, function)});
}

enum { STRING_DEVICE = 1, STRING_FILE, STRING_MAIN, STRING_PROCESS };

void world_start(struct world *world, uint64_t seed, uint32_t steps)
{
    struct mp_stack_node root = {0};
    struct mp_frame none = {0};
    *world = (struct world){.random = seed * UINT64_C(2654435761) + UINT64_C(88172645463325252), .steps = steps};
    add_text(world, "");
    add_text(world, "cuda:0");
    add_text(world, "/home/ada/train.py");
    add_text(world, "main");
    add_text(world, "cuda:0/process");
    MUST(mp_vec_push(&world->frames, none) && mp_vec_push(&world->nodes, root));
    for (int i = 0; i < 16; i++)
        world_random(world, 2);
}

uint32_t world_site(struct world *world, const char *function, bool python, enum world_track track, enum mp_kind kind)
{
    struct world_place place = {0};
    struct world_stack stack = {.place = (uint32_t)world->places.count, .track = (uint8_t)track, .kind = (uint8_t)kind};
    uint32_t line = 10 + 7 * stack.place;
    MUST(mp_vec_push(&world->places, place));
    if (python && !world->native) {
        stack.node = add_node(world, 0, (struct mp_frame){MP_PYTHON, 0, 0, STRING_MAIN, STRING_FILE, 1000 + line, 0});
        stack.node = add_node(world, stack.node,
                              (struct mp_frame){MP_PYTHON, 0, 0, add_text(world, function), STRING_FILE, line, 0});
        stack.node = add_native(world, stack.node, "at::native::empty");
    } else {
        stack.node = add_native(world, add_native(world, 0, "run_loop"), function);
    }
    MUST(mp_vec_push(&world->stacks, stack));
    return (uint32_t)world->stacks.count - 1;
}

static struct mp_frame frame_of(struct world *world, const char *text)
{
    char file[128], function[64];
    uint32_t line;
    if (*text == '|') return (struct mp_frame){.language = MP_BACKWARD, .function = add_text(world, "backward of")};
    MUST(sscanf(text, "%127[^:]:%63[^:]:%u", file, function, &line) == 3);
    return (struct mp_frame){MP_PYTHON, 0, 0, add_text(world, function), add_text(world, file), line, 0};
}

uint32_t world_path(struct world *world, const char *path, enum world_track track)
{
    struct world_place place = {0};
    struct world_stack stack = {.place = (uint32_t)world->places.count, .track = (uint8_t)track};
    for (const char *at = path; at; at = strchr(at, ' ') ? strchr(at, ' ') + 1 : NULL)
        stack.node = add_node(world, stack.node, frame_of(world, at));
    MUST(mp_vec_push(&world->places, place) && mp_vec_push(&world->stacks, stack));
    return (uint32_t)world->stacks.count - 1;
}

uint32_t world_variant(struct world *world, uint32_t from, const char *native)
{
    struct world_stack stack = world->stacks.at[from];
    stack.node = add_native(world, world->nodes.at[stack.node].parent, native);
    MUST(mp_vec_push(&world->stacks, stack));
    return (uint32_t)world->stacks.count - 1;
}

static void push(struct world *world, struct mp_event event)
{
    event.time_ns = world->now_ns += 1000;
    event.thread = world->thread;
    MUST(mp_vec_push(&world->events, event));
}

uint32_t world_alloc(struct world *world, uint32_t stack, uint64_t bytes)
{
    struct world_block block = {bytes, stack, true};
    uint32_t number = (uint32_t)world->blocks.count;
    const struct world_stack *from = &world->stacks.at[stack];
    MUST(mp_vec_push(&world->blocks, block));
    push(world, (struct mp_event){.type = MP_EVENT_ALLOC,
                                  .track = from->track,
                                  .kind = from->kind,
                                  .stack = from->node,
                                  .block = number,
                                  .address = UINT64_C(0x7f0000000000) + number * UINT64_C(0x10000000),
                                  .bytes = bytes});
    return number;
}

void world_release(struct world *world, uint32_t number)
{
    struct world_block *block = &world->blocks.at[number];
    if (!block->live) return;
    block->live = false;
    push(world, (struct mp_event){.type = MP_EVENT_FREE,
                                  .track = world->stacks.at[block->stack].track,
                                  .block = number,
                                  .address = UINT64_C(0x7f0000000000) + number * UINT64_C(0x10000000),
                                  .bytes = block->bytes});
}

void world_leaks(struct world *world, uint32_t number)
{
    const struct world_block *block = &world->blocks.at[number];
    struct world_place *place = &world->places.at[world->stacks.at[block->stack].place];
    place->leaks = true;
    if (world->step >= world->steps || !world->step) return; /* the last step's end is not seen */
    if (!place->births) place->first_step = world->step;
    if (!place->births || place->last_step != world->step) {
        place->bytes += place->last_bytes;
        place->blocks += place->last_blocks;
        place->last_bytes = place->last_blocks = 0;
        place->births++;
        place->last_step = world->step;
    }
    place->last_bytes += block->bytes;
    place->last_blocks++;
}

void world_reserved(struct world *world, enum world_track track, uint64_t bytes)
{
    push(world, (struct mp_event){.type = MP_EVENT_RESERVED, .track = (uint16_t)track, .bytes = bytes});
}

void world_move_to_host(struct world *world)
{
    world->strings.at[STRING_DEVICE] = (struct mp_string_entry){"cpu", 3};
    world->strings.at[STRING_PROCESS] = (struct mp_string_entry){"cpu/resident", 12};
}

void world_sample(struct world *world, uint64_t bytes)
{
    struct mp_sample sample = {.time_ns = world->now_ns, .counter = STRING_PROCESS, .value = bytes};
    MUST(mp_vec_push(&world->samples, sample));
}

void world_begin_step(struct world *world)
{
    world->step++;
    world->now_ns += STEP_NS;
    world->thread = world->step % world->threads;
    if (world->marked) push(world, (struct mp_event){.type = MP_EVENT_STEP});
}

static void feed(struct mp_builder *builder, struct mp_chunk chunk)
{
    struct mp_error error;
    if (mp_builder_add(builder, &chunk, &error)) fprintf(stderr, "%s\n", error.text), exit(99);
}

#define CHUNK 8192

static void feed_events(struct mp_builder *builder, const struct mp_event *events, size_t count)
{
    static uint64_t time[CHUNK], address[CHUNK], bytes[CHUNK], block[CHUNK];
    static uint32_t stack[CHUNK], name[CHUNK], thread[CHUNK];
    static uint16_t track[CHUNK];
    static uint8_t type[CHUNK], kind[CHUNK];
    for (size_t i = 0; i < count; i++) {
        const struct mp_event *event = &events[i];
        time[i] = event->time_ns, address[i] = event->address, bytes[i] = event->bytes, block[i] = event->block;
        stack[i] = event->stack, name[i] = event->name, thread[i] = event->thread, track[i] = event->track;
        type[i] = event->type, kind[i] = event->kind;
    }
    struct mp_event_columns columns = {count, time, address, bytes, block, stack, name, thread, track, type, kind};
    feed(builder, (struct mp_chunk){.kind = MP_CHUNK_EVENTS_KIND, .count = count, .as.events = columns});
}

static void feed_tables(struct world *world, struct mp_builder *builder)
{
    static const struct mp_device device = {STRING_DEVICE, 0, 0, UINT64_C(1) << 42};
    static const struct mp_track tracks[W_TRACKS] = {{0, MP_LAYER_TORCH, MP_BASIS_BLOCK, 0},
                                                     {0, MP_LAYER_DRIVER, MP_BASIS_EXACT, 0},
                                                     {0, MP_LAYER_APP, MP_BASIS_EXACT, STRING_MAIN}};
    static const struct mp_thread_info threads[4] = {{1, 0}, {2, 0}, {3, 0}, {4, 0}};
    struct mp_symbol *symbols = calloc(world->frames.count, sizeof *symbols);
    MUST(symbols);
    size_t count = 0;
    for (uint32_t i = 1; i < world->frames.count; i++)
        if (world->frames.at[i].language == MP_NATIVE)
            symbols[count++] = (struct mp_symbol){.frame = i, .function = world->frames.at[i].function};
    feed(builder,
         (struct mp_chunk){.kind = MP_CHUNK_STRINGS, .count = world->strings.count, .as.strings = world->strings.at});
    feed(builder, (struct mp_chunk){.kind = MP_CHUNK_DEVICES, .count = 1, .as.devices = &device});
    feed(builder, (struct mp_chunk){.kind = MP_CHUNK_TRACKS, .count = W_TRACKS, .as.tracks = tracks});
    feed(builder, (struct mp_chunk){.kind = MP_CHUNK_THREADS, .count = 4, .as.threads = threads});
    feed(builder,
         (struct mp_chunk){.kind = MP_CHUNK_FRAMES, .count = world->frames.count, .as.frames = world->frames.at});
    feed(builder,
         (struct mp_chunk){.kind = MP_CHUNK_STACKS, .count = world->nodes.count, .as.stacks = world->nodes.at});
    feed(builder, (struct mp_chunk){.kind = MP_CHUNK_SYMBOLS, .count = count, .as.symbols = symbols});
    free(symbols);
}

struct mp_model *world_build(struct world *world)
{
    struct mp_recording_start start = {.pid = 1};
    struct mp_damage damage = {0};
    struct mp_builder *builder;
    struct mp_model *model;
    for (uint32_t i = 0; world->frees_all && i < world->blocks.count; i++)
        world_release(world, i);
    mp_builder_new(&start, &builder);
    feed_tables(world, builder);
    for (size_t at = 0; at < world->events.count; at += CHUNK)
        feed_events(builder, world->events.at + at,
                    world->events.count - at < CHUNK ? world->events.count - at : CHUNK);
    if (world->samples.count)
        feed(builder, (struct mp_chunk){
                          .kind = MP_CHUNK_SAMPLES, .count = world->samples.count, .as.samples = world->samples.at});
    struct mp_exit how = {.known = true, .time_ns = world->now_ns};
    feed(builder, (struct mp_chunk){.kind = MP_CHUNK_EXIT, .count = 1, .as.how = &how});
    mp_builder_finish(builder, &damage, 1, &model);
    return model;
}

uint32_t world_place_of(const struct world *world, uint32_t node)
{
    for (size_t i = 0; i < world->stacks.count; i++)
        if (world->stacks.at[i].node == node) return world->stacks.at[i].place;
    return MP_NONE;
}

void world_free(struct world *world)
{
    for (size_t i = 0; i < world->texts.count; i++)
        free(world->texts.at[i]);
    mp_vec_free(&world->texts);
    mp_vec_free(&world->strings);
    mp_vec_free(&world->frames);
    mp_vec_free(&world->nodes);
    mp_vec_free(&world->events);
    mp_vec_free(&world->samples);
    mp_vec_free(&world->blocks);
    mp_vec_free(&world->stacks);
    mp_vec_free(&world->places);
}
