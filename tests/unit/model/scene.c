#include "unit/model/scene.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

#include "format/event_room.h"
#include "model/builder.h"

uint64_t scene_random(struct scene *scene, uint64_t below)
{
    scene->random ^= scene->random << 13;
    scene->random ^= scene->random >> 7;
    scene->random ^= scene->random << 17;
    return scene->random % below;
}

bool scene_lives(const struct scene_block *block, int64_t moment)
{
    return block->born < moment && block->died >= moment;
}

uint64_t scene_bytes(const struct scene_block *block, int64_t moment)
{
    uint64_t bytes = block->bytes[0];
    for (size_t i = 1; i < block->sizes && block->since[i] < moment; i++)
        bytes = block->bytes[i];
    return bytes;
}

uint64_t scene_level(const struct scene *scene, uint16_t track, int64_t moment)
{
    uint64_t level = 0;
    mp_vec_each (const struct scene_block, block, &scene->blocks) {
        if (block->track != track || !scene_lives(block, moment)) continue;
        uint64_t bytes = scene_bytes(block, moment);
        if (bytes != MP_BYTES_UNKNOWN) level += bytes;
    }
    return level;
}

size_t scene_live(const struct scene *scene, uint16_t track, int64_t moment)
{
    size_t live = 0;
    for (size_t i = 0; i < scene->blocks.count; i++)
        live += scene->blocks.at[i].track == track && scene_lives(&scene->blocks.at[i], moment);
    return live;
}

static uint64_t some_bytes(struct scene *scene)
{
    return 512 * (1 + scene_random(scene, 64));
}

static uint32_t some_name(struct scene *scene)
{
    return scene_random(scene, 3) ? (uint32_t)(SCENE_FIRST_NAME + scene_random(scene, SCENE_NAMES)) : 0;
}

static size_t add_block(struct scene *scene, int64_t born, uint64_t bytes)
{
    struct scene_block block = {.track = (uint16_t)scene_random(scene, SCENE_TRACKS),
                                .stack = (uint32_t)scene_random(scene, SCENE_STACKS),
                                .module = some_name(scene),
                                .kind = (uint8_t)scene_random(scene, MP_KINDS),
                                .born = born,
                                .died = INT64_MAX,
                                .bytes = {bytes},
                                .since = {born},
                                .sizes = 1};
    ck_assert(mp_vec_push(&scene->blocks, block));
    return scene->blocks.count - 1;
}

static uint64_t address_of(size_t block)
{
    return 0x7f0000000000 + block * 0x100000;
}

static void push(struct scene *scene, struct mp_event event)
{
    uint64_t before = scene->events.count ? scene->events.at[scene->events.count - 1].time_ns : 0;
    event.time_ns = before + (scene_random(scene, 3) + scene->later) * 500; /* equal stamps too */
    scene->later = false;
    event.thread = (uint32_t)scene_random(scene, SCENE_THREADS);
    bool is_region = event.type == MP_EVENT_REGION_BEGIN || event.type == MP_EVENT_REGION_END;
    if (is_region && !scene_random(scene, 4)) event.thread = SCENE_LANE;
    ck_assert(mp_vec_push(&scene->events, event));
}

static void add_alloc(struct scene *scene)
{
    size_t at = add_block(scene, (int64_t)scene->events.count, some_bytes(scene));
    const struct scene_block *block = &scene->blocks.at[at];
    push(scene, (struct mp_event){.type = MP_EVENT_ALLOC,
                                  .track = block->track,
                                  .stack = block->stack,
                                  .name = block->module,
                                  .block = at,
                                  .address = address_of(at),
                                  .bytes = block->bytes[0],
                                  .kind = block->kind});
}

uint32_t scene_freed_at(size_t block)
{
    return block % 4 ? (uint32_t)(block * 7 % SCENE_STACKS) : 0;
}

static void free_block(struct scene *scene, size_t at)
{
    int64_t now = (int64_t)scene->events.count;
    struct scene_block *block = &scene->blocks.at[at];
    if (block->died != INT64_MAX) return;
    block->died = now;
    push(scene, (struct mp_event){.type = MP_EVENT_FREE,
                                  .track = block->track,
                                  .stack = scene_freed_at(at),
                                  .block = at,
                                  .address = address_of(at),
                                  .bytes = scene_bytes(block, now)});
}

/* A free of a live block, or, now and then, of one never seen: then it was there from the start. */
static void add_free(struct scene *scene)
{
    size_t at = scene->blocks.count ? scene_random(scene, scene->blocks.count) : 0;
    if (!scene->blocks.count || !scene_random(scene, 12)) {
        at = add_block(scene, -1, scene_random(scene, 2) ? some_bytes(scene) : MP_BYTES_UNKNOWN);
        scene->blocks.at[at].stack = scene->blocks.at[at].module = scene->blocks.at[at].kind = 0;
    }
    free_block(scene, at);
}

static void add_resize(struct scene *scene)
{
    if (!scene->blocks.count) return;
    size_t at = scene_random(scene, scene->blocks.count);
    struct scene_block *block = &scene->blocks.at[at];
    if (block->died != INT64_MAX || block->sizes == 8) return;
    block->since[block->sizes] = (int64_t)scene->events.count;
    block->bytes[block->sizes] = some_bytes(scene);
    push(scene, (struct mp_event){.type = MP_EVENT_RESIZE,
                                  .track = block->track,
                                  .block = at,
                                  .address = address_of(at),
                                  .bytes = block->bytes[block->sizes]});
    block->sizes++;
}

/* At a moment of its own: the next event is later. */
static void add_label(struct scene *scene)
{
    size_t at = scene->blocks.count ? scene_random(scene, scene->blocks.count) : 0;
    struct scene_block *block = scene->blocks.count ? &scene->blocks.at[at] : NULL;
    size_t events = scene->events.count;
    if (!block || block->died != INT64_MAX || block->labels == 4 || !events) return;
    uint64_t now = scene->events.at[events - 1].time_ns + 1;
    struct mp_label label = {now, at, (uint8_t)(1 + scene_random(scene, MP_ROLES - 1)), some_name(scene)};
    ck_assert(mp_vec_push(&scene->labels, label));
    block->role[block->labels] = label.role;
    block->label[block->labels] = label.name;
    block->said[block->labels++] = (int64_t)events;
    scene->later = true;
}

static void add_other(struct scene *scene)
{
    static const uint8_t types[] = {MP_EVENT_STEP,       MP_EVENT_REGION_BEGIN, MP_EVENT_REGION_BEGIN,
                                    MP_EVENT_REGION_END, MP_EVENT_REGION_END,   MP_EVENT_MARK,
                                    MP_EVENT_OOM,        MP_EVENT_RESERVED};
    struct mp_event event = {.type = types[scene_random(scene, sizeof types)],
                             .name = (uint32_t)(SCENE_FIRST_NAME + scene_random(scene, SCENE_NAMES))};
    if (event.type == MP_EVENT_REGION_END && !scene_random(scene, 4)) event.name = 0;
    if (event.type == MP_EVENT_MARK || event.type == MP_EVENT_OOM)
        event.stack = (uint32_t)scene_random(scene, SCENE_STACKS);
    if (event.type == MP_EVENT_OOM || event.type == MP_EVENT_RESERVED) {
        event.track = (uint16_t)scene_random(scene, SCENE_TRACKS);
        event.bytes = some_bytes(scene);
    }
    push(scene, event);
}

static void add_base(struct scene *scene)
{
    for (size_t i = scene_random(scene, 12); i--;) {
        size_t at = add_block(scene, -1, some_bytes(scene));
        const struct scene_block *block = &scene->blocks.at[at];
        struct mp_base_block base = {.block = at,
                                     .address = address_of(at),
                                     .bytes = block->bytes[0],
                                     .stack = block->stack,
                                     .track = block->track,
                                     .kind = block->kind,
                                     .module = block->module};
        ck_assert(mp_vec_push(&scene->base, base));
    }
}

static void feed(struct mp_builder *builder, const struct mp_chunk *chunk)
{
    struct mp_error error;
    enum mp_status status = mp_builder_add(builder, chunk, &error);
    ck_assert_msg(status == MP_OK, "%s", error.text);
}

static void feed_tables(struct mp_builder *builder, struct scene *scene)
{
    static const struct mp_string_entry strings[] = {{"", 0},         {"gpu", 3},  {"f", 1},      {"forward", 7},
                                                     {"backward", 8}, {"loss", 4}, {"update", 6}, {"g", 1}};
    static const struct mp_device devices[] = {{1, 0, 0, MP_BYTES_UNKNOWN}};
    static const struct mp_track tracks[SCENE_TRACKS] = {{0, MP_LAYER_DRIVER, MP_BASIS_EXACT, 0},
                                                         {0, MP_LAYER_TORCH, MP_BASIS_BLOCK, 0},
                                                         {0, MP_LAYER_APP, MP_BASIS_EXACT, 2}};
    static const struct mp_thread_info threads[] = {{1, 0}, {2, 0}, {MP_TID_LANE, 0}};
    struct mp_frame frames[SCENE_STACKS];
    struct mp_stack_node stacks[SCENE_STACKS];
    for (uint32_t i = 0; i < SCENE_STACKS; i++) {
        frames[i] = (struct mp_frame){MP_PYTHON, 0, 0, i % 3 ? 7 : 2, 1, i, 0};
        stacks[i] = (struct mp_stack_node){i ? (uint32_t)scene_random(scene, i) : 0, i};
    }
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_STRINGS, .count = 8, .as.strings = strings});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_DEVICES, .count = 1, .as.devices = devices});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_TRACKS, .count = SCENE_TRACKS, .as.tracks = tracks});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_THREADS, .count = 3, .as.threads = threads});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_FRAMES, .count = SCENE_STACKS, .as.frames = frames});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_STACKS, .count = SCENE_STACKS, .as.stacks = stacks});
    if (scene->base.count)
        feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_BASE, .count = scene->base.count, .as.base = scene->base.at});
}

#define CHUNK_MAX 64

static void feed_events(struct mp_builder *builder, const struct mp_event *events, size_t count)
{
    static struct mp_event_room room;
    for (room.count = 0; room.count < count;)
        mp_event_room_put(&room, &events[room.count]);
    struct mp_chunk chunk = {.kind = MP_CHUNK_EVENTS_KIND, .count = count};
    chunk.as.events = mp_event_room_columns(&room);
    feed(builder, &chunk);
}

struct mp_request scene_request(size_t block)
{
    return (struct mp_request){block % 3 == 2 ? 0 : 100 + block, block % 97 < 90, block % 101 > 95};
}

/* Adds each block's request twice, first a wrong one; and a request of an unknown block. */
static void feed_requests(struct mp_builder *builder, const struct scene *scene)
{
    for (size_t i = 0; i < scene->blocks.count; i += 3) {
        const struct mp_block_request reported[] = {
            {i, {1, 2, 3}}, {i, scene_request(i)}, {UINT64_C(1) << 40, {1, 2, 3}}};
        feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_REQUESTS, .count = 3, .as.requests = reported});
    }
}

/* The blocks that a recorder knows to be live after `moment` events; blocks first seen at their free are unknown. */
static void feed_later_base(struct mp_builder *builder, const struct scene *scene, int64_t moment)
{
    MP_VEC(struct mp_base_block) base = {0};
    for (size_t i = 0; i < scene->blocks.count; i++) {
        const struct scene_block *block = &scene->blocks.at[i];
        bool reported = block->born >= 0 || i < scene->base.count;
        if (!reported || !scene_lives(block, moment)) continue;
        struct mp_base_block entry = {.block = i,
                                      .address = address_of(i),
                                      .bytes = scene_bytes(block, moment),
                                      .stack = block->stack,
                                      .track = block->track,
                                      .kind = block->kind,
                                      .module = block->module};
        if (i % 3 == 1) entry.request = scene_request(i);
        for (size_t k = 0; k < block->labels && block->said[k] <= moment; k++)
            entry.role = (uint8_t)block->role[k], entry.label = block->label[k];
        ck_assert(mp_vec_push(&base, entry));
    }
    size_t half = base.count / 2; /* in two parts */
    feed(builder,
         &(struct mp_chunk){.kind = MP_CHUNK_BASE, .count = half, .as.base = base.at, .base_total = base.count});
    feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_BASE,
                                     .count = base.count - half,
                                     .as.base = half ? base.at + half : base.at,
                                     .base_total = base.count,
                                     .base_before = half});
    mp_vec_free(&base);
}

static void build(struct scene *scene)
{
    struct mp_recording_start start = {.pid = 1};
    struct mp_builder *builder;
    struct mp_damage damage = {0};
    mp_builder_new(&start, &builder);
    feed_tables(builder, scene);
    for (size_t at = 0; at < scene->events.count;) {
        size_t count = 1 + scene_random(scene, CHUNK_MAX);
        if (count > scene->events.count - at) count = scene->events.count - at;
        feed_events(builder, scene->events.at + at, count);
        at += count;
        if (!scene_random(scene, 8)) feed_later_base(builder, scene, (int64_t)at);
    }
    for (size_t i = 0; i < scene->labels.count; i++)
        feed(builder, &(struct mp_chunk){.kind = MP_CHUNK_LABELS, .count = 1, .as.labels = &scene->labels.at[i]});
    feed_requests(builder, scene);
    mp_builder_finish(builder, &damage, 1, &scene->model);
}

static bool has_steps(const struct scene *scene)
{
    for (size_t i = 0; i < scene->events.count; i++)
        if (scene->events.at[i].type == MP_EVENT_STEP) return true;
    return false;
}

void scene_make(struct scene *scene, uint64_t seed, size_t count)
{
    *scene = (struct scene){.random = seed * 2654435761u + 88172645463325252ull};
    add_base(scene);
    while (scene->events.count < count) {
        uint64_t dice = scene_random(scene, 20);
        if (scene->events.count == count / 2 && !has_steps(scene)) /* otherwise the model would search for steps */
            push(scene, (struct mp_event){.type = MP_EVENT_STEP, .name = SCENE_FIRST_NAME});
        else if (dice < 9)
            add_alloc(scene);
        else if (dice < 16)
            add_free(scene);
        else if (dice < 17)
            add_resize(scene);
        else if (dice < 18)
            add_label(scene);
        else
            add_other(scene);
    }
    for (size_t i = 0; seed % 3 == 0 && i < scene->blocks.count; i++)
        free_block(scene, i); /* some programs end in order */
    build(scene);
}

void scene_free(struct scene *scene)
{
    mp_vec_free(&scene->blocks);
    mp_vec_free(&scene->events);
    mp_vec_free(&scene->base);
    mp_vec_free(&scene->labels);
    mp_model_free(scene->model);
}
