/* Makes a model of a file's chunks. */
#include "model/builder.h"

#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/memory.h"
#include "base/order.h"
#include "base/sampling.h"
#include "base/setting.h"
#include "base/step_rule.h"
#include "format/events.h"
#include "model/stack_facts.h"
#include "model/steps_infer.h"

struct mp_builder_level {
    uint64_t bytes, blocks; /* live now */
};

/* A label as the file has it. The events of its block may come later. */
struct mp_builder_label {
    uint64_t number;
    uint64_t time_ns; /* UINT64_MAX: not used if `event` gives the moment */
    uint32_t event, role, name;
};

struct mp_builder {
    struct mp_model *model;
    size_t event_room, block_room;
    MP_VEC(uint32_t)
    string_ids;                  /* from the file's string ids to the model's, which differ if a file repeats a
                                  * string */
    MP_VEC(uint32_t) device_ids; /* from the file's devices to the model's: devices of one name become one device */
    MP_VEC(uint16_t) depths;     /* by stack: the number of nodes above it */
    MP_VEC(uint32_t) by_number;  /* by block number: 1 + the index in blocks; 0: not seen */
    struct mp_map far_numbers;   /* by number + 1: likewise, for numbers that lie too far ahead for by_number */
    uint64_t near_limit;         /* by_number has the numbers below this limit, up to which the chunks so far may have
                                  * gone */
    MP_VEC(struct mp_builder_level) levels;  /* by track */
    MP_VEC(struct mp_base_block) base_parts; /* the parts so far of a base that comes in several chunks */
    struct mp_map devices;                   /* string id of a device's name to its index */
    struct mp_map job_tracks;                /* set of (process + 1, string id of the track); with id 0: number of the
                                              * process's tracks */
    struct mp_map resized;                   /* 1 + the index of a resized block, to its current size */
    MP_VEC(struct mp_builder_label) labels;
    MP_VEC(struct mp_block_holder) holders;
    MP_VEC(struct mp_block_metadata) metadata;
    MP_VEC(struct mp_block_use) uses;
    MP_VEC(struct mp_block_request) requests; /* as read */
    uint64_t first_block;                     /* the first block number of the file */
    bool any_blocks;
    uint64_t last_ns;
    uint64_t next_sequence; /* number of the next chunk, if none is lost */
    uint64_t gap_chunks;    /* chunks that were lost right before the present one */
    bool any_chunk;
    size_t live_blocks;
};

static void builder_end_base(struct mp_builder *builder);
static uint32_t builder_block(const struct mp_builder *builder, uint64_t number);
static void builder_was_in_past(struct mp_builder *builder, uint16_t track, uint8_t kind, uint64_t bytes);
static uint32_t builder_string(const struct mp_builder *builder, uint32_t id);

/* ---- rows about blocks ----
 * Labels and requests, holders and metadata. A row may come before its block's events. All rows are therefore
 * collected, and sorted by block at the end. */

/* The order of rows in the model: by block, by moment, then in the order in which they came. */
struct key {
    uint64_t moment;
    uint32_t block;
    uint32_t row; /* index in the builder's list */
};

MP_ORDER(by_key, struct key, MP_RISING(block) ?: MP_RISING(moment) ?: MP_RISING(row))

struct keys {
    MP_VEC(struct key) sorted;
};

static void add_key(const struct mp_builder *b, struct keys *keys, uint64_t number, uint64_t moment, size_t row)
{
    const struct key key = {moment, builder_block(b, number), (uint32_t)row};
    if (key.block != MP_NONE) mp_vec_add(&keys->sorted, key);
}

static void sort_keys(struct keys *keys)
{
    if (keys->sorted.count) qsort(keys->sorted.at, keys->sorted.count, sizeof *keys->sorted.at, by_key);
}

static bool is_last_of_block(const struct keys *keys, size_t i)
{
    return i + 1 == keys->sorted.count || keys->sorted.at[i + 1].block != keys->sorted.at[i].block;
}

static bool is_last_of_moment(const struct keys *keys, size_t i)
{
    return is_last_of_block(keys, i) || keys->sorted.at[i + 1].moment != keys->sorted.at[i].moment;
}

/* ---- labels ---- */

static void builder_add_labels(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        const struct mp_label *from = &chunk->as.labels[i];
        struct mp_builder_label label = {.number = from->block,
                                         .time_ns = from->time_ns < UINT64_MAX ? from->time_ns : UINT64_MAX - 1,
                                         .role = from->role,
                                         .name = builder_string(b, from->name)};
        if (from->role && from->role < MP_ROLES) mp_vec_add(&b->labels, label);
    }
}

/* Takes the labels and requests that a base's blocks carry. */
static void builder_base_labels(struct mp_builder *b, const struct mp_base_block *base, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct mp_builder_label label = {.number = base[i].block,
                                         .time_ns = UINT64_MAX,
                                         .event = (uint32_t)b->model->events.count - 1, /* or MP_NONE */
                                         .role = base[i].role,
                                         .name = builder_string(b, base[i].label)};
        if (base[i].role && base[i].role < MP_ROLES) mp_vec_add(&b->labels, label);
        struct mp_block_request request = {base[i].block, base[i].request};
        if (request.request.bytes) mp_vec_add(&b->requests, request);
    }
}

/* Moves a label's event into the life of its block. Equal time stamps may leave their order open. */
static uint32_t while_alive(const struct mp_model_blocks *blocks, uint32_t block, uint32_t event)
{
    uint32_t born = blocks->alloc_event[block], died = blocks->free_event[block];
    if (born != MP_NONE && event + 1 < born + 1) return born;
    if (died != MP_NONE && event + 1 > died) return died - 1;
    return event;
}

/* The position of a label among the events: 1 + the number of the last event at or before it. 0: before all events. */
static uint32_t moment_of(const struct mp_builder *b, const struct mp_builder_label *label)
{
    uint32_t block = builder_block(b, label->number);
    uint32_t event =
        label->time_ns == UINT64_MAX ? label->event : mp_model_events_before(b->model, label->time_ns, true) - 1;
    return block == MP_NONE ? 0 : while_alive(&b->model->blocks, block, event) + 1;
}

/* If there are several labels between two events, the last counts. A label that repeats the one before is dropped. */
static void builder_end_labels(struct mp_builder *b)
{
    struct mp_model *model = b->model;
    struct keys keys = {0};
    for (size_t i = 0; i < b->labels.count; i++)
        add_key(b, &keys, b->labels.at[i].number, moment_of(b, &b->labels.at[i]), i);
    sort_keys(&keys);
    for (size_t i = 0; i < keys.sorted.count; i++) {
        const struct key *key = &keys.sorted.at[i];
        const struct mp_builder_label *from = &b->labels.at[key->row];
        const struct mp_model_label label = {key->block, (uint32_t)key->moment - 1, from->role, from->name};
        const struct mp_model_label *last = model->labels.count ? &model->labels.at[model->labels.count - 1] : NULL;
        bool repeats = last && last->block == label.block && last->role == label.role && last->name == label.name;
        if (is_last_of_moment(&keys, i) && !repeats) mp_vec_add(&model->labels, label);
    }
    mp_vec_free(&keys.sorted);
}

/* ---- requests ---- */

static void builder_add_requests(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++)
        if (chunk->as.requests[i].request.bytes) mp_vec_add(&b->requests, chunk->as.requests[i]);
}

static void builder_end_requests(struct mp_builder *b)
{
    struct keys keys = {0};
    for (size_t i = 0; i < b->requests.count; i++)
        add_key(b, &keys, b->requests.at[i].block, 0, i);
    sort_keys(&keys);
    for (size_t i = 0; i < keys.sorted.count; i++) {
        const struct key *key = &keys.sorted.at[i];
        const struct mp_model_request request = {key->block, b->requests.at[key->row].request};
        if (is_last_of_block(&keys, i)) mp_vec_add(&b->model->requests, request);
    }
    mp_vec_free(&keys.sorted);
}

/* ---- holders ---- */

static void builder_add_holders(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_block_holder holder = chunk->as.holders[i];
        bool ends_look = holder.block == MP_HOLDER_LOOK;
        if (!ends_look && (holder.kind == MP_HOLDER_NONE || holder.kind >= MP_HOLDER_KINDS)) continue;
        holder.path = builder_string(b, holder.path);
        holder.file = builder_string(b, holder.file);
        mp_vec_add(&b->holders, holder);
    }
}

/* A row that ends a look comes after the look's rows; a recovered file may repeat some. If there are several rows for
 * one block, the last one counts, whatever look it is from. */
static void builder_end_holders(struct mp_builder *b)
{
    struct mp_model *model = b->model;
    struct keys keys = {0};
    for (size_t i = 0; i < b->holders.count; i++) {
        const struct mp_block_holder *from = &b->holders.at[i];
        if (from->block == MP_HOLDER_LOOK) {
            struct mp_model_look look = {from->time_ns, from->path, from->certain};
            mp_vec_add(&model->looks, look);
            continue;
        }
        add_key(b, &keys, from->block, model->looks.count, i);
    }
    sort_keys(&keys);
    for (size_t i = 0, since = 0; i < keys.sorted.count; i++) {
        const struct mp_block_holder *from = &b->holders.at[keys.sorted.at[i].row];
        bool is_first = !i || is_last_of_block(&keys, i - 1);
        if (is_first || b->holders.at[keys.sorted.at[i - 1].row].path != from->path) since = keys.sorted.at[i].moment;
        const struct mp_model_holder holder = {.block = keys.sorted.at[i].block,
                                               .since = (uint32_t)since,
                                               .look = (uint32_t)keys.sorted.at[i].moment,
                                               .path = from->path,
                                               .file = from->file,
                                               .line = from->line,
                                               .kind = from->kind,
                                               .certain = from->certain};
        if (is_last_of_block(&keys, i)) mp_vec_add(&model->holders, holder);
    }
    mp_vec_free(&keys.sorted);
}

/* ---- metadata ---- */

static void builder_add_metadata(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_block_metadata row = chunk->as.metadata[i];
        row.text = builder_string(b, row.text);
        if (row.kind && row.kind < MP_METADATA_KINDS && row.text) mp_vec_add(&b->metadata, row);
    }
}

static bool is_same(const struct mp_model_metadata *a, const struct mp_model_metadata *b)
{
    return a->block == b->block && a->time_ns == b->time_ns && a->kind == b->kind && a->text == b->text;
}

static void find_repeated(struct mp_model *model)
{
    struct mp_map last = {0}; /* key: kind and text; value: the last block with them, + 1 */
    mp_vec_each (struct mp_model_metadata, row, &model->metadata) {
        uint64_t *block = mp_map_at(&last, ((uint64_t)row->kind << 32 | row->text) + 1, NULL);
        row->again = *block == (uint64_t)row->block + 1;
        *block = (uint64_t)row->block + 1;
    }
    mp_map_free(&last);
}

/* Keeps all rows, except those that a recovered file repeats. */
static void builder_end_metadata(struct mp_builder *b)
{
    struct mp_model *model = b->model;
    struct mp_model_metadata before = {.block = MP_NONE};
    struct keys keys = {0};
    for (size_t i = 0; i < b->metadata.count; i++)
        add_key(b, &keys, b->metadata.at[i].block, b->metadata.at[i].time_ns, i);
    sort_keys(&keys);
    for (size_t i = 0; i < keys.sorted.count; i++) {
        const struct mp_block_metadata *from = &b->metadata.at[keys.sorted.at[i].row];
        const struct mp_model_metadata row = {from->time_ns, keys.sorted.at[i].block, from->text, from->kind, false};
        if (!is_same(&before, &row)) mp_vec_add(&model->metadata, row);
        before = row;
    }
    mp_vec_free(&keys.sorted);
    find_repeated(model);
}

/* ---- uses by operators ---- */

static void builder_add_uses(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_block_use use = chunk->as.uses[i];
        use.operator= builder_string(b, use.operator);
        use.node = builder_string(b, use.node);
        use.shape = builder_string(b, use.shape);
        use.module = builder_string(b, use.module);
        if (use.how) mp_vec_add(&b->uses, use);
    }
}

/* Keeps all rows, except those that a recovered file repeats. */
static void builder_end_uses(struct mp_builder *b)
{
    struct mp_model *model = b->model;
    struct mp_model_use before = {.block = MP_NONE};
    struct keys keys = {0};
    for (size_t i = 0; i < b->uses.count; i++)
        add_key(b, &keys, b->uses.at[i].block, b->uses.at[i].time_ns, i);
    sort_keys(&keys);
    for (size_t i = 0; i < keys.sorted.count; i++) {
        const struct mp_block_use *from = &b->uses.at[keys.sorted.at[i].row];
        const struct mp_model_use use = {.time_ns = from->time_ns,
                                         .block = keys.sorted.at[i].block,
                                         .operator= from->operator,
                                         .node = from->node,
                                         .shape = from->shape,
                                         .module = from->module,
                                         .how = from->how};
        bool repeats = before.block == use.block && before.time_ns == use.time_ns && before.how == use.how &&
                       before.shape == use.shape && before.operator== use.operator;
        if (!repeats) mp_vec_add(&model->uses, use);
        before = use;
    }
    mp_vec_free(&keys.sorted);
}

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

/* The index of the block with that number, or MP_NONE if it was never seen. */
static uint32_t builder_block(const struct mp_builder *b, uint64_t number)
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
    set_rare(b, &b->model->blocks.module, block, builder_string(b, path));
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
    uint32_t block = builder_block(b, number);
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
        builder_was_in_past(b, c->track[i], c->kind[i], mp_known(bytes));
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
    struct mp_model_note note = {c->bytes[i], c->stack[i], builder_string(b, c->name[i])};
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

static enum mp_status builder_add_events(struct mp_builder *b, const struct mp_chunk *chunk, struct mp_error *error)
{
    const struct mp_event_columns *c = &chunk->as.events;
    const struct mp_model *model = b->model;
    builder_end_base(b);
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
        b->model->file.put_in += mp_event_had_free_put_in(c, i);
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
        if (born_before && !at_start) builder_was_in_past(b, from->track, from->kind, mp_known(from->bytes));
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
        uint32_t block = builder_block(b, base[i].block);
        if (block == MP_NONE || b->model->blocks.free_event[block] != MP_NONE) return false;
    }
    return true;
}

static void meet_base(struct mp_builder *b, const struct mp_base_block *base, size_t count, bool whole,
                      const struct mp_base_block **unseen, unsigned char *in_base)
{
    size_t unseen_count = 0, met = 0;
    for (size_t i = 0; i < count; i++) {
        uint32_t block = builder_block(b, base[i].block);
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
        builder_base_labels(b, base, count);
        return;
    }
    const struct mp_base_block **unseen = mp_alloc((count + 1) * sizeof *unseen);
    unsigned char *in_base = mp_alloc_zeroed(b->model->blocks.count + 1, 1);
    meet_base(b, base, count, whole, unseen, in_base);
    free(unseen);
    free(in_base);
    builder_base_labels(b, base, count);
}

/* Takes the parts of a base if its other parts never came. */
static void builder_end_base(struct mp_builder *b)
{
    size_t count = b->base_parts.count;
    b->base_parts.count = 0;
    if (count) take_base(b, b->base_parts.at, count, false);
}

/* Joins the parts of a base. If a part is missing, the blocks of the others still count. */
static void take_part(struct mp_builder *b, const struct mp_chunk *chunk)
{
    if (chunk->base_before != b->base_parts.count) {
        builder_end_base(b);
        if (chunk->base_before) {
            take_base(b, chunk->as.base, chunk->count, false);
            return;
        }
    }
    mp_vec_add_all(&b->base_parts, chunk->as.base, chunk->count);
    size_t count = b->base_parts.count;
    if (count < chunk->base_total) return;
    b->base_parts.count = 0;
    take_base(b, b->base_parts.at, count, true);
}

static enum mp_status builder_add_base(struct mp_builder *b, const struct mp_chunk *chunk, struct mp_error *error)
{
    const struct mp_model *model = b->model;
    for (size_t i = 0; i < chunk->count; i++)
        if (chunk->as.base[i].track >= model->tracks.count || !known_stack(model, chunk->as.base[i].stack))
            return mp_fail(error, MP_DAMAGED,
                           "a base block names a track or stack that is not in the recording (chunk at byte %llu)",
                           (unsigned long long)chunk->offset);
    note_first_block(b, chunk);
    if (chunk->base_total > chunk->count || chunk->base_before) {
        take_part(b, chunk);
    } else {
        builder_end_base(b);
        take_base(b, chunk->as.base, chunk->count, true);
    }
    return MP_OK;
}

/* Replaces a row's text, a string id of the file, by the model's id. */
#define TEXT(row, member) (row)->member = builder_string(b, (row)->member)

#define ADD_ALL(member, from)                                                                                          \
    size_t first = b->model->job.member.count;                                                                         \
    mp_vec_add_all(&b->model->job.member, from, chunk->count);

static void add_processes(struct mp_builder *b, const struct mp_chunk *chunk)
{
    ADD_ALL(processes, chunk->as.job_processes)
    for (size_t i = first; i < b->model->job.processes.count; i++) {
        struct mp_job_process *row = &b->model->job.processes.at[i];
        TEXT(row, path);
        TEXT(row, command);
        TEXT(row, host);
        TEXT(row, role);
        TEXT(row, job);
        TEXT(row, exit);
        TEXT(row, missing);
        TEXT(row, reason);
        TEXT(row, step_source);
    }
}

static void add_job_tracks(struct mp_builder *b, const struct mp_chunk *chunk)
{
    ADD_ALL(tracks, chunk->as.job_tracks)
    for (size_t i = first; i < b->model->job.tracks.count; i++) {
        struct mp_job_track *row = &b->model->job.tracks.at[i];
        TEXT(row, id);
        TEXT(row, kind);
        TEXT(row, device);
        TEXT(row, uuid);
    }
}

static void add_sites(struct mp_builder *b, const struct mp_chunk *chunk)
{
    ADD_ALL(sites, chunk->as.job_sites)
    for (size_t i = first; i < b->model->job.sites.count; i++)
        TEXT(&b->model->job.sites.at[i], kind);
}

static void add_holdings(struct mp_builder *b, const struct mp_chunk *chunk)
{
    mp_vec_add_all(&b->model->job.holdings, chunk->as.job_holdings, chunk->count);
}

static void add_findings(struct mp_builder *b, const struct mp_chunk *chunk)
{
    ADD_ALL(findings, chunk->as.job_findings)
    for (size_t i = first; i < b->model->job.findings.count; i++)
        TEXT(&b->model->job.findings.at[i], track);
}

static void add_points(struct mp_builder *b, const struct mp_chunk *chunk)
{
    ADD_ALL(points, chunk->as.job_points)
    for (size_t i = first; i < b->model->job.points.count; i++)
        TEXT(&b->model->job.points.at[i], track);
}

static void add_troubles(struct mp_builder *b, const struct mp_chunk *chunk)
{
    ADD_ALL(troubles, chunk->as.job_troubles)
    for (size_t i = first; i < b->model->job.troubles.count; i++) {
        struct mp_job_trouble *row = &b->model->job.troubles.at[i];
        TEXT(row, path);
        TEXT(row, text);
        /* Older files have no kinds: parentheses around the text mark a partial job. */
        const char *text = mp_model_text(b->model, row->text);
        size_t length = text ? strlen(text) : 0;
        if (row->kind == MP_JOB_UNUSED && length > 1 && text[0] == '(' && text[length - 1] == ')')
            row->kind = MP_JOB_PARTIAL;
    }
}

/* Rows of a job, of kinds from MP_CHUNK_JOB_PROCESSES on: add them; true if all ids in them exist. */
static void builder_add_job(struct mp_builder *b, const struct mp_chunk *chunk)
{
    static void (*const adders[])(struct mp_builder *, const struct mp_chunk *) = {
        add_processes, add_job_tracks, add_sites, add_holdings, add_findings, add_points, add_troubles};
    adders[chunk->kind - MP_CHUNK_JOB_PROCESSES](b, chunk);
}

/* Adds a track of a process. Each process has few tracks, and each id once, since points are found by the track's
 * id. */
static bool take_track(struct mp_builder *b, const struct mp_job_track *row, size_t processes)
{
    bool fresh;
    if (row->process >= processes || row->layer >= MP_LAYERS || row->size_basis > MP_BASIS_EXACT) return false;
    uint64_t process = (uint64_t)row->process + 1;
    mp_map_at(&b->job_tracks, process << 32 | builder_string(b, row->id), &fresh);
    return fresh && ++*mp_map_at(&b->job_tracks, process, NULL) <= MP_JOB_TRACKS;
}

static bool knows_site(const struct mp_job_site *row, size_t processes, size_t stacks)
{
    return row->stack < stacks && row->least_process < processes && row->most_process < processes && row->processes &&
           row->processes <= processes && row->sense < MP_JOB_SENSES && row->least <= row->most &&
           row->most <= row->bytes;
}

static bool builder_knows_job(struct mp_builder *b, const struct mp_chunk *chunk)
{
    size_t processes = b->model->job.processes.count, stacks = b->model->stacks.count ? b->model->stacks.count : 1;
    for (size_t i = 0; i < chunk->count; i++) {
        bool known = true;
        if (chunk->kind == MP_CHUNK_JOB_PROCESSES) known = chunk->as.job_processes[i].verdict < MP_JOB_VERDICTS;
        if (chunk->kind == MP_CHUNK_JOB_TRACKS) known = take_track(b, &chunk->as.job_tracks[i], processes);
        if (chunk->kind == MP_CHUNK_JOB_HOLDINGS)
            known = chunk->as.job_holdings[i].process < processes && chunk->as.job_holdings[i].stack < stacks;
        if (chunk->kind == MP_CHUNK_JOB_FINDINGS)
            known = chunk->as.job_findings[i].process < processes && chunk->as.job_findings[i].stack < stacks &&
                    chunk->as.job_findings[i].class < MP_JOB_CLASSES;
        if (chunk->kind == MP_CHUNK_JOB_POINTS)
            known = chunk->as.job_points[i].process < processes && chunk->as.job_points[i].shift < 64 &&
                    chunk->as.job_points[i].curve <= MP_JOB_BY_TIME;
        if (chunk->kind == MP_CHUNK_JOB_SITES) known = knows_site(&chunk->as.job_sites[i], processes, stacks);
        if (!known) return false;
    }
    return true;
}

/* Functions for the time before the file's events. */
static void builder_add_past(struct mp_builder *b, const struct mp_chunk *chunk)
{
    if (!b->model->events.count) b->model->past = *chunk->as.past;
}

static void builder_add_past_peaks(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count && !b->model->events.count; i++) {
        const struct mp_past_peak *peak = &chunk->as.past_peaks[i];
        struct mp_model_track_sum *sum = &b->model->sums.at[peak->track];
        sum->past = *peak;
        sum->reserved_peak_bytes = peak->reserved_bytes;
    }
}

static void builder_add_past_sites(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count && !b->model->events.count; i++) {
        struct mp_past_site site = chunk->as.past_sites[i];
        site.module = builder_string(b, site.module);
        mp_vec_add(&b->model->past_sites, site);
    }
}

/* Called if a later base shows that a block has lived since before the file: adds the block to the peaks of that
 * time. */
static void builder_was_in_past(struct mp_builder *b, uint16_t track, uint8_t kind, uint64_t bytes)
{
    struct mp_past_peak *past = &b->model->sums.at[track].past;
    struct mp_past_site site = {.bytes = bytes, .blocks = 1, .track = track, .kind = kind};
    if (!b->model->past.events) return;
    past->bytes += bytes;
    past->blocks++;
    mp_vec_add(&b->model->past_sites, site);
}

static void builder_end_past(struct mp_builder *b)
{
    for (size_t i = 0; i < b->model->sums.count && b->model->past.events; i++) {
        struct mp_model_track_sum *sum = &b->model->sums.at[i];
        if (sum->past.bytes < sum->peak_bytes || !sum->past.bytes) continue;
        sum->peak_bytes = sum->past.bytes;
        sum->peak_blocks = sum->past.blocks;
        sum->peak_ns = sum->past.time_ns;
        sum->peak_event = MP_NONE;
        sum->peak_in_past = true;
    }
}

#define DEPTH_MAX 10000 /* nodes of a path: twice the recorder's most, since backward adds its forward's path */
#define TEXT_MAX  65536 /* bytes of a name; longer names are cut, because many rows repeat them */
#define LINES_MAX 256   /* source lines of one native frame */

/* The model's id for a string of the file; 0 for a missing one. */
static uint32_t builder_string(const struct mp_builder *builder, uint32_t id)
{
    return id < builder->string_ids.count ? builder->string_ids.at[id] : 0;
}

static const char *own_text(struct mp_model *model, const char *text)
{
    char *copy = mp_text_copy(text ? text : "");
    mp_vec_add(&model->owned, copy);
    return copy;
}

static void copy_start(struct mp_model *model, const struct mp_recording_start *from)
{
    size_t words = 0;
    while (from->command && from->command[words])
        words++;
    const char **command = mp_alloc_zeroed(words + 1, sizeof *command);
    mp_vec_add(&model->owned, (void *)command);
    for (size_t i = 0; i < words; i++)
        command[i] = own_text(model, from->command[i]);
    model->start = *from;
    model->start.command = command;
    model->start.host = own_text(model, from->host);
    model->start.configuration = own_text(model, from->configuration);
    model->start.spool = own_text(model, from->spool);
    char sample[16], host[16];
    model->file.is_job = mp_start_is_job(from);
    mp_setting(sample, sizeof sample, from->configuration, MP_SAMPLE_KEY);
    model->sample_bytes = strtoul(sample, NULL, 10) & UINT32_MAX;
    mp_setting(host, sizeof host, from->configuration, MP_HOST_KEY);
    model->host_bytes = strtoul(host, NULL, 10) & UINT32_MAX;
}

void mp_builder_new(const struct mp_recording_start *start, struct mp_builder **builder)
{
    struct mp_builder *made = mp_alloc_zeroed(1, sizeof *made);
    made->model = mp_alloc_zeroed(1, sizeof *made->model);
    copy_start(made->model, start);
    mp_intern_add_text(&made->model->strings, "");
    made->model->file.format = "mp";
    made->model->facts = mp_known_facts_new();
    mp_vec_add(&made->model->derived, ((struct mp_derived){made->model->facts, mp_known_facts_free}));
    made->model->steps = mp_model_steps_new();
    mp_vec_add(&made->model->derived, ((struct mp_derived){made->model->steps, mp_model_steps_free}));
    *builder = made;
}

/* The length to which a text that is too long is cut: not inside a UTF-8 character. */
static size_t cut_text(const char *text)
{
    size_t length = TEXT_MAX;
    while (length > TEXT_MAX - 3 && ((unsigned char)text[length] & 0xc0) == 0x80)
        length--;
    return length;
}

static void add_strings(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        size_t length = chunk->as.strings[i].length;
        if (length > TEXT_MAX) length = cut_text(chunk->as.strings[i].text);
        uint32_t id = mp_intern_add(&b->model->strings, chunk->as.strings[i].text, length);
        mp_vec_add(&b->string_ids, id);
    }
}

static void add_facts(struct mp_device *known, const struct mp_device *more)
{
    if (more->uuid) known->uuid = more->uuid;
    if (more->model) known->model = more->model;
    if (more->total_bytes != MP_BYTES_UNKNOWN) known->total_bytes = more->total_bytes;
}

static void add_devices(struct mp_builder *b, const struct mp_chunk *chunk)
{
    struct mp_model *model = b->model;
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_device device = chunk->as.devices[i];
        device.name = builder_string(b, device.name);
        device.uuid = builder_string(b, device.uuid);
        device.model = builder_string(b, device.model);
        uint32_t at = (uint32_t)model->devices.count;
        if (device.name) { /* devices whose names were lost are not joined */
            bool fresh;
            uint64_t *known = mp_map_at(&b->devices, device.name, &fresh);
            if (fresh) *known = at;
            at = (uint32_t)*known;
        }
        if (at == model->devices.count) mp_vec_add(&model->devices, device);
        add_facts(&model->devices.at[at], &device);
        mp_vec_add(&b->device_ids, at);
    }
}

static void add_tracks(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_track track = chunk->as.tracks[i];
        track.name = builder_string(b, track.name);
        track.device = b->device_ids.at[track.device];
        struct mp_model_track_sum sum = {.peak_event = MP_NONE, .reserved_peak_bytes = MP_BYTES_UNKNOWN};
        struct mp_builder_level level = {0};
        mp_vec_add(&b->model->tracks, track);
        mp_vec_add(&b->model->sums, sum);
        mp_vec_add(&b->levels, level);
    }
}

static void add_threads(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_thread_info thread = chunk->as.threads[i];
        thread.name = builder_string(b, thread.name);
        mp_vec_add(&b->model->threads, thread);
    }
}

static void add_modules(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_module module = chunk->as.modules[i];
        module.path = builder_string(b, module.path);
        mp_vec_add(&b->model->modules, module);
    }
}

static void add_frames(struct mp_builder *b, const struct mp_chunk *chunk)
{
    struct mp_model *model = b->model;
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_model_frame frame = {.raw = chunk->as.frames[i]};
        frame.raw.function = builder_string(b, frame.raw.function);
        frame.raw.file = builder_string(b, frame.raw.file);
        frame.raw.more = builder_string(b, frame.raw.more);
        if (frame.raw.language != MP_NATIVE) {
            struct mp_model_line line = {frame.raw.function, frame.raw.file, frame.raw.line};
            frame.first_line = (uint32_t)model->lines.count;
            frame.line_count = 1;
            mp_vec_add(&model->lines, line);
        }
        mp_vec_add(&model->frames, frame);
    }
}

/* Adds stacks. Cuts a path that is deeper than any recorder's, so that following it to its root ends soon. */
static void add_stacks(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_stack_node node = chunk->as.stacks[i];
        uint16_t depth = node.parent < b->depths.count ? (uint16_t)(b->depths.at[node.parent] + 1) : 0;
        if (depth > DEPTH_MAX) {
            node = (struct mp_stack_node){0, MP_FRAME_CUT};
            depth = 1;
        }
        mp_vec_add(&b->model->stacks, node);
        mp_vec_add(&b->depths, depth);
    }
}

static void add_symbols(struct mp_builder *b, const struct mp_chunk *chunk)
{
    struct mp_model *model = b->model;
    for (size_t i = 0; i < chunk->count; i++) {
        const struct mp_symbol *symbol = &chunk->as.symbols[i];
        struct mp_model_frame *frame = &model->frames.at[symbol->frame];
        struct mp_model_line line = {builder_string(b, symbol->function), builder_string(b, symbol->file),
                                     symbol->line};
        if (!frame->line_count) frame->first_line = (uint32_t)model->lines.count;
        if (frame->line_count == LINES_MAX) continue;
        if (frame->first_line + frame->line_count != model->lines.count) continue; /* resolved twice */
        mp_vec_add(&model->lines, line);
        frame->line_count++;
    }
}

static void add_samples(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_sample sample = chunk->as.samples[i];
        sample.counter = builder_string(b, sample.counter);
        mp_vec_add(&b->model->samples, sample);
    }
}

static void add_segments(struct mp_builder *b, const struct mp_chunk *chunk)
{
    mp_vec_add_all(&b->model->segments, chunk->as.segments, chunk->count);
}

static void add_parts(struct mp_builder *b, const struct mp_chunk *chunk)
{
    mp_vec_add_all(&b->model->parts, chunk->as.parts, chunk->count);
}

static void add_calls(struct mp_builder *b, const struct mp_chunk *chunk)
{
    mp_vec_add_all(&b->model->calls, chunk->as.calls, chunk->count);
}

static void add_asides(struct mp_builder *b, const struct mp_chunk *chunk)
{
    for (size_t i = 0; i < chunk->count; i++) {
        struct mp_aside aside = chunk->as.asides[i];
        if (aside.kind != MP_ASIDE_SETTINGS) continue;
        aside.text = builder_string(b, aside.text);
        mp_vec_add(&b->model->asides, aside);
    }
}

static void copy_ids(const struct mp_builder *b, uint32_t **to, const uint32_t *from, size_t count)
{
    uint32_t *ids = mp_alloc((count ? count : 1) * sizeof *ids);
    for (size_t i = 0; i < count; i++)
        ids[i] = builder_string(b, from[i]);
    free(*to);
    *to = ids;
}

static void add_coverage(struct mp_builder *b, const struct mp_chunk *chunk)
{
    struct mp_coverage next = *chunk->as.coverage;
    next.sources = b->model->coverage.sources;
    next.notes = b->model->coverage.notes;
    next.limits = b->model->coverage.limits;
    copy_ids(b, &next.sources, chunk->as.coverage->sources, next.source_count);
    b->model->coverage.sources = next.sources;
    copy_ids(b, &next.notes, chunk->as.coverage->notes, next.note_count);
    b->model->coverage.notes = next.notes;
    copy_ids(b, &next.limits, chunk->as.coverage->limits, next.limit_count);
    b->model->coverage = next;
}

static void add_exit(struct mp_builder *b, const struct mp_chunk *chunk)
{
    b->model->how = *chunk->as.how;
    b->model->how.text = builder_string(b, chunk->as.how->text);
}

static enum mp_status bad_entry(const struct mp_chunk *chunk, const char *reason, struct mp_error *error)
{
    return mp_fail(error, MP_DAMAGED, "%s names an entry that is not in the recording (chunk at byte %llu)", reason,
                   (unsigned long long)chunk->offset);
}

/* Checks the ids that later code uses without a check. */
static enum mp_status check_table(const struct mp_builder *b, const struct mp_chunk *chunk, struct mp_error *error)
{
    const struct mp_model *model = b->model;
    if (chunk->lost) return MP_OK;
    for (size_t i = 0; i < chunk->count; i++) {
        if (chunk->kind == MP_CHUNK_TRACKS && chunk->as.tracks[i].device >= b->device_ids.count)
            return bad_entry(chunk, "a track", error);
        if (chunk->kind == MP_CHUNK_FRAMES && chunk->as.frames[i].module &&
            chunk->as.frames[i].module >= model->modules.count)
            return bad_entry(chunk, "a frame", error);
        if (chunk->kind == MP_CHUNK_SYMBOLS && chunk->as.symbols[i].frame >= model->frames.count)
            return bad_entry(chunk, "a symbol", error);
        if (chunk->kind == MP_CHUNK_SEGMENTS &&
            (chunk->as.segments[i].track >= model->tracks.count || !known_stack(model, chunk->as.segments[i].stack)))
            return bad_entry(chunk, "a segment", error);
        if (chunk->kind == MP_CHUNK_SEGMENT_PARTS && chunk->as.parts[i].segment >= model->segments.count)
            return bad_entry(chunk, "a part of a segment", error);
        if ((chunk->kind == MP_CHUNK_CALLS || chunk->kind == MP_CHUNK_TRACE) &&
            chunk->as.calls[i].track >= model->tracks.count)
            return bad_entry(chunk, "a call of the allocator", error);
        if (chunk->kind == MP_CHUNK_PAST_PEAKS && chunk->as.past_peaks[i].track >= model->tracks.count)
            return bad_entry(chunk, "a peak", error);
        if (chunk->kind == MP_CHUNK_PAST_SITES && (chunk->as.past_sites[i].track >= model->tracks.count ||
                                                   chunk->as.past_sites[i].stack > model->stacks.count))
            return bad_entry(chunk, "a site", error);
        if (chunk->kind != MP_CHUNK_STACKS) continue;
        size_t id = model->stacks.count + i;
        const struct mp_stack_node *node = &chunk->as.stacks[i];
        if (id && (node->parent >= id || (node->frame >= model->frames.count && node->frame != MP_FRAME_CUT)))
            return bad_entry(chunk, "a stack", error);
    }
    return MP_OK;
}

static void note_sequence(struct mp_builder *b, const struct mp_chunk *chunk)
{
    b->gap_chunks = b->any_chunk && chunk->sequence > b->next_sequence ? chunk->sequence - b->next_sequence : 0;
    b->next_sequence = chunk->sequence + 1;
    b->any_chunk = true;
}

enum mp_status mp_builder_add(struct mp_builder *b, const struct mp_chunk *chunk, struct mp_error *error)
{
    static void (*const adders[])(struct mp_builder *, const struct mp_chunk *) = {
        [MP_CHUNK_STRINGS] = add_strings,
        [MP_CHUNK_DEVICES] = add_devices,
        [MP_CHUNK_TRACKS] = add_tracks,
        [MP_CHUNK_THREADS] = add_threads,
        [MP_CHUNK_MODULES] = add_modules,
        [MP_CHUNK_FRAMES] = add_frames,
        [MP_CHUNK_STACKS] = add_stacks,
        [MP_CHUNK_SYMBOLS] = add_symbols,
        [MP_CHUNK_SAMPLES] = add_samples,
        [MP_CHUNK_COVERAGE] = add_coverage,
        [MP_CHUNK_EXIT] = add_exit,
        [MP_CHUNK_SEGMENTS] = add_segments,
        [MP_CHUNK_SEGMENT_PARTS] = add_parts,
        [MP_CHUNK_CALLS] = add_calls,
        [MP_CHUNK_TRACE] = add_calls,
        [MP_CHUNK_ASIDES] = add_asides,
        [MP_CHUNK_LABELS] = builder_add_labels,
        [MP_CHUNK_HOLDERS] = builder_add_holders,
        [MP_CHUNK_METADATA] = builder_add_metadata,
        [MP_CHUNK_USES] = builder_add_uses,
        [MP_CHUNK_REQUESTS] = builder_add_requests,
        [MP_CHUNK_PAST] = builder_add_past,
        [MP_CHUNK_PAST_PEAKS] = builder_add_past_peaks,
        [MP_CHUNK_PAST_SITES] = builder_add_past_sites,
    };
    note_sequence(b, chunk);
    if (chunk->kind < MP_CHUNK_KINDS && chunk->bytes) {
        struct mp_model_chunks *chunks = &b->model->file.chunks[chunk->kind];
        chunks->chunks++;
        chunks->entries += chunk->kind == MP_CHUNK_EVENTS_KIND ? chunk->as.events.count : chunk->count;
        chunks->bytes += chunk->bytes;
    }
    if (chunk->kind == MP_CHUNK_EVENTS_KIND) return builder_add_events(b, chunk, error);
    if (chunk->kind == MP_CHUNK_BASE) return builder_add_base(b, chunk, error);
    if (chunk->kind >= MP_CHUNK_JOB_PROCESSES && chunk->kind <= MP_CHUNK_JOB_TROUBLES) {
        if (!builder_knows_job(b, chunk)) return bad_entry(chunk, "a row of a job", error);
        builder_add_job(b, chunk);
        return MP_OK;
    }
    if ((size_t)chunk->kind >= sizeof adders / sizeof *adders || !adders[chunk->kind]) return MP_OK;
    enum mp_status status = check_table(b, chunk, error);
    if (status != MP_OK) return status;
    adders[chunk->kind](b, chunk);
    return MP_OK;
}

MP_ORDER(by_block_then_event, struct mp_model_resize, MP_RISING(block) ?: MP_RISING(event))

void mp_builder_finish(struct mp_builder *b, const struct mp_damage *damage, uint64_t file_bytes,
                       struct mp_model **result)
{
    struct mp_model *model = b->model;
    builder_end_base(b);
    builder_end_labels(b);
    builder_end_requests(b);
    builder_end_holders(b);
    builder_end_metadata(b);
    builder_end_uses(b);
    builder_end_past(b);
    if (model->resizes.count)
        qsort(model->resizes.at, model->resizes.count, sizeof *model->resizes.at, by_block_then_event);
    for (size_t i = 0; i < model->sums.count; i++) {
        model->sums.at[i].end_bytes = b->levels.at[i].bytes;
        model->sums.at[i].end_blocks = b->levels.at[i].blocks;
    }
    mp_vec_each (const uint32_t, noted, &model->noted)
        if (model->events.type[*noted] == MP_EVENT_MARK)
            mp_member_take_mark(&model->start.member,
                                mp_model_text(model, model->notes.at[model->events.subject[*noted]].name));
    model->file.damage = *damage;
    model->file.bytes = file_bytes;
    uint64_t end = b->last_ns;
    if (model->samples.count && model->samples.at[model->samples.count - 1].time_ns > end)
        end = model->samples.at[model->samples.count - 1].time_ns;
    model->duration_ns = model->how.time_ns > end ? model->how.time_ns : end;
    char each[8]; /* a running program's file has only some of its events, and the number of all */
    mp_setting(each, sizeof each, model->start.configuration, "live_each");
    if (*each) model->file.part_of = model->coverage.events;
    if (!damage->cut && model->file.put_in > model->coverage.missed_frees)
        model->file.put_in = model->coverage.missed_frees;
    *result = model;
    b->model = NULL;
    mp_builder_free(b);
}

void mp_builder_free(struct mp_builder *b)
{
    if (!b) return;
    mp_model_free(b->model);
    mp_vec_free(&b->string_ids);
    mp_vec_free(&b->device_ids);
    mp_vec_free(&b->depths);
    mp_vec_free(&b->by_number);
    mp_vec_free(&b->levels);
    mp_vec_free(&b->base_parts);
    mp_vec_free(&b->labels);
    mp_vec_free(&b->holders);
    mp_vec_free(&b->metadata);
    mp_vec_free(&b->uses);
    mp_vec_free(&b->requests);
    mp_map_free(&b->devices);
    mp_map_free(&b->resized);
    mp_map_free(&b->job_tracks);
    mp_map_free(&b->far_numbers);
    free(b);
}
