#include <stdlib.h>
#include <string.h>

#include "base/memory.h"
#include "base/order.h"
#include "format/events.h"
#include "model/builder_state.h"

/* A lost chunk may have used this many block numbers. In one gap, only this many lost chunks are believed. */
#define CHUNK_EVENTS   UINT64_C(65536)
#define GAP_CHUNKS_MAX UINT64_C(256)

static void grow(void *column, size_t room, size_t each)
{
    void **at = column;
    void *moved = mp_realloc(*at, room * each);
    *at = moved;
}

static size_t grown_room(size_t room, size_t need)
{
    size_t grown = room + room / 2 + 1024;
    return grown < need ? need : grown;
}

static void reserve_events(struct mp_builder *b, size_t extra)
{
    struct mp_model_events *events = &b->model->events;
    size_t need = events->count + extra;
    if (need <= b->event_room) return;
    if (need >= MP_NONE) mp_memory_lacks(0); /* event numbers have 32 bits */
    size_t room = grown_room(b->event_room, need);
    grow(&events->time_ns, room, sizeof *events->time_ns);
    grow(&events->subject, room, sizeof *events->subject);
    grow(&events->thread, room, sizeof *events->thread);
    grow(&events->track, room, sizeof *events->track);
    grow(&events->type, room, sizeof *events->type);
    b->event_room = room;
}

/* Gives a column that only some recordings have as much room as the others, if it exists. */
static void reserve_rare(struct mp_builder *b, uint32_t **column, size_t room)
{
    size_t before = *column ? b->block_room : 0;
    grow(column, room, sizeof **column);
    memset(*column + before, 0, (room - before) * sizeof **column);
}

static void reserve_blocks(struct mp_builder *b, size_t extra)
{
    struct mp_model_blocks *blocks = &b->model->blocks;
    size_t need = blocks->count + extra;
    if (need <= b->block_room) return;
    if (need >= MP_NONE) mp_memory_lacks(0); /* block indices have 32 bits */
    size_t room = grown_room(b->block_room, need);
#define GROW(field, type) grow(&blocks->field, room, sizeof *blocks->field);
    MP_BLOCK_FIELDS(GROW)
#undef GROW
    grow(&blocks->alloc_event, room, sizeof *blocks->alloc_event);
    grow(&blocks->free_event, room, sizeof *blocks->free_event);
    if (blocks->module) reserve_rare(b, &blocks->module, room);
    if (blocks->freed_at) reserve_rare(b, &blocks->freed_at, room);
    b->block_room = room;
}

uint32_t mp_builder_block(const struct mp_builder *b, uint64_t number)
{
    uint64_t near = number - b->first_block; /* a number below first_block wraps around, and so counts as far */
    if (near < b->by_number.count && b->by_number.at[near]) return b->by_number.at[near] - 1;
    if (!b->far_numbers.count || number == UINT64_MAX) return MP_NONE;
    const uint64_t *far = mp_map_find(&b->far_numbers, number + 1);
    return far ? (uint32_t)*far : MP_NONE;
}

static void name_block(struct mp_builder *b, uint64_t number, uint32_t index)
{
    uint64_t near = number - b->first_block;
    if (near < b->near_limit) {
        if (near >= b->by_number.count) mp_vec_grow_to(&b->by_number, (size_t)near + 1);
        b->by_number.at[near] = index + 1;
        return;
    }
    if (number == UINT64_MAX) return;
    uint64_t *far = mp_map_at(&b->far_numbers, number + 1, NULL);
    *far = index;
}

static void note_first_block(struct mp_builder *b, const struct mp_chunk *chunk)
{
    if (!b->any_blocks) b->first_block = chunk->next_block;
    b->any_blocks = true;
}

static void extend_near_limit(struct mp_builder *b, size_t entries)
{
    uint64_t gap = b->gap_chunks < GAP_CHUNKS_MAX ? b->gap_chunks : GAP_CHUNKS_MAX;
    b->near_limit += entries + gap * CHUNK_EVENTS;
}

/* Appends a block. `facts`: an event with the members of MP_BLOCK_FIELDS. The caller has reserved room. */
static inline uint32_t put_block(struct mp_builder *b, struct mp_event facts, uint32_t alloc_event)
{
    struct mp_model_blocks *blocks = &b->model->blocks;
    size_t at = blocks->count++;
#define PUT(field, type) blocks->field[at] = facts.field;
    MP_BLOCK_FIELDS(PUT)
#undef PUT
    blocks->alloc_event[at] = alloc_event;
    blocks->free_event[at] = MP_NONE;
    return (uint32_t)at;
}

static void set_rare(struct mp_builder *b, uint32_t **column, uint32_t block, uint32_t value)
{
    if (!value) return;
    if (!*column) reserve_rare(b, column, b->block_room);
    (*column)[block] = value;
}

/* Sets a block's module. `path`: a string id of the file. */
static void set_module(struct mp_builder *b, uint32_t block, uint32_t path)
{
    set_rare(b, &b->model->blocks.module, block, mp_builder_string(b, path));
}

/* Appends an event. The caller has reserved room. A time before the last event's is raised to it: time never runs
 * backwards in a model. */
static uint32_t put_event(struct mp_builder *b, uint64_t time_ns, unsigned type, uint32_t subject, uint32_t thread,
                          uint16_t track)
{
    struct mp_model_events *events = &b->model->events;
    size_t at = events->count++;
    if (time_ns < b->last_ns) time_ns = b->last_ns;
    b->last_ns = time_ns;
    events->time_ns[at] = time_ns;
    events->type[at] = (uint8_t)type;
    events->subject[at] = subject;
    events->thread[at] = thread;
    events->track[at] = track;
    return (uint32_t)at;
}

static uint64_t size_now(const struct mp_builder *b, uint32_t block)
{
    const uint64_t *now = b->resized.count ? mp_map_find(&b->resized, (uint64_t)block + 1) : NULL;
    return now ? *now : b->model->blocks.bytes[block];
}

static void raise_peak(struct mp_builder *b, uint16_t track, uint32_t event)
{
    struct mp_model_track_sum *sum = &b->model->sums.at[track];
    const struct mp_builder_level *level = &b->levels.at[track];
    if (level->bytes <= sum->peak_bytes) return;
    sum->peak_bytes = level->bytes;
    sum->peak_blocks = level->blocks;
    sum->peak_event = event;
    sum->peak_ns = event == MP_NONE ? 0 : b->model->events.time_ns[event];
}

/* Adds a block that has lived from the start until now. All sums so far lack it. */
static uint32_t put_base_block(struct mp_builder *b, struct mp_event facts)
{
    struct mp_model_track_sum *sum = &b->model->sums.at[facts.track];
    struct mp_builder_level *level = &b->levels.at[facts.track];
    sum->base_bytes += mp_known(facts.bytes);
    sum->peak_bytes += mp_known(facts.bytes);
    sum->unknown_blocks += facts.bytes == MP_BYTES_UNKNOWN;
    sum->peak_blocks++;
    level->bytes += mp_known(facts.bytes);
    level->blocks++;
    b->live_blocks++;
    return put_block(b, facts, MP_NONE);
}

static void on_alloc(struct mp_builder *b, uint32_t block, uint32_t event)
{
    const struct mp_model_blocks *blocks = &b->model->blocks;
    uint16_t track = blocks->track[block];
    struct mp_builder_level *level = &b->levels.at[track];
    level->bytes += mp_known(blocks->bytes[block]);
    level->blocks++;
    b->live_blocks++;
    b->model->sums.at[track].allocs++;
    raise_peak(b, track, event);
}

static void on_free(struct mp_builder *b, uint32_t block, uint32_t event)
{
    struct mp_model_blocks *blocks = &b->model->blocks;
    uint16_t track = blocks->track[block];
    struct mp_builder_level *level = &b->levels.at[track];
    blocks->free_event[block] = event;
    level->bytes -= mp_known(size_now(b, block));
    level->blocks--;
    b->live_blocks--;
    b->model->sums.at[track].frees++;
}

static void on_resize(struct mp_builder *b, uint32_t block, uint32_t event, uint64_t bytes)
{
    struct mp_builder_level *level = &b->levels.at[b->model->blocks.track[block]];
    level->bytes += mp_known(bytes) - mp_known(size_now(b, block));
    uint64_t *now = mp_map_at(&b->resized, (uint64_t)block + 1, NULL);
    *now = bytes;
    struct mp_model_resize resize = {block, event, bytes};
    mp_vec_add(&b->model->resizes, resize);
    raise_peak(b, b->model->blocks.track[block], event);
}

/* Takes an event about a block. Ignores an alloc with a known number and a free of a freed block: they are
 * repetitions. */
static void add_block_event(struct mp_builder *b, const struct mp_event_columns *c, size_t i)
{
    uint64_t number = c->block[i];
    uint32_t block = mp_builder_block(b, number);
    uint32_t next = (uint32_t)b->model->events.count;
    if (c->type[i] == MP_EVENT_ALLOC) {
        if (block != MP_NONE) return;
        block = put_block(b, mp_event_at(c, i), next);
        name_block(b, number, block);
        set_module(b, block, c->name[i]);
        put_event(b, c->time_ns[i], MP_EVENT_ALLOC, block, c->thread[i], c->track[i]);
        on_alloc(b, block, next);
        return;
    }
    if (block == MP_NONE) {
        uint64_t bytes = c->type[i] == MP_EVENT_FREE ? c->bytes[i] : MP_BYTES_UNKNOWN;
        const struct mp_event facts = {
            .address = c->address[i], .bytes = bytes, .track = c->track[i], .kind = c->kind[i]};
        block = put_base_block(b, facts);
        name_block(b, number, block);
        mp_builder_was_in_past(b, c->track[i], c->kind[i], mp_known(bytes));
    }
    if (b->model->blocks.free_event[block] != MP_NONE) return;
    put_event(b, c->time_ns[i], c->type[i], block, c->thread[i], b->model->blocks.track[block]);
    if (c->type[i] == MP_EVENT_RESIZE) {
        on_resize(b, block, next, c->bytes[i]);
        return;
    }
    on_free(b, block, next);
    set_rare(b, &b->model->blocks.freed_at, block, c->stack[i]);
}

static void add_note_event(struct mp_builder *b, const struct mp_event_columns *c, size_t i)
{
    struct mp_model_note note = {c->bytes[i], c->stack[i], mp_builder_string(b, c->name[i])};
    mp_vec_add(&b->model->notes, note);
    mp_vec_add(&b->model->noted, (uint32_t)b->model->events.count);
    put_event(b, c->time_ns[i], c->type[i], (uint32_t)(b->model->notes.count - 1), c->thread[i], c->track[i]);
    if (c->type[i] != MP_EVENT_OOM && c->type[i] != MP_EVENT_RESERVED) return;
    struct mp_model_track_sum *sum = &b->model->sums.at[c->track[i]];
    sum->ooms += c->type[i] == MP_EVENT_OOM;
    if (c->type[i] == MP_EVENT_RESERVED &&
        (sum->reserved_peak_bytes == MP_BYTES_UNKNOWN || note.bytes > sum->reserved_peak_bytes))
        sum->reserved_peak_bytes = note.bytes;
}

static bool has_track(unsigned type)
{
    return mp_event_of_block(type) || type == MP_EVENT_OOM || type == MP_EVENT_RESERVED;
}

/* True if a stack exists. The empty stack exists even without a table. */
static bool known_stack(const struct mp_model *model, uint32_t stack)
{
    return stack < model->stacks.count || !stack;
}

enum mp_status mp_builder_add_events(struct mp_builder *b, const struct mp_chunk *chunk, struct mp_error *error)
{
    const struct mp_event_columns *c = &chunk->events;
    const struct mp_model *model = b->model;
    mp_builder_end_base(b);
    reserve_events(b, c->count);
    reserve_blocks(b, c->count);
    note_first_block(b, chunk);
    extend_near_limit(b, c->count);
    for (size_t i = 0; i < c->count; i++) {
        unsigned type = c->type[i];
        if ((has_track(type) && c->track[i] >= model->tracks.count) || c->thread[i] >= model->threads.count ||
            !known_stack(model, c->stack[i]))
            return mp_fail(error, MP_DAMAGED,
                           "an event names a track, thread or stack that is not in the recording (chunk at byte %llu)",
                           (unsigned long long)chunk->offset);
        if (type == MP_EVENT_NONE || type >= MP_EVENT_TYPES) continue;
        (mp_event_of_block(type) ? add_block_event : add_note_event)(b, c, i);
        if (has_track(type)) b->model->sums.at[c->track[i]].events++;
        b->model->put_in += mp_event_had_free_put_in(c, i);
    }
    return MP_OK;
}

/* Frees the blocks that are not `in_base` (one byte per block): they were freed between the last event and this
 * base. */
static void bury_missing(struct mp_builder *b, const unsigned char *in_base)
{
    struct mp_model_blocks *blocks = &b->model->blocks;
    uint64_t then = b->last_ns;
    for (size_t i = 0; i < blocks->count; i++) {
        if (blocks->free_event[i] != MP_NONE || in_base[i]) continue;
        uint32_t event = put_event(b, then, MP_EVENT_FREE, (uint32_t)i, MP_NONE, blocks->track[i]);
        b->model->sums.at[blocks->track[i]].events++;
        on_free(b, (uint32_t)i, event);
    }
}

MP_ORDER_OF_POINTERS(by_birth, struct mp_base_block, MP_RISING(birth_ns))

/* Adds blocks of the base that no event introduced. If the base comes before all events, these blocks are the model's
 * base. Otherwise they were born in a gap. The frees in that gap come before them, so that a gap never makes a peak. */
static void add_unseen(struct mp_builder *b, const struct mp_base_block **unseen, size_t count)
{
    bool at_start = !b->model->events.count;
    qsort(unseen, count, sizeof *unseen, by_birth);
    for (size_t i = 0; i < count; i++) {
        const struct mp_base_block *from = unseen[i];
        bool born_before = at_start || from->bytes == MP_BYTES_UNKNOWN || !from->birth_ns;
        uint32_t next = (uint32_t)b->model->events.count, block;
        const struct mp_event facts = mp_birth_of(from);
        block = born_before ? put_base_block(b, facts) : put_block(b, facts, next);
        name_block(b, from->block, block);
        set_module(b, block, from->module);
        if (born_before && !at_start) mp_builder_was_in_past(b, from->track, from->kind, mp_known(from->bytes));
        if (born_before) continue;
        put_event(b, from->birth_ns, MP_EVENT_ALLOC, block, MP_NONE, from->track);
        b->model->sums.at[from->track].events++;
        on_alloc(b, block, next);
    }
}

/* True if the base lists exactly the live blocks, as nearly all bases do. */
static bool base_agrees(const struct mp_builder *b, const struct mp_base_block *base, size_t count)
{
    if (count != b->live_blocks) return false;
    for (size_t i = 0; i < count; i++) {
        uint32_t block = mp_builder_block(b, base[i].block);
        if (block == MP_NONE || b->model->blocks.free_event[block] != MP_NONE) return false;
    }
    return true;
}

static void meet_base(struct mp_builder *b, const struct mp_base_block *base, size_t count, bool whole,
                      const struct mp_base_block **unseen, unsigned char *in_base)
{
    size_t unseen_count = 0, met = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t block = mp_builder_block(b, base[i].block);
        if (block == MP_NONE) {
            unseen[unseen_count++] = &base[i];
        } else if (b->model->blocks.free_event[block] == MP_NONE && !in_base[block]) {
            in_base[block] = 1;
            met++;
        }
    }
    reserve_events(b, b->live_blocks - met + unseen_count);
    if (whole && met < b->live_blocks) bury_missing(b, in_base);
    add_unseen(b, unseen, unseen_count);
}

/* Takes a base, or a part of one. `whole`: it lists all live blocks. */
static void take_base(struct mp_builder *b, const struct mp_base_block *base, size_t count, bool whole)
{
    reserve_blocks(b, count);
    extend_near_limit(b, count);
    if (base_agrees(b, base, count)) {
        mp_builder_base_labels(b, base, count);
        return;
    }
    const struct mp_base_block **unseen = mp_alloc((count + 1) * sizeof *unseen);
    unsigned char *in_base = mp_alloc_zeroed(b->model->blocks.count + 1, 1);
    meet_base(b, base, count, whole, unseen, in_base);
    free(unseen);
    free(in_base);
    mp_builder_base_labels(b, base, count);
}

void mp_builder_end_base(struct mp_builder *b)
{
    size_t count = b->base_parts.count;
    b->base_parts.count = 0;
    if (count) take_base(b, b->base_parts.at, count, false);
}

/* Joins the parts of a base. If a part is missing, the blocks of the others still count. */
static void take_part(struct mp_builder *b, const struct mp_chunk *chunk)
{
    if (chunk->base_before != b->base_parts.count) {
        mp_builder_end_base(b);
        if (chunk->base_before) {
            take_base(b, chunk->base, chunk->count, false);
            return;
        }
    }
    mp_vec_add_all(&b->base_parts, chunk->base, chunk->count);
    size_t count = b->base_parts.count;
    if (count < chunk->base_total) return;
    b->base_parts.count = 0;
    take_base(b, b->base_parts.at, count, true);
}

enum mp_status mp_builder_add_base(struct mp_builder *b, const struct mp_chunk *chunk, struct mp_error *error)
{
    const struct mp_model *model = b->model;
    for (size_t i = 0; i < chunk->count; i++)
        if (chunk->base[i].track >= model->tracks.count || !known_stack(model, chunk->base[i].stack))
            return mp_fail(error, MP_DAMAGED,
                           "a base block names a track or stack that is not in the recording (chunk at byte %llu)",
                           (unsigned long long)chunk->offset);
    note_first_block(b, chunk);
    if (chunk->base_total > chunk->count || chunk->base_before) {
        take_part(b, chunk);
    } else {
        mp_builder_end_base(b);
        take_base(b, chunk->base, chunk->count, true);
    }
    return MP_OK;
}
